"""See `rein.compat.sb3.worlds`."""

from rein.compat.sb3.worlds import (
    check_env,
)

__all__ = [
    "check_env",
]
