"""Behaviour cloning (Pomerleau 1988, "ALVINN: An Autonomous Land Vehicle in a Neural Network").

The policy does what the data does: with actions a recorded at observations s,

    loss = -log pi(a|s)            if the network gives distributions,
    loss = |a - mu(s)|^2           if it gives actions.

The second is what the first is for a normal distribution of fixed deviation, up to scale. The action recorded with the
last step of an episode was never taken, and does not count. Rewards are not looked at.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from rein.algorithms.offline.policies import make_head
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import epsilon_greedy_sample, sample_action_distribution
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.nest import Nest
from rein.networks import ActorNetwork, Network
from rein.specs import TensorSpec


class BcState(NamedTuple):
    """Recurrent state of the actor."""

    actor: Nest = ()


class BcInfo(NamedTuple):
    """What the loss needs of a step; `rollout_step` fills `action` only."""

    actor: Nest = ()
    """`LossInfo` [B] of the actor."""
    action: Nest = ()
    """What was done."""


class BcLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()


@configurable
class BcAlgorithm(OffPolicyAlgorithm):
    """Behaviour cloning of any nest of actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorNetwork,
        actor_optimizer: Any | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        epsilon_greedy: float | None = None,
        name: str = "BcAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of specs of discrete and continuous actions, such as `(discrete, continuous)`.
            reward_spec: not used.
            actor_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; gives actions, or distributions, which
                discrete actions need.
            actor_optimizer: of the actor; None leaves it to the parent.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            name: name in summaries.
        """
        actor = actor_network_cls(input_tensor_spec=observation_spec, action_spec=action_spec)
        state_spec = BcState(actor=actor.state_spec)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=state_spec,
            predict_state_spec=state_spec,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._actor_network = actor
        self._head = make_head(actor, action_spec, name)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])

    # Acting.

    def predict_step(self, inputs: TimeStep, state: BcState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        action = epsilon_greedy_sample(self._head.distribution(output), self._epsilon_greedy)
        return AlgStep(output=action, state=BcState(actor_state))

    def rollout_step(self, inputs: TimeStep, state: BcState) -> AlgStep:
        """A sample of the policy."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        action = sample_action_distribution(self._head.distribution(output))
        return AlgStep(output=action, state=BcState(actor_state), info=BcInfo(action=action))

    # Learning.

    def train_step(self, inputs: TimeStep, state: BcState, rollout_info: BcInfo) -> AlgStep:
        """How far the policy is from what was done, at steps [B, ...]; the reward is ignored."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        loss = self._head.imitation_loss(output, rollout_info.action)
        info = BcInfo(actor=LossInfo(loss=loss, extra=BcLossInfo(actor=loss)))
        return AlgStep(output=self._head.mode(output), state=BcState(actor_state), info=info)

    def calc_loss(self, info: BcInfo) -> LossInfo:
        """The loss of the actor, [T, B]."""
        return LossInfo(loss=info.actor.loss, extra=info.actor.extra)
