"""What acts in a model: our policy, asked with arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from rein.compat.sb3.run import ModelTrainer
from rein.compat.sb3.training_batch import policy_actions
from rein.config import Configs, config, fresh_configs, install_name_resolver, use_configs
from rein.framework import RLAlgorithm, TrainerConfig
from rein.runtime.run import Run
from rein.specs import spec_from_space
from rein.training.construction import WorldSpecs, build_algorithm
from rein.training.prediction import Predictor


class Acting:
    """A policy: `predict`, and all that its module has."""

    def __init__(
        self, algorithm: RLAlgorithm, specs: WorldSpecs, configs: Configs, run: Run, sampled_share: Callable[[], float]
    ) -> None:
        """Keeps the parts.

        Args:
            algorithm: with its networks.
            specs: of the worlds.
            configs: in force while it acts.
            run: whose progress schedules ask for.
            sampled_share: of the actions of a policy that is not deterministic, which are drawn.
        """
        self.algorithm = algorithm
        self._configs, self._run = configs, run
        self.sampled_share = sampled_share
        self._predictor = Predictor(algorithm, specs.observation, specs.action, specs.fitted_from)

    @classmethod
    def of_trainer(cls, trainer: ModelTrainer, sampled_share: Callable[[], float]) -> "Acting":
        """The policy that a trainer trains."""
        return cls(trainer.algorithm, trainer.specs, trainer.configs, trainer.run, sampled_share)

    @classmethod
    def without_world(
        cls,
        settings: Callable[[], dict[str, Any]],
        observation_space: Any,
        action_space: Any,
        seed: int,
        sampled_share: Callable[[], float],
    ) -> "Acting":
        """A policy that only acts.

        Args:
            settings: gives them by name.
            observation_space: of one world.
            action_space: of one world.
            seed: of what it draws.
            sampled_share: see the constructor.
        """
        specs = WorldSpecs(spec_from_space(observation_space), spec_from_space(policy_actions(action_space)))
        run = Run(seed=seed)
        with fresh_configs() as configs, run:
            install_name_resolver()
            config(settings())
            algorithm = build_algorithm(TrainerConfig(root_dir=""), None, for_training=False, specs=specs)
        return cls(algorithm, specs, configs, run, sampled_share)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """The action for an observation, or a batch of them, and None; see `BaseAlgorithm.predict`."""
        algorithm: Any = self.algorithm
        before = algorithm._epsilon_greedy
        algorithm._epsilon_greedy = 0.0 if deterministic else self.sampled_share()
        try:
            with use_configs(self._configs), self._run:
                return np.asarray(self._predictor.act(observation)), None
        finally:
            algorithm._epsilon_greedy = before

    def rates(self) -> dict[str, float]:
        """Learning rate and number of updates, for reports."""
        with self._run:
            rates = [rate for one in self.algorithm.optimizers() for rate in one.learning_rates()]
        return {"learning_rate": rates[0]} if rates else {}

    @property
    def module(self) -> nn.Module:
        """The networks and what belongs to them."""
        return self.algorithm

    def __getattr__(self, name: str) -> Any:
        if name == "algorithm":
            raise AttributeError(name)
        return getattr(self.algorithm, name)

    def __repr__(self) -> str:
        return repr(self.algorithm)
