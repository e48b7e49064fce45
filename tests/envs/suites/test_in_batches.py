"""The single worlds under what the batched core does with them: batches, metrics, exact resume."""

import numpy as np
import pytest
import torch

from rein import nest
from rein.envs import create_environment
from rein.envs.metrics import EpisodeMetrics
from rein.envs.sampling import sample_space
from rein.envs.state import NotResumableError, capture, restore
from rein.envs.suites import load
from rein.envs.toy import TOY_ENTRY_POINTS

RESUMABLE = [
    *TOY_ENTRY_POINTS,
    "boards/tic_tac_toe",
    "boards/connect_four",
    "boards/go",
    "MiniGrid-Empty-5x5-v0",
    "ALE/Breakout-v5",
    "Hopper-v5",
]


def run(env, rng, count):
    found = []
    for _ in range(count):
        observation, reward, terminated, truncated, _ = env.step(sample_space(env.action_space, rng))
        found.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            found.append(env.reset()[0])
    return str(found)


@pytest.mark.parametrize("env_name", RESUMABLE)
def test_a_saved_world_goes_on_exactly(env_name):
    options = {}
    if env_name.startswith("boards/"):
        options = {"opponent": "random", "opponent_side": "random"}
    elif env_name.startswith("ALE/"):
        options = {"episodic_life": True}
    env, other = load(env_name, **options), load(env_name, **options)
    env.reset(seed=1)
    run(env, np.random.default_rng(0), 7)
    other.reset(seed=2)
    restore(other, capture(env))
    assert run(env, np.random.default_rng(3), 30) == run(other, np.random.default_rng(3), 30)


@pytest.mark.parametrize("env_name", ["LunarLander-v3", "dm_control/cartpole-swingup"])
def test_worlds_that_cannot_be_saved_say_so(env_name):
    env = load(env_name)
    env.reset(seed=0)
    with pytest.raises(NotResumableError):
        capture(env)


@pytest.mark.parametrize(
    "env_name",
    [*TOY_ENTRY_POINTS, "boards/tic_tac_toe", "boards/go", "MiniGrid-Empty-5x5-v0", "dm_control/cartpole-swingup"],
)
def test_worlds_run_in_a_batch_and_feed_the_metrics(env_name):
    env = create_environment(env_name, num_parallel_environments=2, backend="sync", seed=0)
    generator = torch.Generator().manual_seed(0)
    metrics = EpisodeMetrics()
    time_step = env.reset()
    metrics.update(time_step)
    for _ in range(60):
        action = nest.map_structure(lambda spec: spec.sample((2,), generator=generator), env.action_spec)
        time_step = env.step(action)
        metrics.update(time_step)
    result = metrics.result()
    assert 0 < result["EnvironmentSteps"] <= 120
    if result["NumberOfEpisodes"] > 0:
        assert result["AverageEpisodeLength"] > 0
    env.close()


def test_vector_rewards_reach_the_metrics_per_dimension():
    env = create_environment("rein/TwoRewards-v0", num_parallel_environments=3, backend="sync", seed=0)
    assert env.reward_spec.shape == (2,)
    metrics = EpisodeMetrics(reductions={"cost": "sum"})
    metrics.update(env.reset())
    for _ in range(10):
        metrics.update(env.step(torch.zeros(3, 1)))
    result = metrics.result()
    assert (result["AverageReturn/0"], result["AverageReturn/1"]) == pytest.approx((5.0, -2.5))
    assert result["AverageEnvInfo/cost"] == pytest.approx(2.5)
    env.close()
