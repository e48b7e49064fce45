"""Rollouts of policies that need little: actions step by step, and everything else for all steps at once afterwards.

Of what `rollout_step` computes, only the action is needed before the next step. An algorithm without recurrent state
whose policy is small gives a `QuickActor` for the actions, and by `rollout_infos` the rest from the recorded steps: the
networks then see one batch of T * B observations in the place of T batches of B.
"""

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from rein import nest
from rein.data_structures import Experience, TimeStep
from rein.distributions import map_params
from rein.framework.acting.actor import Actor
from rein.framework.updating.gradients import in_mixed_precision
from rein.runtime import timers

if TYPE_CHECKING:
    from rein.envs import Environment
    from rein.framework.rl_algorithm import RLAlgorithm

Array = NDArray[Any]


class QuickActor(Protocol):
    """Picks actions of a rollout on the host, such as `HostPolicy`."""

    def draw_noise(self, *shape: int) -> Array:
        """All noise for actions at `shape` observations; called at the start of each rollout."""

    def act(self, observation: Array, noise: Array) -> Array:
        """Actions [B, ...] at observations [B, ...]."""


def collect_quickly(
    algorithm: "RLAlgorithm",
    quick: QuickActor,
    env: "Environment",
    actor: Actor,
    length: int,
    with_grad: bool,
    with_bootstrap: bool,
) -> Experience:
    """Takes `length` steps and perhaps looks at one more; see `Rollout.collect`.

    Args:
        algorithm: without recurrent state; it sees one tensor as observation.
        quick: picks the actions.
        env: of one action tensor, on the host.
        actor: where the algorithm stands: what its data transformer carries on, and bounds of actions.
        length: steps to take, T.
        with_grad: whether infos shall have gradients.
        with_bootstrap: whether to add a step that is not acted on.

    Returns:
        [T, B, ...] as the environments gave it, or with a step more [T + 1, B, ...] as the algorithm saw it.
    """
    total = length + with_bootstrap
    noise = quick.draw_noise(total, env.batch_size)
    record = _Record(env.current_time_step(), total)
    seen = _Seen(actor, total) if algorithm.transforms_data else None
    actions: list[Array] = []
    clock = time.perf_counter
    started, env_seconds = clock(), 0.0
    for step in range(total):
        raw = env.current_time_step()
        observation = record.add(raw, step)
        if seen is not None:
            observation = seen.add(raw, step, keep=step < length)
        action = quick.act(observation, noise[step])
        actions.append(action)
        if step < length:
            before = clock()
            env.step(actor.bounds.clip(torch.from_numpy(action)))
            env_seconds += clock() - before
    timers.add("env", env_seconds, length)
    timers.add("act", clock() - started - env_seconds, length)
    raw_steps, taken = record.time_steps(), torch.from_numpy(np.stack(actions))
    time_step = raw_steps if seen is None else seen.time_steps()
    acted_on = nest.map_structure(lambda tensor: tensor[:length], raw_steps) if with_bootstrap else raw_steps
    algorithm.observe_rollout_for_metrics(acted_on)
    with torch.set_grad_enabled(with_grad), timers.timer("act"):
        inputs, action_of = nest.map_structure(lambda tensor: tensor.flatten(0, 1), (time_step, taken))
        acted = length * env.batch_size
        if with_grad:
            settings = algorithm.learning.settings
            infos = in_mixed_precision(settings, lambda: algorithm.rollout_infos(inputs, action_of, acted))
        else:
            infos = algorithm.rollout_infos(inputs, action_of, acted)
    infos = map_params(lambda tensor: tensor.view(total, env.batch_size, *tensor.shape[1:]), infos)
    kept = time_step if with_bootstrap else raw_steps
    return Experience(time_step=kept, action=taken, rollout_info=infos)


class _Seen:
    """The steps of a rollout as the data transformer shows them, stacked."""

    def __init__(self, actor: Actor, length: int) -> None:
        self._actor, self._length = actor, length
        self._record: _Record | None = None

    def add(self, raw: TimeStep, step: int, keep: bool) -> Array:
        """Transforms a step, and copies it; returns its observation."""
        time_step = self._actor.see(raw, keep)._replace(untransformed=())
        if self._record is None:
            self._record = _Record(time_step, self._length)
        return self._record.add(time_step, step, is_reused=False)

    def time_steps(self) -> TimeStep:
        """All steps, [T, B, ...]."""
        assert self._record is not None
        return self._record.time_steps()


class _Record:
    """Copies of the steps of a rollout, stacked."""

    def __init__(self, like: TimeStep, length: int) -> None:
        self._structure = nest.structure_of(like)
        leaves = nest.flatten(like)
        self._stacks = [torch.empty((length, *leaf.shape), dtype=leaf.dtype) for leaf in leaves]
        self._arrays = [stack.numpy() for stack in self._stacks]
        # Of several tensors none is what a quick actor sees: then a transformer makes one of them.
        self._observation = next((i for i, leaf in enumerate(leaves) if leaf is like.observation), 0)
        # Environments give the same few objects in turn.
        self._known: dict[int, tuple[TimeStep, list[Array]]] = {}

    def add(self, time_step: TimeStep, step: int, is_reused: bool = True) -> Array:
        """Copies a step, whose object may come again; returns its observation."""
        for stack, leaf in zip(self._arrays, self._leaves(time_step, is_reused), strict=True):
            stack[step] = leaf
        observation: Array = self._arrays[self._observation][step]
        return observation

    def _leaves(self, time_step: TimeStep, is_reused: bool) -> list[Array]:
        known = self._known.get(id(time_step)) if is_reused else None
        if known is None:
            known = (time_step, [leaf.numpy() for leaf in nest.flatten(time_step)])
            if is_reused:
                self._known[id(time_step)] = known
        return known[1]

    def time_steps(self) -> TimeStep:
        """All steps, [T, B, ...]."""
        time_steps: TimeStep = self._structure.unflatten(self._stacks)  # type: ignore[assignment]
        return time_steps
