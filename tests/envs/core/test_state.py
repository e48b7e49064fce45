"""A run that is resumed goes on exactly as if it had not stopped, or says where it does not."""

import functools
import logging

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein import nest
from rein.envs import BatchEnvironment, create_environment
from rein.envs.single import EnvFactory
from rein.envs.state import NotResumableError, capture, restore

FIRST, MID, LAST = 0, 1, 2
RESUMABLE = [
    "CartPole-v1",
    "Pendulum-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Taxi-v4",
    "FrozenLake-v1",
    "CliffWalking-v1",
    "Blackjack-v1",
]
WITH_EXTRAS = {
    "Hopper-v5": "mujoco",
    "Ant-v5": "mujoco",
    "Breakout": "ale_py",
    "MiniGrid-DoorKey-5x5-v0": "minigrid",
    "MiniGrid-Dynamic-Obstacles-6x6-v0": "minigrid",
    "MiniGrid-UnlockPickup-v0": "minigrid",
}


def run(environment, num_steps, generator):
    steps = []
    batch = (environment.batch_size,)
    for _ in range(num_steps):
        action = nest.map_structure(lambda spec: spec.sample(batch, generator), environment.action_spec)
        steps.append(nest.map_structure(torch.clone, environment.step(action)))
    return nest.stack_nests(steps)


def assert_plain(value, path="state"):
    """Only what a file can hold without running code when it is read."""
    if isinstance(value, dict):
        for key, part in value.items():
            assert type(key) is str, path
            assert_plain(part, f"{path}.{key}")
    elif type(value) is list:
        for number, part in enumerate(value):
            assert_plain(part, f"{path}[{number}]")
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf", path
    else:
        assert value is None or type(value) in (bool, int, float, str), f"{path}: {type(value)}"


def resumed_like_the_original(name, backend, later_backend, num_steps=40):
    generator = torch.Generator().manual_seed(0)
    with create_environment(name, 2, backend=backend, seed=3) as original:
        original.reset()
        run(original, 25, generator)
        state = original.get_state()
        assert_plain(state)
        current = nest.map_structure(torch.clone, original.current_time_step())
        at = generator.get_state()
        wanted = run(original, num_steps, generator)
    generator.set_state(at)
    with create_environment(name, 2, backend=later_backend, seed=99) as later:
        restored = nest.map_structure(torch.clone, later.set_state(state))
        found = run(later, num_steps, generator)
    for a, b in ((current, restored), (wanted, found)):
        for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize("name", RESUMABLE)
def test_worlds_resume_exactly(name):
    resumed_like_the_original(name, "sync", "sync")


@pytest.mark.parametrize("name", list(WITH_EXTRAS))
def test_worlds_of_suites_resume_exactly(name):
    pytest.importorskip(WITH_EXTRAS[name])
    resumed_like_the_original(name, "sync", "sync")


@pytest.mark.parametrize(("backend", "later"), [("process", "sync"), ("sync", "process"), ("thread", "process")])
def test_a_state_moves_between_backends_of_single_worlds(backend, later):
    resumed_like_the_original("CartPole-v1", backend, later)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"])
def test_compiled_batches_resume_exactly(name):
    resumed_like_the_original(name, "vector", "vector", 250)


def test_an_environment_that_never_ran_resumes_as_one_that_begins():
    with create_environment("CartPole-v1", 2, backend="sync", seed=1) as environment:
        state = environment.get_state()
        assert environment.set_state(state).is_first().all()


@pytest.mark.parametrize("backend", ["sync", "process"])
def test_box2d_is_cut_as_truncated_with_a_warning(backend, caplog):
    pytest.importorskip("Box2D")
    action = torch.zeros(2, dtype=torch.int64)
    with create_environment("LunarLander-v3", 2, backend=backend, seed=1) as original:
        original.reset()
        step = original.step(action)
        observation = step.observation.clone()
        state = original.get_state()
        assert_plain(state)
    with create_environment("LunarLander-v3", 2, backend=backend, seed=1) as later:
        with caplog.at_level(logging.WARNING, logger="rein.envs"):
            step = later.set_state(state)
        assert "environments 0, 1 are cut" in caplog.text
        assert "Box2D" in caplog.text
        assert step.step_type.tolist() == [LAST, LAST]
        assert step.discount.tolist() == [1.0, 1.0]
        assert torch.equal(step.observation, observation)
        assert later.step(action).step_type.tolist() == [FIRST, FIRST]
        assert later.step(action).step_type.tolist() == [MID, MID]


def test_sticky_actions_of_the_emulator_are_not_claimed_to_resume():
    gym.register_envs(pytest.importorskip("ale_py"))
    env = gym.make("ALE/Breakout-v5", repeat_action_probability=0.25)
    env.reset(seed=0)
    with pytest.raises(NotResumableError, match="sticky actions"):
        capture(env)


def test_a_world_that_cannot_be_saved_but_had_just_begun_begins_again(worlds):
    class Opaque(worlds.CountingEnv):
        def __init__(self):
            super().__init__(length=3)
            self.handle = open("/dev/null")  # noqa: SIM115

    with BatchEnvironment(EnvFactory(Opaque), 1, seed=0) as original:
        original.reset()
        first = original.get_state()
        for _ in range(3):
            last_step = original.step(torch.zeros(1, dtype=torch.int64))
        assert last_step.step_type.tolist() == [LAST]
        last = original.get_state()
    assert "handle" in first["worlds"][0]["reason"]
    with BatchEnvironment(EnvFactory(Opaque), 1, seed=0) as later:
        assert later.set_state(first).step_type.tolist() == [FIRST]
        assert later.step(torch.zeros(1, dtype=torch.int64)).step_type.tolist() == [MID]
        assert later.set_state(last).discount.tolist() == [0.0]  # It had terminated: nothing is cut.
        assert later.step(torch.zeros(1, dtype=torch.int64)).step_type.tolist() == [FIRST]


def test_native_vector_environments_are_cut_together(caplog):
    def native(num_envs):
        return gym.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")

    action = torch.zeros(2, dtype=torch.int64)
    with create_environment(native, 2, backend="vector", seed=1) as original:
        original.reset()
        original.step(action)
        state = original.get_state()
    with create_environment(native, 2, backend="vector", seed=1) as later:
        with caplog.at_level(logging.WARNING, logger="rein.envs"):
            assert later.set_state(state).step_type.tolist() == [LAST, LAST]
        assert "native vector" in caplog.text
        step = later.step(action)
        assert step.step_type.tolist() == [FIRST, FIRST]
        assert step.prev_action.tolist() == [0, 0]
        assert later.step(action).step_type.tolist() == [MID, MID]


@pytest.mark.parametrize(("backend", "later"), [("vector", "sync"), ("sync", "vector"), ("vector", "process")])
def test_a_state_of_another_form_cuts_the_episodes(backend, later, caplog):
    action = torch.ones(3, dtype=torch.int64)
    with create_environment("CartPole-v1", 3, backend=backend, seed=1) as original:
        original.reset()
        original.step(action)
        state = original.get_state()
    # One world has just begun, one runs, one has just terminated.
    step_type = next(a for a in state["time_step"] if a.dtype == np.int32)
    step_type[:] = (FIRST, MID, LAST)
    with create_environment("CartPole-v1", 3, backend=later, seed=1) as other:
        with caplog.at_level(logging.WARNING, logger="rein.envs"):
            assert other.set_state(state).step_type.tolist() == [FIRST, LAST, LAST]
        assert "saved as" in caplog.text
        assert other.step(action).step_type.tolist() == [MID, FIRST, FIRST]


def test_a_state_goes_through_a_checkpoint_file(tmp_path):
    from rein.runtime.checkpoint import Checkpointer

    generator = torch.Generator().manual_seed(0)
    with create_environment("MiniGrid-DoorKey-5x5-v0", 2, backend="sync", seed=3) as original:
        original.reset()
        run(original, 20, generator)
        checkpointer = Checkpointer(tmp_path)
        checkpointer.save(1, {"environment": original.get_state()})
        at = generator.get_state()
        wanted = run(original, 30, generator)
    state = checkpointer.load(1).components["environment"]
    generator.set_state(at)
    with create_environment("MiniGrid-DoorKey-5x5-v0", 2, backend="process", seed=4) as later:
        later.set_state(state)
        found = run(later, 30, generator)
    for a, b in zip(nest.flatten(wanted), nest.flatten(found), strict=True):
        assert torch.equal(a, b)


def test_a_state_of_another_shape_or_version_is_refused():
    with create_environment("CartPole-v1", 2, backend="sync", seed=1) as environment:
        environment.reset()
        state = environment.get_state()
        with pytest.raises(ValueError, match="version 2"):
            environment.set_state({**state, "version": 2})
    with create_environment("CartPole-v1", 3, backend="sync") as other, pytest.raises(ValueError, match="shapes"):
        other.set_state(state)


def test_shared_generators_and_arrays_stay_shared():
    class Sharing(gym.Env):
        def __init__(self):
            self.observation_space = gym.spaces.Discrete(2)
            self.action_space = gym.spaces.Discrete(2)
            self.table = np.zeros(3)
            self.same_table = self.table
            self.dice = np.random.default_rng(0)
            self.same_dice = self.dice
            self.nested = {(1, 2): [np.int64(3), {"a", "b"}], "text": np.array([["x"]])}

    source, target = Sharing(), Sharing()
    source.table[1] = 5.0
    source.dice.random(7)
    restore(target, capture(source))
    assert target.table is target.same_table
    assert target.table.tolist() == [0.0, 5.0, 0.0]
    assert target.dice is target.same_dice
    assert target.dice.random() == source.dice.random()
    assert target.nested[(1, 2)] == [3, {"a", "b"}]
    assert type(target.nested[(1, 2)][0]) is np.int64
    assert target.nested["text"].tolist() == [["x"]]


def test_a_state_of_another_world_is_refused():
    one, two = gym.make("CartPole-v1"), gym.make("Pendulum-v1")
    one.reset(seed=0)
    with pytest.raises(NotResumableError, match="CartPole"):
        restore(two, capture(one))


def test_time_limits_survive(worlds):
    factory = EnvFactory(functools.partial(gym.make, "Pendulum-v1", max_episode_steps=4))
    action = torch.zeros(1, 1)
    with BatchEnvironment(factory, 1, seed=0) as original:
        original.reset()
        for _ in range(3):
            original.step(action)
        state = original.get_state()
    with BatchEnvironment(factory, 1, seed=5) as later:
        later.set_state(state)
        step = later.step(action)
        assert (int(step.step_type[0]), float(step.discount[0])) == (LAST, 1.0)
