"""Watching a policy: as a video file or in a window."""

import logging
from pathlib import Path
from typing import NamedTuple

from rein.data_structures import TimeStep
from rein.envs import Environment
from rein.envs.video import VideoWriter
from rein.runtime.run import Run
from rein.training.evaluation import EvaluationResult, evaluate
from rein.training.policy import Policy

DEFAULT_FPS = 30.0

logger = logging.getLogger(__name__)


class Recording(NamedTuple):
    """A video and what happens in it."""

    path: Path
    frames: int
    result: EvaluationResult


def record_video(
    policy: Policy,
    path: Path,
    num_episodes: int = 1,
    seed: int | None = None,
    fps: float | None = None,
    every: int = 1,
    scale: int = 1,
) -> Recording:
    """Plays whole episodes on held-out seeds and records them.

    Args:
        policy: who plays.
        path: ends in .mp4 or .gif; replaced if it exists.
        num_episodes: one after the other.
        seed: chooses other held-out seeds.
        fps: frames per second; None is real time, if the environment tells, else `DEFAULT_FPS`.
        every: keep one of so many frames, at the same speed; makes small files.
        scale: divide width and height by this.
    """
    if every < 1 or scale < 1:
        raise ValueError(f"every={every} and scale={scale} must be at least 1")
    with policy.make_rendered_environment(policy.held_out_seed(seed)) as env:
        rate = (fps or _frames_per_second(env)) / every
        with VideoWriter(path, rate) as writer:
            frames = 0
            steps = 0

            def append(time_step: TimeStep) -> None:
                nonlocal frames, steps
                if steps % every == 0 or bool(time_step.is_last()[0]):
                    writer.append(env.render()[0, ::scale, ::scale])
                    frames += 1
                steps += 1

            with Run(seed=policy.seed):
                result = evaluate(policy.algorithm, env, num_episodes, append)
    return Recording(path, frames, result)


def play_in_window(policy: Policy, num_episodes: int = 1, seed: int | None = None) -> EvaluationResult:
    """Plays whole episodes in a window, at the speed that the environment chooses.

    Args:
        policy: who plays.
        num_episodes: one after the other.
        seed: chooses other held-out seeds.
    """
    with policy.make_rendered_environment(policy.held_out_seed(seed), "human") as env, Run(seed=policy.seed):
        return evaluate(policy.algorithm, env, num_episodes)


def _frames_per_second(env: Environment) -> float:
    worlds = getattr(env, "envs", None)
    found = worlds[0].metadata.get("render_fps") if worlds else None
    return float(found) if found else DEFAULT_FPS
