"""Agents with networks, losses, functions and worlds of one's own: saved by name, or asked for again."""

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rein
from rein.config.errors import ConfigError, SavedConfigError, UntrustedCodeError

NAME = "own_parts_of_an_agent_for_tests"
CODE = """
import gymnasium as gym
import numpy as np
import torch
from rein.algorithms.losses import PPOLoss
from rein.networks import ActorDistributionNetwork

IMPORTED = True

def half_tanh(x):
    return 0.5 * torch.tanh(x)

class Loss(PPOLoss):
    pass

class Actor(ActorDistributionNetwork):
    pass

class World(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.np_random.random(3, np.float32), {}
    def step(self, action):
        self.count += 1
        return self.np_random.random(3, np.float32), float(action), self.count == 5, False, {}

def make_world():
    return World()
"""
SMALL: dict[str, Any] = {"unroll_length": 8, "mini_batch_size": 16, "num_updates_per_train_iter": 1}
OBSERVATIONS = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of the user's."""
    (tmp_path / f"{NAME}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


def make(env: Any, **settings: Any) -> Any:
    names = {name.replace("__", "."): value for name, value in settings.items()}
    return rein.make("ppo", env=env, settings={"TrainerConfig.evaluate": False, **names}, **SMALL)


def test_own_parts_are_found_by_their_names(
    parts: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make(
        parts.make_world,
        ActorDistributionNetwork__activation=parts.half_tanh,
        ValueNetwork__activation=torch.sigmoid,
        PPOAlgorithm__loss_class=parts.Loss,
        PPOAlgorithm__actor_network_ctor=parts.Actor,
    )
    agent.train(32)
    path = agent.save(tmp_path / "agent")
    assert "was saved without" not in caplog.text
    expected = agent.predict(OBSERVATIONS)
    loaded = rein.load(path)
    np.testing.assert_array_equal(loaded.predict(OBSERVATIONS), expected)
    assert type(loaded.algorithm._loss) is parts.Loss
    loaded.train(32)
    loaded.close()

    del sys.modules[NAME]
    with pytest.raises(UntrustedCodeError, match=rf"half_tanh would import the module {NAME}"):
        rein.load(path)
    assert NAME not in sys.modules
    trusted = rein.load(path, trust=True)
    np.testing.assert_array_equal(trusted.predict(OBSERVATIONS), expected)

    (tmp_path / f"{NAME}.py").unlink()
    sys.modules.pop(NAME)
    with pytest.raises(SavedConfigError, match=rf"{NAME}.\w+ cannot be imported"):
        rein.load(path, trust=True)


def test_save_says_what_must_be_supplied(parts: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)

    agent = make(lambda: parts.World(), ActorDistributionNetwork__activation=local)
    agent.train(32)
    with caplog.at_level(logging.WARNING):
        path = agent.save(tmp_path / "agent")
    assert 'env=..., supply={"ActorDistributionNetwork.activation": ...})' in caplog.text
    with pytest.raises(ConfigError, match=r"supply=\{name: value\}: ActorDistributionNetwork\.activation = .*local"):
        rein.load(path)
    supply = {"ActorDistributionNetwork.activation": local}
    with pytest.raises(ValueError, match=r"which cannot be saved: give it again, rein\.load\(path, env=\.\.\.\)"):
        rein.load(path, supply=supply)
    loaded = rein.load(path, env=parts.World, supply=supply)
    np.testing.assert_array_equal(loaded.predict(OBSERVATIONS), agent.predict(OBSERVATIONS))
    shortened = rein.load(path, env=parts.World, supply={"activation": local})
    np.testing.assert_array_equal(shortened.predict(OBSERVATIONS), agent.predict(OBSERVATIONS))
    loaded.train(32)
    with caplog.at_level(logging.WARNING):
        again = loaded.save(tmp_path / "again")
    rein.load(again, env=parts.World, supply=supply).close()
    loaded.close()


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "torch.utils.cpp_extension:load", "pty:spawn"])
def test_what_anybody_could_name_needs_trust(name: str, parts: ModuleType, tmp_path: Path) -> None:
    agent = make(parts.make_world)
    path = agent.save(tmp_path / "agent")
    agent.close()
    importlib.import_module(name.partition(":")[0])
    index = path / "config" / "overrides.json"
    index.write_text(index.read_text().replace(f"{NAME}:make_world", name))
    with pytest.raises(SavedConfigError, match=name.partition(":")[0]):
        rein.load(path)


def test_callbacks_that_cannot_be_saved_do_not_keep_an_agent_from_acting(parts: ModuleType, tmp_path: Path) -> None:
    from rein.training.callbacks import Callback

    class Local(Callback):
        pass

    agent = make(parts.World, create_callbacks__callbacks=[Local()])
    path = agent.save(tmp_path / "agent")
    agent.close()
    loaded = rein.load(path)
    assert loaded.predict(OBSERVATIONS).shape == (16,)
    with pytest.raises(ConfigError, match=r"create_callbacks\.callbacks"):
        loaded.train(8)
    rein.load(path, supply={"callbacks": [Local()]}).train(8)


@pytest.mark.parametrize("algorithm", ["ppo", "sac", "dqn", "ddpg"])
def test_actions_are_drawn_as_in_training(algorithm: str, tmp_path: Path) -> None:
    env = "Pendulum-v1" if algorithm in ("sac", "ddpg") else "CartPole-v1"
    agent = rein.make(algorithm, env=env, settings={"TrainerConfig.evaluate": False})
    loaded = rein.load(agent.save(tmp_path / "agent"))
    space = gym.make(env).action_space
    shape = {"CartPole-v1": 4, "Pendulum-v1": 3}[env]
    observation = np.full(shape, 0.01, np.float32)
    for one in (agent, loaded):
        before = torch.get_rng_state(), np.random.get_state()[1]
        drawn = {str(one.predict(observation, deterministic=False)) for _ in range(60)}
        assert len(drawn) > 1
        assert space.contains(one.predict(observation, deterministic=False))
        assert len({str(one.predict(observation)) for _ in range(5)}) == 1
        batch = one.predict(np.tile(observation, (64, 1)), deterministic=False)
        assert len({str(row) for row in batch}) > 1
        assert torch.equal(before[0], torch.get_rng_state())
        np.testing.assert_array_equal(before[1], np.random.get_state()[1])
    agent.close()


def test_an_observation_of_nan_is_refused() -> None:
    agent = rein.make("ppo", env="CartPole-v1", settings={"TrainerConfig.evaluate": False})
    with pytest.raises(ValueError, match=r"observation is NaN at \(2,\): no action answers that"):
        agent.predict(np.array([0, 1, np.nan, 0], np.float32))
    with pytest.raises(ValueError, match=r"observation is NaN at \(1, 3\)"):
        agent.predict(np.array([[0, 1, 0, 0], [0, 0, 0, np.nan]], np.float32))
    assert agent.predict(np.array([0, 1, np.inf, 0], np.float32)) in (0, 1)
    agent.close()
