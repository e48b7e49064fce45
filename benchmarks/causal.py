"""Causal cloning beside cloning, from an expert whose actions carry noise that lasts for two steps.

    rein train sac_pendulum --dir runs/expert
    python benchmarks/causal.py runs/expert --trajectories 10 50 --seeds 0 1 2

The expert balances Pendulum-v1 from near the top, where noise is what moves the state, so that observations give the noise
away. Both learners have the same networks, data and number of updates; `bc` minimises the squared error. The result is the
mean squared error to what the expert would have done without noise, at observations of 50 further trajectories: those of the
noisy expert (`value`) and of the noiseless one (`calm`).
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from measuring import emit
from numpy.typing import NDArray

import rein
from rein.networks import ActorNetwork, EncodingNetwork
from rein.replay.datasets import DataSet
from rein.training.recording import Manner, record_episodes

LAYERS = (64, 64)
HELD_OUT = 50


class Balancing(gym.Wrapper[Any, Any, Any, Any]):
    """Pendulum-v1 that starts near the top."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts within 0.3 radians of the top, at 0.3 radians per second at most."""
        return super().reset(seed=seed, options={"x_init": 0.3, "y_init": 0.3})


def balancing() -> gym.Env[Any, Any]:
    """The world."""
    return Balancing(gym.make("Pendulum-v1"))


class Comparison:
    """One expert, and what learners of it do."""

    def __init__(self, expert: Path, noise: float, updates: int, is_hanging: bool) -> None:
        """Loads the expert.

        Args:
            expert: directory of its run.
            noise: deviation of each draw, as a share of half the range of the action.
            updates: of each learner.
            is_hanging: whether episodes start anywhere, as in Pendulum-v1, instead of near the top.
        """
        self.expert = rein.load(expert) if is_hanging else rein.load(expert, env=balancing)
        self.manner, self.updates = Manner("lasting_noise", noise), updates

    def run(self, trajectories: int, seed: int, folder: Path) -> dict[str, tuple[float, float]]:
        """Mean squared errors by algorithm, at noisy and at calm observations."""
        data, noisy, calm = (folder / f"{name}-{trajectories}-{seed}.data" for name in ("data", "noisy", "calm"))
        record_episodes(self.expert.policy, data, trajectories, self.manner, seed)
        record_episodes(self.expert.policy, noisy, HELD_OUT, self.manner, seed + 10_000)
        record_episodes(self.expert.policy, calm, HELD_OUT, Manner("deterministic"), seed + 10_000)
        return {name: self._errors(self._learner(name, data, seed), noisy, calm) for name in ("bc", "causal_bc")}

    def _learner(self, name: str, data: Path, seed: int) -> Any:
        actor = partial(ActorNetwork, fc_layer_params=LAYERS)
        settings: dict[str, dict[str, Any]] = {
            "bc": {"BcAlgorithm.actor_network_cls": actor},
            "causal_bc": {
                "CausalBcAlgorithm.actor_network_cls": actor,
                "CausalBcAlgorithm.discriminator_network_cls": partial(EncodingNetwork, fc_layer_params=LAYERS),
            },
        }
        agent = rein.make(name, data=data, seed=seed, settings=settings[name])
        agent.train(updates=self.updates)
        return agent

    def _errors(self, agent: Any, noisy: Path, calm: Path) -> tuple[float, float]:
        return self._error(agent, noisy), self._error(agent, calm)

    def _error(self, agent: Any, path: Path) -> float:
        observation: NDArray[np.float32] = np.array(DataSet.open(path).columns["observation"])
        return float(np.square(agent.predict(observation) - self.expert.predict(observation)).mean())


def main() -> None:
    """Runs all sizes and seeds; prints a result line each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("expert", type=Path, help="directory of the expert's run")
    parser.add_argument("--trajectories", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--hanging", action="store_true", help="start anywhere, as Pendulum-v1 does")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    comparison = Comparison(arguments.expert, arguments.noise, arguments.updates, arguments.hanging)
    for trajectories in arguments.trajectories:
        sums = {"bc": np.zeros(2), "causal_bc": np.zeros(2)}
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as folder:
                for name, errors in comparison.run(trajectories, seed, Path(folder)).items():
                    sums[name] += errors
                    emit(f"causal/{name}/{trajectories}/{seed}", "squared error", value=errors[0], calm=errors[1])
        ratio = sums["causal_bc"] / sums["bc"]
        emit(f"causal/ratio/{trajectories}", "of bc", value=float(ratio[0]), calm=float(ratio[1]))


if __name__ == "__main__":
    main()
