"""Saving where it may fail: training goes on, loudly, and tries again."""

import errno
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EAGAIN, errno.EBUSY, errno.EINTR}
"""What an administrator or another process may end; anything else is a mistake, such as a missing permission."""


class ToleratedSaving:
    """Endures errors of the disk.

    Attributes:
        fail: whether to endure none.
    """

    def __init__(self, fail: bool = False) -> None:
        """Endures them unless `fail`."""
        self.fail = fail

    def try_to(self, save: Callable[[], None]) -> bool:
        """Whether `save` did it; if the disk kept it from that, a warning says so and names the file."""
        try:
            save()
        except OSError as error:
            if self.fail or error.errno not in _PASSING:
                raise
            where = error.filename or "the run directory"
            logger.warning(
                "NOT SAVED: %s: %s. Training goes on and the next save tries again; make room, or stop the run",
                where,
                error.strerror or error,
            )
            return False
        return True

    def insist_on(self, save: Callable[[], None]) -> None:
        """Saves for the last time, once more if it fails; what then fails is raised: there is no later."""
        if not self.try_to(save):
            save()
