"""Random numbers that belong to one agent."""

from types import TracebackType
from typing import Any

from rein.runtime import get_rng_state, set_rng_state


class RandomNumbers:
    """Random numbers of an agent's own: inside the block they go on where the last block ended, outside nothing changes."""

    def __init__(self) -> None:
        self._inside: dict[str, Any] | None = None
        self._outside: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._outside = get_rng_state()
        if self._inside is not None:
            set_rng_state(self._inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = get_rng_state()
        set_rng_state(self._outside)
