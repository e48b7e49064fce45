"""Rollouts of policies that need little: actions step by step, and everything else for all steps at once afterwards.

Of what `rollout_step` computes, only the action is needed before the next step. An algorithm whose policy is made of plain
layers gives a `QuickActor` for the actions, and by `rollout_infos` the rest from the recorded steps: the networks then see
one batch of T * B observations in the place of T batches of B.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.distributions import map_params
from rein.framework.acting.actor import Actor
from rein.framework.updating.gradients import in_mixed_precision
from rein.nest import Nest
from rein.runtime import timers

if TYPE_CHECKING:
    from rein.envs import Environment
    from rein.framework.rl_algorithm import RLAlgorithm

Array = NDArray[Any]


class QuickActor(Protocol):
    """Picks actions of a rollout on the host, such as `HostPolicy`.

    Attributes:
        num_carried: tensors of the rollout's state, in the order of its leaves, that `act` brings up to date: all that there
            are, or the rollout is not a quick one.
    """

    num_carried: int

    def draw_noise(self, *shape: int) -> Any:
        """All noise for actions at `shape` = (T, B) observations, indexed by step; called at the start of each rollout."""

    def act(self, observation: Array, noise: Any, carried: Sequence[Array] = ()) -> Array:
        """Actions [B, ...] at observations [B, ...], a new array; `carried` [B, ...] is brought up to date in place."""


class Collected(NamedTuple):
    """What came of a quick rollout; all [T, B, ...]."""

    raw: TimeStep
    """The steps as the environments gave them."""
    seen: TimeStep
    """The same as the algorithm saw them."""
    action: Any
    info: Nest
    env_seconds: float
    """That the environments took."""


def acts_otherwise(cls: type, methods: Sequence[str]) -> bool:
    """Whether a class below the one that has `quick_actor` picks actions in another way than that.

    Args:
        cls: of the algorithm.
        methods: what `quick_actor` does otherwise, by name.
    """
    for base in cls.__mro__:
        if "quick_actor" in vars(base):
            return False
        if any(name in vars(base) for name in methods):
            return True
    return False


class QuickRollout:
    """Rollouts of an algorithm by its quick actor, in one place of its environment."""

    def __init__(self, algorithm: "RLAlgorithm", quick: QuickActor, env: "Environment", actor: Actor) -> None:
        """Takes no step yet.

        Args:
            algorithm: it sees one tensor as observation.
            quick: picks its actions.
            env: of one action tensor, on the host.
            actor: where the algorithm stands: what its data transformer and itself carry on, and bounds of actions.
        """
        # A plain list keeps the algorithm from becoming a submodule of anything that holds the rollout.
        self._algorithm = [algorithm]
        self._quick, self._env, self._actor = quick, env, actor
        self._raw: _Record | None = None
        self._seen: _Record | None = None

    def collect(self, length: int, with_grad: bool, with_bootstrap: bool) -> Experience:
        """Takes `length` steps and perhaps looks at one more; see `Rollout.collect`.

        Args:
            length: steps to take, T.
            with_grad: whether infos shall have gradients.
            with_bootstrap: whether to add a step that is not acted on.

        Returns:
            [T, B, ...] as the environments gave it, or with a step more [T + 1, B, ...] as the algorithm saw it.
        """
        collected = self.take(length, with_grad, with_bootstrap)
        kept = collected.seen if with_bootstrap else collected.raw
        # Where states are kept, a policy that carries nothing has one without tensors.
        state = self._actor.policy_state if self._algorithm[0].need_full_rollout_state() else ()
        return Experience(time_step=kept, action=collected.action, rollout_info=collected.info, state=state)

    def step(self) -> Experience:
        """Takes one step, for replay: what `collect` gives of it, without copies and without the dimension of time.

        Returns:
            [B, ...] as the environments gave it; its time step outlives one more step of the environments, and no more.
        """
        algorithm, env, quick, actor = self._algorithm[0], self._env, self._quick, self._actor
        clock = time.perf_counter
        started = clock()
        noise = quick.draw_noise(1, env.batch_size)[0]
        carried = self._carried()
        raw = env.current_time_step()
        seen = actor.see(raw) if algorithm.transforms_data else raw
        if carried:
            _reset(carried, raw)
        action = torch.from_numpy(quick.act(seen.observation.numpy(), noise, carried))
        if carried:
            self._carry_on(carried)
        with torch.no_grad():
            info = algorithm.rollout_infos(seen, action, env.batch_size)
        state = actor.policy_state if algorithm.need_full_rollout_state() else ()
        acted = clock()
        env.step(actor.bounds.clip(action))
        ended = clock()
        algorithm.observe_for_metrics(raw)
        timers.add("env", ended - acted, 1)
        timers.add("act", acted - started, 1)
        return Experience(time_step=raw, action=action, rollout_info=info, state=state)

    def take(self, length: int, with_grad: bool, with_bootstrap: bool) -> Collected:
        """Does what `collect` does, and gives all of it."""
        algorithm, clock = self._algorithm[0], time.perf_counter
        started, total = clock(), length + with_bootstrap
        action, env_seconds = self._act(length, total)
        acted = clock()
        raw_rows, raw = self._recorded(self._raw)
        rows, seen = (raw_rows, raw) if self._seen is None else self._recorded(self._seen)
        acted_on = nest.map_structure(lambda tensor: tensor[:length], raw) if with_bootstrap else raw
        algorithm.observe_rollout_for_metrics(acted_on)
        before = clock()
        with torch.set_grad_enabled(with_grad):
            info = self._infos(rows, action.flatten(0, 1), length * self._env.batch_size, with_grad)
        info = map_params(lambda tensor: tensor.view(action.shape[:2] + tensor.shape[1:]), info)
        timers.add("env", env_seconds, length)
        timers.add("act", acted - started - env_seconds + clock() - before, length)
        return Collected(raw, seen, action, info, env_seconds)

    def _act(self, length: int, total: int) -> tuple[torch.Tensor, float]:
        """Records `total` steps, after each of the first `length` of which the environments go on: actions, and seconds."""
        env, quick, actor, clock = self._env, self._quick, self._actor, time.perf_counter
        noise = quick.draw_noise(total, env.batch_size)
        carried = self._carried()
        record, seen = self._begin(total)
        actions: Array | None = None
        env_seconds = 0.0
        for step in range(total):
            raw, is_kept = env.current_time_step(), step < length
            observation = record.add(raw, step)
            if seen is not None:
                observation = seen.add(actor.see(raw, is_kept)._replace(untransformed=()), step, is_reused=False)
            if carried:
                carried = carried if is_kept else [leaf.copy() for leaf in carried]
                _reset(carried, raw)
            action = quick.act(observation, noise[step], carried)
            if actions is None:
                actions = np.empty((total, *action.shape), action.dtype)
            actions[step] = action
            if is_kept:
                before = clock()
                env.step(actor.bounds.clip(torch.from_numpy(action)))
                env_seconds += clock() - before
                if carried and step == length - 1:
                    self._carry_on(carried)
        assert actions is not None
        return torch.from_numpy(actions), env_seconds

    def _carried(self) -> list[Array]:
        """Copies of what the quick actor brings up to date."""
        return (
            [leaf.numpy().copy() for leaf in nest.flatten(self._actor.policy_state)] if self._quick.num_carried else []
        )

    def _carry_on(self, carried: list[Array]) -> None:
        kept = [torch.from_numpy(leaf) for leaf in carried]
        self._actor.policy_state = nest.pack_sequence_as(self._actor.initial_state, kept)

    def _begin(self, total: int) -> "tuple[_Record, _Record | None]":
        """Records for `total` steps as the environments and, with a data transformer, as the algorithm see them."""
        if self._raw is None:
            self._raw = _Record()
        if self._seen is None and self._algorithm[0].transforms_data:
            self._seen = _Record()
        for record in (self._raw, self._seen):
            if record is not None:
                record.begin(total)
        return self._raw, self._seen

    def _recorded(self, record: "_Record | None") -> tuple[TimeStep, TimeStep]:
        """All steps of a record, [T * B, ...] and [T, B, ...]."""
        assert record is not None
        return record.take()

    def _infos(self, inputs: TimeStep, action: torch.Tensor, num_acted: int, with_grad: bool) -> Nest:
        algorithm = self._algorithm[0]
        if not with_grad:
            return algorithm.rollout_infos(inputs, action, num_acted)
        settings = algorithm.learning.settings
        return in_mixed_precision(settings, lambda: algorithm.rollout_infos(inputs, action, num_acted))


def _reset(carried: list[Array], time_step: TimeStep) -> None:
    """Sets to zero, in place, what is carried into episodes that begin."""
    is_first = time_step.step_type.numpy() == StepType.FIRST
    if is_first.any():
        for leaf in carried:
            leaf[is_first] = 0


class _Record:
    """Copies of the steps of one rollout after the other, all of the same structure."""

    def __init__(self) -> None:
        self._structure: Any = None
        self._layout: list[tuple[tuple[int, ...], Any]] = []
        self._observation = 0
        self._length = 0
        self._stacks: list[Array] = []
        # Environments give the same few objects in turn.
        self._known: dict[int, tuple[TimeStep, list[Array]]] = {}

    def begin(self, length: int) -> None:
        """Makes room for the `length` steps of another rollout."""
        self._length = length
        self._stacks = [np.empty((length, *shape), dtype) for shape, dtype in self._layout]

    def add(self, time_step: TimeStep, step: int, is_reused: bool = True) -> Array:
        """Copies a step, whose object may come again; returns its observation."""
        leaves = self._leaves(time_step, is_reused)
        if not self._layout:
            self._lay_out(time_step, leaves)
        for stack, leaf in zip(self._stacks, leaves, strict=True):
            stack[step] = leaf
        observation: Array = self._stacks[self._observation][step]
        return observation

    def _lay_out(self, time_step: TimeStep, leaves: list[Array]) -> None:
        self._structure = nest.structure_of(time_step)
        self._layout = [(leaf.shape, leaf.dtype) for leaf in leaves]
        # Of several tensors none is what a quick actor sees: then a transformer makes one of them.
        same = (i for i, leaf in enumerate(nest.flatten(time_step)) if leaf is time_step.observation)
        self._observation = next(same, 0)
        self.begin(self._length)

    def _leaves(self, time_step: TimeStep, is_reused: bool) -> list[Array]:
        known = self._known.get(id(time_step)) if is_reused else None
        if known is None:
            known = (time_step, [leaf.numpy() for leaf in nest.flatten(time_step)])
            if is_reused:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[id(time_step)] = known
        return known[1]

    def take(self) -> tuple[TimeStep, TimeStep]:
        """All steps, [T * B, ...] and [T, B, ...], in the same memory, which no other rollout writes to."""
        stacks, self._stacks = self._stacks, []
        rows = [torch.from_numpy(stack.reshape(-1, *stack.shape[2:])) for stack in stacks]
        unflatten = self._structure.unflatten
        return unflatten(rows), unflatten([torch.from_numpy(stack) for stack in stacks])


_MAX_KNOWN = 8
"""Objects of time steps that a record remembers."""
