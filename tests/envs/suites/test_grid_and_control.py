import numpy as np
import pytest

from rein.envs.suites import load


@pytest.mark.parametrize(("view", "shape"), [("image", (3, 7, 7)), ("full", (3, 5, 5)), ("rgb", (3, 40, 40))])
def test_grid_views(view, shape):
    pytest.importorskip("minigrid")
    env = load("MiniGrid-Empty-5x5-v0", view=view)
    observation, _ = env.reset(seed=0)
    assert observation.shape == shape
    assert env.observation_space.contains(observation)


def test_full_view_shows_the_agent_where_it_is():
    pytest.importorskip("minigrid")
    env = load("MiniGrid-Empty-5x5-v0", view="full")
    observation, _ = env.reset(seed=0)
    agent = 10
    assert np.argwhere(observation[0] == agent).tolist() == [[1, 1]]
    observation, *_ = env.step(2)
    # The agent looks right: it moves along the columns.
    assert np.argwhere(observation[0] == agent).tolist() == [[1, 2]]


def test_mission_becomes_bytes():
    pytest.importorskip("minigrid")
    env = load("MiniGrid-Empty-5x5-v0", mission_length=16)
    observation, _ = env.reset(seed=0)
    assert bytes(observation["mission"]).decode() == "get to the green"
    with pytest.raises(ValueError, match="partial"):
        load("MiniGrid-Empty-5x5-v0", mission_length=16, view="rgb")
    with pytest.raises(ValueError, match="view"):
        load("MiniGrid-Empty-5x5-v0", view="top")


def test_control_time_limit_is_a_truncation_and_rewards_are_in_range():
    pytest.importorskip("dm_control")
    env = load("dm_control/cartpole-balance", task_kwargs={"time_limit": 0.05})
    env.reset(seed=0)
    ends = []
    while not ends or not any(ends[-1]):
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert 0.0 <= reward <= 1.0
        ends.append((terminated, truncated))
    assert ends[-1] == (False, True)
    assert len(ends) == 5


def test_control_observations_as_dict_or_vector():
    pytest.importorskip("dm_control")
    parts, _ = load("dm_control/cartpole-balance", flatten=False).reset(seed=0)
    flat, _ = load("dm_control/cartpole-balance").reset(seed=0)
    assert set(parts) == {"position", "velocity"}
    assert np.array_equal(np.concatenate([parts["position"], parts["velocity"]]), flat)


@pytest.mark.slow
def test_every_control_task_runs():
    pytest.importorskip("dm_control")
    from rein.envs.suites.dm_control import DM_CONTROL

    for env_name in DM_CONTROL.list_ids():
        env = load(env_name)
        observation, _ = env.reset(seed=0)
        assert env.observation_space.contains(observation), env_name
        env.step(env.action_space.sample())
        env.close()
