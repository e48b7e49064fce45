"""A sink that cannot harm the run: what it raises is said once, and from then on it is left alone."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from rein.runtime.writers import SummaryWriter

logger = logging.getLogger(__name__)


class GuardedWriter(SummaryWriter):
    """Hands everything to a writer until that fails."""

    def __init__(self, writer: SummaryWriter, name: str) -> None:
        """Wraps a writer.

        Args:
            writer: which receives everything.
            name: what to call it in the warning.
        """
        self.writer, self._name = writer, name
        self.has_failed = False

    def _try(self, call: Callable[..., None], *arguments: Any) -> None:
        if self.has_failed:
            return
        try:
            call(*arguments)
        except Exception as error:
            self.has_failed = True
            logger.warning(
                "the sink %s has failed and gets nothing more of this run, which goes on: %s: %s",
                self._name,
                type(error).__name__,
                error,
            )

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        self._try(self.writer.scalar, name, value, step)

    def histogram(self, name: str, values: np.ndarray, step: int) -> None:  # noqa: D102
        self._try(self.writer.histogram, name, values, step)

    def image(self, name: str, image: np.ndarray, step: int) -> None:  # noqa: D102
        self._try(self.writer.image, name, image, step)

    def text(self, name: str, text: str, step: int) -> None:  # noqa: D102
        self._try(self.writer.text, name, text, step)

    def flush(self) -> None:  # noqa: D102
        self._try(self.writer.flush)

    def close(self) -> None:  # noqa: D102
        self._try(self.writer.close)
