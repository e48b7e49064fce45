"""Rollouts of policies that need little: actions step by step, and everything else for all steps at once afterwards.

Of what `rollout_step` computes, only the action is needed before the next step. An algorithm whose policy is made of plain
layers gives a `QuickActor` for the actions, and by `rollout_infos` the rest from the recorded steps: the networks then see
one batch of T * B observations in the place of T batches of B.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

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
from rein.runtime.shortcuts import does_otherwise
from rein.transforms.host import HostTransform

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


def acts_otherwise(cls: type, methods: Sequence[str]) -> bool:
    """Whether a class below the one that has `quick_actor` picks actions in another way than that.

    Args:
        cls: of the algorithm.
        methods: what `quick_actor` does otherwise, by name.
    """
    return does_otherwise(cls, "quick_actor", methods)


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
        self._raw = _Record()
        self._seen = _Record() if algorithm.transforms_data else None

    def collect(self, length: int, with_grad: bool, with_bootstrap: bool) -> Experience:
        """Takes `length` steps and perhaps looks at one more; see `Rollout.collect`.

        Args:
            length: steps to take, T.
            with_grad: whether infos shall have gradients.
            with_bootstrap: whether to add a step that is not acted on.

        Returns:
            [T, B, ...] as the environments gave it, or with a step more [T + 1, B, ...] as the algorithm saw it.
        """
        algorithm, clock = self._algorithm[0], time.perf_counter
        started, total = clock(), length + with_bootstrap
        host = self._host_transform()
        action, state, env_seconds = self._act(length, total, host)
        acted = clock()
        raw_rows, raw = self._raw.take()
        if self._seen is None:
            rows, seen = raw_rows, raw
        else:
            rows, seen = self._seen.take() if host is None else host.take(raw_rows, raw)
        acted_on = nest.map_structure(lambda tensor: tensor[:length], raw) if with_bootstrap else raw
        algorithm.observe_rollout_for_metrics(acted_on)
        before = clock()
        with torch.set_grad_enabled(with_grad):
            info = self._infos(rows, action.flatten(0, 1), length * self._env.batch_size, with_grad)
        info = map_params(lambda tensor: tensor.view(action.shape[:2] + tensor.shape[1:]), info)
        timers.add("env", env_seconds, length)
        timers.add("act", acted - started - env_seconds + clock() - before, length)
        keeps_state = not with_bootstrap or algorithm.need_full_rollout_state()
        return Experience(seen if with_bootstrap else raw, action, info, state if keeps_state else ())

    def step(self) -> tuple[Experience, float]:
        """Takes one step, for replay: what `collect` gives of it, without copies and without the dimension of time.

        Returns:
            [B, ...] as the environments gave it, whose time step outlives this step of the environments, and no more; and the
            seconds that they took.
        """
        algorithm, env, actor, clock = self._algorithm[0], self._env, self._actor, time.perf_counter
        started = clock()
        noise, carried = self._quick.draw_noise(1, env.batch_size)[0], _Carried(actor, self._quick)
        raw, host = env.current_time_step(), self._host_transform()
        if host is not None:
            seen = host.see(raw)
        else:
            seen = raw if self._seen is None else actor.see(raw)
        carried.begin_step(raw)
        action = torch.from_numpy(self._quick.act(seen.observation.numpy(), noise, carried.leaves))
        carried.keep()
        with torch.no_grad():
            info = algorithm.rollout_infos(seen, action, env.batch_size)
        acted = clock()
        env.step(actor.bounds.clip(action))
        ended = clock()
        algorithm.observe_for_metrics(raw)
        timers.add("env", ended - acted, 1)
        timers.add("act", acted - started, 1)
        return Experience(raw, action, info, carried.state()), ended - acted

    def _host_transform(self) -> "_OnHost | None":
        """What does in a rollout that begins now what the data transformer would do step by step; None if nothing does."""
        transformer = self._algorithm[0].data_transformer
        if self._seen is None or transformer is None:
            return None
        transform = transformer.host_transform()
        return None if transform is None else _OnHost(transform)

    def _act(self, length: int, total: int, host: "_OnHost | None") -> tuple[torch.Tensor, Nest, float]:
        """Records `total` steps, after each of the first `length` of which the environments go on.

        Args:
            length: steps to take.
            total: steps to record.
            host: what transforms them, if not the actor.

        Returns:
            Actions [total, B, ...], the state before each, and the seconds that the environments took.
        """
        env, actor, clock = self._env, self._actor, time.perf_counter
        noise, carried = self._quick.draw_noise(total, env.batch_size), _Carried(actor, self._quick)
        record, seen = self._raw, self._seen if host is None else None
        record.begin(total)
        if seen is not None:
            seen.begin(total)
        actions: Array | None = None
        env_seconds = 0.0
        for step in range(total):
            raw, is_kept = env.current_time_step(), step < length
            observation = record.add(raw, step)
            if host is not None:
                observation = host.add(observation, step, total, is_kept)
            elif seen is not None:
                observation = seen.add(actor.see(raw, is_kept)._replace(untransformed=()), step, record)
            carried.begin_step(raw)
            action = self._quick.act(observation, noise[step], carried.leaves)
            if actions is None:
                actions = np.empty((total, *action.shape), action.dtype)
            actions[step] = action
            if is_kept:
                before = clock()
                env.step(actor.bounds.clip(torch.from_numpy(action)))
                env_seconds += clock() - before
                carried.keep()
        assert actions is not None
        return torch.from_numpy(actions), carried.states(), env_seconds

    def _infos(self, inputs: TimeStep, action: torch.Tensor, num_acted: int, with_grad: bool) -> Nest:
        algorithm = self._algorithm[0]
        if not with_grad:
            return algorithm.rollout_infos(inputs, action, num_acted)
        settings = algorithm.learning.settings
        return in_mixed_precision(settings, lambda: algorithm.rollout_infos(inputs, action, num_acted))


class _OnHost:
    """What a policy sees of the steps of one rollout, where a `HostTransform` is all that a data transformer does."""

    def __init__(self, transform: HostTransform) -> None:
        self._transform = transform
        self._observations: Array | None = None

    def add(self, observation: Array, step: int, total: int, is_kept: bool) -> Array:
        """Transforms the observations of a step, [B, ...]; see `ObservationTransform`."""
        transform = self._transform.observation
        if transform is None:
            return observation
        if self._observations is None:
            self._observations = np.empty((total, *observation.shape), observation.dtype)
        seen: Array = self._observations[step]
        transform(observation, seen, is_kept)
        return seen

    def take(self, raw_rows: TimeStep, raw: TimeStep) -> tuple[TimeStep, TimeStep]:
        """All steps as they were seen, [T * B, ...] and [T, B, ...], from what the environments gave in the same forms."""
        observation, reward = raw.observation, raw.reward
        if self._observations is not None:
            observation = torch.from_numpy(self._observations)
        if self._transform.reward is not None:
            reward = self._transform.reward(reward)
        seen = raw._replace(observation=observation, reward=reward, untransformed=())
        observation, reward = observation.flatten(0, 1), reward.flatten(0, 1)
        return raw_rows._replace(observation=observation, reward=reward, untransformed=()), seen

    def see(self, raw: TimeStep) -> TimeStep:
        """One step as it is seen, [B, ...]; it is taken in."""
        observation, reward, transform = raw.observation, raw.reward, self._transform
        if transform.observation is not None:
            observation = torch.empty_like(observation)
            transform.observation(raw.observation.contiguous().numpy(), observation.numpy(), True)
        if transform.reward is not None:
            reward = transform.reward(reward)
        return raw._replace(observation=observation, reward=reward, untransformed=())


class _Carried:
    """What a quick actor brings up to date from step to step of a rollout: the state of the algorithm."""

    def __init__(self, actor: Actor, quick: QuickActor) -> None:
        self._actor = actor
        self.leaves = [leaf.numpy() for leaf in nest.flatten(actor.policy_state)] if quick.num_carried else []
        self._before: list[list[Array]] = []

    def begin_step(self, raw: TimeStep) -> None:
        """Sets to zero what is carried into episodes that begin, and lets go of the arrays of the step before."""
        if not self.leaves:
            return
        before = [leaf.copy() for leaf in self.leaves]
        is_first = raw.step_type.numpy() == StepType.FIRST
        for leaf in before:
            leaf[is_first] = 0
        self._before.append(before)
        self.leaves = [leaf.copy() for leaf in before]

    def keep(self) -> None:
        """Lets what comes later go on from here."""
        if self.leaves:
            self._actor.policy_state = self._packed(self.leaves)

    def state(self) -> Nest:
        """The state before the last step, [B, ...]."""
        return self._packed(self._before[-1]) if self.leaves else self._actor.initial_state

    def states(self) -> Nest:
        """The states before all steps, [T, B, ...]; without tensors if nothing is carried."""
        if not self.leaves:
            return self._actor.initial_state
        return self._packed([np.stack(leaf) for leaf in zip(*self._before, strict=True)])

    def _packed(self, leaves: list[Array]) -> Nest:
        return nest.pack_sequence_as(self._actor.initial_state, [torch.from_numpy(leaf) for leaf in leaves])


class _Record:
    """Copies of the steps of one rollout after the other, all of the same structure."""

    def __init__(self) -> None:
        self._structure: Any = None
        self._layout: list[tuple[tuple[int, ...], Any]] = []
        self._observation = 0
        self._length = 0
        self._stacks: list[Array] = []
        # Environments give the same few objects in turn.
        self._known: dict[int, tuple[TimeStep, list[Array], dict[int, Array]]] = {}
        self._last_arrays: dict[int, Array] = {}

    def begin(self, length: int) -> None:
        """Makes room for the `length` steps of another rollout."""
        self._length = length
        self._stacks = [np.empty((length, *shape), dtype) for shape, dtype in self._layout]

    def add(self, time_step: TimeStep, step: int, source: "_Record | None" = None) -> Array:
        """Copies a step; returns its observation.

        Args:
            time_step: of the environment, which may give the same object again, or made anew.
            step: its number.
            source: a record of what it was made from, if it was; its tensors need no second conversion.
        """
        leaves = self._leaves_again(time_step) if source is None else source.arrays(nest.flatten(time_step))
        if not self._layout:
            self._lay_out(time_step, leaves)
        for stack, leaf in zip(self._stacks, leaves, strict=True):
            stack[step] = leaf
        observation: Array = self._stacks[self._observation][step]
        return observation

    def arrays(self, tensors: list[Any]) -> list[Array]:
        """The memory of tensors, some of which may be those of the last step."""
        known = self._last_arrays
        return [known[id(one)] if id(one) in known else one.numpy() for one in tensors]

    def _lay_out(self, time_step: TimeStep, leaves: list[Array]) -> None:
        self._structure = nest.structure_of(time_step)
        self._layout = [(leaf.shape, leaf.dtype) for leaf in leaves]
        # Of several tensors none is what a quick actor sees: then a transformer makes one of them.
        same = (i for i, leaf in enumerate(nest.flatten(time_step)) if leaf is time_step.observation)
        self._observation = next(same, 0)
        self.begin(self._length)

    def _leaves_again(self, time_step: TimeStep) -> list[Array]:
        known = self._known.get(id(time_step))
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            tensors = nest.flatten(time_step)
            arrays = [tensor.numpy() for tensor in tensors]
            # The time step is kept, so that no other object has its number, nor that of one of its tensors.
            known = (time_step, arrays, {id(tensor): array for tensor, array in zip(tensors, arrays, strict=True)})
            self._known[id(time_step)] = known
        self._last_arrays = known[2]
        return known[1]

    def take(self) -> tuple[TimeStep, TimeStep]:
        """All steps, [T * B, ...] and [T, B, ...], in the same memory, which no other rollout writes to."""
        stacks, self._stacks = self._stacks, []
        rows = [torch.from_numpy(stack.reshape(-1, *stack.shape[2:])) for stack in stacks]
        unflatten = self._structure.unflatten
        return unflatten(rows), unflatten([torch.from_numpy(stack) for stack in stacks])


_MAX_KNOWN = 8
"""Objects of time steps that a record remembers."""
