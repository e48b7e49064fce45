"""An update that is stated once, for single steps and for whole sequences.

Asked for single steps, `train_step` cannot know which step follows which: every part of an update is evaluated at all of
them, and the losses leave out what they do not use. Of sequences [B, T, ...] more is known. The critics have no loss at the
last step, nothing bootstraps from the first, and some settings keep the policy from learning at all steps. Where networks
have no memory, those values need not be computed. `Steps` stands for either case; an algorithm derives from
`LearnsFromSteps` and writes its update in terms of the steps that each part needs:

    def learn(self, steps, inputs, state, rollout_info):
        values, _ = self._critics(steps.take((inputs.observation, rollout_info.action), steps.before_last))
        target = self._target_values(steps.take(inputs.observation, steps.after_first))
        values, target = steps.put(values, steps.before_last), steps.put(target, steps.after_first)
        ...

Networks get the steps that they are needed at as one batch [B * S, ...], sequence by sequence; losses get [T, B, ...].

By default the policy learns from every step of a sequence. With `one_transition` sequences have two steps, and it learns
from the first only, as most descriptions of algorithms have it.

Here, too, is the one place where batch-major data turns time-major: replay buffers and preprocessing use [B, T, ...],
losses use [T, B, ...]; distributions turn with the tensors.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import AlgStep, LossInfo, StepType
from rein.distributions import index_distributions, map_params, stack_distributions
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state

TrainStep: TypeAlias = Callable[[Nest, Nest, Nest], AlgStep]


def batch_major(data: Nest) -> Nest:
    """[T, B, ...] as [B, T, ...], and the other way round; views."""
    return map_params(lambda tensor: tensor.transpose(0, 1), data)


time_major = batch_major


class Steps:
    """Which steps there are, and which of them each part of an update is evaluated at.

    `take`, `select` and `put` do nothing to single steps [B, ...], for which all sets of steps are the same one.
    """

    def __init__(self, length: int | None = None, policy: range | None = None) -> None:
        """Makes the sets of steps.

        Args:
            length: T of sequences [B, T, ...]; None for single steps.
            policy: the steps of sequences that the policy learns from; None is every step.
        """
        self._length = length
        self.every = range(1 if length is None else length)
        self.before_last = self.every if length is None else range(length - 1)
        self.after_first = self.every if length is None else range(1, length)
        self.policy = self.every if policy is None else policy

    @staticmethod
    def cover(present: range, wanted: range) -> bool:
        """Whether all of `wanted` are among `present`."""
        return present.start <= wanted.start and wanted.stop <= present.stop

    def take(self, data: Nest, steps: range) -> Nest:
        """Some steps as one batch.

        Args:
            data: nest of tensors [B, T, ...].
            steps: S of the T steps.

        Returns:
            [B * S, ...]; views where possible.
        """
        if self._length is None:
            return data
        if len(steps) == 1:
            return map_params(lambda tensor: tensor[:, steps.start], data)
        return map_params(lambda tensor: tensor[:, steps.start : steps.stop].flatten(0, 1), data)

    def select(self, rows: Nest, present: range, wanted: range) -> Nest:
        """The part of a batch that belongs to some of its steps.

        Args:
            rows: nest of tensors and distributions [B * P, ...] of the steps `present`.
            present: P steps.
            wanted: S steps, all among `present`.

        Returns:
            [B * S, ...].
        """
        if wanted == present:
            return rows
        begin = wanted.start - present.start

        def select(tensor: Tensor) -> Tensor:
            steps = tensor.reshape(-1, len(present), *tensor.shape[1:])
            return steps[:, begin] if len(wanted) == 1 else steps[:, begin : begin + len(wanted)].flatten(0, 1)

        return map_params(select, rows)

    def put(self, rows: Nest, steps: range) -> Nest:
        """A batch as time-major sequences, with zeros at steps that it does not have.

        Args:
            rows: nest of tensors and distributions [B * S, ...].
            steps: the S steps.

        Returns:
            [T, B, ...]; distributions, of which there is no zero, are [S, B].
        """
        if self._length is None:
            return rows
        before, after = steps.start, self._length - steps.stop

        def turn(tensor: Tensor) -> Tensor:
            size = len(tensor) // max(1, len(steps))
            return tensor.reshape(size, len(steps), *tensor.shape[1:]).transpose(0, 1)

        def put(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return map_params(turn, leaf)
            filled = [turn(leaf)]
            if before > 0:
                filled.insert(0, filled[0].new_zeros(before, *filled[0].shape[1:]))
            if after > 0:
                filled.append(filled[0].new_zeros(after, *filled[0].shape[1:]))
            return filled[0] if len(filled) == 1 else torch.cat(filled)

        return nest.map_structure(put, rows)

    def put_alone(self, rows: Nest, steps: range) -> Nest:
        """A batch as time-major sequences of its own steps; see `put`.

        Args:
            rows: nest of tensors [B * S, ...].
            steps: the S steps.

        Returns:
            [S, B, ...].
        """
        if self._length is None:
            return rows
        if len(steps) == 1:
            return map_params(lambda tensor: tensor.unsqueeze(0), rows)
        return map_params(lambda tensor: tensor.reshape(-1, len(steps), *tensor.shape[1:]).transpose(0, 1), rows)

    def turn(self, data: Nest) -> Nest:
        """All steps of data that nothing was computed of, [B, T, ...], as [T, B, ...]."""
        return data if self._length is None else time_major(data)


_SINGLE = Steps()


class LearnsFromSteps:
    """Makes `train_step` and `train_sequences` of one `learn`; stands before an algorithm among the bases of a class."""

    _one_transition: bool = False
    _name: str
    _train_state_spec: Nest

    def learn(self, steps: Steps, inputs: Any, state: Any, rollout_info: Any) -> AlgStep:
        """States the update.

        Args:
            steps: says at which steps each part is needed.
            inputs: single steps [B, ...] or sequences [B, T, ...], from the replay buffer.
            state: recurrent state of single steps; empty for sequences.
            rollout_info: as `inputs`.

        Returns:
            `info` is what `calc_loss` needs, [B, ...] or [T, B, ...]; of sequences only `info` counts.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns: define learn()")

    def train_step(self, inputs: Any, state: Any, rollout_info: Any) -> AlgStep:
        """What the losses need of steps [B, ...], each by itself; see `learn`."""
        return self.learn(_SINGLE, inputs, state, rollout_info)

    def train_sequences(self, inputs: Any, state: Any, rollout_info: Any) -> Any:
        """Like `train_step` on all steps of [B, T, ...], but without the values that no loss uses; see `learn`."""
        length = inputs.step_type.shape[1]
        empty = type(self._train_state_spec)()
        return self.learn(Steps(length, self._policy_steps(length)), inputs, empty, rollout_info).info

    def _policy_steps(self, length: int) -> range:
        """The steps of sequences of `length` that the policy learns from."""
        check_length(self._one_transition, length, self._name)
        return range(1) if self._one_transition else range(length)


def check_one_transition(one_transition: bool, config: Any | None, train_state_spec: Nest, name: str) -> None:
    """Raises `ValueError` if `one_transition` cannot be used.

    Args:
        one_transition: whether it is to be used.
        config: settings of the run, if known.
        train_state_spec: specs of the recurrent state of `train_step`.
        name: of the algorithm, for the message.
    """
    if not one_transition:
        return
    if not nest.is_empty(train_state_spec):
        raise ValueError(
            f"{name}: recurrent networks learn from sequences: leave out one_transition, or where a conf has set it give "
            "one_transition=False"
        )
    if config is not None and config.mini_batch_length not in (None, 2):
        raise ValueError(
            f"{name}: one_transition needs mini_batch_length=2, got {config.mini_batch_length}: give one_transition=False to "
            "learn from longer sequences"
        )


def check_length(one_transition: bool, length: int, name: str) -> None:
    """Raises `ValueError` if `one_transition` is used with sequences of another length than 2."""
    if one_transition and length != 2:
        raise ValueError(f"{name}: one_transition needs sequences of 2 steps, got {length}: set mini_batch_length=2")


def of_first_steps(loss_info: LossInfo, step_type: Tensor) -> LossInfo:
    """Losses [2, B] as those of the first steps, [B], with zeros where that is a LAST step.

    Args:
        loss_info: `loss` and `extra` hold tensors [2, B].
        step_type: [2, B].
    """
    is_valid = step_type[0] != StepType.LAST
    first = partial(map_params, lambda row: row[0] * is_valid)
    return loss_info._replace(loss=first(loss_info.loss), extra=first(loss_info.extra))


# Sequences as data.


def sequences(data: Nest, length: int) -> Nest:
    """Cuts [B, T, ...] into consecutive sequences [B * T / length, length, ...].

    Args:
        data: nest of tensors [B, T, ...].
        length: steps per sequence; T must be a multiple.
    """
    steps = nest.get_nest_size(data, 1)
    if steps % length != 0:
        raise ValueError(f"{steps} steps cannot be cut into sequences of {length}: make mini_batch_length divide them")
    return nest.map_structure(lambda tensor: tensor.reshape(-1, length, *tensor.shape[2:]), data)


def shuffled(data: Nest, size: int | None) -> Iterator[tuple[Nest, Tensor]]:
    """One pass over the sequences of `data` in random order.

    Args:
        data: nest of tensors [N, L, ...].
        size: sequences per minibatch; the last one may have fewer. None is all at once.

    Yields:
        A minibatch [size, L, ...] and the int64 indices of its sequences, [size].
    """
    count = nest.get_nest_batch_size(data)
    leaves, spec = nest.flatten(data), nest.structure_of(data)
    order = torch.randperm(count)
    for begin in range(0, count, size or count):
        index = order[begin : begin + (size or count)]
        yield spec.unflatten([leaf.index_select(0, index) for leaf in leaves]), index


def steps_at_once(
    train_step: TrainStep,
    state_spec: Nest,
    inputs: Nest,
    state: Nest,
    rollout_info: Nest,
    with_output: bool = False,
) -> AlgStep:
    """Calls `train_step` once for all steps of sequences [B, T, ...].

    Args:
        train_step: takes inputs, state and rollout info of rows [B * T, ...].
        state_spec: of the recurrent state, which is zero where `state` is empty.
        inputs: [B, T, ...].
        state: [B, T, ...], or `()`.
        rollout_info: [B, T, ...].
        with_output: whether somebody needs the output.

    Returns:
        `info` [T, B, ...] and, if asked for, `output` [B, T, ...].
    """
    size, length = nest.get_nest_size(inputs, 0), nest.get_nest_size(inputs, 1)
    inputs, rollout_info, state = map_params(lambda tensor: tensor.flatten(0, 1), (inputs, rollout_info, state))
    if nest.is_empty(state):
        state = zero_state(state_spec, size * length)
    step = train_step(inputs, state, rollout_info)

    def split(data: Nest) -> Nest:
        return map_params(lambda tensor: tensor.reshape(size, length, *tensor.shape[1:]), data)

    return AlgStep(output=split(step.output) if with_output else (), info=time_major(split(step.info)))


def steps_in_order(
    train_step: TrainStep, inputs: Nest, state: Nest, rollout_info: Nest, with_output: bool = False
) -> AlgStep:
    """Calls `train_step` step by step on [B, T, ...], the state reset where an episode begins.

    Args:
        train_step: takes inputs, state and rollout info of one step.
        inputs: time steps, [B, T, ...].
        state: before the first step, [B, ...].
        rollout_info: [B, T, ...].
        with_output: whether somebody needs the output.

    Returns:
        `info` [T, B, ...], the `state` after the last step and, if asked for, `output` [B, T, ...].
    """
    outputs, infos = [], []
    for t in range(nest.get_nest_size(inputs, 1)):
        time_step, info = index_distributions((inputs, rollout_info), (slice(None), t))
        step = train_step(time_step, reset_state(state, time_step.is_first()), info)
        state = step.state
        outputs.append(step.output)
        infos.append(step.info)
    output = stack_distributions(outputs, 1) if with_output else ()
    return AlgStep(output=output, state=state, info=stack_distributions(infos))
