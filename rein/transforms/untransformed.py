"""Keeps the time step as it was, beside the transformed one."""

from typing import ClassVar

from rein.config import configurable
from rein.data_structures import TimeStep
from rein.nest import Nest
from rein.transforms.base import SimpleDataTransformer

__all__ = ["UntransformedTimeStep"]


@configurable
class UntransformedTimeStep(SimpleDataTransformer):
    """Puts the time step itself into its field `untransformed`; must come before any other transformer."""

    must_be_first: ClassVar[bool] = True

    def __init__(self, observation_spec: Nest = None) -> None:
        """Keeps the spec.

        Args:
            observation_spec: specs of the observation; only `transformed_observation_spec` needs it.
        """
        super().__init__(observation_spec)

    def _transform(self, time_step: TimeStep) -> TimeStep:
        return time_step._replace(untransformed=time_step._replace(untransformed=()))
