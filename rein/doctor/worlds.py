"""Environments: which can be made here, and whether they can be seen."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec

from rein.doctor.finding import Finding
from rein.envs.headless import prepare_headless
from rein.envs.suites import available_suites, load

_SHOWN = {
    "classic": "CartPole-v1",
    "box2d": "LunarLander-v3",
    "mujoco": "HalfCheetah-v5",
    "dm_control": "dm_control/cartpole-balance",
    "atari": "ALE/Pong-v5",
}
"""Worlds that stand for their suite; of other suites the first is tried."""
_OWN = "registered"
_RENDER_SECONDS = 120
_RENDER = (
    "import gymnasium; env = gymnasium.make('InvertedPendulum-v5', render_mode='rgb_array', width=64, height=64); "
    "env.reset(seed=0); assert env.render().std() > 0"
)


def worlds() -> Iterator[Finding]:
    """Makes a world of each suite and takes a step."""
    for suite in available_suites():
        if suite.name == _OWN or not (suite.ids or suite.extra):
            continue
        if not suite.installed:
            yield Finding(f"worlds {suite.name}", "missing", suite.description, f"pip install 'rein-rl[{suite.extra}]'")
            continue
        name = _SHOWN.get(suite.name, "")
        name = name if name in suite.ids else suite.ids[0]
        try:
            _try(name)
        except Exception as error:
            reason = " ".join(str(error).split())
            yield Finding(
                f"worlds {suite.name}", "problem", f"{name} fails: {reason}", f"`rein check-env {name}` says more"
            )
        else:
            yield Finding(f"worlds {suite.name}", "ok", f"{name} works, {len(suite.ids)} ids")


def _try(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = load(name)
        try:
            env.reset(seed=0)
            env.step(env.action_space.sample())
        finally:
            env.close()


def video() -> Iterator[Finding]:
    """What videos of a policy need."""
    if find_spec("imageio_ffmpeg") is None:
        yield Finding("video", "missing", "no ffmpeg, which mp4 files need", "pip install 'rein-rl[video]'")
        return
    from imageio_ffmpeg import get_ffmpeg_exe

    yield Finding("video", "ok", get_ffmpeg_exe())


def mujoco_rendering() -> Iterator[Finding]:
    """Renders a small picture, in a process of its own, since a broken driver may end it."""
    if find_spec("mujoco") is None:
        return
    prepare_headless()
    backend = os.environ.get("MUJOCO_GL", "a window")
    fix = "apt install libegl1 libgl1 or libosmesa6, and set MUJOCO_GL=egl or osmesa; training needs none of it"
    try:
        done = subprocess.run([sys.executable, "-c", _RENDER], capture_output=True, text=True, timeout=_RENDER_SECONDS)
    except subprocess.TimeoutExpired:
        yield Finding("MuJoCo rendering", "problem", f"{backend}: no picture within {_RENDER_SECONDS} s", fix)
        return
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        yield Finding("MuJoCo rendering", "problem", f"{backend}: {reason}", fix)
    else:
        yield Finding("MuJoCo rendering", "ok", f"by {backend}")
