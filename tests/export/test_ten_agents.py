"""Agents of many kinds, exported in both formats and compared with `predict` over 1,000 steps."""

from pathlib import Path
from typing import Any

import pytest

import rein
from rein.transforms import ObservationNormalizer

AGENTS: dict[str, dict[str, Any]] = {
    "multilayer perceptron, discrete (PPO)": {"algorithm": "ppo", "env": "CartPole-v1"},
    "convolutions and a stack of four frames (DQN)": {
        "algorithm": "dqn",
        "env": "ALE/Pong-v5",
        "initial_collect_steps": 64,
    },
    "memory (recurrent PPO)": {"algorithm": "ppo_recurrent_cartpole"},
    "memory (recurrent A2C)": {"algorithm": "a2c_lstm_recall"},
    "normalised observations (PPO)": {
        "algorithm": "ppo",
        "env": "Hopper-v5",
        "settings": {"TrainerConfig.data_transformer_ctor": ObservationNormalizer},
    },
    "squashed (SAC)": {"algorithm": "sac", "env": "Pendulum-v1", "initial_collect_steps": 64},
    "discrete (SAC)": {"algorithm": "sac", "env": "CartPole-v1", "initial_collect_steps": 64},
    "mixed actions (SAC)": {"algorithm": "sac_mixed_moving", "initial_collect_steps": 64},
    "values (DQN)": {"algorithm": "dqn", "env": "CartPole-v1", "initial_collect_steps": 64},
    "deterministic (TD3)": {"algorithm": "td3", "env": "Pendulum-v1", "initial_collect_steps": 64},
    "Dict observations (DDPG with hindsight)": {"algorithm": "ddpg_hindsight_reach"},
    "actions kept over steps (TAAC)": {"algorithm": "taac", "env": "Pendulum-v1", "initial_collect_steps": 64},
    "memory with reads, and noise (MERLIN)": {"algorithm": "merlin", "env": "rein/Recall-v0"},
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", AGENTS)
def test_an_export_acts_like_the_agent(kind: str, tmp_path: Path) -> None:
    asked = dict(AGENTS[kind])
    settings = {"TrainerConfig.evaluate": False, **asked.pop("settings", {})}
    with rein.make(asked.pop("algorithm"), asked.pop("env", None), settings=settings, **asked) as agent:
        agent.train(256, progress=False)
        for name in ("policy.onnx", "policy.pt2"):
            parity = agent.export(tmp_path / name, check_steps=1000).parity
            assert parity is not None
            print(f"{kind}: {name}: {parity.describe()}")
            assert parity.steps == 2000
            assert parity.differing_choices == 0
            assert parity.largest_difference <= 1e-5 * max(1.0, parity.largest_value)
