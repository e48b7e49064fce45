"""The Python API: the few lines that a newcomer writes, and what can go wrong in them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein import api
from rein.cli import main

SMALL: dict[str, Any] = {
    "unroll_length": 8,
    "mini_batch_size": 32,
    "num_updates_per_train_iter": 1,
    "settings": {"TrainerConfig.evaluate": False, "TrainerConfig.summary_interval": 1},
}


@pytest.fixture(scope="module")
def agent() -> api.AgentHandle:
    agent = api.make("ppo", env="CartPole-v1", seed=1, **SMALL)
    agent.train(128)
    return agent


def test_an_agent_trains_evaluates_and_continues(agent: api.AgentHandle) -> None:
    before = agent.train(64).progress
    after = agent.train(64).progress
    assert before.fraction == after.fraction == 1.0
    assert after.env_steps >= before.env_steps + 64
    result = agent.evaluate(7)
    assert len(result.returns) == 7
    np.testing.assert_array_equal(agent.evaluate(7).returns, result.returns)


def test_actions_fit_the_environment(agent: api.AgentHandle) -> None:
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    for _ in range(5):
        action = agent.predict(observation)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)
    batch = np.stack([observation, -observation, observation])
    actions = agent.predict(batch)
    assert actions.shape == (3,)
    assert actions[0] == actions[2] == agent.predict(observation)


def test_a_saved_agent_acts_alike_and_trains_further(agent: api.AgentHandle, tmp_path: Path) -> None:
    observations = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    path = agent.save(tmp_path / "agent")
    loaded = api.load(path)
    np.testing.assert_array_equal(loaded.predict(observations), agent.predict(observations))
    before = {one: one.stat().st_mtime_ns for one in path.rglob("*")}
    done = loaded.train(64).progress
    assert done.env_steps > 128
    assert {one: one.stat().st_mtime_ns for one in path.rglob("*")} == before
    with pytest.raises(ValueError, match="holds another run"):
        loaded.save(path)
    loaded.save(path, overwrite=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["agent"]
    again = api.load(path)
    np.testing.assert_array_equal(again.predict(observations), loaded.predict(observations))


def test_a_saved_agent_is_a_run(agent: api.AgentHandle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = agent.save(tmp_path / "agent")
    capsys.readouterr()
    assert main(["evaluate", str(path), "--episodes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"] == agent.evaluate(3).returns.tolist()
    assert main(["report", str(path)]) == 0


def test_a_run_directory_of_choice(tmp_path: Path) -> None:
    with api.make("ppo", env="CartPole-v1", directory=tmp_path / "run", **SMALL) as agent:
        agent.train(64, progress=True)
        assert agent.report().is_file()
    assert (tmp_path / "run/summaries/scalars.jsonl").stat().st_size > 0
    with pytest.raises(ValueError, match="holds another run"):
        api.make("ppo", env="CartPole-v1", directory=tmp_path / "run")
    with pytest.raises(ValueError, match="was closed"):
        agent.train(64)


class Swing(gym.Wrapper):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gym.make("Pendulum-v1", render_mode=render_mode, max_episode_steps=20))


@pytest.mark.parametrize("source", [Swing, lambda: gym.make("Pendulum-v1", max_episode_steps=20)])
def test_environments_by_class_and_by_function(source: Any, tmp_path: Path) -> None:
    agent = api.make("ppo", env=source, **SMALL)
    agent.train(64)
    path = agent.save(tmp_path / "agent")
    if source is Swing:  # Its name leads to it.
        loaded = api.load(path)
    else:
        with pytest.raises(ValueError, match="give it again"):
            api.load(path)
        loaded = api.load(path, env=source)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    action = loaded.predict(observation)
    assert action.shape == (1,)
    assert action.dtype == np.float32
    np.testing.assert_array_equal(action, agent.predict(observation))
    loaded.train(64)


class Mixed(gym.Env):
    """Observations and actions of several parts."""

    observation_space = gym.spaces.Dict(
        {"place": gym.spaces.Box(-1, 1, (2,)), "rest": gym.spaces.Tuple([gym.spaces.Discrete(3)])}
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, True, {}


def test_nested_observations_are_checked_by_part() -> None:
    from rein.specs import spec_from_space
    from rein.training.prediction import _is_batch, _to_tensors

    spec = spec_from_space(Mixed.observation_space)
    one = {"place": np.zeros(2), "rest": (1,)}
    many = {"place": np.zeros((4, 2)), "rest": (np.ones(4, int),)}
    assert not _is_batch(spec, _to_tensors(spec, one, "observation"))
    assert _is_batch(spec, _to_tensors(spec, many, "observation"))
    with pytest.raises(ValueError, match=r"observation lacks 'rest'"):
        _to_tensors(spec, {"place": np.zeros(2)}, "observation")
    with pytest.raises(ValueError, match=r"observation.place has shape \(3,\)"):
        _to_tensors(spec, {"place": np.zeros(3), "rest": (1,)}, "observation")
    with pytest.raises(ValueError, match="same batch size"):
        _is_batch(spec, _to_tensors(spec, {"place": np.zeros((4, 2)), "rest": (1,)}, "observation"))


def test_a_recurrent_policy_remembers_until_an_episode_starts() -> None:
    from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork

    networks = {
        "PPOAlgorithm.actor_network_ctor": ActorDistributionRNNNetwork,
        "PPOAlgorithm.value_network_ctor": ValueRNNNetwork,
        "TrainerConfig.mini_batch_length": 8,
        "TrainerConfig.mini_batch_size": 8,
        "TrainerConfig.unroll_length": 8,
        "TrainerConfig.evaluate": False,
    }
    agent = api.make("ppo", env="Pendulum-v1", settings=networks)
    assert agent.state is None
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    first = agent.predict(observation)
    state = agent.state
    second = agent.predict(observation)
    assert (first != second).all()
    np.testing.assert_array_equal(agent.predict(observation, state=state), second)
    np.testing.assert_array_equal(agent.predict(observation, episode_start=True), first)
    both = agent.predict(np.stack([observation, observation]))
    np.testing.assert_allclose(both[0], first, rtol=1e-5)
    mixed = agent.predict(np.stack([observation, observation]), episode_start=[True, False])
    np.testing.assert_allclose(mixed[0], first, rtol=1e-5)
    np.testing.assert_allclose(mixed[1], second, rtol=1e-5)
    with pytest.raises(ValueError, match="episode_start has shape"):
        agent.predict(observation, episode_start=[True, False])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "ppoo", "env": "CartPole-v1"}, "Did you mean 'ppo'"),
        ({"algorithm": "ppo", "env": "CartPol-v1"}, "Did you mean 'CartPole-v1'"),
        ({"algorithm": "ppo"}, "needs an environment"),
        ({"algorithm": "ppo", "env": "CartPole-v1", "unrol_length": 3}, "Did you mean 'unroll_length'"),
        ({"algorithm": "ppo", "env": "CartPole-v1", "mini_batch_size": 10**9}, "make it smaller"),
        ({"algorithm": "ppo", "env": "CartPole-v1", "device": "nonsense"}, "names no device"),
    ],
)
def test_mistakes_are_named_before_training(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        api.make(**arguments, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_environment_object_is_copied() -> None:
    with api.make("ppo", env=gym.make("CartPole-v1")) as agent:
        assert agent.algorithm.observation_spec.shape == (4,)


def test_wrong_numbers_are_refused(agent: api.AgentHandle) -> None:
    with pytest.raises(ValueError, match="num_env_steps is 0"):
        agent.train(0)
    with pytest.raises(ValueError, match="at least 1"):
        agent.evaluate(0)
    with pytest.raises(ValueError, match=r"observation has shape \(3,\)"):
        agent.predict(np.zeros(3))


def test_two_agents_live_side_by_side() -> None:
    first, second = (api.make("ppo", env="CartPole-v1", seed=4, **SMALL) for _ in range(2))
    first.train(64)
    first.train(64)
    second.train(64)
    np.random.seed(3)
    second.train(64)
    assert np.random.random() == np.random.RandomState(3).random()
    observations = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    np.testing.assert_array_equal(first.predict(observations), second.predict(observations))


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import gymnasium as gym\n"
        "from rein import api\n"
        "agent = api.make('ppo', env=lambda: gym.make('MountainCarContinuous-v0'), unroll_length=4,\n"
        "    mini_batch_size=16, settings={'TrainerConfig.evaluate': False})\n"
        "print(agent.train(32).progress.env_steps >= 32)\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "True", result.stderr


def test_parts_make_an_agent_that_is_saved_with_them(tmp_path: Path) -> None:
    parts = ["diayn(num_skills=3, extrinsic_coef=0.5)", "entropy_target=0.3"]
    with api.make("ppo", env="CartPole-v1", parts=parts, **SMALL) as agent:
        agent.train(128, progress=False)
        observations = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
        path = agent.save(tmp_path / "agent")
        loaded = api.load(path)
        assert type(loaded.algorithm).__name__ == "Agent"
        assert [name for name, _ in loaded.algorithm.named_parameters()] == [
            name for name, _ in agent.algorithm.named_parameters()
        ]
        assert loaded.predict(observations).shape == (8,)
        assert loaded.train(64, progress=False).progress.env_steps > 128
    record = json.loads((path / "run.json").read_text())
    assert record["parts"] == parts
    assert "DIAYNAlgorithm" in (path / "agent.json").read_text()


@pytest.mark.parametrize(
    ("algorithm", "parts", "message"),
    [
        ("ppo", ["rdn"], "Did you mean 'rnd'"),
        ("ppo", "rnd", "give a list of texts"),
        ("ppo", ["rnd=x"], "give a number"),
        ("dqn", ["entropy_target=1"], "has no action_distribution"),
    ],
)
def test_wrong_parts_are_refused_before_training(algorithm: str, parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        api.make(algorithm, env="CartPole-v1", parts=parts)


def test_predicted_actions_are_ready_for_the_world_and_nothing_is_learnt_from_asking() -> None:
    """Actions are clipped to the bounds, and what normalizes observations stays as training left it."""
    from rein.networks import NormalProjectionNetwork
    from rein.transforms import ObservationNormalizer

    settings = {
        "TrainerConfig.data_transformer_ctor": ObservationNormalizer,
        "ActorDistributionNetwork.continuous_projection_net_ctor": NormalProjectionNetwork,
    }
    with api.make("ppo", env="Pendulum-v1", **{**SMALL, "settings": settings}) as agent:
        algorithm = agent.algorithm
        with torch.no_grad():
            for parameter in algorithm.parameters():
                parameter.add_(1.0)
        before = {name: value.clone() for name, value in algorithm.data_transformer.state_dict().items()}
        actions = agent.predict(np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32))
        assert np.abs(actions).max() <= 2.0
        after = algorithm.data_transformer.state_dict()
        assert all(torch.equal(value, after[name]) for name, value in before.items())
        assert algorithm.training
