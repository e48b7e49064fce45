"""MuJoCo's own warnings: told once, by the log of Rein, and not by the console and a file in the working directory."""

import logging
import re

logger = logging.getLogger("rein.envs")

_KINDS_TOLD: set[str] = set()


def log_mujoco_warnings() -> None:
    """Has MuJoCo tell its warnings to `rein.envs`, each kind once in a process; what is only deprecated, as debugging."""
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_tell)


def _tell(message: str) -> None:
    kind = re.sub(r"[\d.]+", "", message)  # "... at DOF 3. Time = 1.2." comes again with other numbers
    if kind in _KINDS_TOLD:
        return
    _KINDS_TOLD.add(kind)
    level = logging.DEBUG if "deprecated" in message else logging.WARNING
    logger.log(level, "MuJoCo: %s", message.strip())
