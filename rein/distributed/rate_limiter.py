"""Keeps what is sampled and what is inserted in step."""


class RateLimiter:
    """Holds a number of samples per insert.

    Whoever is ahead waits: a learner that has sampled more than is due, or collectors whose steps have not been learnt from.

    Attributes:
        inserted: steps so far.
        sampled: sequences so far.
    """

    def __init__(self, samples_per_insert: float, begin: int = 0, tolerance: float = 0.05) -> None:
        """Has seen nothing.

        Args:
            samples_per_insert: sequences for each step that was inserted after the first `begin`.
            begin: steps before anything is sampled.
            tolerance: by how much the ratio may differ, as a share.
        """
        if samples_per_insert <= 0 or not 0 < tolerance < 1:
            raise ValueError(
                f"{samples_per_insert} samples per insert with a tolerance of {tolerance}: give positive ones"
            )
        self._target, self._begin, self._tolerance = samples_per_insert, begin, tolerance
        self.inserted = self.sampled = 0

    @property
    def due(self) -> float:
        """Sequences that should have been sampled by now."""
        return self._target * max(0, self.inserted - self._begin)

    @property
    def ratio(self) -> float:
        """Sequences per step since the first `begin`; 0 before."""
        steps = self.inserted - self._begin
        return self.sampled / steps if steps > 0 else 0.0

    def may_sample(self, count: int) -> bool:
        """Whether `count` more would not be more than are due."""
        return self.sampled + count <= self.due

    def may_insert(self, count: int, batch: int) -> bool:
        """Whether `count` more steps would leave the ratio within half its tolerance, by up to a batch of sequences.

        One of both may always go on: who cannot sample a batch may insert.
        """
        after = self._target * max(0, self.inserted + count - self._begin)
        return self.sampled >= after * (1 - 0.5 * self._tolerance) - batch - self._target * count
