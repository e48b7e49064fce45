"""Offline data: a saved buffer that a run learns from, alone or beside the replay buffer of its own."""

from typing import TYPE_CHECKING, Any, Protocol

from rein import nest
from rein.data_structures import BatchInfo, Experience
from rein.framework.updating.gradients import Batch
from rein.framework.updating.replay_training import ReplayTraining
from rein.nest import Nest
from rein.replay.datasets import Specs
from rein.replay.offline import load_offline_data
from rein.runtime import summary
from rein.specs import TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

    from rein.framework.rl_algorithm import RLAlgorithm


class OfflineSource(Protocol):
    """Where offline data comes from: a replay buffer, or a data set on disk."""

    def get_batch(self, batch_size: int, batch_length: int) -> tuple[Experience, BatchInfo]:
        """Samples sequences [B, T, ...] of at least `time_step` and `action`."""

    def update_priority(self, env_ids: "Tensor", positions: "Tensor", priorities: "Tensor") -> None:
        """Gives sampled sequences their priorities [B]."""

    def priority_state(self) -> dict[str, Any]:
        """The priorities, and what else sampling changes."""

    def load_priority_state(self, state: dict[str, Any]) -> None:
        """Restores what `priority_state` gave."""


class OfflineData:
    """Saved data, and how far training on it has come."""

    def __init__(self, source: OfflineSource, start_after: int, online_every: int) -> None:
        """Mixes offline updates with online ones.

        Args:
            source: the saved data.
            start_after: updates on offline data before online training starts.
            online_every: updates on offline data per online one.
        """
        self.source = source
        self._start_after = start_after
        self._online_every = max(1, online_every)
        self.num_updates = 0

    @classmethod
    def load(cls, algorithm: "RLAlgorithm", untransformed_observation_spec: Nest) -> "OfflineData":
        """Loads the buffers that the settings name, and checks that they fit."""
        config = algorithm.require_config()
        if config.offline_buffer_dir is None:
            raise ValueError("offline_buffer_dir is not set: there is no offline data to load")
        experience = algorithm.rollout.peek()
        data_spec = algorithm.learning.stored_spec(experience)
        announced = nest.map_structure(lambda spec: TensorSpec(spec.shape, spec.dtype), untransformed_observation_spec)
        if data_spec.time_step.observation != announced:
            raise ValueError(
                f"the environment gives observations {data_spec.time_step.observation}, offline data was announced with "
                f"{announced}"
            )
        algorithm.learning.note_rollout_info(experience.rollout_info)
        specs = Specs(untransformed_observation_spec, algorithm.action_spec, algorithm.reward_spec)
        buffer = load_offline_data(
            config.offline_buffer_dir,
            specs,
            data_spec,
            config.offline_buffer_length,
            **algorithm.learning.buffer_options(),
            prioritized_sampling=config.priority_replay,
        )
        return cls(buffer, config.rl_train_after_update_steps, config.rl_train_every_update_steps)

    @property
    def online_training_has_started(self) -> bool:
        """Whether enough updates were made on offline data alone."""
        return self.num_updates >= self._start_after

    def state_dict(self) -> dict[str, Any]:
        """How far training has come, and the priorities; the data itself is not changed by it."""
        return {"num_updates": self.num_updates, **self.source.priority_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken."""
        self.num_updates = state["num_updates"]
        self.source.load_priority_state({key: value for key, value in state.items() if key != "num_updates"})

    def train(self, learning: ReplayTraining, is_alone: bool = False) -> int:
        """The updates of one iteration, each on offline data and, in turn, on the replay buffer too.

        Args:
            learning: of the algorithm that learns.
            is_alone: whether there is no environment, and so never any data but this.

        Returns:
            The number of samples trained on.
        """
        trained = 0
        for left in reversed(range(learning.settings.num_updates_per_train_iter)):
            pre_train = is_alone or not self.online_training_has_started
            if learning.transformer is not None:
                learning.transformer.set_data_source("pretrain" if pre_train else "replay")
            batches = [Batch(self.sample(learning), is_offline=True, pre_train=pre_train)]
            is_turn = not pre_train and self.num_updates % self._online_every == 0
            if is_turn and learning.has_enough():
                batches.append(Batch(learning.sample(learning.buffer)))
            trained += learning.update_before(batches, left)
            self.num_updates += 1
            if learning.settings.update_counter_every_mini_batch:
                summary.increment_global_counter()
        return trained

    def sample(self, learning: ReplayTraining) -> Experience:
        """A minibatch with what all offline data has: the time steps, the actions, and the actions as rollout info."""
        known = learning.rollout_info_spec
        return learning.sample(self.source, lambda data: learning.learner.offline_rollout_info(data, known))
