"""`ReplayTraining`: what learning from stored data needs, and the way from data to updates.

Three regimes, chosen by the algorithm and the settings:

* on-policy: `calc_loss` of what `rollout_step` computed with gradients (`train_from_unroll`);
* fresh rollouts: several passes of `train_step` over the rollout of this iteration (`train_from_rollout`);
* replay: `train_step` on sequences sampled from the replay buffer (`train_from_buffer`).

A rollout of T steps comes with a step T + 1 that was observed but not acted on, so that the value of the last state is
known to `calc_loss` and `preprocess_experience`; nothing is learnt from that step itself.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.data_structures import BatchInfo, Experience, LossInfo
from rein.distributions import (
    distributions_to_params,
    extract_spec,
    index_distributions,
    params_to_distributions,
)
from rein.framework.steps import batch_major, sequences, shuffled, time_major
from rein.framework.updating.compilation import CompiledUpdate
from rein.framework.updating.compile_when import CompileWhen
from rein.framework.updating.finite import skipped_updates
from rein.framework.updating.gradients import (
    Batch,
    Gradients,
    NamedParameters,
    apply_gradients,
    compute_gradients,
    handled_parameters,
    update_at_once,
    valid_masks,
)
from rein.framework.updating.product_sizes import update_pays, weight_sizes
from rein.framework.updating.settings import UpdateSettings
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.runtime import summary
from rein.runtime.schedules import as_scheduler
from rein.runtime.timers import timer
from rein.specs import extract_spec as extract_tensor_spec

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm
    from rein.transforms import DataTransformer


class BufferPlan(NamedTuple):
    """What a replay buffer is made by, once it is known what it holds."""

    num_envs: int
    max_length: int
    """Steps of each environment."""
    prioritized: bool = False


class ReplayTraining:
    """Learning from stored data: a buffer, settings, and specs of what passes through.

    The root algorithm of a run has one, and so has a part that learns by its own schedule: PPG's auxiliary phase, the
    learner of a MuZero model. Nothing here depends on whose it is.

    Attributes:
        settings: how it learns.
        buffer: None before the first step is stored, and where data is not stored.
        buffer_ctor: makes the buffer; another one than `ReplayBuffer` may keep the data elsewhere.
        transformer: applied to what is sampled; None leaves it as it is.
        rollout_info_spec: specs of `AlgStep.info` of `rollout_step`, distributions included; None until known.
        experience_spec: specs of what the buffer stores; None until known.
        processed_experience_spec: specs of what `preprocess_experience` gives; None until known.
        train_info_spec: specs of `AlgStep.info` of `train_step`; None until known.
        compile_when: when updates are compiled.
    """

    def __init__(self, learner: "Algorithm", settings: UpdateSettings) -> None:
        """Learns nothing yet.

        Args:
            learner: what learns.
            settings: how.
        """
        # A plain list keeps the learner from becoming a submodule of anything that holds this object.
        self._learner = [learner]
        self.settings = settings.of_learner(learner.train_state_spec)
        self.buffer: ReplayBuffer | None = None
        self.buffer_ctor: Callable[..., Any] = ReplayBuffer
        self.transformer: DataTransformer | None = None
        self.rollout_info_spec: Nest = None
        self.experience_spec: Nest = None
        self.processed_experience_spec: Nest = None
        self.train_info_spec: Nest = None
        self._plan: BufferPlan | None = None
        self._saved_buffer: dict[str, Any] | None = None
        self._bound: tuple[list[Any], list[Parameter]] | None = None
        self._weight_sizes: list[int] | None = None
        self._compiled: CompiledUpdate | None = None
        self.compile_when = CompileWhen(settings.compile)

    @property
    def learner(self) -> "Algorithm":
        """What learns."""
        return self._learner[0]

    # Storing.

    @property
    def has_plan(self) -> bool:
        """Whether it is settled how much a buffer would hold."""
        return self._plan is not None

    def plan_buffer(self, num_envs: int, max_length: int, prioritized: bool = False) -> None:
        """Settles what the replay buffer holds; it is made when the first experience shows what a step is.

        Args:
            num_envs: environments that it stores.
            max_length: steps of each environment that it holds.
            prioritized: sample by priority.
        """
        self._plan = BufferPlan(num_envs, max_length, prioritized)

    def store(self, experience: Experience) -> None:
        """Stores a step of every environment, [B, ...]."""
        self._buffer_for(experience).add_batch(self._stored(experience), experience.env_id)

    def store_rollout(self, experience: Experience) -> None:
        """Stores the steps of a rollout, [T, B, ...]."""
        buffer = self.buffer if self.buffer is not None else self._buffer_for(index_distributions(experience, 0))
        buffer.add_rollout(self._stored(experience), experience.env_id[0])

    def make_buffer(self, experience: Experience) -> ReplayBuffer:
        """Makes the replay buffer for steps like `experience`, [B, ...]."""
        if self._plan is None:
            raise ValueError(f"{self.learner.name} has no replay buffer: call set_replay_buffer() first")
        self.rollout_info_spec = extract_spec(experience.rollout_info)
        self.experience_spec = self.stored_spec(experience)
        self.buffer = self.buffer_ctor(
            data_spec=self.experience_spec,
            num_environments=self._plan.num_envs,
            max_length=self._plan.max_length,
            prioritized_sampling=self._plan.prioritized,
            **self.buffer_options(),
            name=f"{self.learner.name}_replay_buffer",
        )
        if self._saved_buffer is not None:
            self.buffer.load_state_dict(self._saved_buffer)
            self._saved_buffer = None
        return self.buffer

    def buffer_options(self) -> dict[str, Any]:
        """What a transformer needs of a buffer that it looks around in, as arguments of `ReplayBuffer`."""
        return {
            "num_earliest_frames_ignored": self.num_earliest_frames_ignored,
            "keep_episodic_info": getattr(self.transformer, "needs_episodic_info", False),
        }

    @property
    def num_earliest_frames_ignored(self) -> int:
        """Steps at the old end of the buffer that a transformer only looks back at."""
        return max(0, getattr(self.transformer, "stack_size", 1) - 1)

    def stored_spec(self, experience: Experience) -> Experience:
        """Specs of what the buffer stores of steps like `experience`, [B, ...]."""
        return extract_tensor_spec(self._stored(experience))

    def note_rollout_info(self, info: Nest, from_dim: int = 1) -> None:
        """Takes the specs of rollout infos with `from_dim` batch dimensions, where none was stored yet."""
        if self.rollout_info_spec is None:
            self.rollout_info_spec = extract_spec(info, from_dim=from_dim)

    def _buffer_for(self, experience: Experience) -> ReplayBuffer:
        return self.buffer if self.buffer is not None else self.make_buffer(experience)

    def _stored(self, experience: Experience) -> Experience:
        """What the buffer keeps of a step: tensors only, and of the state what training needs."""
        learner = self.learner
        return experience._replace(
            time_step=experience.time_step._replace(untransformed=()),
            rollout_info=distributions_to_params(experience.rollout_info),
            state=nest.prune_nest_like(experience.state, learner.train_state_spec, ())
            if learner.need_full_rollout_state()
            else (),
        )

    # From data to updates.

    def train_from_rollout(self, experience: Experience, num_bootstrap_steps: int) -> int:
        """Makes `num_updates_per_train_iter` passes over a rollout in minibatches.

        Args:
            experience: [T, B, ...]; `rollout_info` may hold distributions.
            num_bootstrap_steps: steps at the end that only give values to bootstrap from.

        Returns:
            The number of samples trained on.
        """
        data = batch_major(experience._replace(batch_info=(), replay_buffer=(), rollout_info_field=()))
        with timer("preprocess"):
            time_step, info = self.learner.preprocess_experience(data.time_step, data.rollout_info, BatchInfo())
        steps = time_step.step_type.shape[1] - num_bootstrap_steps
        return self._train_in_passes(Experience(time_step, state=data.state, rollout_info=info), steps)

    def _train_in_passes(self, experience: Experience, steps: int) -> int:
        """Passes over the first `steps` steps of [B, T, ...] in shuffled minibatches of sequences."""
        settings = self.settings
        info_spec = extract_spec(experience.rollout_info, from_dim=2)
        rows = (experience.time_step, experience.state, distributions_to_params(experience.rollout_info))
        rows = nest.map_structure(lambda tensor: tensor[:, :steps], rows)
        self.processed_experience_spec = extract_tensor_spec(rows, from_dim=2)
        rows = sequences(rows, settings.mini_batch_length or steps)
        count = nest.get_nest_batch_size(rows)
        left = settings.num_updates_per_train_iter * -(-count // (settings.mini_batch_size or count))
        trained = 0
        for _ in range(settings.num_updates_per_train_iter):
            for (time_step, state, params), _ in shuffled(rows, settings.mini_batch_size):
                info = params_to_distributions(params, info_spec)
                left -= 1
                trained += self.update_before([Batch(Experience(time_step, state=state, rollout_info=info))], left)
                if settings.update_counter_every_mini_batch:
                    summary.increment_global_counter()
        return trained

    def train_from_buffer(self, update_global_counter: bool = False) -> int:
        """Makes the updates of one iteration from the replay buffer; none before `initial_collect_steps`."""
        settings, buffer = self.settings, self.buffer
        if buffer is None or not self.has_enough():
            return 0
        if settings.whole_replay_buffer_training:
            whole = self.prepare(buffer, *buffer.gather_all(ignore_earliest_frames=True))
            steps = whole.step_type.shape[1]
            # What is left over are the newest steps, whose successors are not known yet.
            left_over = steps % min(settings.mini_batch_length or steps, steps)
            trained = self._train_in_passes(whole, steps - left_over)
            if settings.clear_replay_buffer:
                buffer.clear()
            return trained
        trained = 0
        for left in reversed(range(settings.num_updates_per_train_iter)):
            trained += self.update_before([Batch(self.sample(buffer))], left)
            if update_global_counter and settings.update_counter_every_mini_batch:
                summary.increment_global_counter()
        return trained

    def has_enough(self) -> bool:
        """Whether the replay buffer holds `initial_collect_steps`, and a sequence to sample."""
        buffer, settings = self.buffer, self.settings
        total = 0 if buffer is None else buffer.total_size
        if buffer is None or total < settings.initial_collect_steps:
            return False
        length = 1 if settings.whole_replay_buffer_training else settings.sequence_length
        if self._plan is not None and total >= length * self._plan.num_envs:
            # Then some environment has that many, as it is in all updates but the first.
            return True
        return int(buffer.current_size.numpy().max()) >= length

    def sample(self, buffer: Any, offline_info: Callable[[Experience], Nest] | None = None) -> Experience:
        """A minibatch of sequences [B, T, ...] from a buffer, ready to learn from.

        Args:
            buffer: has `get_batch`.
            offline_info: makes the rollout info of data that others recorded; None takes what the buffer has of it.
        """
        size = self.settings.require_mini_batch_size()
        with timer("sample"):
            data, batch_info = buffer.get_batch(size, self.settings.sequence_length)
        return self.prepare(buffer, data, batch_info, offline_info)

    def prepare(
        self,
        buffer: Any,
        data: Experience,
        batch_info: BatchInfo,
        offline_info: Callable[[Experience], Nest] | None = None,
    ) -> Experience:
        """Stored data [B, T, ...], transformed, its distributions rebuilt, and preprocessed."""
        experience = data._replace(
            batch_info=batch_info._replace(replay_buffer=buffer),
            replay_buffer=buffer,
            rollout_info_field="rollout_info",
        )
        if self.transformer is not None:
            experience = self.transformer.transform_experience(experience)
        rollout_info = experience.rollout_info
        if offline_info is not None:
            rollout_info = offline_info(experience)
        elif self.rollout_info_spec is not None:
            rollout_info = params_to_distributions(rollout_info, self.rollout_info_spec)
        time_step, rollout_info = self.learner.preprocess_experience(
            experience.time_step, rollout_info, experience.batch_info
        )
        return experience._replace(time_step=time_step, rollout_info=rollout_info, replay_buffer=())

    # One update.

    def update_before(self, batches: Sequence[Batch], left: int) -> int:
        """An update that `left` others follow in its iteration; see `update`.

        Where all of them stand at one value of the global counter, only the last is summarized: those before would be
        hidden by it, and what is summarized is not compiled.
        """
        is_hidden = left > 0 and not self.settings.update_counter_every_mini_batch
        if not is_hidden or not summary.should_record_summaries():
            return self.update(batches)
        with summary.record_if(lambda: False):
            return self.update(batches)

    def update(self, batches: Sequence[Batch]) -> int:
        """One update from the sum of the losses of some batches; returns the number of samples trained on."""
        with timer("learn"):
            before = time.perf_counter()
            gradients = self._update_at_once(batches)
            if gradients is None:
                gradients = self.compute_gradients(batches)
                self.apply_gradients(gradients)
            if self.compile_when.is_waiting:
                self.compile_when.learnt(time.perf_counter() - before)
        if self.train_info_spec is None and not nest.is_empty(gradients.info):
            self.train_info_spec = extract_spec(gradients.info, from_dim=2)
        self._give_priorities(batches, gradients)
        if summary.should_record_summaries():
            last = batches[-1].experience
            last = last._replace(time_step=gradients.inputs or time_major(last.time_step))
            params = NamedParameters(self.learner, self.optimized()[1])
            self.learner.summarize_train(last, gradients.info, gradients.loss_info, params)
        return sum(batch.experience.step_type.numel() for batch in batches)

    def _update_at_once(self, batches: Sequence[Batch]) -> Gradients | None:
        """An update by one compiled graph, the optimizers' steps included; None if there is none."""
        compiled = self._compiled_update()
        if compiled is None or summary.should_record_summaries():
            return None
        return update_at_once(self.learner, batches, self.settings, self.optimized()[0], compiled)

    def compute_gradients(self, batches: Sequence[Batch]) -> Gradients:
        """Gradients of an update; nothing is changed by it."""
        parameters = self.optimized()[1]
        if self._weight_sizes is None:
            self._weight_sizes = weight_sizes(parameters)
        by_onednn = update_pays(self._weight_sizes, batches, self.settings)
        return compute_gradients(self.learner, batches, self.settings, parameters, self._compiled_update(), by_onednn)

    def _compiled_update(self) -> CompiledUpdate | None:
        """What makes compiled updates, from the moment on when compiling pays."""
        if self._compiled is None and self.compile_when.is_due() and not summary.should_record_summaries():
            when, parameters = self.compile_when, self.optimized()[1]
            self._compiled = CompiledUpdate(self.learner, self.settings, parameters, when.is_waiting, when.compiled)
        return self._compiled

    def apply_gradients(self, gradients: Gradients) -> None:
        """Steps the optimizers, and lets the learner do what follows an update."""
        optimizers, parameters = self.optimized()
        apply_gradients(self.learner, gradients, parameters, optimizers)

    def optimized(self) -> tuple[list[Any], list[Parameter]]:
        """The optimizers of the learner and their parameters, found once."""
        if self._bound is None:
            optimizers = self.learner.optimizers()
            self._bound = (optimizers, handled_parameters(optimizers))
        return self._bound

    def _give_priorities(self, batches: Sequence[Batch], gradients: Gradients) -> None:
        """Gives sampled sequences the priorities [B] of their losses, with `priority_replay`."""
        if not self.settings.priority_replay:
            return
        alpha = as_scheduler(self.settings.priority_replay_alpha)()
        for batch, priority in zip(batches, gradients.priorities, strict=True):
            info = batch.experience.batch_info
            if isinstance(priority, Tensor) and isinstance(info, BatchInfo):
                values = (priority.detach() + self.settings.priority_replay_eps) ** alpha
                info.replay_buffer.update_priority(info.env_ids, info.positions, values)

    # State.

    def state_dict(self) -> dict[str, Any] | None:
        """What the buffer holds; None where there is none."""
        return self._saved_buffer if self.buffer is None else self.buffer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Fills the buffer with what `state_dict` gave: now, or as soon as the first step shows what it holds."""
        if self.buffer is None:
            self._saved_buffer = state
        else:
            self.buffer.load_state_dict(state)


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
    skipped = skipped_updates(algorithm).total
    loss_info, params = algorithm.update_with_gradient(loss_info, valid)
    if skipped_updates(algorithm).total == skipped:
        algorithm.after_update(experience.time_step, train_info)
    if summary.should_record_summaries():
        algorithm.summarize_train(experience, train_info, loss_info, params)
    return valid.numel()


def _first_steps(loss_info: LossInfo, steps: int, shape: torch.Size) -> LossInfo:
    """`loss_info` without the rows of bootstrap steps."""

    def first(value: object) -> object:
        return value[:steps] if isinstance(value, Tensor) and value.shape[:2] == shape else value

    return nest.map_structure(first, loss_info)
