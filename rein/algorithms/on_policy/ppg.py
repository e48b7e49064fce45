"""Phasic policy gradient (Cobbe et al. 2020, arXiv:2009.04416).

Policy phase: PPO, with a policy network and a value network that share nothing. Auxiliary phase, every `interval`
iterations: on everything collected since the last one, and with pi_old the policy at its start,

    L_joint = 0.5 (V_aux(s) - G)^2 + beta_clone KL(pi_old(. | s) || pi(. | s)),     L_value = 0.5 (V(s) - G)^2,

where V_aux is a value head on the policy's encoder. The value targets G are the returns that PPO learnt from.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses import PPGAuxPhaseLoss, PPOLoss
from rein.algorithms.on_policy.actor_critic import ActorCriticInfo
from rein.algorithms.on_policy.ppo import ppo_info
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, TimeStep
from rein.distributions import (
    epsilon_greedy_sample,
    sample_action_distribution,
)
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.algorithm import Algorithm
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import batch_major
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating import Batch, UpdateSettings
from rein.framework.updating.gradients import train_info
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, EncodingNetwork, Network, ValueNetwork
from rein.networks.action_masks import forbid_in, mask_path
from rein.optimizers import Adam
from rein.runtime.timers import timer
from rein.specs import TensorSpec


class PPGAuxOptions(NamedTuple):
    """How the auxiliary phase trains."""

    enabled: bool = True
    interval: int = 32
    """Iterations between auxiliary phases."""
    mini_batch_length: int | None = None
    """Steps per sequence; None is the `unroll_length` of the run."""
    mini_batch_size: int = 8
    """Sequences per minibatch."""
    num_updates_per_train_iter: int = 6
    """Passes over the data."""


class PPGState(NamedTuple):
    """Recurrent states of the two encoders."""

    policy: Nest = ()
    value: Nest = ()


class PPGInfo(NamedTuple):
    """What the policy phase needs of a step; see `PPOInfo`."""

    step_type: Nest = ()
    discount: Nest = ()
    reward: Nest = ()
    action: Nest = ()
    rollout_log_prob: Nest = ()
    rollout_action_distribution: Nest = ()
    returns: Nest = ()
    advantages: Nest = ()
    action_distribution: Nest = ()
    value: Nest = ()
    reward_weights: Nest = ()
    row: Nest = ()
    """int64 number of the step in its rollout; `()` without auxiliary phase."""


class PPGAuxInfo(NamedTuple):
    """What the auxiliary loss needs of a step."""

    returns: Nest = ()
    old_distribution: Nest = ()
    action_distribution: Nest = ()
    value: Nest = ()
    aux_value: Nest = ()


@configurable
class DisjointPolicyValueNetwork(torch.nn.Module):
    """Policy and value networks with an encoder each or a common one, and a second value head on the policy's encoder."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        encoding_network_ctor: Callable[..., Network],
        reward_spec: TensorSpec = TensorSpec(()),
        is_sharing_encoder: bool = False,
    ) -> None:
        """Makes the networks.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            encoding_network_ctor: called as `ctor(input_tensor_spec=)` for each encoder.
            reward_spec: a scalar, or a vector, each dimension of which has a value.
            is_sharing_encoder: whether the value has no encoder of its own: it learns from the policy's, which its loss
                does not change (the single network of section 3.4 of the paper).
        """
        super().__init__()
        self.policy_encoder = encoding_network_ctor(input_tensor_spec=observation_spec)
        self.is_sharing_encoder = is_sharing_encoder
        self.value_encoder = (
            self.policy_encoder if is_sharing_encoder else encoding_network_ctor(input_tensor_spec=observation_spec)
        )
        encoding = self.policy_encoder.output_spec
        self.policy_head = ActorDistributionNetwork(encoding, action_spec, fc_layer_params=())
        self._mask_path = mask_path(observation_spec, action_spec)
        self.aux_head: Network = ValueNetwork(encoding, fc_layer_params=())
        self.value_head: Network = ValueNetwork(self.value_encoder.output_spec, fc_layer_params=())
        if reward_spec.ndim:
            self.aux_head = self.aux_head.make_parallel(reward_spec.numel)
            self.value_head = self.value_head.make_parallel(reward_spec.numel)
        self.state_spec = PPGState(policy=self.policy_encoder.state_spec, value=self.value_encoder.state_spec)

    def policy(self, observation: Nest, state: PPGState) -> tuple[Nest, Tensor, PPGState]:
        """pi(. | s), the policy's encoding [B, ...], and the new state."""
        encoding, policy_state = self.policy_encoder(observation, state.policy)
        distribution = forbid_in(self.policy_head(encoding)[0], observation, self._mask_path)
        return distribution, encoding, state._replace(policy=policy_state)

    def value(self, observation: Nest, state: PPGState) -> tuple[Tensor, PPGState]:
        """V(s), [B] or [B, D], and the new state."""
        encoding, value_state = self.value_encoder(observation, state.value)
        if self.is_sharing_encoder:
            encoding = encoding.detach()
        return self.value_head(encoding)[0], state._replace(value=value_state)

    def aux_value(self, encoding: Tensor) -> Tensor:
        """V_aux(s), [B] or [B, D], from the policy's encoding."""
        return self.aux_head(encoding)[0]


@configurable
class PPGAlgorithm(OffPolicyAlgorithm):
    """PPO with an auxiliary phase that trains the policy's encoder to predict values too."""

    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected, see `rein.networks.action_masks`."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        aux_options: PPGAuxOptions = PPGAuxOptions(),  # noqa: B008 - immutable
        encoding_network_ctor: Callable[..., Network] = EncodingNetwork,
        policy_optimizer: Any | None = None,
        aux_optimizer: Any | None = None,
        epsilon_greedy: float | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "PPGAlgorithm",
        beta_clone: float = 1.0,
        loss_class: Callable[..., PPOLoss] = PPOLoss,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            reward_spec: a scalar, or a vector for several rewards, whose advantages are summed.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            aux_options: how the auxiliary phase trains.
            encoding_network_ctor: called as `ctor(input_tensor_spec=)` for the encoders of policy and value.
            policy_optimizer: optimizer of the policy phase.
            aux_optimizer: optimizer of the auxiliary phase; None takes a copy of `policy_optimizer`.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            beta_clone: weight of the divergence from the old policy in the auxiliary phase; 1 leaves it to
                `PPGAuxPhaseLoss`.
            loss_class: loss of the policy phase, called as `loss_class(debug_summaries=)`.
        """
        if reward_spec.ndim > 1:
            raise ValueError(f"{name}: reward_spec is {reward_spec}: rewards are scalars or vectors")
        network = DisjointPolicyValueNetwork(observation_spec, action_spec, encoding_network_ctor, reward_spec)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=network.state_spec,
            env=env,
            config=config,
            optimizer=policy_optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._network = network
        self._loss = loss_class(debug_summaries=debug_summaries)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._aux_options = aux_options
        self._aux_phase: AuxiliaryPhase | None = None
        self._waiting: list[Experience] = []
        self._learnt_returns: list[tuple[Tensor, Tensor]] = []
        self._iterations = 0
        if aux_options.enabled and config is not None:
            self._check_auxiliary(config)
            optimizer = aux_optimizer if aux_optimizer is not None else _copy_of(policy_optimizer)
            self._aux_phase = AuxiliaryPhase(network, aux_options, config, beta_clone, optimizer)

    def _check_auxiliary(self, config: TrainerConfig) -> None:
        if self._loss.compute_advantages_internally:
            raise ValueError(
                f"{self.name}: the auxiliary phase learns from returns that are computed beforehand: set "
                "compute_advantages_internally=False"
            )
        if not config.trains_on_fresh_rollouts:
            raise ValueError(
                f"{self.name} keeps each rollout once for its auxiliary phase: set whole_replay_buffer_training=True and "
                "clear_replay_buffer=True"
            )

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_aux_phase"]

    # Acting.

    def predict_step(self, inputs: TimeStep, state: PPGState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        distribution, _, state = self._network.policy(inputs.observation, state)
        action = epsilon_greedy_sample(distribution, self._epsilon_greedy)
        return AlgStep(output=action, state=state, info=ActorCriticInfo(action_distribution=distribution))

    def rollout_step(self, inputs: TimeStep, state: PPGState) -> AlgStep:
        """A sample of the policy, with its log-probability and the value of the state."""
        distribution, _, state = self._network.policy(inputs.observation, state)
        value, state = self._network.value(inputs.observation, state)
        action, log_prob = sample_action_distribution(distribution, return_log_prob=True)
        info = ActorCriticInfo(
            step_type=inputs.step_type,
            discount=inputs.discount,
            reward=inputs.reward,
            action=action,
            log_prob=log_prob,
            action_distribution=distribution,
            value=value,
            # A copy: the weights may change before the info is used.
            reward_weights=() if self._reward_weights is None else self._reward_weights.repeat(len(value), 1),
        )
        return AlgStep(output=action, state=state, info=info)

    # Policy phase.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: ActorCriticInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, PPGInfo]:
        """Computes advantages and returns, and numbers the steps [B, T] for the auxiliary phase."""
        info = PPGInfo(*ppo_info(self._loss, rollout_info))
        if self._aux_phase is not None:
            shape = rollout_info.step_type.shape
            info = info._replace(row=torch.arange(shape.numel()).reshape(shape))
        return root_inputs, info

    def train_step(self, inputs: TimeStep, state: PPGState, plain_rollout_info: PPGInfo) -> AlgStep:
        """Evaluates the current policy and value at stored states."""
        distribution, _, state = self._network.policy(inputs.observation, state)
        value, state = self._network.value(inputs.observation, state)
        return AlgStep(state=state, info=plain_rollout_info._replace(action_distribution=distribution, value=value))

    def calc_loss(self, info: PPGInfo) -> LossInfo:
        """See `PPOLoss`."""
        return self._loss.calc_loss(info)

    def after_update(self, root_inputs: Nest, info: PPGInfo) -> None:
        """Keeps the returns that were learnt from, for the auxiliary phase."""
        if self._aux_phase is not None:
            self._learnt_returns.append((info.row.flatten(), info.returns.flatten(0, 1)))

    # Auxiliary phase.

    def after_train_iter(self, root_inputs: TimeStep | None, rollout_info: Nest | None) -> None:
        """Keeps the rollout of the iteration, and runs the auxiliary phase when it is due."""
        if root_inputs is not None and self._learnt_returns:
            self._keep(root_inputs)
        self._iterations += 1
        if self._aux_phase is None or self._iterations % self._aux_options.interval != 0 or not self._waiting:
            return
        with timer("auxiliary"):
            self._aux_phase.train_on(nest.concat_nests(self._waiting))
        self._waiting = []

    def _keep(self, root_inputs: TimeStep) -> None:
        """Adds a rollout [T, B, ...] to those that wait, with the returns that the updates of the iteration saw."""
        steps, size = root_inputs.step_type.shape
        rows, values = (torch.cat(part) for part in zip(*self._learnt_returns, strict=True))
        self._learnt_returns = []
        # The numbers count a last step that was only looked at, and which nobody learnt from.
        returns = values.new_zeros(size * (steps + 1), *values.shape[1:])
        returns[rows] = values
        returns = returns.reshape(size, steps + 1, *values.shape[1:])[:, :steps].transpose(0, 1)
        kept = TimeStep(step_type=root_inputs.step_type, observation=root_inputs.observation)
        data = Experience(time_step=kept, rollout_info=PPGAuxInfo(returns=returns))
        self._waiting.append(nest.map_structure(torch.clone, data))

    def get_extra_state(self) -> dict[str, Any]:
        """The rollouts that wait for the auxiliary phase, and the number of iterations."""
        return {"iterations": self._iterations, "collected": [nest.flatten(data) for data in self._waiting]}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restores what `get_extra_state` returned."""
        self._iterations = state["iterations"]
        kept = TimeStep(step_type=0, observation=self._observation_spec)
        structure = Experience(time_step=kept, rollout_info=PPGAuxInfo(returns=0))
        self._waiting = [nest.pack_sequence_as(structure, leaves) for leaves in state["collected"]]


class AuxiliaryPhase(Algorithm):
    """Trains the networks of a `PPGAlgorithm` on the auxiliary loss."""

    def __init__(
        self,
        network: DisjointPolicyValueNetwork,
        options: PPGAuxOptions,
        config: TrainerConfig,
        beta_clone: float,
        optimizer: Any,
    ) -> None:
        """Makes the phase; the parameters are those of `network`."""
        super().__init__(train_state_spec=network.state_spec, optimizer=optimizer, name="PPGAuxiliaryPhase")
        self.set_update_settings(
            UpdateSettings(
                mini_batch_length=options.mini_batch_length or int(config.unroll_length),
                mini_batch_size=options.mini_batch_size,
                num_updates_per_train_iter=options.num_updates_per_train_iter,
            )
        )
        self._network = network
        self._loss = PPGAuxPhaseLoss(policy_kl_loss_weight=beta_clone) if beta_clone != 1.0 else PPGAuxPhaseLoss()
        self._bind_optimizers()

    def train_on(self, experience: Experience) -> None:
        """Makes the passes of one auxiliary phase over rollouts [T, B, ...]."""
        self.learning.train_from_rollout(experience, num_bootstrap_steps=0)

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: PPGAuxInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, PPGAuxInfo]:
        """Records pi_old for all steps, [B, T]."""
        batch = Batch(Experience(time_step=root_inputs, rollout_info=rollout_info))
        with torch.no_grad():
            info = train_info(self, batch, self.learning.settings)
        return root_inputs, rollout_info._replace(old_distribution=batch_major(info.action_distribution))

    def train_step(self, inputs: TimeStep, state: PPGState, rollout_info: PPGAuxInfo) -> AlgStep:
        """pi, V_aux and V at stored states."""
        distribution, encoding, state = self._network.policy(inputs.observation, state)
        value, state = self._network.value(inputs.observation, state)
        info = rollout_info._replace(
            action_distribution=distribution, aux_value=self._network.aux_value(encoding), value=value
        )
        return AlgStep(state=state, info=info)

    def calc_loss(self, info: PPGAuxInfo) -> LossInfo:
        """L_joint + L_value, [T, B]."""
        return self._loss.calc_loss(info)


def _copy_of(optimizer: Any | None) -> Any:
    return Adam(lr=5e-4) if optimizer is None else optimizer.copy()
