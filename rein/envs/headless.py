"""Rendering without a screen: which drivers to use, decided before the libraries are imported."""

import logging
import os
import sys
from ctypes.util import find_library

logger = logging.getLogger("rein.envs")


def prepare_headless(render_mode: str | None = None) -> None:
    """Chooses off-screen drivers for pygame and MuJoCo where there is no display.

    Sets `SDL_VIDEODRIVER=dummy`, and `MUJOCO_GL` to `egl`, or `osmesa` if there is no EGL. Values that the user
    has set, and machines with a display, are left alone. Must run before the first import of mujoco.

    Args:
        render_mode: "human" wants a window, so nothing is changed.
    """
    if render_mode == "human" or not sys.platform.startswith("linux") or _has_display():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if "MUJOCO_GL" not in os.environ:
        driver = _off_screen_driver()
        if driver is not None:
            os.environ["MUJOCO_GL"] = driver


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _off_screen_driver() -> str | None:
    """Returns the value for MUJOCO_GL, or None if there is no off-screen OpenGL at all."""
    if find_library("EGL"):
        return "egl"
    if find_library("OSMesa"):
        logger.warning("No EGL library found: MuJoCo renders with OSMesa, which is slower.")
        return "osmesa"
    logger.info("Neither EGL nor OSMesa found: MuJoCo worlds run, but cannot be rendered.")
    return None
