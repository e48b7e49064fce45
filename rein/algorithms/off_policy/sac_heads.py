"""What differs between continuous, discrete and mixed actions in soft actor-critic.

A head is chosen once, when the algorithm is built. It knows how the policy picks an action, what the critics get to see,
which of their outputs is meant, and which value the actor climbs. The losses in `sac.py` hold for all three.

| head       | policy                                                   | critics                                 |
|------------|----------------------------------------------------------|-----------------------------------------|
| continuous | a ~ actor(s)                                             | Q(s, a)                                 |
| discrete   | k ~ softmax(Q(s, .) / alpha)                             | Q(s, .), one output for each k          |
| chosen     | k ~ actor(s), as in Christodoulou (2019)                 | Q(s, .), one output for each k          |
| mixed      | a ~ actor(s), then k ~ softmax(Q(s, a, .) / alpha_0)     | Q(s, a, .), one output for each k       |
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses.critics import Critics, action_gradient_loss
from rein.algorithms.off_policy.sac_structures import SacActionState, SacCriticState, SacState
from rein.distributions import Categorical
from rein.nest import Nest
from rein.networks import Network
from rein.ops.action_values import expected_action_value, select_action_value
from rein.specs import BoundedTensorSpec


class Policy(NamedTuple):
    """What the current policy does at some steps."""

    action: Nest
    distribution: Nest
    log_pi: Nest
    """[B, K], one column for each temperature; `()` if it was not asked for."""
    q: Any = ()
    """[B, n, A, ...] outputs of the critics that the policy was made of; `()` for continuous actions."""
    value: Any = ()
    """[B, A] the same as one number for each discrete action."""
    state: SacActionState = SacActionState()


Choose: TypeAlias = Callable[[Nest], tuple[Nest, Any]]
"""From distributions to an action and its log-probability [B], or `()` in its place."""

Actor: TypeAlias = Callable[[Nest, Nest], tuple[Nest, Nest]]
"""From what is seen and a state to distributions and the new state."""

PolicyValues: TypeAlias = Callable[[Nest, Nest], tuple[Tensor, Tensor, Nest]]
"""From input and state of the critics to all their outputs, one number for each action, and the new state."""


class ActionHead(Protocol):
    """What the losses need to know about the kind of action."""

    num_temperatures: int
    """K: 1, or 2 for mixed actions."""
    policy_is_critic: bool
    """Whether `Policy.q` holds the values of stored actions too."""

    def policy(
        self, observation: Nest, state: SacActionState, choose: Choose, values: PolicyValues, alpha: Tensor
    ) -> Policy:
        """Picks actions by `choose`; `alpha` is [K]."""

    def critic_input(self, observation: Nest, action: Nest) -> Nest:
        """What the critics get to see."""

    def of_taken(self, q: Tensor, action: Nest) -> Tensor:
        """The value of the action that was taken, [B, n, ...], from the outputs of the critics."""

    def expected(self, q: Tensor, distribution: Nest) -> Tensor:
        """The value of the policy, [B, ...], from values [B, ...] or [B, A, ...]."""

    def climbed(
        self, observation: Nest, policy: Policy, state: Nest, values: PolicyValues
    ) -> tuple[Tensor | None, Nest]:
        """The value [B] that the actor climbs, computed from its action (None without actor), and the critics' state."""

    def ascent(self, value: Tensor, action: Nest, clipping: float | None) -> Tensor:
        """The loss [B] by which the actor climbs `value`; no gradient reaches the critics."""

    def parts(self, per_action: Nest) -> tuple[Nest, ...]:
        """Splits something structured like the action into one part for each temperature."""


class ContinuousHead:
    """All actions are continuous: an actor picks them."""

    num_temperatures = 1
    policy_is_critic = False

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def policy(
        self, observation: Nest, state: SacActionState, choose: Choose, values: PolicyValues, alpha: Tensor
    ) -> Policy:
        """The reparameterised action of the actor."""
        distribution, actor_state = self._actor(observation, state.actor_network)
        action, log_pi = choose(distribution)
        return Policy(action, distribution, _columns(log_pi), state=SacActionState(actor_network=actor_state))

    def critic_input(self, observation: Nest, action: Nest) -> Nest:
        """Observation and action."""
        return observation, action

    def of_taken(self, q: Tensor, action: Nest) -> Tensor:
        """The critics saw the action already."""
        return q

    def expected(self, q: Tensor, distribution: Nest) -> Tensor:
        """One sample is the estimate."""
        return q

    def climbed(
        self, observation: Nest, policy: Policy, state: Nest, values: PolicyValues
    ) -> tuple[Tensor | None, Nest]:
        """Q(s, a) at the sampled action."""
        _, value, state = values(self.critic_input(observation, policy.action), state)
        return value, state

    def ascent(self, value: Tensor, action: Nest, clipping: float | None) -> Tensor:
        """Through dQ/da."""
        return action_gradient_loss(value, action, clipping)

    def parts(self, per_action: Nest) -> tuple[Nest, ...]:
        """All of it: the log-probabilities of a nest add up."""
        return (per_action,)


class ChosenHead(ContinuousHead):
    """One discrete action that an actor picks; means over all choices stand in the place of samples."""

    def policy(
        self, observation: Nest, state: SacActionState, choose: Choose, values: PolicyValues, alpha: Tensor
    ) -> Policy:
        """The action of the actor, and the mean of log pi: minus its entropy."""
        policy = super().policy(observation, state, choose, values, alpha)
        if not isinstance(policy.log_pi, Tensor):
            return policy
        return policy._replace(log_pi=_columns(-policy.distribution.entropy()))

    def critic_input(self, observation: Nest, action: Nest) -> Nest:
        """The observation."""
        return observation

    def of_taken(self, q: Tensor, action: Nest) -> Tensor:
        """The output of the action that was taken."""
        return select_action_value(q, action)

    def expected(self, q: Tensor, distribution: Nest) -> Tensor:
        """The exact mean over the actions."""
        return expected_action_value(q, distribution.probs)

    def climbed(
        self, observation: Nest, policy: Policy, state: Nest, values: PolicyValues
    ) -> tuple[Tensor | None, Nest]:
        """The mean of Q(s, .) under the policy."""
        _, value, state = values(observation, state)
        return expected_action_value(value.detach(), policy.distribution.probs), state

    def ascent(self, value: Tensor, action: Nest, clipping: float | None) -> Tensor:
        """Through the probabilities: no action is differentiated."""
        return -value


class DiscreteHead:
    """One discrete action: the critics are the policy, and there is no actor."""

    num_temperatures = 1
    policy_is_critic = True

    def policy(
        self, observation: Nest, state: SacActionState, choose: Choose, values: PolicyValues, alpha: Tensor
    ) -> Policy:
        """pi(k|s) is proportional to exp(Q(s, k) / alpha)."""
        q, value, critic_state = values(observation, state.critic)
        distribution = Categorical(logits=value.detach() / alpha[0])
        action, log_pi = choose(distribution)
        return Policy(action, distribution, _columns(log_pi), q=q, state=SacActionState(critic=critic_state))

    def critic_input(self, observation: Nest, action: Nest) -> Nest:
        """The observation."""
        return observation

    def of_taken(self, q: Tensor, action: Nest) -> Tensor:
        """The output of the action that was taken."""
        return select_action_value(q, action)

    def expected(self, q: Tensor, distribution: Nest) -> Tensor:
        """The exact mean over the actions."""
        return expected_action_value(q, distribution.probs)

    def climbed(
        self, observation: Nest, policy: Policy, state: Nest, values: PolicyValues
    ) -> tuple[Tensor | None, Nest]:
        """Nothing: no actor."""
        return None, ()

    def ascent(self, value: Tensor, action: Nest, clipping: float | None) -> Tensor:
        """Nothing: no actor."""
        return torch.zeros_like(value)

    def parts(self, per_action: Nest) -> tuple[Nest, ...]:
        """All of it."""
        return (per_action,)


class MixedHead:
    """(discrete, continuous): an actor picks the second, then the critics at that action pick the first.

    The discrete distribution depends on the continuous sample, so the two are not a joint to sample from again.
    """

    num_temperatures = 2
    policy_is_critic = False

    def __init__(self, actor: Actor, action_spec: Nest) -> None:
        self._actor = actor
        self._kind: Any = type(action_spec)

    def _pair(self, discrete: Any, continuous: Nest) -> Nest:
        """Both in a container like that of the action."""
        pair = (discrete, continuous)
        return self._kind._make(pair) if hasattr(self._kind, "_make") else self._kind(pair)

    def policy(
        self, observation: Nest, state: SacActionState, choose: Choose, values: PolicyValues, alpha: Tensor
    ) -> Policy:
        """Samples a ~ actor(s), then k with probability proportional to exp(Q(s, a, k) / alpha_0)."""
        distribution, actor_state = self._actor(observation, state.actor_network)
        action, log_pi = choose(distribution)
        q, value, critic_state = values((observation, action), state.critic)
        discrete_distribution = Categorical(logits=value.detach() / alpha[0])
        discrete_action, discrete_log_pi = choose(discrete_distribution)
        return Policy(
            action=self._pair(discrete_action, action),
            distribution=self._pair(discrete_distribution, distribution),
            log_pi=_columns(discrete_log_pi, log_pi),
            q=q,
            value=value,
            state=SacActionState(actor_network=actor_state, critic=critic_state),
        )

    def critic_input(self, observation: Nest, action: Nest) -> Nest:
        """Observation and continuous action."""
        return observation, action[1]

    def of_taken(self, q: Tensor, action: Nest) -> Tensor:
        """The output of the discrete action that was taken."""
        return select_action_value(q, action[0])

    def expected(self, q: Tensor, distribution: Nest) -> Tensor:
        """The exact mean over the discrete actions, at one continuous sample."""
        return expected_action_value(q, distribution[0].probs)

    def climbed(
        self, observation: Nest, policy: Policy, state: Nest, values: PolicyValues
    ) -> tuple[Tensor | None, Nest]:
        """The mean of Q(s, a, .) under the discrete policy, which is held fixed."""
        return expected_action_value(policy.value, policy.distribution[0].probs), ()

    def ascent(self, value: Tensor, action: Nest, clipping: float | None) -> Tensor:
        """Through dQ/da of the continuous part."""
        return action_gradient_loss(value, action[1], clipping)

    def parts(self, per_action: Nest) -> tuple[Nest, ...]:
        """The discrete and the continuous part, each with its own temperature."""
        return tuple(per_action)


def make_head(
    network: Network | None, parts: "ActionParts", action_spec: Nest, is_behind_encoder: bool = False
) -> ActionHead:
    """The head for the kind of action that `parts` shows.

    Args:
        network: the actor.
        parts: what the action consists of.
        action_spec: its spec.
        is_behind_encoder: whether the actor sees what the critics learn to encode, and must not change that.
    """
    if network is None:
        return DiscreteHead()

    def behind_encoder(seen: Nest, state: Nest) -> tuple[Nest, Nest]:
        return network(nest.map_structure(Tensor.detach, seen), state)

    actor: Actor = behind_encoder if is_behind_encoder else network
    if parts.continuous == ():
        return ChosenHead(actor)
    return ContinuousHead(actor) if parts.discrete == () else MixedHead(actor, action_spec)


def make_networks(
    name: str,
    observation_spec: Nest,
    parts: "ActionParts",
    actor_network_cls: Callable[..., Network],
    critic_network_cls: Callable[..., Network] | None,
    q_network_cls: Callable[..., Network] | None,
    discrete_actor_network_cls: Callable[..., Network] | None = None,
) -> tuple[Network | None, Network | None]:
    """The actor (None for a discrete action that the critics pick) and a critic (None for acting only)."""
    actor = critic = None
    if parts.continuous != ():
        actor = actor_network_cls(input_tensor_spec=observation_spec, action_spec=parts.continuous)
    elif discrete_actor_network_cls is not None:
        actor = discrete_actor_network_cls(input_tensor_spec=observation_spec, action_spec=parts.discrete)
    if parts.discrete != ():
        if q_network_cls is None:
            raise ValueError(
                f"{name}: q_network_cls is None, but a discrete action is picked by the values that a Q network gives, in "
                "acting too: give one, such as QNetwork"
            )
        inputs = observation_spec if parts.continuous == () else (observation_spec, parts.continuous)
        critic = q_network_cls(input_tensor_spec=inputs, action_spec=parts.discrete)
    elif critic_network_cls is not None:
        critic = critic_network_cls(input_tensor_spec=(observation_spec, parts.continuous))
    return actor, critic


def train_state_spec(head: ActionHead, actor: Network | None, critics: Critics | None) -> SacState:
    """Specs of the recurrent states of training."""
    critic = () if critics is None else critics.state_spec
    return SacState(
        action=predict_state_spec(head, actor, critics).action,
        actor=critic if isinstance(head, ContinuousHead) else (),
        critic=SacCriticState(() if head.policy_is_critic else critic, critic),
    )


def predict_state_spec(head: ActionHead, actor: Network | None, critics: Critics | None) -> SacState:
    """Specs of the recurrent states of acting."""
    policy_has_critics = critics is not None and not isinstance(head, ContinuousHead)
    return SacState(
        action=SacActionState(
            actor_network=() if actor is None else actor.state_spec,
            critic=critics.state_spec if critics is not None and policy_has_critics else (),
        )
    )


class ActionParts(NamedTuple):
    """The two kinds of action in a spec; `()` for one that is not there."""

    discrete: Any
    continuous: Nest


def split_action_spec(action_spec: Nest, name: str) -> ActionParts:
    """Finds which of the three kinds of action a spec describes.

    Args:
        action_spec: bounded specs: continuous ones, one discrete scalar, or `(discrete, continuous)`.
        name: of the algorithm, for messages.

    Raises:
        ValueError: for any other spec, with what to change.
    """
    leaves = nest.flatten_with_paths(action_spec)
    if not leaves:
        raise ValueError(f"{name}: action_spec is empty")
    for path, spec in leaves:
        if not isinstance(spec, BoundedTensorSpec):
            raise ValueError(f"{name}: action {path!r} is {spec!r}: give a BoundedTensorSpec")
    discrete = [(path, spec) for path, spec in leaves if spec.is_discrete]
    if not discrete:
        return ActionParts((), action_spec)
    if len(discrete) > 1:
        paths = [path for path, _ in discrete]
        raise ValueError(f"{name}: actions {paths} are discrete, but there can be only one: merge them into one action")
    _check_discrete(*discrete[0], name)
    if len(leaves) == 1:
        if nest.is_nested(action_spec):
            raise ValueError(f"{name}: the discrete action is inside of {action_spec!r}: give the spec itself")
        return ActionParts(action_spec, ())
    is_pair = isinstance(action_spec, tuple | list) and len(action_spec) == 2
    if not is_pair or nest.is_nested(action_spec[0]) or not action_spec[0].is_discrete:
        raise ValueError(
            f"{name}: mixed actions must be (discrete, continuous) in this order, got {action_spec!r}: reorder them, "
            "with all continuous actions in a nest at the second place"
        )
    return ActionParts(action_spec[0], action_spec[1])


def _check_discrete(path: str, spec: BoundedTensorSpec, name: str) -> None:
    if spec.ndim != 0:
        raise ValueError(
            f"{name}: action {path!r} holds {spec.numel} discrete actions, but there can be only one: merge them into one"
        )
    if int(spec.minimum) != 0:
        raise ValueError(f"{name}: discrete action {path!r} starts at {spec.minimum}: shift it to start at 0")


def _columns(*log_pi: Any) -> Any:
    """[B, K] from K log-probabilities [B]; `()` if there is none."""
    if not isinstance(log_pi[0], Tensor):
        return ()
    return log_pi[0].unsqueeze(-1) if len(log_pi) == 1 else torch.stack(log_pi, -1)
