"""An actor for learners, made of Rein's networks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.distributions import Categorical, Distribution, map_params
from rein.nest import Nest
from rein.networks import CriticNetwork, Network, QNetwork
from rein.specs import BoundedTensorSpec


class BoundedActions(NamedTuple):
    """The space of continuous actions."""

    low: Any
    high: Any
    shape: tuple[int, ...]


class CountedActions(NamedTuple):
    """The space of one discrete action."""

    n: int


class NetworkActor(nn.Module):
    """Policy and critics of a learner.

    Networks may be recurrent. Then rows are sequences one after the other, one for each row of recurrent state, and
    `sequence_overlap` is the share of each sequence that learners only warm up states with.
    """

    def __init__(
        self,
        action_spec: BoundedTensorSpec,
        q1: Network,
        q2: Network | None = None,
        policy_net: Network | None = None,
        exploration_noise: float = 0.1,
        sequence_overlap: float = 0.5,
    ) -> None:
        """Keeps the networks.

        Args:
            action_spec: of one continuous action, or of one discrete action counted from 0.
            q1: critic: of `(observation, action)`, or of the observation with a value for each discrete action.
            q2: second critic.
            policy_net: gives actions or their distribution; None for learners that act by values.
            exploration_noise: deviation of the noise on actions of a deterministic policy, as a share of half of the range.
            sequence_overlap: see above.
        """
        super().__init__()
        self.policy_net, self.q1, self.q2 = policy_net, q1, q2
        self.exploration_noise, self.sequence_overlap = exploration_noise, sequence_overlap
        self.action_space: BoundedActions | CountedActions
        if action_spec.is_discrete:
            self.action_space = CountedActions(int(action_spec.num_values))
        else:
            self.action_space = BoundedActions(action_spec.minimum, action_spec.maximum, tuple(action_spec.shape))
            self.register_buffer("_low", torch.as_tensor(action_spec.minimum.copy()), persistent=False)
            self.register_buffer("_high", torch.as_tensor(action_spec.maximum.copy()), persistent=False)

    @property
    def is_recurrent(self) -> bool:
        """Whether a network has memory."""
        return any(network.is_rnn for network in self._networks().values())

    def _networks(self) -> dict[str, Network]:
        named = {"rhs_act": self.policy_net, "rhs_q1": self.q1, "rhs_q2": self.q2}
        return {name: network for name, network in named.items() if network is not None}

    def initial_rhs(self, batch_size: int) -> dict[str, Tensor]:
        """Recurrent states of `batch_size` environments at the start; [batch_size, 1] zeros without memory."""
        return {
            name: _packed(network.get_initial_state(batch_size)) if network.is_rnn else torch.zeros(batch_size, 1)
            for name, network in self._networks().items()
        }

    def get_action(
        self, obs: Any, rhs: Mapping[str, Tensor], done: Tensor, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor], Tensor, Any]:
        """Picks actions.

        Args:
            obs: [B, ...].
            rhs: recurrent states by name.
            done: [B, 1], 1 where states are cleared first.
            deterministic: the mode of the policy, without exploration.

        Returns:
            Actions [B, ...] (a discrete one is [B, 1]), the same within bounds, log-probability [B, 1], recurrent states,
            mean entropy, and the distribution; of a deterministic policy None.
        """
        if self.policy_net is None:
            raise ValueError("this actor has no policy_net: it was made for learners that act by values")
        output, states = self._run("rhs_act", obs, rhs, done)
        if not isinstance(output, Distribution):
            action = output if deterministic else self._explored(output)
            zero = torch.zeros(len(action), 1, device=action.device)
            return action, self._clipped(action), zero, states, zero.mean(), None
        if isinstance(output, Categorical):
            chosen = output.mode if deterministic else output.sample()
            logp = output.log_prob(chosen)
            action = chosen.unsqueeze(-1)
            return action, action, logp.unsqueeze(-1), states, output.entropy().mean(), output
        if deterministic:
            action = output.mode
            logp = output.log_prob(action)
        else:
            action, logp = output.rsample_with_log_prob()
        return action, self._clipped(action), logp.unsqueeze(-1), states, -logp.detach().mean(), output

    def get_q_scores(
        self, obs: Any, rhs: Mapping[str, Tensor], done: Tensor, actions: Tensor | None = None
    ) -> dict[str, Any]:
        """Values: [B, 1] of actions, or [B, n] of all discrete ones; and recurrent states.

        Args:
            obs: [B, ...].
            rhs: recurrent states by name.
            done: [B, 1], 1 where states are cleared first.
            actions: [B, ...]; None for a discrete action.
        """
        states, scores = dict(rhs), {}
        for name in ("q1", "q2"):
            if getattr(self, name) is not None:
                inputs = obs if actions is None else (obs, actions)
                value, states = self._run(f"rhs_{name}", inputs, states, done)
                scores[name] = value.unsqueeze(-1) if value.ndim == 1 else value
        return {**scores, "rhs": states}

    def _run(self, name: str, inputs: Any, rhs: Mapping[str, Tensor], done: Tensor) -> tuple[Any, dict[str, Tensor]]:
        network, states = self._networks()[name], dict(rhs)
        if not network.is_rnn:
            return network(inputs)[0], states
        count = len(states[name])

        def split(tensor: Tensor) -> Tensor:
            return tensor.reshape(count, -1, *tensor.shape[1:])

        state = _unpacked(states[name], network.state_spec)
        sequences = nest.map_structure(split, inputs)
        output, state = network.unroll(sequences, state, is_first=split(done).squeeze(-1) > 0.5)
        states[name] = _packed(state)
        return map_params(lambda tensor: tensor.flatten(0, 1), output), states

    def _explored(self, action: Tensor) -> Tensor:
        noise = torch.randn_like(action) * self.exploration_noise
        return action + 0.5 * (self._high - self._low) * noise  # type: ignore[operator]

    def _clipped(self, action: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(action, self._low), self._high)  # type: ignore[arg-type]


@configurable
def build_network_actor(
    observation_spec: Nest,
    action_spec: BoundedTensorSpec,
    critic_ctor: Callable[..., Network] | None = None,
    policy_ctor: Callable[..., Network] | None = None,
    num_critics: int = 1,
    **settings: Any,
) -> NetworkActor:
    """An actor for a world.

    Args:
        observation_spec: specs of the observation.
        action_spec: of one continuous action, or of one discrete action counted from 0.
        critic_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))` or, for a discrete action, as
            `ctor(input_tensor_spec=, action_spec=)`; None is `CriticNetwork` or `QNetwork`.
        policy_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; None has no policy.
        num_critics: 1 or 2.
        settings: others of `NetworkActor`.
    """
    if num_critics not in (1, 2):
        raise ValueError(f"num_critics is {num_critics}: an actor has 1 or 2")

    def critic() -> Network:
        if action_spec.is_discrete:
            return (critic_ctor or QNetwork)(input_tensor_spec=observation_spec, action_spec=action_spec)
        return (critic_ctor or CriticNetwork)(input_tensor_spec=(observation_spec, action_spec))

    policy = None if policy_ctor is None else policy_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
    return NetworkActor(action_spec, critic(), critic() if num_critics == 2 else None, policy, **settings)


def _packed(state: Any) -> Tensor:
    """A state [B, ...] as one tensor [B, H]."""
    return torch.cat([tensor.flatten(1) for tensor in nest.flatten(state)], -1)


def _unpacked(packed: Tensor, state_spec: Any) -> Any:
    """The state that `_packed` was given."""
    specs = nest.flatten(state_spec)
    parts = torch.split(packed, [spec.numel for spec in specs], -1)
    tensors = [part.reshape(-1, *spec.shape) for part, spec in zip(parts, specs, strict=True)]
    return nest.structure_of(state_spec).unflatten(tensors)
