"""From a model's keywords to our settings, by name."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rein import nest
from rein.algorithms.losses import ActorCriticLoss, OneStepTDLoss, PPOLoss
from rein.algorithms.off_policy import DdpgAlgorithm, DqnAlgorithm, SacAlgorithm, Td3Algorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.compat.sb3.keywords import Clock, OfProgress, PolicyOptions, number, refuse, require_default
from rein.compat.sb3.networks import actor_network, critic_network, make_optimizer, value_network
from rein.compat.sb3.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from rein.data_structures import AlgStep, TimeStep
from rein.networks import (
    ActorDistributionNetwork,
    ActorNetwork,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.networks.layers import torch_linear_init
from rein.ops import clipped_exp, element_wise_huber_loss
from rein.optimizers.rmsprop_tf import RMSpropTF
from rein.runtime.schedules import Scheduler

Settings = dict[str, Any]


def run_settings(model: Any) -> Settings:
    """What all models have in common."""
    return {
        "TrainerConfig.random_seed": model.run_seed,
        "TrainerConfig.num_iterations": 1,
        "TrainerConfig.num_env_steps": 0,
        "TrainerConfig.evaluate": False,
        "TrainerConfig.compile": False,  # A script's seed says what comes out, however fast the machine is.
        "TrainerConfig.num_checkpoints": 1,
        "TrainerConfig.confirm_checkpoint_upon_crash": False,
        "TrainerConfig.metric_min_buffer_size": model.stats_window_size,
    }


def _continuous_space(model: Any) -> spaces.Box:
    space = model.action_space
    if not isinstance(space, spaces.Box):
        raise ValueError(
            f"{type(model).__name__} needs continuous actions, a Box, and the env has {space}: use PPO or DQN"
        )
    return space


# On-policy.


def _actor_critic(model: Any, options: PolicyOptions) -> Settings:
    """Networks of PPO and A2C, with their initial weights."""
    initial: dict[str, Any] = {}
    if options.ortho_init:
        initial = {"kernel_initializer": partial(nn.init.orthogonal_, gain=math.sqrt(2.0))}
    weights: Settings = {} if options.ortho_init else {"FC.initializer": torch_linear_init}
    return {
        **weights,
        "CategoricalProjectionNetwork.logits_init_output_factor": 0.01,
        "NormalProjectionNetwork.projection_output_init_gain": 0.01,
        "NormalProjectionNetwork.squash_mean": False,
        "NormalProjectionNetwork.state_dependent_std": False,
        "NormalProjectionNetwork.std_transform": torch.exp,
        "NormalProjectionNetwork.std_bias_initializer_value": options.log_std_init,
        "actor": actor_network(model, options, ActorDistributionNetwork, **initial),
        "value": value_network(model, options, **initial),
    }


def ppo_settings(model: Any) -> Settings:
    """Those of `PPO`."""
    require_default("PPO", vars(model), {"clip_range_vf": None, "target_kl": None})
    options = PolicyOptions("PPO", model.policy_name, model.policy_kwargs, (64, 64), "Tanh", "vf")
    networks = _actor_critic(model, options)
    networks["PPOLoss.importance_ratio_clipping"] = number("PPO", "clip_range", model.clip_range, model.clock)
    optimizer = make_optimizer(model, options, model.max_grad_norm, eps=1e-5)
    return {
        **_algorithm("PPOAlgorithm", PPOAlgorithm, networks, optimizer, PPOLoss),
        "PPOLoss.gamma": model.gamma,
        "PPOLoss.td_lambda": model.gae_lambda,
        "PPOLoss.normalize_advantages": model.normalize_advantage,
        "PPOLoss.entropy_regularization": model.ent_coef or None,
        "PPOLoss.td_loss_weight": model.vf_coef,
        "TrainerConfig.unroll_length": model.n_steps,
        "TrainerConfig.mini_batch_length": 1,
        "TrainerConfig.mini_batch_size": min(model.batch_size, model.n_steps * model.n_envs),
        "TrainerConfig.num_updates_per_train_iter": model.n_epochs,
        "TrainerConfig.summary_interval": 1,
    }


def a2c_settings(model: Any) -> Settings:
    """Those of `A2C`."""
    options = PolicyOptions("A2C", model.policy_name, model.policy_kwargs, (64, 64), "Tanh", "vf")
    networks = _actor_critic(model, options)
    default = partial(RMSpropTF, alpha=0.99, eps=model.rms_prop_eps) if model.use_rms_prop else None
    optimizer = make_optimizer(model, options, model.max_grad_norm, default)
    return {
        **_algorithm("ActorCriticAlgorithm", ActorCriticAlgorithm, networks, optimizer, ActorCriticLoss),
        "ActorCriticLoss.gamma": model.gamma,
        "ActorCriticLoss.use_gae": True,
        "ActorCriticLoss.td_lambda": model.gae_lambda,
        "ActorCriticLoss.normalize_advantages": model.normalize_advantage,
        "ActorCriticLoss.entropy_regularization": model.ent_coef or None,
        "ActorCriticLoss.td_loss_weight": model.vf_coef,
        "TrainerConfig.unroll_length": model.n_steps,
        "TrainerConfig.summary_interval": 100,
    }


def _algorithm(name: str, algorithm: Any, networks: Settings, optimizer: Any, loss: Any) -> Settings:
    actor, value = networks.pop("actor"), networks.pop("value")
    return {
        **networks,
        f"{name}.actor_network_ctor": actor,
        f"{name}.value_network_ctor": value,
        f"{name}.optimizer": optimizer,
        f"{name}.loss_class": loss,
        "TrainerConfig.algorithm_ctor": algorithm,
    }


# Off-policy.


class BeforeStart(Scheduler):
    """One value until so many steps were taken, then another, which may change."""

    def __init__(self, clock: Clock, steps: int, before: float, after: float | Scheduler) -> None:
        """Keeps them."""
        self.clock, self.steps, self.before, self.after = clock, steps, before, after

    def __call__(self) -> float:
        """The value now."""
        if self.clock.num_timesteps < self.steps:
            return self.before
        return self.after() if isinstance(self.after, Scheduler) else self.after

    def final_value(self) -> float:
        """The value at the end of training."""
        return self.after.final_value() if isinstance(self.after, Scheduler) else self.after


class RandomStartSac(SacAlgorithm):
    """SAC whose first actions are drawn uniformly, and whose entropy is that of actions in [-1, 1].

    In other units the entropy differs by a constant, which values would have to follow while the temperature falls.
    """

    def __init__(self, *arguments: Any, random_action: Scheduler, log_volume: float = 0.0, **named: Any) -> None:
        """Makes the algorithm.

        Args:
            *arguments: of `SacAlgorithm`.
            random_action: 1 while actions are random, then 0.
            log_volume: logarithm of the product of half the ranges of the actions.
            **named: of `SacAlgorithm`.
        """
        super().__init__(*arguments, **named)
        self._random_action = random_action
        self._log_volume = log_volume

    def _policy(self, inputs: TimeStep, seen: Any, state: Any) -> Any:
        """Samples actions, with the log-probability of what they are in [-1, 1]."""
        policy = super()._policy(inputs, seen, state)
        return policy._replace(log_pi=policy.log_pi + self._log_volume)

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        """A sample of the policy, or a random action."""
        step = super().rollout_step(inputs, state)
        if self._random_action() < 1.0:
            return step
        action = nest.map_structure(lambda spec: spec.sample(inputs.step_type.shape), self._action_spec)
        return step._replace(output=action, info=step.info._replace(action=action))


def _replay(model: Any) -> Settings:
    owner = type(model).__name__
    require_default(owner, vars(model), {"n_steps": 1, "replay_buffer_class": None, "replay_buffer_kwargs": None})
    if model.learning_starts > model.buffer_size:
        refuse(owner, "learning_starts", model.learning_starts, f"buffer_size is {model.buffer_size}")
    return {
        "FC.initializer": torch_linear_init,
        "OneStepTDLoss.gamma": model.gamma,
        "ReplayBuffer.with_replacement": True,  # Else first batches hold nearly all there is, and critics differ less.
        "TrainerConfig.unroll_length": model.steps_per_rollout,
        "TrainerConfig.initial_collect_steps": model.learning_starts,
        "TrainerConfig.mini_batch_length": 2,
        "TrainerConfig.mini_batch_size": model.batch_size,
        "TrainerConfig.num_updates_per_train_iter": model.updates_per_rollout,
        "TrainerConfig.whole_replay_buffer_training": False,
        "TrainerConfig.clear_replay_buffer": False,
        "TrainerConfig.replay_buffer_length": max(2, model.buffer_size // model.n_envs),
        "TrainerConfig.summary_interval": 1000,
    }


def dqn_settings(model: Any) -> Settings:
    """Those of `DQN`."""
    options = PolicyOptions("DQN", model.policy_name, model.policy_kwargs, (64, 64), "ReLU", "qf")
    if not isinstance(model.action_space, spaces.Discrete):
        raise ValueError(f"DQN needs one discrete action, and the env has {model.action_space}: use PPO")
    # There the target follows every so many steps, here every so many updates.
    steps = model.steps_per_rollout * model.n_envs
    period = max(1, round(model.target_update_interval * model.updates_per_rollout / steps))
    epsilon = OfProgress(model.exploration_schedule, model.clock)
    return {
        **_replay(model),
        "DqnAlgorithm.q_network_cls": actor_network(model, options, QNetwork),
        "DqnAlgorithm.q_optimizer": make_optimizer(model, options, model.max_grad_norm),
        "DqnAlgorithm.rollout_epsilon_greedy": BeforeStart(model.clock, model.learning_starts, 1.0, epsilon),
        "DqnAlgorithm.num_critic_replicas": 1,
        "DqnAlgorithm.critic_loss_ctor": OneStepTDLoss,
        "DqnAlgorithm.target_update_tau": model.tau,
        "DqnAlgorithm.target_update_period": period,
        "DqnAlgorithm.one_transition": True,
        "OneStepTDLoss.td_error_loss_fn": element_wise_huber_loss,
        "TrainerConfig.algorithm_ctor": DqnAlgorithm,
    }


def sac_settings(model: Any) -> Settings:
    """Those of `SAC`."""
    space = _continuous_space(model)
    require_default("SAC", vars(model), {"action_noise": None})
    options = PolicyOptions("SAC", model.policy_name, model.policy_kwargs, (256, 256), "ReLU", "qf")
    temperature, is_tuned = _temperature(model.ent_coef)
    target = -float(np.prod(space.shape)) if model.target_entropy == "auto" else float(model.target_entropy)
    actor = actor_network(
        model, options, ActorDistributionNetwork, continuous_projection_net_ctor=NormalProjectionNetwork
    )
    random_action = BeforeStart(model.clock, model.learning_starts, 1.0, 0.0)
    log_volume = float(np.log((space.high - space.low) / 2).sum())
    optimizers = [make_optimizer(model, options, None) for _ in range(3)]
    return {
        **_replay(model),
        "NormalProjectionNetwork.squash_mean": False,
        "NormalProjectionNetwork.state_dependent_std": True,
        "NormalProjectionNetwork.scale_distribution": True,
        "NormalProjectionNetwork.std_transform": clipped_exp,
        "SacAlgorithm.actor_network_cls": actor,
        "SacAlgorithm.critic_network_cls": critic_network(model, options),
        "SacAlgorithm.num_critic_replicas": options.num_critics,
        "SacAlgorithm.critic_loss_ctor": OneStepTDLoss,
        "SacAlgorithm.initial_log_alpha": math.log(temperature),
        "SacAlgorithm.target_entropy": target,
        "SacAlgorithm.target_update_tau": model.tau,
        "SacAlgorithm.target_update_period": model.target_update_interval,
        "SacAlgorithm.actor_optimizer": optimizers[0],
        "SacAlgorithm.critic_optimizer": optimizers[1],
        "SacAlgorithm.alpha_optimizer": optimizers[2] if is_tuned else None,
        "SacAlgorithm.one_transition": True,
        "TrainerConfig.algorithm_ctor": partial(RandomStartSac, random_action=random_action, log_volume=log_volume),
    }


def _temperature(ent_coef: Any) -> tuple[float, bool]:
    """The initial temperature, and whether it is tuned."""
    value, is_tuned = ent_coef, False
    if isinstance(ent_coef, str):
        is_tuned = True
        kind, _, first = ent_coef.partition("_")
        try:
            value = float(first) if first else 1.0
        except ValueError:
            value = 0.0
        if kind != "auto":
            value = 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        refuse("SAC", "ent_coef", ent_coef, 'give a positive number, "auto" or "auto_0.1"')
    return float(value), is_tuned


def _deterministic(model: Any, name: str, algorithm: Any, delay: int, num_critics: int | None) -> Settings:
    owner = type(model).__name__
    _continuous_space(model)
    options = PolicyOptions(owner, model.policy_name, model.policy_kwargs, (400, 300), "ReLU", "qf")
    return {
        **_replay(model),
        f"{name}.actor_network_ctor": actor_network(model, options, ActorNetwork),
        f"{name}.critic_network_ctor": critic_network(model, options),
        f"{name}.num_critic_replicas": options.num_critics if num_critics is None else num_critics,
        f"{name}.critic_loss_ctor": OneStepTDLoss,
        f"{name}.target_update_tau": model.tau,
        f"{name}.rollout_random_action": BeforeStart(model.clock, model.learning_starts, 1.0, 0.0),
        f"{name}.actor_optimizer": make_optimizer(model, options, None),
        f"{name}.critic_optimizer": make_optimizer(model, options, None),
        f"{name}.one_transition": True,
        "TrainerConfig.algorithm_ctor": algorithm,
    }


def td3_settings(model: Any) -> Settings:
    """Those of `TD3`."""
    return {
        **_deterministic(model, "Td3Algorithm", Td3Algorithm, model.policy_delay, None),
        "Td3Algorithm.actor_update_period": model.policy_delay,
        "Td3Algorithm.target_action_noise": model.target_policy_noise,
        "Td3Algorithm.target_action_noise_limit": model.target_noise_clip,
        "Td3Algorithm.rollout_noise": _normal_noise(model),
    }


def ddpg_settings(model: Any) -> Settings:
    """Those of `DDPG`: TD3 with one critic and neither delay nor smoothing; with Ornstein-Uhlenbeck noise, our DDPG."""
    if isinstance(model.action_noise, OrnsteinUhlenbeckActionNoise):
        noise = model.action_noise
        half_ranges = np.unique((_continuous_space(model).high - model.action_space.low) / 2)
        if len(half_ranges) != 1:
            refuse("DDPG", "action_noise", noise, "actions have several ranges: give a NormalActionNoise")
        return {
            **_deterministic(model, "DdpgAlgorithm", DdpgAlgorithm, 1, 1),
            "DdpgAlgorithm.ou_stddev": _one_sigma(model, noise) * math.sqrt(noise.dt) * float(half_ranges[0]),
            "DdpgAlgorithm.ou_damping": noise.theta * noise.dt,
        }
    return {
        **_deterministic(model, "Td3Algorithm", Td3Algorithm, 1, 1),
        "Td3Algorithm.actor_update_period": 1,
        "Td3Algorithm.target_action_noise": 0.0,
        "Td3Algorithm.rollout_noise": _normal_noise(model),
    }


def _normal_noise(model: Any) -> float:
    """The deviation of the noise, as a share of half of the range of actions."""
    if model.action_noise is None:
        return 0.0
    if not isinstance(model.action_noise, NormalActionNoise):
        refuse(type(model).__name__, "action_noise", model.action_noise, "give a NormalActionNoise")
    return _one_sigma(model, model.action_noise)


def _one_sigma(model: Any, noise: Any) -> float:
    owner = type(model).__name__
    if np.any(noise.mean):
        refuse(owner, "action_noise", noise, "its mean must be 0")
    sigma = np.unique(noise.sigma)
    if len(sigma) != 1:
        refuse(owner, "action_noise", noise, "its sigma must be the same in all dimensions")
    return float(sigma[0])
