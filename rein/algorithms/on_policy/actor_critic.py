"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous.

The actor and the critic are two networks; `ActorCriticLoss` holds the equations. It learns from each rollout once. Images are
encoded once for both, as in the paper, unless one of the networks is told what to do with them.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from rein.algorithms.losses import ActorCriticLoss
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import compute_log_probability, epsilon_greedy_sample, sample_action_distribution
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.acting.quick_rollout import QuickActor
from rein.framework.on_policy_algorithm import OnPolicyAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, HostPolicy, Network, ValueNetwork
from rein.networks.spec_encoders import ImageEncoders, with_shared_encoders
from rein.specs import TensorSpec


class ActorCriticState(NamedTuple):
    """Recurrent states."""

    actor: Nest = ()
    value: Nest = ()


class ActorCriticInfo(NamedTuple):
    """What the loss needs of a step."""

    step_type: Nest = ()
    discount: Nest = ()
    reward: Nest = ()
    action: Nest = ()
    log_prob: Nest = ()
    action_distribution: Nest = ()
    value: Nest = ()
    reward_weights: Nest = ()


@configurable
class ActorCriticAlgorithm(OnPolicyAlgorithm):
    """Actor-critic with a policy network and a value network."""

    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected, see `rein.networks.action_masks`."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        reward_weights: Sequence[float] | None = None,
        actor_network_ctor: Callable[..., Network] = ActorDistributionNetwork,
        value_network_ctor: Callable[..., Network] | None = ValueNetwork,
        epsilon_greedy: float | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        loss: ActorCriticLoss | None = None,
        loss_class: Callable[..., ActorCriticLoss] = ActorCriticLoss,
        optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "ActorCriticAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action; discrete, continuous or a nest of both.
            reward_spec: a scalar, or a vector for several rewards.
            reward_weights: weights of the dimensions of a vector reward; None sums them.
            actor_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives action distributions.
            value_network_ctor: called as `ctor(input_tensor_spec=)`; None leaves the critic out, for acting only.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            loss: the loss; None makes one of `loss_class`.
            loss_class: called as `loss_class(debug_summaries=)`.
            optimizer: default optimizer.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """

        def make(spec: Nest) -> tuple[Network, Network | None]:
            actor = actor_network_ctor(input_tensor_spec=spec, action_spec=action_spec)
            return actor, None if value_network_ctor is None else value_network_ctor(input_tensor_spec=spec)

        encoder, actor, value = with_shared_encoders(observation_spec, make)
        if value is not None and reward_spec.numel > 1:
            value = value.make_parallel(reward_spec.numel)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            reward_weights=reward_weights,
            predict_state_spec=ActorCriticState(actor=actor.state_spec),
            train_state_spec=ActorCriticState(actor=actor.state_spec, value=() if value is None else value.state_spec),
            is_eval=value is None,
            env=env,
            config=config,
            optimizer=optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._encoder: ImageEncoders | None = encoder
        self._actor_network = actor
        self._value_network = value
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._loss = loss_class(debug_summaries=debug_summaries) if loss is None else loss

    def convert_train_state_to_predict_state(self, state: ActorCriticState) -> ActorCriticState:
        """The state without that of the critic."""
        return state._replace(value=())

    # Acting.

    def predict_step(self, inputs: TimeStep, state: ActorCriticState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        distribution, actor_state = self._actor_network(self._encode(inputs.observation), state.actor)
        action = epsilon_greedy_sample(distribution, self._epsilon_greedy)
        return AlgStep(
            output=action,
            state=ActorCriticState(actor=actor_state),
            info=ActorCriticInfo(action_distribution=distribution),
        )

    def rollout_step(self, inputs: TimeStep, state: ActorCriticState) -> AlgStep:
        """A sample of the policy, with its log-probability and the value of the state."""
        distribution, value, state = self._evaluate(inputs.observation, state)
        action, log_prob = sample_action_distribution(distribution, return_log_prob=True)
        return AlgStep(output=action, state=state, info=self._info(inputs, action, log_prob, distribution, value))

    def quick_actor(self) -> QuickActor | None:
        """The policy on the host, if it is small."""
        if self._encoder is not None or type(self).rollout_step is not ActorCriticAlgorithm.rollout_step:
            return None
        return HostPolicy.of(self._actor_network)

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> ActorCriticInfo:
        """See `rollout_step`, for actions picked by `quick_actor`."""
        distribution, value, _ = self._evaluate(inputs.observation, ActorCriticState())
        log_prob = compute_log_probability(distribution, action)
        return self._info(inputs, action, log_prob, distribution, value)

    def _info(
        self, inputs: TimeStep, action: Nest, log_prob: Tensor, distribution: Nest, value: Tensor
    ) -> ActorCriticInfo:
        return ActorCriticInfo(
            step_type=inputs.step_type,
            discount=inputs.discount,
            reward=inputs.reward,
            action=action,
            log_prob=log_prob,
            action_distribution=distribution,
            value=value,
            reward_weights=self._expanded_reward_weights(inputs),
        )

    def _evaluate(self, observation: Nest, state: ActorCriticState) -> tuple[Nest, Tensor, ActorCriticState]:
        """The policy, the value ([B] or [B, D]) and the new recurrent state."""
        if self._value_network is None:
            raise ValueError(f"{self.name} was built without value_network_ctor: it can only predict")
        observation = self._encode(observation)
        distribution, actor_state = self._actor_network(observation, state.actor)
        value, value_state = self._value_network(observation, state.value)
        return distribution, value, ActorCriticState(actor=actor_state, value=value_state)

    def _encode(self, observation: Nest) -> Nest:
        """The observation [..., *shape] as both networks see it."""
        return observation if self._encoder is None else self._encoder(observation)[0]

    def _expanded_reward_weights(self, inputs: TimeStep) -> Nest:
        if self._reward_weights is None:
            return ()
        # A copy: the weights may change before the info is used.
        return self._reward_weights.repeat(inputs.step_type.shape[0], 1)

    # Learning.

    def calc_loss(self, info: ActorCriticInfo) -> LossInfo:
        """See `ActorCriticLoss`."""
        return self._loss.calc_loss(info)

    def _state_prefixes_to_ignore(self) -> list[str]:
        return ["_value_network", "_loss", "_optimizers"] if self._is_eval else []
