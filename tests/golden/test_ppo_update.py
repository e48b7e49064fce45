"""One PPO iteration from fixed weights against the same computation written in plain torch."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import PPOAlgorithm
from rein.data_structures import StepType
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import ActorDistributionNetwork, ValueNetwork
from rein.optimizers import Adam

GAMMA, LAMBDA, CLIP, ENTROPY, VALUE_WEIGHT, LR, MAX_NORM = 0.9, 0.8, 0.1, 0.03, 0.7, 0.02, 0.5
STEPS, PASSES = 7, 3


class World(gym.Env[Any, Any]):
    """Episodes of three steps, ended in turn by a terminal state and a time limit."""

    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self) -> None:
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.episodes = 0, self.episodes + 1
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        is_over, terminates = self.t == 3, self.episodes % 2 == 1
        observation = self.np_random.normal(size=3).astype(np.float32)
        return observation, float(action) - self.t, is_over and terminates, is_over and not terminates, {}


def mlp(network: nn.Module) -> list[Tensor]:
    """Copies of all weights and biases of a network, in order."""
    return [p.detach().clone().requires_grad_() for p in network.parameters()]


def forward(params: list[Tensor], x: Tensor) -> Tensor:
    for weight, bias in zip(params[:-2:2], params[1:-2:2], strict=True):
        x = torch.tanh(x @ weight.T + bias)
    return x @ params[-2].T + params[-1]


def advantages_of(reward: Tensor, discount: Tensor, step_type: Tensor, value: Tensor) -> Tensor:
    """Generalized advantages by the definition, one environment and one step at a time; all [T + 1, B]."""
    steps, batch = reward.shape[0] - 1, reward.shape[1]
    result = torch.zeros(steps, batch)
    for b in range(batch):
        running = 0.0
        for t in reversed(range(steps)):
            if step_type[t, b] == StepType.LAST:
                running = 0.0
                continue
            gamma = GAMMA * discount[t + 1, b]
            error = reward[t + 1, b] + gamma * value[t + 1, b] - value[t, b]
            follows = step_type[t + 1, b] != StepType.LAST
            running = error + (gamma * LAMBDA * running if follows else 0.0)
            result[t, b] = running
    return result


def plain_update(experience: Any, actor: list[Tensor], critic: list[Tensor]) -> None:
    """The passes over the rollout, all of it at once, in plain torch."""
    info = experience.rollout_info
    value = info.value.detach()
    advantages = advantages_of(info.reward, info.discount, info.step_type, value)
    returns = advantages + value[:-1]
    observation, action = experience.observation[:-1], info.action[:-1]
    mask = (info.step_type[:-1] != StepType.LAST).float()
    old = torch.log_softmax(forward(actor, observation), -1).gather(-1, action[..., None])[..., 0].detach()
    params = actor + critic
    optimizer = torch.optim.Adam(params, lr=LR)
    normalized = (advantages - advantages.mean()) / (advantages.std(unbiased=False) + 1e-8)
    for _ in range(PASSES):
        log_probs = torch.log_softmax(forward(actor, observation), -1)
        log_prob = log_probs.gather(-1, action[..., None])[..., 0]
        ratio = torch.exp(log_prob - old)
        policy = -torch.min(ratio * normalized, ratio.clamp(1 - CLIP, 1 + CLIP) * normalized)
        squared = (forward(critic, observation)[..., 0] - returns) ** 2
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        loss = ((policy + VALUE_WEIGHT * squared - ENTROPY * entropy) * mask).sum() / mask.numel()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
        optimizer.step()


@pytest.mark.parametrize("seed", [0, 1])
def test_an_iteration_is_what_plain_torch_computes(seed: int) -> None:
    torch.manual_seed(seed)
    env = create_environment(World, 4, backend="sync", seed=seed)
    loss = partial(
        PPOLoss,
        gamma=GAMMA,
        td_lambda=LAMBDA,
        importance_ratio_clipping=CLIP,
        entropy_regularization=ENTROPY,
        td_loss_weight=VALUE_WEIGHT,
    )
    alg = PPOAlgorithm(
        env.observation_spec,
        env.action_spec,
        actor_network_ctor=partial(ActorDistributionNetwork, fc_layer_params=(8, 8), activation=torch.tanh),
        value_network_ctor=partial(ValueNetwork, fc_layer_params=(8,), activation=torch.tanh),
        env=env,
        config=TrainerConfig("", unroll_length=STEPS, num_updates_per_train_iter=PASSES),
        loss_class=loss,
        optimizer=Adam(lr=LR, gradient_clipping=MAX_NORM, clip_by_global_norm=True),
    )
    actor, critic = mlp(alg._actor_network), mlp(alg._value_network)
    collected: list[Any] = []
    unroll = alg.unroll
    alg.unroll = lambda length: collected.append(unroll(length)) or collected[-1]  # type: ignore[method-assign]
    assert alg.train_iter() == STEPS * 4 * PASSES
    experience = collected[0]
    before = [p.clone() for p in actor + critic]
    # The world does what the test is about: both kinds of endings, inside and between.
    ends = experience.step_type == StepType.LAST
    assert {0.0, 1.0} <= set(experience.time_step.discount[ends].tolist())
    plain_update(experience, actor, critic)
    for expected, got, old in zip(actor + critic, alg.parameters(), before, strict=True):
        assert not torch.allclose(got, old, atol=1e-4)
        assert torch.allclose(got, expected, atol=2e-6)
