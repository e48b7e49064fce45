"""An actor that was handed in, as the networks that an algorithm is built of.

An actor answers for rows of observations, recurrent states and flags of restarts together, so these together are what an
algorithm takes for an observation: `Asked`. What is recurrent stays inside: rows know where in their sequence they stand,
however an algorithm repeats them or puts them beside each other.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from rein.distributions import Categorical, DiagNormal, Distribution, extract_spec, map_params
from rein.learners.batches import View, each
from rein.nest import Nest
from rein.networks import Network
from rein.specs import BoundedTensorSpec, TensorSpec


class Asked(NamedTuple):
    """Rows that an actor is asked about."""

    observation: Any
    rhs: dict[str, Tensor]
    """By row: the states before the sequence that a row belongs to."""
    done: Tensor
    position: Tensor
    """[B] of each row in its sequence; copies of a row stand one after the other."""


def asked(view: View) -> Asked:
    """A view, row by row."""
    rows = len(view.done)
    sequences = min((len(state) for state in view.rhs.values()), default=rows)
    length = rows // max(1, sequences)
    rhs = {name: state.repeat_interleave(rows // len(state), 0) for name, state in view.rhs.items()}
    return Asked(view.observation, rhs, view.done, torch.arange(length, device=view.done.device).repeat(sequences))


def is_discrete(space: Any) -> bool:
    """Whether actions of a space are counted."""
    return hasattr(space, "n")


def action_spec_of(space: Any) -> BoundedTensorSpec:
    """The spec of the actions of a space."""
    if is_discrete(space):
        return BoundedTensorSpec((), torch.int64, 0, int(space.n) - 1)
    return BoundedTensorSpec(tuple(space.shape), minimum=space.low, maximum=space.high)


class _ActorNetwork(Network):
    """Base: a network of an actor, with its target as copy."""

    def __init__(self, actor: Any, target: Any, names: tuple[str, ...]) -> None:
        super().__init__(None, state_spec=(), name=type(self).__name__)
        self._actors = (actor, target)  # not children: only what is trained is
        self.parts = nn.ModuleList(getattr(actor, name) for name in names)

    @property
    def _actor(self) -> Any:
        return self._actors[0]

    def copy(self, **overrides: Any) -> Self:
        """The same of the target actor."""
        actor, target = self._actors
        call = self._constructor_call
        return type(self)(target, actor, *call.args[2:], **call.kwargs)

    def _ask(self, inputs: Asked, action: Tensor | None, question: Callable[..., Nest]) -> Nest:
        """What `question` says about a view and actions, row by row."""
        if not self._actor.is_recurrent:
            return question(View(inputs.observation, inputs.rhs, inputs.done), action)
        length = int(inputs.position.max()) + 1
        copies = int((inputs.position == 0).int().cumprod(0).sum()) if length > 1 else 1

        def in_sequences(tensor: Tensor) -> Tensor:
            """[S L N, ...] as [S N, L, ...]."""
            return tensor.reshape(-1, length, copies, *tensor.shape[1:]).transpose(1, 2).flatten(0, 1)

        def as_rows(tensor: Tensor) -> Tensor:
            return tensor.reshape(-1, copies, length, *tensor.shape[1:]).transpose(1, 2).flatten(0, 2)

        rhs = {name: in_sequences(state)[:, 0] for name, state in inputs.rhs.items()}
        observation, done = each(lambda one: in_sequences(one).flatten(0, 1), (inputs.observation, inputs.done))
        answer = question(View(observation, rhs, done), None if action is None else in_sequences(action).flatten(0, 1))
        return map_params(as_rows, answer)


class ActorPolicy(_ActorNetwork):
    """The policy of an actor.

    Gives its actions (`kind` "action"), its distribution ("distribution") or what it picks at random with its density
    ("sample").
    """

    def __init__(self, actor: Any, target: Any, kind: str) -> None:
        """Keeps both actors.

        Args:
            actor: whose policy it is.
            target: whose policy a copy is.
            kind: see above.
        """
        super().__init__(actor, target, ("policy_net",))
        self._kind = kind
        self.last_distribution: Any = None
        """What the actor said when it was asked with gradient the last time; for add-ons."""

    @property
    def output_spec(self) -> Nest:
        """Specs of what it gives; a normal distribution, where the actor shows which one it is at its first call."""
        spec = action_spec_of(self._actor.action_space)
        if self._kind == "distribution" and not spec.is_discrete:
            return extract_spec(DiagNormal(torch.zeros(1, *spec.shape), torch.ones(1, *spec.shape)))
        return TensorSpec(spec.shape)

    def forward(self, inputs: Any, state: Nest = ()) -> tuple[Nest, Nest]:
        """Asks the actor."""
        return self._ask(inputs, None, self._answer), state

    def _answer(self, view: View, action: Tensor | None) -> Nest:
        picked, _, logp, _, _, dist = self._actor.get_action(*view, deterministic=self._kind != "sample")
        if torch.is_grad_enabled():
            self.last_distribution = dist
        discrete = is_discrete(self._actor.action_space)
        if self._kind == "distribution" or discrete:
            return as_ours(dist, discrete)
        return picked if self._kind == "action" else Picked(picked, logp.reshape(-1))


class ActorCritics(_ActorNetwork):
    """The critics of an actor, side by side: values [B, R], or [B, R, n] of all discrete actions."""

    def __init__(self, actor: Any, target: Any, names: tuple[str, ...]) -> None:
        """Keeps both actors.

        Args:
            actor: whose critics they are.
            target: whose critics a copy has.
            names: of the R critics.
        """
        super().__init__(actor, target, names)
        self._names = names

    @property
    def output_spec(self) -> Nest:
        """Spec of what one critic gives."""
        space = self._actor.action_space
        return TensorSpec((int(space.n),) if is_discrete(space) else ())

    def make_parallel(self, n: int) -> "Network":
        """These very critics: there are as many as there should be."""
        assert n == len(self._names)
        return self

    def forward(self, inputs: Any, state: Nest = ()) -> tuple[Nest, Nest]:
        """Asks the actor about rows, or about rows and actions."""
        rows, action = (inputs, None) if isinstance(inputs, Asked) else inputs
        return self._ask(rows, action, self._answer), state

    def _answer(self, view: View, action: Tensor | None) -> Nest:
        scores: Mapping[str, Tensor] = self._actor.get_q_scores(*view, *(() if action is None else (action,)))
        values = [scores[name] for name in self._names]
        return torch.stack(values, 1) if action is None else torch.cat(values, -1)


class Picked(Distribution):
    """The distribution of one action that an actor picked: all that is known is this sample and its density."""

    param_names: ClassVar[tuple[str, ...]] = ("action", "log_density")

    def __init__(self, action: Tensor, log_density: Tensor) -> None:
        """Keeps both.

        Args:
            action: [batch, event], with gradient.
            log_density: [batch], with gradient.
        """
        self.action, self.log_density = action, log_density
        self.event_ndims = action.ndim - log_density.ndim

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the density."""
        return self.log_density.shape

    def rsample_with_log_prob(self, sample_shape: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
        """The sample that there is."""
        return self.action, self.log_density


def as_ours(dist: Any, discrete: bool) -> Distribution:
    """A distribution of Rein with the parameters of `dist`, which may be one of torch's."""
    if isinstance(dist, Distribution):
        return dist
    if discrete:
        return Categorical(logits=dist.logits)
    dist = getattr(dist, "base_dist", dist)
    if not hasattr(dist, "loc") or not hasattr(dist, "scale"):
        raise ValueError(
            f"MPO needs normal distributions of continuous actions, but the actor gives {type(dist).__name__}"
        )
    return DiagNormal(dist.loc, dist.scale)
