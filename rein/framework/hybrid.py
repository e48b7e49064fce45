"""Hybrid training: updates that mix a saved buffer with the replay buffer of the run."""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rein import nest
from rein.data_structures import Experience, LossInfo
from rein.framework import learning, minibatch
from rein.framework.update import average, importance_weights, in_mixed_precision
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.replay.files import load_offline_buffer
from rein.runtime import summary
from rein.runtime.timers import timer
from rein.specs import TensorSpec

if TYPE_CHECKING:
    from rein.framework.rl_algorithm import RLAlgorithm


class OfflineData:
    """Saved data, and how far training on it has come."""

    def __init__(self, buffer: ReplayBuffer, start_after: int, online_every: int) -> None:
        """Mixes offline updates with online ones.

        Args:
            buffer: the saved data.
            start_after: updates on offline data before online training starts.
            online_every: updates on offline data per online one.
        """
        self._buffer = buffer
        self._start_after = start_after
        self._online_every = max(1, online_every)
        self.num_updates = 0

    @classmethod
    def load(cls, algorithm: "RLAlgorithm", untransformed_observation_spec: Nest) -> "OfflineData":
        """Loads the buffers that the settings name, and checks that they fit."""
        config = algorithm._require_config()
        if config.offline_buffer_dir is None:
            raise ValueError("offline_buffer_dir is not set: there is no offline data to load")
        data_spec = learning.stored_spec(algorithm, algorithm.rollout.peek())
        announced = nest.map_structure(lambda spec: TensorSpec(spec.shape, spec.dtype), untransformed_observation_spec)
        if data_spec.time_step.observation != announced:
            raise ValueError(
                f"the environment gives observations {data_spec.time_step.observation}, offline data was announced with "
                f"{announced}"
            )
        buffer = load_offline_buffer(
            data_spec,
            config.offline_buffer_dir,
            config.offline_buffer_length,
            prioritized_sampling=config.priority_replay,
        )
        return cls(buffer, config.rl_train_after_update_steps, config.rl_train_every_update_steps)

    @property
    def online_training_has_started(self) -> bool:
        """Whether enough updates were made on offline data alone."""
        return self.num_updates >= self._start_after

    def state_dict(self) -> dict[str, Any]:
        """How far training has come, and the priorities; the data itself is not changed by it."""
        return {"num_updates": self.num_updates, **self._buffer.priority_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken."""
        self.num_updates = state["num_updates"]
        self._buffer.load_priority_state({key: value for key, value in state.items() if key != "num_updates"})

    def train(self, algorithm: "RLAlgorithm") -> int:
        """The updates of one iteration, each on offline data and, in turn, on the replay buffer too.

        Returns:
            The number of samples trained on.
        """
        config = algorithm._require_config()
        if config.mini_batch_size is None:
            raise ValueError("mini_batch_size is None: set it to the number of sequences to sample per update")
        trained = 0
        for _ in range(config.num_updates_per_train_iter):
            pre_train = not self.online_training_has_started
            if config.data_transformer is not None:
                config.data_transformer.set_data_source("pretrain" if pre_train else "replay")
            batches = [_sample(algorithm, self._buffer, True, pre_train)]
            online = algorithm.replay_buffer
            is_turn = not pre_train and self.num_updates % self._online_every == 0
            if is_turn and online is not None and learning.has_enough(online, config):
                batches.append(_sample(algorithm, online, False, False))
            trained += _update(algorithm, batches)
            self.num_updates += 1
            if config.update_counter_every_mini_batch:
                summary.increment_global_counter()
        return trained


class _Batch(NamedTuple):
    """A sampled batch and its losses."""

    experience: Experience
    """The time step is [T, B, ...], the rest [B, T, ...]."""
    info: Nest
    """[T, B, ...] infos of the training step."""
    loss_info: LossInfo
    """Averaged over the batch, but for the priority [B]."""


def _sample(algorithm: "RLAlgorithm", buffer: ReplayBuffer, is_offline: bool, pre_train: bool) -> _Batch:
    """A batch from `buffer`, with its losses weighted and averaged."""
    config = algorithm._require_config()
    assert config.mini_batch_size is not None
    with timer("sample"):
        data, batch_info = buffer.get_batch(
            config.mini_batch_size, config.mini_batch_length or int(config.unroll_length)
        )
    experience = learning.from_buffer(algorithm, buffer, data, batch_info)
    with timer("learn"):
        if is_offline:
            train_step = partial(algorithm.train_step_offline, pre_train=pre_train)
            info = in_mixed_precision(config, lambda: learning.train_info(algorithm, experience, train_step))
            loss_info = algorithm.calc_loss_offline(info, pre_train)
        else:
            info = in_mixed_precision(config, lambda: learning.train_info(algorithm, experience))
            loss_info = algorithm.calc_loss(info)
        turned = experience._replace(time_step=minibatch.time_major(experience.time_step))
        weights = importance_weights(config, experience.batch_info)
        loss_info = average(loss_info, learning.valid_masks(turned.step_type), weights)
    return _Batch(turned, info, loss_info)


def _update(algorithm: "RLAlgorithm", batches: list[_Batch]) -> int:
    """One update from the sum of the losses; returns the number of samples trained on."""
    config = algorithm._require_config()
    losses = [batch.loss_info for batch in batches]
    with timer("learn"):
        total = LossInfo(loss=sum(one.loss for one in losses), extra=[one.extra for one in losses])
        loss_info, params = algorithm.update_with_gradient(total)
        for batch in batches:
            algorithm.after_update(batch.experience.time_step, batch.info)
    for batch in batches:
        learning.update_priority(config, batch.loss_info, batch.experience.batch_info)
    if summary.should_record_summaries():
        algorithm.summarize_train(batches[0].experience, batches[0].info, loss_info, params)
    return sum(batch.experience.step_type.numel() for batch in batches)
