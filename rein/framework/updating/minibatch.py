"""From collected data to what algorithms compute on: the one place where batch-major data turns time-major.

Replay buffers and preprocessing use [B, T, ...]; algorithms learn from [T, B, ...]. Distributions turn with the tensors.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import AlgStep
from rein.distributions import index_distributions, map_params, stack_distributions
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state

TrainStep: TypeAlias = Callable[[Nest, Nest, Nest], AlgStep]


def batch_major(data: Nest) -> Nest:
    """[T, B, ...] as [B, T, ...], and the other way round; views."""
    return map_params(lambda tensor: tensor.transpose(0, 1), data)


time_major = batch_major


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
