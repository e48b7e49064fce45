"""Where episodes begin and end: an error by one step here would be silent, so all is compared with numbers by hand."""

import functools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from rein.envs import BatchEnvironment, ProcessEnvironment, ThreadEnvironment, VectorEnvironment, create_environment
from rein.envs.single import EnvFactory

FIRST, MID, LAST = 0, 1, 2
BACKENDS = {"sync": BatchEnvironment, "process": ProcessEnvironment, "thread": ThreadEnvironment}


def rollout(environment, num_steps):
    """Steps with the actions 1, 2, 3, ...; one row of numbers per step, for world 0."""
    batch = (environment.batch_size,)
    first = line(environment.reset())
    return [first, *(line(environment.step(torch.full(batch, number))) for number in range(1, num_steps + 1))]


def line(step):
    observation = step.observation[0].tolist()
    return (
        int(step.step_type[0]),
        float(step.reward[0]),
        float(step.discount[0]),
        observation,
        int(step.prev_action[0]),
    )


def expected(last_discount):
    return [
        (FIRST, 0.0, 1.0, [0, 0, -1], 0),
        (MID, 1.0, 1.0, [0, 1, 1], 1),
        (MID, 2.0, 1.0, [0, 2, 2], 2),
        (LAST, 3.0, last_discount, [0, 3, 3], 3),
        (FIRST, 0.0, 1.0, [1, 0, -1], 0),
        (MID, 1.0, 1.0, [1, 1, 5], 5),
        (MID, 2.0, 1.0, [1, 2, 6], 6),
        (LAST, 3.0, last_discount, [1, 3, 7], 7),
        (FIRST, 0.0, 1.0, [2, 0, -1], 0),
    ]


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("terminates", [True, False])
def test_an_episode_ends_shows_its_end_and_begins_anew_on_the_next_step(worlds, backend, terminates):
    factory = EnvFactory(functools.partial(worlds.CountingEnv, 3, terminates))
    with BACKENDS[backend](factory, 2, seed=0) as environment:
        assert rollout(environment, 8) == expected(0.0 if terminates else 1.0)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("terminates", [True, False])
def test_vector_environments_of_every_autoreset_mode_show_the_same_episodes(worlds, mode, terminates):
    make = functools.partial(worlds.CountingEnv, 3, terminates)
    with VectorEnvironment(SyncVectorEnv([make] * 2, autoreset_mode=mode), seed=0) as environment:
        found = rollout(environment, 8)
    wanted = expected(0.0 if terminates else 1.0)
    # Extra resets count as episodes of the world, so the number of the episode is not compared.
    assert [without_episode(row) for row in found] == [without_episode(row) for row in wanted]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasiums_processes_show_the_same_episodes(worlds, mode):
    make = functools.partial(worlds.CountingEnv, 3)
    vector_env = AsyncVectorEnv([make] * 2, autoreset_mode=mode, context="forkserver")
    with VectorEnvironment(vector_env, seed=0) as environment:
        found = rollout(environment, 8)
    assert [without_episode(row) for row in found] == [without_episode(row) for row in expected(0.0)]


def test_nested_observations_of_vector_environments_end_rightly(worlds):
    class Nested(worlds.CountingEnv):
        def __init__(self):
            super().__init__(length=2)
            part = self.observation_space
            self.observation_space = spaces.Dict({"b": spaces.Tuple([part, spaces.Discrete(9)]), "a": part})

        def nest(self, observation):
            return {"b": (observation, int(observation[1])), "a": observation}

        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            return self.nest(observation), info

        def step(self, action):
            observation, *rest = super().step(action)
            return self.nest(observation), *rest

    for mode in AutoresetMode:
        with VectorEnvironment(SyncVectorEnv([Nested] * 2, autoreset_mode=mode), seed=0) as environment:
            seen = [environment.reset().observation["b"][1].tolist()]
            for _ in range(5):
                step = environment.step(torch.zeros(2, dtype=torch.int64))
                assert step.observation["a"][:, 1].tolist() == step.observation["b"][1].tolist()
                seen.append(step.observation["b"][1].tolist())
        assert seen == [[0, 0], [1, 1], [2, 2], [0, 0], [1, 1], [2, 2]], mode


def without_episode(row):
    return (*row[:3], row[3][1:], row[4])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rows_that_end_at_different_times_do_not_disturb_each_other(worlds, mode):
    makers = [functools.partial(worlds.CountingEnv, length) for length in (1, 2, 3, 5)]
    with VectorEnvironment(SyncVectorEnv(makers, autoreset_mode=mode), seed=0) as environment:
        steps = [environment.reset()]
        seen = [(steps[0].step_type.tolist(), steps[0].observation[:, 1].tolist(), steps[0].reward.tolist())]
        for number in range(1, 30):
            step = environment.step(torch.full((4,), number % 100))
            seen.append((step.step_type.tolist(), step.observation[:, 1].tolist(), step.reward.tolist()))
    for row, length in enumerate((1, 2, 3, 5)):
        for tick, (kinds, counts, rewards) in enumerate(seen):
            position = tick % (length + 1)
            kind = FIRST if position == 0 else LAST if position == length else MID
            assert (kinds[row], counts[row], rewards[row]) == (kind, position, position)


class NativeSameStep(VectorEnv):
    """A native batch of counting worlds that resets in the step that ends an episode and cannot reset single rows."""

    def __init__(self, worlds, lengths):
        self.worlds = [worlds.CountingEnv(length) for length in lengths]
        self.num_envs = len(lengths)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = self.worlds[0].observation_space
        self.single_action_space = self.worlds[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed=None, options=None):
        return np.stack([world.reset()[0] for world in self.worlds]), {}

    def step(self, actions):
        results = [world.step(action) for world, action in zip(self.worlds, actions, strict=True)]
        observation = np.stack([result[0] for result in results])
        final = observation.copy()
        ended = np.array([result[2] for result in results])
        for row in np.flatnonzero(ended):
            observation[row] = self.worlds[row].reset()[0]
        rewards = np.array([result[1] for result in results])
        return observation, rewards, ended, np.zeros_like(ended), {"final_obs": final}


def test_a_native_batch_that_resets_in_the_same_step_shows_only_true_transitions(worlds):
    with VectorEnvironment(NativeSameStep(worlds, [3, 1]), seed=0) as environment:
        lines = [environment.reset()]
        lines = [(int(s.step_type[0]), s.observation[0, 1:].tolist(), float(s.reward[0])) for s in lines]
        short = []
        for number in range(1, 8):
            step = environment.step(torch.full((2,), number))
            lines.append((int(step.step_type[0]), step.observation[0, 1:].tolist(), float(step.reward[0])))
            short.append((int(step.step_type[1]), step.observation[1, 1:].tolist(), float(step.reward[1])))
    assert lines == [
        (FIRST, [0, -1], 0.0),
        (MID, [1, 1], 1.0),
        (MID, [2, 2], 2.0),
        (LAST, [3, 3], 3.0),
        (FIRST, [1, 4], 0.0),  # The step that action 4 took before the policy saw the new episode.
        (MID, [2, 5], 2.0),
        (LAST, [3, 6], 3.0),
        (FIRST, [1, 7], 0.0),
    ]
    # Episodes of one step end on the extra step too, which brings a true first observation.
    assert short == [(LAST, [1, n], 1.0) if n % 2 else (FIRST, [0, -1], 0.0) for n in range(1, 8)]


def test_a_vector_environment_that_does_not_say_how_it_resets_is_refused(worlds):
    native = NativeSameStep(worlds, [3])
    native.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        VectorEnvironment(native)


def test_native_cartpole_keeps_its_time_limit_and_discount():
    def native(num_envs):
        return CartPoleVectorEnv(num_envs, max_episode_steps=3)

    with create_environment(native, 2, backend="vector", seed=0) as environment:
        environment.reset()
        kinds, discounts = [], []
        for _ in range(5):
            step = environment.step(torch.zeros(2, dtype=torch.int64))
            kinds.append(step.step_type.tolist())
            discounts.append(step.discount.tolist())
    assert kinds == [[MID] * 2, [MID] * 2, [LAST] * 2, [FIRST] * 2, [MID] * 2]
    assert discounts == [[1.0, 1.0]] * 5


def test_vector_rewards_infos_and_tasks_reach_the_time_step(worlds):
    for backend in ("sync", "process"):
        with create_environment(worlds.ObjectivesEnv, 2, backend=backend, seed=0) as environment:
            assert tuple(environment.reward_spec.shape) == (2,)
            assert environment.num_tasks == 2
            assert environment.task_names == ("walk", "run")
            environment.reset()
            speeds, rewards = [], []
            for _ in range(4):
                step = environment.step(torch.zeros(2, dtype=torch.int64))
                speeds.append(step.env_info["speed"].tolist())
                rewards.append(step.reward[1].tolist())
        assert speeds == [[0.0, 0.0], [2.5, 2.5], [0.0, 0.0], [0.0, 0.0]]
        assert rewards == [[1, -1], [2, -2], [3, -3], [0, 0]]
