"""Updates of models are those that Stable-Baselines3 makes: its formulas, written out, give the same gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal
from torch.nn import functional

from rein import nest
from rein.compat.sb3 import PPO, SAC
from rein.compat.sb3.common.env_util import make_vec_env
from rein.data_structures import Experience, StepType
from rein.framework.updating.gradients import Batch


class Recorded:
    """A short training, of which every batch and its gradients are kept."""

    def __init__(self, model: Any, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parameters = dict(model.algorithm.named_parameters())
        self.batches: list[tuple[Experience, dict[str, Tensor], dict[str, Tensor], list[Tensor]]] = []
        self.noise: list[Tensor] = []
        learning = model.algorithm.learning
        compute = learning.compute_gradients
        draw = torch.randn_like

        def keep_noise(like: Tensor) -> Tensor:
            self.noise.append(draw(like))
            return self.noise[-1]

        def keep(batches: list[Batch]) -> Any:
            before = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
            self.noise.clear()
            found = compute(batches)
            names = {id(parameter): name for name, parameter in self.parameters.items()}
            owners = [names[id(parameter)] for parameter in learning.optimized()[1]]
            # They are clipped in place later on.
            values = {name: value.clone() for name, value in zip(owners, found.values, strict=True)}
            self.batches.append((batches[0].experience, before, values, list(self.noise)))
            return found

        monkeypatch.setattr(torch, "randn_like", keep_noise)
        monkeypatch.setattr(learning, "compute_gradients", keep)
        model.learn(steps)


def layers(weights: dict[str, Tensor], prefix: str, x: Tensor, count: int, activation: Any) -> Tensor:
    for layer in range(count):
        x = x @ weights[f"{prefix}.{layer}.weight"].mT + weights[f"{prefix}.{layer}.bias"]
        x = activation(x)
    return x


SMALL: dict[str, Any] = {"buffer_size": 300, "batch_size": 64, "policy_kwargs": {"net_arch": [16]}}


def sac_losses(weights: dict[str, Tensor], experience: Experience, noise: Tensor, noise_after: Tensor) -> list[Tensor]:
    """Their losses of actor, critics and temperature."""
    time_step = experience.time_step
    counts = (time_step.step_type[:, 0] != StepType.LAST).float()
    now, after = time_step.observation.unbind(1)

    def act(observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        hidden = layers(weights, "_actor_network.trunk.layers", observation, 1, torch.relu)
        mean, log_std = (
            functional.linear(hidden, weights[f"{head}.weight"], weights[f"{head}.bias"])
            for head in ("_actor_network.projections.0.mean", "_actor_network.projections.0.std")
        )
        normal = Normal(mean, log_std.clamp(-20, 2).exp())
        drawn = mean + normal.scale * noise
        action = torch.tanh(drawn)
        density: Any = normal.log_prob  # type: ignore[no-untyped-call]
        return action, (density(drawn) - torch.log(1 - action**2 + 1e-6)).sum(-1)

    def value(networks: str, observation: Tensor, action: Tensor) -> Tensor:
        x = torch.cat([observation, action], -1)
        for layer, activation in enumerate((torch.relu, lambda last: last)):
            name = f"{networks}.networks.stacked.joint.layers.{layer}"
            x = activation(x @ weights[f"{name}.weight"] + weights[f"{name}.bias"])
        return x.squeeze(-1)  # [2, B]

    alpha = weights["_log_alpha"].exp().detach()
    action, log_pi = act(now, noise)
    with torch.no_grad():
        action_after, log_pi_after = act(after, noise_after)
        soft_value = value("_target_critic_networks", after, action_after).min(0).values - alpha * log_pi_after
        target = time_step.reward[:, 1] + 0.99 * time_step.discount[:, 1] * soft_value
    taken = experience.rollout_info.action[:, 0] / 2  # The pendulum's actions are in [-2, 2].
    critics = 0.5 * ((value("_critic_networks", now, taken) - target) ** 2).sum(0)
    actor = alpha * log_pi - value("_critic_networks", now, action).min(0).values
    temperature = -(weights["_log_alpha"] * (log_pi - 1.0).detach())
    return [(loss * counts).mean() for loss in (actor, critics, temperature)]


OWNERS = ("_actor", "_critic_networks", "_log_alpha")


def test_gradients_of_sac_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, learning_starts=210, **SMALL)
    *_, (experience, before, values, noise) = Recorded(model, 220, monkeypatch).batches
    weights = {name: value.requires_grad_() for name, value in before.items()}
    losses = sac_losses(weights, experience, *noise)
    # The critics' are twice theirs, which Adam does not notice.
    for prefix, loss, scale in zip(OWNERS, losses, (1, 2, 1), strict=True):
        names = [name for name in values if name.startswith(prefix)]
        expected = torch.autograd.grad(loss, [weights[name] for name in names], retain_graph=True)
        for name, one in zip(names, expected, strict=True):
            torch.testing.assert_close(
                values[name], scale * one, rtol=1e-3, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}"
            )


def test_updates_of_sac_in_a_row_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam's steps and the targets' of 25 updates; the actor's before the critics', unlike theirs."""
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, learning_rate=1e-3, **SMALL)
    batches = Recorded(model, 125, monkeypatch).batches
    weights = {name: value.clone().requires_grad_() for name, value in batches[0][1].items()}
    optimizers = [torch.optim.Adam([weights[n] for n in batches[0][2] if n.startswith(one)], 1e-3) for one in OWNERS]
    for experience, _, _, noise in batches:
        for optimizer, loss in zip(optimizers, sac_losses(weights, experience, *noise), strict=True):
            parameters = optimizer.param_groups[0]["params"]
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
        with torch.no_grad():
            for name, value in weights.items():
                if name.startswith("_target"):
                    value.lerp_(weights[name.removeprefix("_target")], 0.005)
    for name, parameter in model.algorithm.named_parameters():
        torch.testing.assert_close(
            parameter.detach(), weights[name].detach(), rtol=0, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
        )


def test_gradients_of_ppo_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    options: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}, "ent_coef": 0.01, "n_steps": 32, "batch_size": 16}
    batches = Recorded(PPO("MlpPolicy", env, seed=0, **options), 64, monkeypatch).batches
    experience, before, values, _ = [one for one in batches if not (one[0].step_type == StepType.LAST).any()][-1]
    weights = {name: value.requires_grad_() for name, value in before.items()}
    info, observation = experience.rollout_info, experience.time_step.observation[:, 0]
    hidden = layers(weights, "_actor_network.trunk.layers", observation, 1, torch.tanh)
    head = "_actor_network.projections.0.logits"
    policy = Categorical(logits=functional.linear(hidden, weights[f"{head}.weight"], weights[f"{head}.bias"]))
    hidden = layers(weights, "_value_network.trunk.layers", observation, 1, torch.tanh)
    head = "_value_network.trunk.layers.1"
    value = functional.linear(hidden, weights[f"{head}.weight"], weights[f"{head}.bias"]).squeeze(-1)
    action, old, advantages, returns = nest.map_structure(
        lambda one: one[:, 0], (info.action, info.rollout_log_prob, info.advantages, info.returns)
    )
    # There the deviation is that of a sample: larger by sqrt(n / (n - 1)).
    advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    log_prob: Any = policy.log_prob
    ratio = (log_prob(action) - old).exp()
    surrogate = torch.minimum(advantages * ratio, advantages * ratio.clamp(0.8, 1.2)).mean()
    entropy: Any = policy.entropy
    loss = -surrogate - 0.01 * entropy().mean() + 0.5 * functional.mse_loss(returns, value)
    expected = torch.autograd.grad(loss, [weights[name] for name in values])
    for (name, one), other in zip(values.items(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")
