"""Hybrid training: updates that mix a saved buffer with the replay buffer of the run."""

from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from rein import nest
from rein.data_structures import Experience, LossInfo
from rein.framework import learning, minibatch
from rein.framework.update import in_mixed_precision
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.replay.files import load_offline_buffer
from rein.runtime import summary
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
        buffer = load_offline_buffer(data_spec, config.offline_buffer_dir, config.offline_buffer_length)
        return cls(buffer, config.rl_train_after_update_steps, config.rl_train_every_update_steps)

    @property
    def online_training_has_started(self) -> bool:
        """Whether enough updates were made on offline data alone."""
        return self.num_updates >= self._start_after

    def state_dict(self) -> dict[str, int]:
        """How far training has come; the data itself is not changed by it."""
        return {"num_updates": self.num_updates}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on where `state_dict` was taken."""
        self.num_updates = state["num_updates"]

    def train(self, algorithm: "RLAlgorithm") -> int:
        """The updates of one iteration, each on offline data and, in turn, on the replay buffer too."""
        config = algorithm._require_config()
        if config.mini_batch_size is None:
            raise ValueError("mini_batch_size is None: set it to the number of sequences to sample per update")
        length = config.mini_batch_length or int(config.unroll_length)
        trained = 0
        for _ in range(config.num_updates_per_train_iter):
            pre_train = not self.online_training_has_started
            if config.data_transformer is not None:
                config.data_transformer.set_data_source("pretrain" if pre_train else "replay")
            batches = [_loss(algorithm, self._buffer, config.mini_batch_size, length, True, pre_train)]
            online = algorithm.replay_buffer
            is_turn = not pre_train and self.num_updates % self._online_every == 0
            if is_turn and online is not None and learning.has_enough(online, config):
                batches.append(_loss(algorithm, online, config.mini_batch_size, length, False, False))
            loss_info = learning.total_loss([(loss, mask) for loss, mask, _, _ in batches])
            loss_info, params = algorithm.update_with_gradient(loss_info)
            for _, mask, experience, info in batches:
                algorithm.after_update(experience.time_step, info)
                trained += mask.numel()
            self.num_updates += 1
            if summary.should_record_summaries():
                algorithm.summarize_train(batches[0][2], batches[0][3], loss_info, params)
        return trained


def _loss(
    algorithm: "RLAlgorithm", buffer: ReplayBuffer, size: int, length: int, is_offline: bool, pre_train: bool
) -> tuple[LossInfo, Tensor, Experience, Nest]:
    """Loss, mask [T, B], experience and info of a batch sampled from `buffer`."""
    data, batch_info = buffer.get_batch(size, length)
    experience = learning.from_buffer(algorithm, buffer, data, batch_info)
    config = algorithm._require_config()
    if is_offline:
        train_step = partial(algorithm.train_step_offline, pre_train=pre_train)
        info = in_mixed_precision(config, lambda: learning.train_info(algorithm, experience, train_step))
        loss_info = algorithm.calc_loss_offline(info, pre_train)
    else:
        info = in_mixed_precision(config, lambda: learning.train_info(algorithm, experience))
        loss_info = algorithm.calc_loss(info)
    turned = experience._replace(time_step=minibatch.time_major(experience.time_step))
    return loss_info, learning.valid_masks(turned.step_type), turned, info
