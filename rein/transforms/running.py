"""When transformers with running statistics take in data."""

from collections.abc import Sequence

from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.statistics import are_statistics_frozen
from rein.transforms.base import DataSource, SimpleDataTransformer

__all__ = ["FollowsData"]


class FollowsData(SimpleDataTransformer):
    """Mixin: decides by `update_mode` which data the statistics follow; a subclass defines `_update`.

    * "rollout": every time step that is acted on, once, when it is new.
    * "replay": what is learned from: sampled experience, or the time steps of the rollout where the run learns from its
      rollouts (`set_data_source`).
    * "pretrain": experience that is sampled while the run learns from offline data before it acts.

    As with batch normalization, nothing is taken in after `eval()`: evaluation must not move the statistics. Nor is
    anything inside of `frozen_statistics`.
    """

    _update_mode: DataSource

    def _set_update_mode(self, update_mode: str, allowed: Sequence[DataSource]) -> None:
        for mode in allowed:
            if update_mode == mode:
                self._update_mode = mode
                return
        raise ValueError(f"update_mode of {type(self).__name__} is {update_mode!r}: give one of {tuple(allowed)}")

    @property
    def update_mode(self) -> DataSource:
        """Which data the statistics follow."""
        return self._update_mode

    @property
    def _takes_in(self) -> bool:
        return self.training and not are_statistics_frozen()

    @property
    def _takes_in_steps(self) -> bool:
        learns_from_them = self._update_mode == "replay" and self._data_source == "rollout"
        return self._takes_in and (self._update_mode == "rollout" or learns_from_them)

    def transform_timestep(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms time steps [B, ...], by statistics that include them if they follow the rollout."""
        if self._takes_in_steps:
            self._update(timestep)
        return super().transform_timestep(timestep, state)

    def transform_experience(self, experience: Experience) -> Experience:
        """Transforms experience [B, T, ...], by statistics that include it if they follow what is sampled."""
        if self._takes_in and self._update_mode == self._data_source and self._update_mode != "rollout":
            self._update(experience.time_step)
        return super().transform_experience(experience)

    def _update(self, time_step: TimeStep) -> None:
        """Takes in time steps with any batch dimensions."""
        raise NotImplementedError(f"{type(self).__name__} must define _update")
