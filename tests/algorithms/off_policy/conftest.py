"""Networks of one weight each, sequences by hand, one update, and training on toy worlds."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.data_structures import Experience, StepType, TimeStep
from rein.distributions import DiagNormal
from rein.envs import create_environment
from rein.framework import Batch, RLAlgorithm, TrainerConfig
from rein.framework.steps import time_major
from rein.framework.updating.gradients import train_info, valid_masks
from rein.networks import Network
from rein.runtime.run import Run
from rein.training.construction import build_algorithm
from rein.training.evaluation import evaluate


class ProportionalActor(Network):
    """The action is a weight times the observation."""

    def __init__(
        self, input_tensor_spec: Any, action_spec: Any = None, weight: float = 0.5, name: str = "actor"
    ) -> None:
        super().__init__(input_tensor_spec, name=name)
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Any, Any]:
        return self.weight * inputs, state


class NormalActor(ProportionalActor):
    """Normal around a weight times the observation, with a learnt deviation."""

    def __init__(self, input_tensor_spec: Any, action_spec: Any = None, weight: float = 0.5, std: float = 0.1) -> None:
        super().__init__(input_tensor_spec, action_spec, weight)
        self.std = nn.Parameter(torch.tensor(std))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Any, Any]:
        return DiagNormal(self.weight * inputs, self.std.expand(inputs.shape)), state


class LinearCritic(Network):
    """Q(s, a) = u s + v a."""

    def __init__(self, input_tensor_spec: Any, u: float = 1.0, v: float = 2.0, name: str = "critic") -> None:
        super().__init__(input_tensor_spec, name=name)
        self.u, self.v = nn.Parameter(torch.tensor(u)), nn.Parameter(torch.tensor(v))

    def forward(self, inputs: tuple[Tensor, Tensor], state: Any = ()) -> tuple[Tensor, Any]:
        observation, action = inputs
        return (self.u * observation + self.v * action).squeeze(-1), state


class OneWeight:
    """The networks above, as a fixture can hand them out."""

    actor, normal_actor, critic = ProportionalActor, NormalActor, LinearCritic


@pytest.fixture
def one_weight() -> type[OneWeight]:
    return OneWeight


@pytest.fixture
def sequence() -> Callable[..., TimeStep]:
    """Makes time steps [B, T, ...] from lists [B][T]."""

    def make(observation: Any, reward: Any, discount: Any = None, step_type: Any = None) -> TimeStep:
        observation, reward = torch.tensor(observation), torch.tensor(reward)
        shape = observation.shape[:2]
        return TimeStep(
            step_type=torch.full(shape, int(StepType.MID), dtype=torch.int32)
            if step_type is None
            else torch.tensor(step_type, dtype=torch.int32),
            reward=reward,
            discount=torch.ones(shape) if discount is None else torch.tensor(discount),
            observation=observation,
            env_id=torch.zeros(shape, dtype=torch.int64),
        )

    return make


@pytest.fixture
def update() -> Callable[..., Any]:
    """Makes one update from time steps and rollout infos [B, T, ...]; returns (info, losses averaged)."""

    def make(algorithm: RLAlgorithm, time_step: TimeStep, rollout_info: Any) -> tuple[Any, Any]:
        batch = Batch(Experience(time_step=time_step, rollout_info=rollout_info))
        info = train_info(algorithm, batch, algorithm.learning.settings)
        loss_info = algorithm.calc_loss(info)
        valid = valid_masks(time_major(time_step.step_type))
        averaged, _ = algorithm.update_with_gradient(loss_info, valid)
        algorithm.after_update((), info)
        return info, averaged

    return make


@pytest.fixture
def train_toy(tmp_path: Any) -> Callable[..., tuple[RLAlgorithm, float]]:
    """Trains on a toy world; returns the algorithm and its mean return in evaluation."""

    def train(
        ctor: Any, env_name: str, iterations: int, num_envs: int = 4, **settings: Any
    ) -> tuple[RLAlgorithm, float]:
        env_kwargs = settings.pop("env_kwargs", None)
        episodes = settings.pop("episodes", 40)
        defaults = {
            "num_iterations": iterations,
            "unroll_length": 1,
            "mini_batch_length": 2,
            "mini_batch_size": 64,
            "num_updates_per_train_iter": 1,
            "whole_replay_buffer_training": False,
            "clear_replay_buffer": False,
            "initial_collect_steps": 100,
            "replay_buffer_length": iterations + 10,
        }
        run = Run(tmp_path, seed=0)
        with run:
            run.seed_everything(False)
            env = create_environment(env_name, num_envs, backend="sync", seed=0, env_kwargs=env_kwargs)
            config = TrainerConfig(str(tmp_path), algorithm_ctor=ctor, random_seed=0, **{**defaults, **settings})
            algorithm = build_algorithm(config, env)
            for iteration in range(iterations):
                run.progress = iteration / iterations
                algorithm.train_iter()
            eval_env = create_environment(env_name, 10, backend="sync", seed=1, env_kwargs=env_kwargs)
            return algorithm, evaluate(algorithm, eval_env, episodes).mean

    return train
