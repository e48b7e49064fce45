"""`rein.make(algorithm, env)` and nothing else, for environments of every kind."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rein
from rein.runtime import Run
from rein.training.evaluation import evaluate
from tests.training.any_environment import (
    ACTIONS,
    ALGORITHMS,
    CHOICE,
    OBSERVATIONS,
    VECTOR,
    World,
    action_for,
    takes,
    train_briefly,
)


def observing(algorithm, name):
    return lambda: World(OBSERVATIONS[name], action_for(algorithm))


def check_trains(algorithm, make_world):
    with train_briefly(algorithm, make_world) as agent:
        world = make_world()
        observation, _ = world.reset(seed=0)
        assert world.action_space.contains(agent.predict(observation))
        assert agent._trainer.env.fault_counts.sum() == 0


def check_refused(algorithm, make_world):
    with pytest.raises(ValueError, match=r"Algorithm|action") as caught:
        rein.make(algorithm, env=make_world)
    assert "\n" not in str(caught.value)
    assert ": " in str(caught.value)


# The quick part: some observations with one algorithm each, and some actions.

QUICK = {
    "discrete": "ppo",
    "multi-discrete matrix": "dqn",
    "multi-binary": "ppo",
    "bools": "td3",
    "large whole numbers": "ppo",
    "image, channels last": "ppo",
    "small image": "dqn",
    "grid of codes": "ppo",
    "dict": "ppo",
    "goal": "td3",
}


@pytest.mark.parametrize(("name", "algorithm"), QUICK.items())
def test_observations_are_trained_on(name, algorithm):
    check_trains(algorithm, observing(algorithm, name))


@pytest.mark.parametrize("name", ["discrete from 5", "box without bounds", "multi-binary", "dict of both"])
def test_actions_are_taken_or_refused_before_training(name):
    def make_world():
        return World(VECTOR, ACTIONS[name])

    check_trains("sac" if "both" in name else "ppo", make_world)
    for algorithm in ("dqn", "td3"):
        if not takes(algorithm, ACTIONS[name]):
            check_refused(algorithm, make_world)


@pytest.mark.slow
@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_on_every_observation(algorithm, name):
    check_trains(algorithm, observing(algorithm, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_or_refuses_every_action(algorithm, name):
    def make_world():
        return World(VECTOR, ACTIONS[name])

    check = check_trains if takes(algorithm, ACTIONS[name]) else check_refused
    check(algorithm, make_world)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppg", "trac", "ddpg", "mpo", "oac", "qrsac", "ddqn"])
@pytest.mark.parametrize("name", ["dict", "image, channels last", "discrete"])
def test_other_algorithms_encode_alike(algorithm, name):
    check_trains(algorithm, observing(algorithm, name))


KNOWN = {
    "FrozenLake-v1": "discrete",
    "Taxi-v4": "discrete",
    "Blackjack-v1": "discrete",
    "MiniGrid-Empty-5x5-v0": "discrete",
    "ALE/Pong-v5": "discrete",
    "ALE/Breakout-v5": "discrete",
    "CarRacing-v3": "continuous",
    "rein/Reach-v0": "continuous",
    "boards/tic_tac_toe": "discrete",
    "dm_control/cartpole-swingup": "continuous",
    "CartPole-v1": "discrete",
    "Pendulum-v1": "continuous",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_known_environments(algorithm, name):
    is_continuous = KNOWN[name] == "continuous"
    if (algorithm == "dqn" and is_continuous) or (algorithm == "td3" and not is_continuous):
        check_refused(algorithm, name)
        return
    with train_briefly(algorithm, name) as agent:
        assert agent._trainer.env.fault_counts.sum() == 0


@pytest.mark.slow
def test_ppo_puts_nothing_between_the_convolutions_of_atari_and_its_heads():
    # With layers of tanh there, values became the same in all states.
    with rein.make("ppo", env="ALE/Pong-v5") as agent:
        algorithm = agent._trainer.algorithm
        sizes = [sum(weight.numel() for weight in part.parameters()) for part in _heads(algorithm)]
    assert sizes == [256 * 6 + 6, 256 + 1]


def _heads(algorithm):
    names = ("ActorDistributionNetwork", "ValueNetwork")
    return [next(one for one in algorithm.modules() if type(one).__name__ == name) for name in names]


class Masked(gym.Env):
    """Five actions of which two are valid, others every step; tells them in one of three ways."""

    def __init__(self, way="info"):
        self.way = way
        self.action_space = spaces.Discrete(5, start=1)
        mask = spaces.MultiBinary(5)
        self.observation_space = spaces.Dict(observation=VECTOR, action_mask=mask) if way == "key" else VECTOR
        self.illegal = 0
        if way == "method":
            self.action_masks = lambda: self.mask

    def _tell(self):
        self.mask = np.zeros(5, np.int8)
        self.mask[self.np_random.choice(5, 2, replace=False)] = 1
        observation = np.zeros(3, np.float32)
        info = {"action_mask": self.mask} if self.way == "info" else {}
        return ({"observation": observation, "action_mask": self.mask} if self.way == "key" else observation), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._tell()

    def step(self, action):
        if not self.mask[action - 1]:
            raise ValueError(f"action {action} is not valid")
        self.time += 1
        observation, info = self._tell()
        return observation, 1.0, self.time >= 9, False, info


@pytest.mark.parametrize(
    ("algorithm", "way"),
    [
        ("ppo", "info"),
        ("a2c", "key"),
        ("dqn", "method"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in [("sac", "info"), ("ppg", "method"), ("trac", "key"), ("muzero", "info")]
        ),
    ],
)
def test_no_invalid_action_is_ever_taken(algorithm, way):
    with train_briefly(algorithm, lambda: Masked(way), 150) as agent:
        assert agent._trainer.env.fault_counts.sum() == 0
        result = agent.evaluate(3)
        assert result.mean == 9
        assert agent.predict(np.zeros(3), action_mask=[0, 0, 1, 0, 0]) == 3
        if way != "key":
            with pytest.raises(ValueError, match=r'add action_mask=info\["action_mask"\]'):
                agent.predict(np.zeros(3))


def test_masks_of_algorithms_that_take_none_are_told(caplog):
    with rein.make("ppo", env=Masked, parts=["encoding"]):
        pass
    assert "tells which actions are valid, which is ignored" in caplog.text


def test_spaces_without_a_fixed_size_are_refused_with_what_to_do():
    for space in (spaces.Text(5), spaces.Sequence(CHOICE), spaces.Graph(VECTOR, None)):
        with pytest.raises(TypeError, match="convert it with a wrapper") as caught:
            rein.make("ppo", env=lambda space=space: World(space, CHOICE))
        assert "\n" not in str(caught.value)


def test_an_instance_is_copied_and_stays_as_it_is():
    world = World(VECTOR, CHOICE)
    with train_briefly("ppo", world) as agent:
        assert agent._trainer.env.batch_size == 2
        agent.evaluate(2)
    assert world._time == 0


def test_an_instance_that_cannot_be_copied_is_refused_with_what_to_do():
    world = World(VECTOR, CHOICE)
    world.held = (one for one in ())
    with pytest.raises(ValueError, match="give its class, or a function"):
        rein.make("ppo", env=world)


def test_a_vector_environment_is_trained_in_itself():
    batch = gym.vector.SyncVectorEnv([lambda: World(VECTOR, CHOICE)] * 3)
    with rein.make("a2c", env=batch) as agent:
        agent.train(60)
        assert agent._trainer.env.batch_size == 3
        with pytest.raises(ValueError, match="in use for training"):
            agent.evaluate(3)


def test_a_vector_environment_may_be_given_with_what_follows_from_it():
    batch = gym.vector.SyncVectorEnv([lambda: World(VECTOR, CHOICE)] * 3)
    with rein.make("ppo", env=batch, evaluate=False, num_parallel_environments=3) as agent:
        agent.train(num_env_steps=30)
    with pytest.raises(ValueError, match="SyncVectorEnv has 3 worlds, but 4 were asked for"):
        rein.make("ppo", env=batch, settings={"create_environment.num_parallel_environments": 4})


class Succeeding(World):
    """Says at each step whether it succeeded, and declares nothing."""

    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, {**info, "is_success": self._time >= 7})


def test_success_is_counted_without_a_declaration():
    with rein.make("ppo", env=lambda: Succeeding(VECTOR, CHOICE)) as agent:
        assert agent.evaluate(3).successes.tolist() == [1, 1, 1]


class SucceedingAtTheEnd(World):
    """Says only at the end of an episode whether it succeeded: the second does and those after it, the third is mute."""

    episodes = 0

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            self.episodes += 1
            if self.episodes != 3:
                info = {**info, "is_success": self.episodes > 1}
        return observation, reward, terminated, truncated, info


def test_success_told_only_at_the_end_of_an_episode_is_counted():
    with rein.make("ppo", env=lambda: SucceedingAtTheEnd(VECTOR, CHOICE), num_workers=1) as agent:
        policy = agent._policy
        with policy.make_environment(1, 0, backend="sync", count_successes=True) as env, Run(seed=0):
            result = evaluate(policy.algorithm, env, 4)
        assert result.successes.tolist() == [0, 1, 0, 1]
        assert agent.evaluate(3).successes.tolist() == [0, 0, 0]  # The first episode of each of three worlds.


def test_success_is_none_where_no_world_speaks_of_it():
    with rein.make("ppo", env=lambda: World(VECTOR, CHOICE)) as agent:
        result = agent.evaluate(2)
        assert result.successes is None
        assert "success_rate" not in result.to_json()
