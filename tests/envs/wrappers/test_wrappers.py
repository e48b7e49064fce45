import pickle
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from rein.envs import wrappers
from rein.envs.sampling import sample_space
from rein.envs.state import capture, restore
from rein.envs.suites import load
from rein.envs.toy.bandits import IdentityEnv
from rein.envs.toy.chain import ChainEnv
from rein.envs.toy.goals import ReachEnv
from rein.envs.toy.objectives import DeepSeaTreasureEnv, TwoRewardsEnv
from rein.envs.toy.room import SparseRoomEnv
from rein.envs.wrappers import (
    ActionMaskObservation,
    ChannelFirst,
    ClipAction,
    ClipReward,
    Curriculum,
    DiscreteContinuousAction,
    DiscretizeAction,
    FrameSkip,
    InfoMetrics,
    MaskVelocity,
    MultiTask,
    ParameterizedAction,
    RandomWarmup,
    RecordEpisodeStatistics,
    RescaleAction,
    ScalarReward,
    TimeLimit,
    TransformObservation,
    TransformReward,
    VectorReward,
)


class Recorder(gym.Env):
    """Counts steps, ends after `length`, and remembers its actions."""

    def __init__(self, action_space=None, observation_space=None, length=5):
        self.action_space = action_space or spaces.Discrete(3)
        self.observation_space = observation_space or spaces.Box(0, 100, (1,), np.float32)
        self.length = length
        self.actions = []
        self.count = 0

    def observe(self):
        return np.array([self.count], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.actions = []
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        self.actions.append(action)
        return self.observe(), float(self.count), self.count >= self.length, False, {"twice": 2 * self.count}


class Images(Recorder):
    def __init__(self):
        super().__init__(
            observation_space=spaces.Dict(
                {
                    "color": spaces.Box(0, 255, (4, 5, 3), np.uint8),
                    "pair": spaces.Tuple([spaces.Box(0, 255, (4, 5), np.uint8), spaces.Discrete(3)]),
                    "wide": spaces.Box(0, 255, (4, 5, 40), np.uint8),
                }
            )
        )

    def observe(self):
        color = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
        return {"color": color, "pair": (color[:, :, 0], 1), "wide": np.zeros((4, 5, 40), np.uint8)}


def test_all_names_exist_and_unknown_ones_do_not():
    assert all(isinstance(getattr(wrappers, name), type) for name in wrappers.__all__)
    with pytest.raises(AttributeError, match="Nonsense"):
        wrappers.Nonsense  # noqa: B018


@pytest.mark.parametrize(
    "make",
    [
        lambda: FrameSkip(ChainEnv(), 2),
        lambda: RandomWarmup(ChainEnv(), 3),
        lambda: MaskVelocity(gym.make("CartPole-v1"), (1, 3)),
        lambda: InfoMetrics(ChainEnv(), {"x": 0.0}),
        lambda: DiscreteContinuousAction(SparseRoomEnv()),
        lambda: DiscretizeAction(SparseRoomEnv(), 3),
        lambda: MultiTask({"a": ChainEnv, "b": ChainEnv}),
        lambda: Curriculum(ChainEnv(), lambda status: {}),
        lambda: ScalarReward(TwoRewardsEnv()),
    ],
)
def test_wrapped_worlds_pass_the_checker(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(make(), skip_render_check=True)


def test_frame_skip_sums_rewards_and_stops_at_the_end():
    env = FrameSkip(Recorder(length=5), skip=3)
    env.reset(seed=0)
    assert env.step(1)[:3] == (np.array([3.0]), 1 + 2 + 3, False)
    observation, reward, terminated, *_ = env.step(2)
    assert (float(observation[0]), reward, terminated) == (5.0, 4 + 5, True)
    assert env.unwrapped.actions == [1, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="skip"):
        FrameSkip(Recorder(), 0)


def test_frame_skip_sums_reward_vectors():
    env = FrameSkip(DeepSeaTreasureEnv(), skip=2)
    env.reset(seed=0)
    assert env.step(3)[1].tolist() == [0.0, -2.0]


def test_frame_skip_does_not_change_the_worlds_reward_array():
    class Shared(Recorder):
        reward = np.ones(2, np.float32)
        reward_space = spaces.Box(0, 1, (2,))

        def step(self, action):
            observation, _, terminated, truncated, info = super().step(action)
            return observation, self.reward, terminated, truncated, info

    env = FrameSkip(Shared(), 3)
    env.reset(seed=0)
    assert env.step(0)[1].tolist() == [3.0, 3.0]
    assert Shared.reward.tolist() == [1.0, 1.0]


def test_time_limit_truncates():
    env = TimeLimit(Recorder(length=10), max_episode_steps=2)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_warmup_is_reproducible_and_within_limits():
    env = RandomWarmup(Recorder(length=50), max_steps=6, min_steps=2)
    counts = [float(env.reset(seed=seed)[0][0]) for seed in [*range(20), 0]]
    assert counts[0] == counts[-1]
    assert min(counts) >= 2
    assert max(counts) <= 6
    assert len(set(counts)) > 2
    actions = []
    for _ in range(2):
        env.reset(seed=3)
        actions.append([int(action) for action in env.unwrapped.actions])
    assert actions[0] == actions[1]


def test_warmup_that_ends_the_episode_starts_over():
    env = RandomWarmup(Recorder(length=2), max_steps=5, min_steps=5)
    observation, _ = env.reset(seed=0)
    assert observation[0] < 2


def test_action_clipping_and_rescaling():
    box = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 4.0], np.float32))
    env = ClipAction(Recorder(action_space=box))
    env.reset(seed=0)
    env.step(np.array([-9.0, 9.0], np.float32))
    assert env.unwrapped.actions[0].tolist() == [-2.0, 4.0]
    env = RescaleAction(Recorder(action_space=box), min_action=-1.0, max_action=1.0)
    env.reset(seed=0)
    env.step(np.array([-1.0, 0.0], np.float32))
    assert env.unwrapped.actions[0] == pytest.approx([-2.0, 2.0])


def test_discretised_actions_are_bin_centers():
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    env = DiscretizeAction(Recorder(action_space=box), bins=2)
    env.reset(seed=0)
    for action in range(4):
        env.step(action)
    assert [action.tolist() for action in env.unwrapped.actions] == [
        [-0.5, -0.5],
        [-0.5, 0.5],
        [0.5, -0.5],
        [0.5, 0.5],
    ]


def test_pair_drives_the_chosen_dimension_and_rests_the_others():
    box = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([1.0, 3.0], np.float32))
    env = DiscreteContinuousAction(Recorder(action_space=box))
    assert env.action_space[0] == spaces.Discrete(2)
    assert env.action_space[1] == box
    env.reset(seed=0)
    env.step((0, np.array([0.5, 2.5], np.float32)))
    env.step((1, np.array([0.5, 2.5], np.float32)))
    # The second dimension cannot be 0, so it rests at its nearest value, 2.
    assert [action.tolist() for action in env.unwrapped.actions] == [[0.5, 2.0], [0.0, 2.5]]


def test_pair_with_a_function_of_ones_own():
    env = DiscreteContinuousAction(
        Recorder(),
        num_choices=2,
        amounts=spaces.Box(0, 1, (1,)),
        combine=lambda choice, amounts: choice + int(amounts[0] > 0.5),
    )
    env.reset(seed=0)
    env.step((1, np.array([0.9], np.float32)))
    assert env.unwrapped.actions == [2]
    with pytest.raises(ValueError, match="flat Box"):
        DiscreteContinuousAction(Recorder())
    with pytest.raises(ValueError, match="combine"):
        DiscreteContinuousAction(SparseRoomEnv(), num_choices=5)


def test_parameterized_actions_get_one_flat_vector():
    inner = spaces.Tuple(
        [
            spaces.Discrete(2),
            spaces.Tuple([spaces.Box(0, 10, (1,)), spaces.Box(-4, 4, (2,))]),
        ]
    )
    env = ParameterizedAction(Recorder(action_space=inner))
    assert env.action_space[1].shape == (3,)
    env.reset(seed=0)
    env.step((1, np.array([0.0, -1.0, 0.5], np.float32)))
    choice, (first, second) = env.unwrapped.actions[0]
    assert choice == 1
    assert first.tolist() == [5.0]
    assert second.tolist() == [-4.0, 2.0]
    assert inner.contains((choice, (first, second)))
    with pytest.raises(ValueError, match="Discrete"):
        ParameterizedAction(Recorder())


def test_channels_move_to_the_front_in_nested_observations():
    env = ChannelFirst(Images())
    observation, _ = env.reset(seed=0)
    assert observation["color"].shape == (3, 4, 5)
    assert observation["color"][2, 1, 3] == (1 * 5 + 3) * 3 + 2
    assert observation["pair"][0].shape == (1, 4, 5)
    assert observation["wide"].shape == (4, 5, 40)
    assert observation["color"].flags.c_contiguous
    assert env.observation_space.contains(observation)
    clone = pickle.loads(pickle.dumps(env))
    assert str(clone.reset(seed=0)) == str(env.reset(seed=0))
    with pytest.raises(ValueError, match="no uint8 image"):
        ChannelFirst(Recorder())


def test_velocities_are_hidden_or_dropped():
    hidden = MaskVelocity(gym.make("CartPole-v1"))
    dropped = MaskVelocity(gym.make("CartPole-v1"), drop=True)
    full, _ = gym.make("CartPole-v1").reset(seed=0)
    assert hidden.reset(seed=0)[0].tolist() == [full[0], 0.0, full[2], 0.0]
    assert dropped.reset(seed=0)[0].tolist() == [full[0], full[2]]
    assert hidden.observation_space.high[1] == 0.0
    with pytest.raises(ValueError, match="velocities"):
        MaskVelocity(Recorder())
    with pytest.raises(ValueError, match=r"\[4\]"):
        MaskVelocity(gym.make("CartPole-v1"), velocities=[1, 4])


@pytest.mark.parametrize("env_name", ["Hopper-v5", "HalfCheetah-v5", "Walker2d-v5", "Swimmer-v5"])
def test_known_velocities_of_mujoco_are_those_of_the_simulation(env_name):
    env = MaskVelocity(load(env_name))
    env.reset(seed=0)
    for _ in range(5):
        observation, *_ = env.step(env.action_space.sample())
    velocity_count = env.unwrapped.data.qvel.size
    assert (observation[-velocity_count:] == 0).all()
    assert (observation[:-velocity_count] != 0).any()
    assert len(observation) - np.count_nonzero(env._keep) == velocity_count


def test_action_masks_from_info_observation_and_method():
    taxi = ActionMaskObservation(load("Taxi-v4"))
    observation, info = taxi.reset(seed=0)
    assert observation["valid_action_mask"].tolist() == info["action_mask"].astype(bool).tolist()
    assert set(observation) == {"observation", "valid_action_mask"}
    assert taxi.observation_space.contains(observation)

    class Method(Recorder):
        def action_masks(self):
            return [1, 0, 1]

    observation, *_ = ActionMaskObservation(Method()).reset(seed=0)[0], None
    assert observation["valid_action_mask"].tolist() == [True, False, True]

    class InObservation(Recorder):
        def __init__(self):
            mask = spaces.Box(0, 1, (3,), np.int8)
            super().__init__(observation_space=spaces.Dict({"x": spaces.Discrete(2), "action_mask": mask}))

        def observe(self):
            return {"x": 1, "action_mask": np.array([0, 1, 1], np.int8)}

    env = ActionMaskObservation(InObservation())
    observation, _ = env.reset(seed=0)
    assert set(observation) == {"x", "valid_action_mask"}
    assert env.step(1)[0]["valid_action_mask"].tolist() == [False, True, True]
    with pytest.raises(ValueError, match="no mask"):
        ActionMaskObservation(Recorder()).reset(seed=0)


def test_reward_and_observation_functions():
    env = ClipReward(TransformReward(Recorder(), lambda r: 3 * r), min_reward=0.0, max_reward=4.0)
    env.reset(seed=0)
    assert [env.step(0)[1] for _ in range(2)] == [3.0, 4.0]
    space = spaces.Box(0, 200, (1,), np.float32)
    env = TransformObservation(Recorder(), lambda o: 2 * o, space)
    env.reset(seed=0)
    assert env.step(0)[0].tolist() == [2.0]


def test_scalar_reward_by_weights_or_function():
    for options, expected in (
        ({}, 1.0 - 1.0),
        ({"weights": [2.0, 0.5]}, 1.5),
        ({"function": lambda r: max(r)}, 1.0),
    ):
        env = ScalarReward(TwoRewardsEnv(), **options)
        env.reset(seed=0)
        reward = env.step(np.ones(1, np.float32))[1]
        assert isinstance(reward, float)
        assert reward == expected
        assert env.get_wrapper_attr("reward_space").shape == ()
    with pytest.raises(ValueError, match="vector reward"):
        ScalarReward(ChainEnv())
    with pytest.raises(ValueError, match="3 weights"):
        ScalarReward(TwoRewardsEnv(), weights=[1, 2, 3])
    with pytest.raises(ValueError, match="not both"):
        ScalarReward(TwoRewardsEnv(), weights=[1, 2], function=sum)


def test_vector_reward_from_info_terms():
    env = VectorReward(Recorder(), ["reward", "twice"])
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[1].tolist() == [2.0, 4.0]
    assert env.reward_space.shape == (2,)
    bad = VectorReward(Recorder(), ["absent"])
    bad.reset(seed=0)
    with pytest.raises(ValueError, match="absent"):
        bad.step(0)


def test_info_metrics_complete_missing_scalars():
    env = InfoMetrics(ReachEnv(), {"distance": -1.0, "is_success": 0.0})
    assert set(env.env_info_space) == {"distance", "is_success"}
    _, info = env.reset(seed=0)
    assert info["distance"] == -1.0
    assert info["distance"].dtype == np.float32
    env = InfoMetrics(Recorder(), {"twice": 0.0})
    env.reset(seed=0)
    assert env.step(0)[4]["twice"] == 2.0


def test_info_metrics_leave_the_steps_of_old_worlds_to_whoever_judges_them():
    class Old(Recorder):
        def step(self, action):
            return super().step(action)[:4]

    env = InfoMetrics(Old(), {"twice": 0.0})
    env.reset(seed=0)
    assert len(env.step(0)) == 4


def test_info_metrics_refuse_arrays():
    class Arrays(Recorder):
        def reset(self, **kwargs):
            return super().reset(**kwargs)[0], {"x": np.zeros(3)}

    with pytest.raises(ValueError, match=r"'x'.*\(3,\)"):
        InfoMetrics(Arrays(), {"x": 0.0}).reset(seed=0)


def test_episode_statistics_report_return_and_length():
    env = RecordEpisodeStatistics(Recorder(length=3))
    env.reset(seed=0)
    for _ in range(3):
        info = env.step(0)[4]
    assert (info["episode"]["r"], info["episode"]["l"]) == (6.0, 3)


def make_tasks():
    return {"short": lambda: IdentityEnv(3, 2), "long": lambda: IdentityEnv(3, 4)}


def test_multi_task_switches_between_tasks():
    env = MultiTask(make_tasks())
    assert (env.num_tasks, env.task_names) == (2, ("short", "long"))
    tasks = {int(env.reset(seed=seed)[0]["task"]) for seed in range(20)}
    assert tasks == {0, 1}
    for chosen, length in (("long", 4), (0, 2)):
        env.reset(seed=0, options={"task": chosen})
        ends = [env.step(0)[2] for _ in range(length)]
        assert ends == [False] * (length - 1) + [True]
    with pytest.raises(ValueError, match="no task 'medium'"):
        env.reset(options={"task": "medium"})


def test_multi_task_follows_probabilities_and_seeds():
    env = MultiTask(make_tasks(), probabilities=[0.0, 2.0])
    assert all(env.reset()[0]["task"] == 1 for _ in range(10))
    first, _ = env.reset(seed=4)
    again, _ = env.reset(seed=4)
    assert str(first) == str(again)
    with pytest.raises(ValueError, match="probabilities"):
        MultiTask(make_tasks(), probabilities=[1.0])


def run(env, count):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        observation, reward, terminated, truncated, _ = env.step(sample_space(env.action_space, rng))
        found.append((observation, reward))
        if terminated or truncated:
            found.append(env.reset()[0])
    return str(found)


def test_multi_task_seeds_every_task_though_only_one_is_reset_at_first():
    runs = []
    for _ in range(2):
        env = MultiTask(make_tasks())
        env.reset(seed=0)
        runs.append(run(env, 30))
    assert runs[0] == runs[1]


def make_twice(name):
    return MultiTask({"a": partial(load, name), "b": partial(load, name)})


@pytest.mark.parametrize("name", ["rein/Identity-v0", "CartPole-v1", "Hopper-v5"])
def test_multi_task_is_saved_with_all_its_tasks(name):
    env, other = make_twice(name), make_twice(name)
    env.reset(seed=0)
    run(env, 25)
    other.reset(seed=5)
    restore(other, capture(env))
    assert run(env, 60) == run(other, 60)


def test_multi_task_that_was_pickled_is_saved_as_itself():
    env, other = make_twice("CartPole-v1"), make_twice("CartPole-v1")
    env.reset(seed=0)
    clone = pickle.loads(pickle.dumps(env))
    run(clone, 25)
    other.reset(seed=5)
    restore(other, capture(clone))
    assert run(clone, 60) == run(other, 60)


def test_multi_task_refuses_different_spaces_and_no_tasks():
    with pytest.raises(ValueError, match="'b' has observation_space"):
        MultiTask({"a": IdentityEnv, "b": ChainEnv})
    with pytest.raises(ValueError, match="at least one"):
        MultiTask({})


def test_curriculum_sets_attributes_from_what_happened():
    seen = []

    def choose(status):
        seen.append(status)
        return {"length": 2 + status.episodes}

    env = Curriculum(Recorder(), choose, window=2)
    lengths = []
    for _ in range(4):
        env.reset(seed=0)
        steps = 1
        while not env.step(0)[2]:
            steps += 1
        lengths.append(steps)
    assert lengths == [2, 3, 4, 5]
    assert seen[0] == (0, 0, ())
    assert seen[3] == (3, 9, (6.0, 10.0))
    with pytest.raises(ValueError, match="'nothing'"):
        Curriculum(Recorder(), lambda status: {"nothing": 1}).reset(seed=0)


def test_wrapped_registered_worlds_can_be_made_again_from_their_spec():
    for env in (MaskVelocity(FrameSkip(load("CartPole-v1"), 2), (1, 3)), load("MiniGrid-Empty-5x5-v0", view="full")):
        again = gym.make(env.spec)
        assert again.observation_space == env.observation_space
        assert str(again) == str(env)


def test_the_previous_action_stands_beside_the_observation():
    env = wrappers.ActionObservationWrapper(gym.make("Pendulum-v1"))
    observation, _ = env.reset(seed=0)
    assert observation["prev_action"].tolist() == [0.0]
    action = np.array([1.5], np.float32)
    observation, *_ = env.step(action)
    assert observation["prev_action"].tolist() == [1.5]
    assert env.observation_space.contains(observation)
    shifted = gym.spaces.Discrete(3, start=5)
    env = gym.make("CartPole-v1").unwrapped
    env.action_space = shifted
    wrapped = wrappers.ActionObservationWrapper(env)
    assert wrapped.observation_space["prev_action"] == gym.spaces.Discrete(8)
    assert wrapped.observation_space.contains(wrapped.reset(seed=0)[0])


def test_a_scalar_reward_is_the_first_one_by_default():
    env = wrappers.ScalarRewardWrapper(TwoRewardsEnv())
    raw = TwoRewardsEnv()
    env.reset(seed=0)
    raw.reset(seed=0)
    action = raw.action_space.sample()
    vector = raw.step(action)[1]
    assert env.step(action)[1] == pytest.approx(float(vector[0]))
    weighted = wrappers.ScalarRewardWrapper(TwoRewardsEnv(), reward_weights=[1.0, 2.0])
    weighted.reset(seed=0)
    assert weighted.step(action)[1] == pytest.approx(float(vector[0] + 2 * vector[1]))
    with pytest.raises(ValueError, match="has no vector reward"):
        wrappers.ScalarRewardWrapper(ChainEnv())
