import logging
import os

import pytest

from rein.envs import headless

NAMES = ("MUJOCO_GL", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "DISPLAY", "WAYLAND_DISPLAY")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in NAMES:
        # Setting first makes monkeypatch restore what prepare_headless writes.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(headless.sys, "platform", "linux")


def libraries(monkeypatch, *names):
    monkeypatch.setattr(headless, "find_library", lambda name: name if name in names else None)


def test_egl_is_chosen_first(monkeypatch):
    libraries(monkeypatch, "EGL", "OSMesa")
    headless.prepare_headless()
    assert os.environ["MUJOCO_GL"] == "egl"
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_falls_back_to_osmesa_and_says_so(monkeypatch, caplog):
    libraries(monkeypatch, "OSMesa")
    with caplog.at_level(logging.WARNING, "rein.envs"):
        headless.prepare_headless()
    assert os.environ["MUJOCO_GL"] == "osmesa"
    assert "OSMesa" in caplog.text


def test_without_any_driver_worlds_still_run(monkeypatch):
    libraries(monkeypatch)
    headless.prepare_headless()
    assert "MUJOCO_GL" not in os.environ


def test_what_the_user_set_stays(monkeypatch):
    libraries(monkeypatch, "EGL")
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    headless.prepare_headless()
    assert os.environ["MUJOCO_GL"] == "glfw"


@pytest.mark.parametrize(("display", "mode"), [(":0", None), ("", "human")])
def test_a_window_is_left_alone(monkeypatch, display, mode):
    libraries(monkeypatch, "EGL")
    monkeypatch.setenv("DISPLAY", display)
    headless.prepare_headless(mode)
    assert "MUJOCO_GL" not in os.environ
