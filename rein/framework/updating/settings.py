"""`UpdateSettings`: how to learn from stored data."""

from dataclasses import dataclass, fields, replace
from typing import Any

from rein import nest
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest


@dataclass(frozen=True)
class UpdateSettings:
    """How an algorithm learns from stored data; the fields mean what they mean in `TrainerConfig`.

    The root algorithm takes them from the settings of the run (`of`). A part that learns by its own schedule, such as an
    auxiliary phase, has its own.
    """

    mini_batch_size: int | None = None
    mini_batch_length: int | None = None
    unroll_length: float = 8
    """Sequences are as long as this where `mini_batch_length` is None."""
    num_updates_per_train_iter: int = 4
    initial_collect_steps: int = 0
    whole_replay_buffer_training: bool = True
    clear_replay_buffer: bool = True
    temporally_independent_train_step: bool | None = None
    use_rollout_state: bool = False
    burn_in_steps: int = 0
    update_counter_every_mini_batch: bool = False
    priority_replay: bool = False
    priority_replay_alpha: Any = 0.7
    priority_replay_beta: Any = 0.4
    priority_replay_eps: float = 1e-6
    normalize_importance_weights_by_max: bool = False
    enable_amp: bool = False
    compile: bool | str = False
    summarize_gradient_noise_scale: bool = False

    @classmethod
    def of(cls, config: TrainerConfig | None) -> "UpdateSettings":
        """Those of a run; without settings, the defaults."""
        if config is None:
            return cls()
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})

    def of_learner(self, train_state_spec: Nest) -> "UpdateSettings":
        """The same with what depends on the learner: steps are independent of each other if it has no memory."""
        if self.temporally_independent_train_step is not None:
            return self
        return replace(self, temporally_independent_train_step=nest.is_empty(train_state_spec))

    @property
    def sequence_length(self) -> int:
        """Steps per sequence that is sampled from a replay buffer."""
        return self.mini_batch_length or int(self.unroll_length)

    def require_mini_batch_size(self) -> int:
        """`mini_batch_size`, which sampling needs."""
        if self.mini_batch_size is None:
            raise ValueError("mini_batch_size is None: set it to the number of sequences to sample per update")
        return self.mini_batch_size
