"""What goes wrong when steps are asked for that a buffer does not hold."""

__all__ = ["MissingStepsError"]


class MissingStepsError(ValueError, AssertionError):
    """Not every environment has the steps that were asked for.

    Both kinds of error, as callers of the documented interface catch `AssertionError`.
    """
