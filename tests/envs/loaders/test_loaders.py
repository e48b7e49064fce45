"""Worlds made by `env_load_fn`."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from rein.config import config, fresh_configs
from rein.envs import create_environment
from rein.envs.loaders import suite_dmc, suite_gym
from rein.envs.wrappers import DMAtariPreprocessing, FrameSkip, TransformReward


def limits(env: gym.Env[Any, Any]) -> list[int]:
    """Time limits from the outside in."""
    found = []
    while isinstance(env, gym.Wrapper):
        found += [env._max_episode_steps] if isinstance(env, TimeLimit) else []
        env = env.env
    return found


@pytest.mark.parametrize(("given", "expected"), [(None, [200]), (7, [7]), (0, [])])
def test_the_time_limit_is_the_given_one_or_that_of_the_id(given: int | None, expected: list[int]) -> None:
    assert limits(suite_gym.load("Pendulum-v1", max_episode_steps=given)) == expected


def test_the_time_limit_counts_steps_of_the_agent() -> None:
    env = suite_gym.load("Pendulum-v1", max_episode_steps=5, gym_env_wrappers=(partial(FrameSkip, skip=4),))
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[3] for _ in range(5)]
    assert ends == [False] * 4 + [True]


def test_wrappers_are_applied_from_the_inside_out() -> None:
    class Outer(gym.Wrapper[Any, Any, Any, Any]):
        pass

    env = suite_gym.load("CartPole-v1", gym_env_wrappers=[partial(FrameSkip, skip=2)], alf_env_wrappers=[Outer])
    assert isinstance(env, Outer)
    assert isinstance(env.env, TimeLimit)
    assert isinstance(env.env.env, FrameSkip)


def test_images_have_their_channels_in_front() -> None:
    class Screen(gym.ObservationWrapper[Any, Any, Any]):
        def __init__(self, env: gym.Env[Any, Any]) -> None:
            super().__init__(env)
            self.observation_space = gym.spaces.Box(0, 255, (6, 8, 3), np.uint8)

        def observation(self, observation: Any) -> Any:
            return np.zeros((6, 8, 3), np.uint8)

    env = suite_gym.load("CartPole-v1", gym_env_wrappers=[Screen])
    assert env.observation_space.shape == env.reset(seed=0)[0].shape == (3, 6, 8)
    assert suite_gym.load("CartPole-v1", gym_env_wrappers=[Screen], image_channel_first=False).reset()[0].shape == (
        6,
        8,
        3,
    )


def test_a_discount_is_refused() -> None:
    with pytest.raises(ValueError, match="Set gamma of the loss"):
        suite_gym.load("CartPole-v1", discount=0.99)


@pytest.mark.parametrize("backend", ["auto", "sync", "process"])
def test_a_conf_chooses_the_loader_and_gives_its_parameters(backend: str) -> None:
    with fresh_configs():
        config("create_environment", env_name="CartPole-v1", env_load_fn=suite_gym.load)
        config(
            "suite_gym.load",
            max_episode_steps=3,
            gym_env_wrappers=(partial(TransformReward, func=lambda r: 5 * float(r)),),
        )
        with create_environment(
            num_parallel_environments=2, backend=backend, num_workers=1, start_serially=True, seed=0
        ) as env:
            env.reset()
            steps = [env.step(env.action_spec.zeros((2,))) for _ in range(3)]
            assert [step.reward.tolist() for step in steps] == [[5.0, 5.0]] * 3
            assert steps[-1].is_last().all()
            assert steps[-1].discount.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("backend", ["vector", "envpool"])
def test_loaders_make_single_worlds(backend: str) -> None:
    with pytest.raises(ValueError, match="env_load_fn makes single worlds"):
        create_environment("CartPole-v1", backend=backend, env_load_fn=suite_gym.load)


def test_a_loader_of_your_own_gets_the_name_and_the_arguments() -> None:
    asked = []

    def load(name: str, size: int) -> gym.Env[Any, Any]:
        asked.append((name, size))
        return gym.make("CartPole-v1")

    create_environment("mine", env_load_fn=load, env_kwargs={"size": 3}, backend="sync").close()
    assert set(asked) == {("mine", 3)}


def test_control_suite_tasks_are_named_by_domain_and_task() -> None:
    pytest.importorskip("dm_control")
    env = suite_dmc.load("cartpole:balance", from_pixels=False, max_episode_steps=10, control_timestep=0.02)
    assert limits(env) == [10]
    assert env.observation_space.shape == (5,)
    assert env.unwrapped._control.control_timestep() == pytest.approx(0.02)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="'domain:task'"):
        suite_dmc.load("cartpole")


def test_atari_games_come_raw_for_their_preprocessing() -> None:
    pytest.importorskip("ale_py")
    raw = suite_gym.load("BreakoutNoFrameskip-v4", image_channel_first=False)
    assert raw.observation_space.shape == (210, 160, 3)
    game = suite_gym.load("BreakoutNoFrameskip-v4", gym_env_wrappers=(DMAtariPreprocessing,), max_episode_steps=20)
    assert game.observation_space.shape == (1, 84, 84)
    observation, info = game.reset(seed=0)
    assert observation.shape == (1, 84, 84)
    assert info["lives"] == 5


def test_a_lost_life_is_followed_by_fire() -> None:
    """In Breakout the ball comes only after FIRE: without it nothing would ever change again."""
    pytest.importorskip("ale_py")
    game = DMAtariPreprocessing(suite_gym.load("BreakoutNoFrameskip-v4"))
    game.reset(seed=0)
    lives, ended = [], False
    for _ in range(600):
        _, _, ended, _, info = game.step(0)
        lives.append(info["lives"])
        if ended:
            break
    assert ended
    assert set(lives) == {5, 4, 3, 2, 1, 0}
