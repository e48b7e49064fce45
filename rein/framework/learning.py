"""The way from collected data to updates.

Three regimes, chosen by the algorithm and the settings:

* on-policy: `calc_loss` of what `rollout_step` computed with gradients (`train_from_unroll`);
* fresh rollouts: several passes of `train_step` over the rollout of this iteration (`train_from_rollout`);
* replay: `train_step` on sequences sampled from the replay buffer (`train_from_replay_buffer`).

A rollout of T steps comes with a step T + 1 that was observed but not acted on, so that the value of the last state is
known to `calc_loss` and `preprocess_experience`; nothing is learnt from that step itself.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, StepType
from rein.distributions import (
    distributions_to_params,
    extract_spec,
    index_distributions,
    map_params,
    params_to_distributions,
    stack_distributions,
)
from rein.framework import minibatch
from rein.framework.compilation import CompiledUpdate
from rein.framework.trainer_config import TrainerConfig
from rein.framework.update import apply_gradients, average, importance_weights, in_mixed_precision
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state
from rein.replay import ReplayBuffer
from rein.runtime import summary
from rein.runtime.schedules import as_scheduler
from rein.runtime.timers import timer
from rein.specs import extract_spec as extract_tensor_spec

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm

TrainStep: TypeAlias = Callable[[Nest, Nest, Nest], AlgStep]


def observe_for_replay(algorithm: "Algorithm", experience: Experience) -> None:
    """Stores a step [B, ...] in the replay buffer of `algorithm`, which is made at the first call."""
    if algorithm._replay_buffer is None:
        make_replay_buffer(algorithm, experience)
    assert algorithm._replay_buffer is not None
    algorithm._replay_buffer.add_batch(_stored(algorithm, experience), experience.env_id)


def observe_rollout_for_replay(algorithm: "Algorithm", experience: Experience) -> None:
    """Stores the steps of a rollout [T, B, ...] in the replay buffer of `algorithm`, which is made at the first call."""
    if algorithm._replay_buffer is None:
        make_replay_buffer(algorithm, index_distributions(experience, 0))
    assert algorithm._replay_buffer is not None
    algorithm._replay_buffer.add_rollout(_stored(algorithm, experience), experience.env_id[0])


def _stored(algorithm: "Algorithm", experience: Experience) -> Experience:
    """What the replay buffer keeps of a step: tensors only, and of the state what training needs."""
    return experience._replace(
        time_step=experience.time_step._replace(untransformed=()),
        rollout_info=distributions_to_params(experience.rollout_info),
        state=nest.prune_nest_like(experience.state, algorithm.train_state_spec, ())
        if algorithm.need_full_rollout_state()
        else (),
    )


def stored_spec(algorithm: "Algorithm", experience: Experience) -> Experience:
    """Specs of what a replay buffer stores of steps like `experience`, [B, ...]."""
    return extract_tensor_spec(_stored(algorithm, experience))


def make_replay_buffer(algorithm: "Algorithm", experience: Experience) -> None:
    """Makes the replay buffer of `algorithm` for steps like `experience`, [B, ...]."""
    if algorithm._replay_buffer_args is None:
        raise ValueError(f"{algorithm.name} has no replay buffer: call set_replay_buffer() first")
    num_envs, max_length, prioritized = algorithm._replay_buffer_args
    algorithm._rollout_info_spec = extract_spec(experience.rollout_info)
    algorithm._experience_spec = stored_spec(algorithm, experience)
    transformer = algorithm._config.data_transformer if algorithm._config is not None else None
    algorithm._replay_buffer = ReplayBuffer(
        data_spec=algorithm._experience_spec,
        num_environments=num_envs,
        max_length=max_length,
        prioritized_sampling=prioritized,
        num_earliest_frames_ignored=max(0, getattr(transformer, "stack_size", 1) - 1),
        keep_episodic_info=getattr(transformer, "needs_episodic_info", False),
        name=f"{algorithm.name}_replay_buffer",
    )


def train_from_unroll(
    algorithm: "Algorithm", experience: Experience, train_info: Nest, num_bootstrap_steps: int = 0
) -> int:
    """Updates once from a rollout that was made with gradients.

    Args:
        algorithm: an on-policy algorithm.
        experience: [T, B, ...].
        train_info: info of `rollout_step`, [T, B, ...].
        num_bootstrap_steps: steps at the end that only give values to bootstrap from.
    """
    loss_info = algorithm.calc_loss(train_info)
    steps = experience.step_type.shape[0] - num_bootstrap_steps
    if num_bootstrap_steps:
        loss_info = _first_steps(loss_info, steps, experience.step_type.shape[:2])
    valid = valid_masks(experience.step_type[:steps])
    loss_info, params = algorithm.update_with_gradient(loss_info, valid)
    algorithm.after_update(experience.time_step, train_info)
    if summary.should_record_summaries():
        algorithm.summarize_train(experience, train_info, loss_info, params)
    return valid.numel()


def train_from_rollout(algorithm: "Algorithm", experience: Experience, num_bootstrap_steps: int) -> int:
    """Makes `num_updates_per_train_iter` passes over a rollout in minibatches.

    Args:
        algorithm: an off-policy algorithm that trains on fresh rollouts.
        experience: [T, B, ...]; `rollout_info` may hold distributions.
        num_bootstrap_steps: steps at the end that only give values to bootstrap from.
    """
    config = algorithm._config
    assert config is not None
    data = map_params(lambda tensor: tensor.transpose(0, 1), experience)
    with timer("preprocess"):
        time_step, rollout_info = algorithm.preprocess_experience(data.time_step, data.rollout_info, BatchInfo())
    steps = time_step.step_type.shape[1] - num_bootstrap_steps
    return _train_in_passes(algorithm, Experience(time_step, state=data.state, rollout_info=rollout_info), steps)


def _train_in_passes(algorithm: "Algorithm", experience: Experience, steps: int) -> int:
    """Passes over the first `steps` steps of [B, T, ...] in shuffled minibatches of sequences."""
    config = algorithm._config
    assert config is not None
    info_spec = extract_spec(experience.rollout_info, from_dim=2)
    rows = (experience.time_step, experience.state, distributions_to_params(experience.rollout_info))
    rows = nest.map_structure(lambda tensor: tensor[:, :steps], rows)
    algorithm._processed_experience_spec = extract_tensor_spec(rows, from_dim=2)
    rows = minibatch.sequences(rows, config.mini_batch_length or steps)
    trained = 0
    for _ in range(config.num_updates_per_train_iter):
        for (time_step, state, params), _ in minibatch.shuffled(rows, config.mini_batch_size):
            batch = Experience(time_step, state=state, rollout_info=params_to_distributions(params, info_spec))
            trained += _update_on(algorithm, batch)
            if config.update_counter_every_mini_batch:
                summary.increment_global_counter()
    return trained


def train_from_replay_buffer(algorithm: "Algorithm", update_global_counter: bool = False) -> int:
    """Makes the updates of one iteration from the replay buffer; none before `initial_collect_steps`."""
    config, buffer = algorithm._config, algorithm._replay_buffer
    if config is None or buffer is None or not has_enough(buffer, config):
        return 0
    if config.whole_replay_buffer_training:
        whole = from_buffer(algorithm, buffer, *buffer.gather_all(ignore_earliest_frames=True))
        steps = whole.step_type.shape[1]
        # What is left over are the newest steps, whose successors are not known yet.
        left_over = steps % min(config.mini_batch_length or steps, steps)
        trained = _train_in_passes(algorithm, whole, steps - left_over)
        if config.clear_replay_buffer:
            buffer.clear()
        return trained
    if config.mini_batch_size is None:
        raise ValueError("mini_batch_size is None: set it to the number of sequences to sample per update")
    trained = 0
    for _ in range(config.num_updates_per_train_iter):
        with timer("sample"):
            data, batch_info = buffer.get_batch(
                config.mini_batch_size, config.mini_batch_length or int(config.unroll_length)
            )
        trained += _update_on(algorithm, from_buffer(algorithm, buffer, data, batch_info))
        if update_global_counter and config.update_counter_every_mini_batch:
            summary.increment_global_counter()
    return trained


def has_enough(buffer: ReplayBuffer, config: TrainerConfig) -> bool:
    """Whether the replay buffer holds `initial_collect_steps`, and a sequence to sample."""
    if buffer.total_size < config.initial_collect_steps:
        return False
    length = 1 if config.whole_replay_buffer_training else config.mini_batch_length or int(config.unroll_length)
    return int(buffer.current_size.max()) >= length


def from_buffer(algorithm: "Algorithm", buffer: ReplayBuffer, data: Experience, batch_info: BatchInfo) -> Experience:
    """Sampled data [B, T, ...], transformed, its distributions rebuilt, and preprocessed."""
    experience = data._replace(
        batch_info=batch_info._replace(replay_buffer=buffer), replay_buffer=buffer, rollout_info_field="rollout_info"
    )
    experience = algorithm.transform_experience(experience)
    rollout_info = experience.rollout_info
    if algorithm._rollout_info_spec is not None:
        rollout_info = params_to_distributions(rollout_info, algorithm._rollout_info_spec)
    time_step, rollout_info = algorithm.preprocess_experience(experience.time_step, rollout_info, experience.batch_info)
    return experience._replace(time_step=time_step, rollout_info=rollout_info, replay_buffer=())


def _update_on(algorithm: "Algorithm", batch: Experience) -> int:
    """One update from sequences [B, T, ...]."""
    config = algorithm._config
    assert config is not None
    time_step = minibatch.time_major(batch.time_step)
    batch_info = batch.batch_info or None
    with timer("learn"):
        compiled = _compiled_update(algorithm, batch, batch_info) if config.compile else None
        if compiled is None:
            info = in_mixed_precision(config, lambda: train_info(algorithm, batch))
            if algorithm._train_info_spec is None:
                algorithm._train_info_spec = extract_spec(info, from_dim=2)
            loss_info = algorithm.calc_loss(info)
            valid = valid_masks(time_step.step_type)
            loss_info, params = algorithm.update_with_gradient(loss_info, valid, batch_info=batch_info)
        else:
            (loss_info, params), info = compiled, ()
        algorithm.after_update(time_step, info)
    if batch_info is not None:
        update_priority(config, loss_info, batch_info)
    if summary.should_record_summaries():
        algorithm.summarize_train(batch._replace(time_step=time_step), info, loss_info, params)
    return time_step.step_type.numel()


def update_priority(config: TrainerConfig, loss_info: LossInfo, batch_info: BatchInfo) -> None:
    """Gives sampled sequences the priorities [B] of their losses, with `priority_replay`."""
    if config.priority_replay and isinstance(loss_info.priority, Tensor):
        alpha = as_scheduler(config.priority_replay_alpha)()
        priority = (loss_info.priority.detach() + config.priority_replay_eps) ** alpha
        batch_info.replay_buffer.update_priority(batch_info.env_ids, batch_info.positions, priority)


def _compiled_update(
    algorithm: "Algorithm", batch: Experience, batch_info: BatchInfo | None
) -> tuple[LossInfo, list[tuple[str, Parameter]]] | None:
    """What `update_with_gradient` returns, from a compiled graph; None if this update cannot be compiled.

    Updates that are summarized are not compiled: summaries may look at anything.
    """
    if summary.should_record_summaries():
        return None
    if algorithm._compiled_update is None:
        algorithm._compiled_update = CompiledUpdate(
            algorithm, lambda batch, weights: _losses(algorithm, batch, weights)
        )
    loss_info = algorithm._compiled_update(batch, importance_weights(algorithm._config, batch_info))
    return None if loss_info is None else apply_gradients(algorithm, loss_info)


def _losses(algorithm: "Algorithm", batch: Experience, weights: Tensor | None) -> LossInfo:
    """The losses of sequences [B, T, ...], averaged to scalars."""
    loss_info = algorithm.calc_loss(train_info(algorithm, batch))
    return average(loss_info, valid_masks(minibatch.time_major(batch.step_type)), weights)


def train_info(algorithm: "Algorithm", batch: Experience, train_step: TrainStep | None = None) -> Nest:
    """Runs `train_step` over sequences [B, T, ...]; returns its infos as [T, B, ...].

    Args:
        algorithm: what learns.
        batch: [B, T, ...].
        train_step: None is that of `algorithm`.
    """
    config = algorithm._config
    independent = config.temporally_independent_train_step if config is not None else None
    if independent is None:
        independent = nest.is_empty(algorithm.train_state_spec)
    if not independent:
        state = zero_state(algorithm.train_state_spec, batch.step_type.shape[0])
        if not nest.is_empty(batch.state):
            first = nest.index_nest(batch.state, (slice(None), 0))
            state = nest.prune_nest_like(first, algorithm.train_state_spec, ())
        if train_step is None:
            return algorithm.train_recurrent_sequences(batch.time_step, state, batch.rollout_info)
        return train_steps_in_order(train_step, batch.time_step, state, batch.rollout_info)
    if train_step is None:
        return algorithm.train_sequences(batch.time_step, batch.state, batch.rollout_info)
    return train_steps_at_once(algorithm, train_step, batch.time_step, batch.state, batch.rollout_info)


def train_steps_at_once(
    algorithm: "Algorithm", train_step: TrainStep, inputs: Nest, state: Nest, rollout_info: Nest
) -> Nest:
    """Calls `train_step` once for all steps of sequences [B, T, ...]; returns its infos as [T, B, ...]."""
    size, length = nest.get_nest_size(inputs, 0), nest.get_nest_size(inputs, 1)
    inputs, rollout_info, state = map_params(lambda tensor: tensor.flatten(0, 1), (inputs, rollout_info, state))
    if nest.is_empty(state):
        state = zero_state(algorithm.train_state_spec, size * length)
    step = train_step(inputs, state, rollout_info)
    return map_params(lambda tensor: tensor.reshape(size, length, *tensor.shape[1:]).transpose(0, 1), step.info)


def train_steps_in_order(train_step: TrainStep, inputs: Nest, state: Nest, rollout_info: Nest) -> Nest:
    """Calls `train_step` step by step on [B, T, ...], the state reset where an episode begins; infos are [T, B, ...].

    Args:
        train_step: takes inputs, state and rollout info of one step.
        inputs: time steps, [B, T, ...].
        state: before the first step, [B, ...].
        rollout_info: [B, T, ...].
    """
    infos = []
    for t in range(nest.get_nest_size(inputs, 1)):
        time_step, info = index_distributions((inputs, rollout_info), (slice(None), t))
        step = train_step(time_step, reset_state(state, time_step.is_first()), info)
        state = step.state
        infos.append(step.info)
    return stack_distributions(infos)


def valid_masks(step_type: Tensor) -> Tensor:
    """1.0 for steps that an action was taken at, 0.0 for LAST ones; same shape."""
    return (step_type != StepType.LAST).to(torch.float32)


def _first_steps(loss_info: LossInfo, steps: int, shape: torch.Size) -> LossInfo:
    """`loss_info` without the rows of bootstrap steps."""

    def first(value: object) -> object:
        return value[:steps] if isinstance(value, Tensor) and value.shape[:2] == shape else value

    return nest.map_structure(first, loss_info)
