"""Wrappers around one `gymnasium.Env`, in modules named after what they touch.

Where Gymnasium's own wrapper is as good, the one here is Gymnasium's, made configurable. Attributes of the
wrapped world such as `reward_space` or `num_tasks` are found with `env.get_wrapper_attr(name)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rein.envs.wrappers.actions import (
        ClipAction,
        DiscreteContinuousAction,
        DiscretizeAction,
        ParameterizedAction,
        RescaleAction,
        TransformAction,
    )
    from rein.envs.wrappers.atari import DMAtariPreprocessing
    from rein.envs.wrappers.info import InfoMetrics, RecordEpisodeStatistics
    from rein.envs.wrappers.observations import (
        ActionMaskObservation,
        ActionObservationWrapper,
        ChannelFirst,
        FilterObservation,
        FlattenObservation,
        GrayscaleObservation,
        MaskVelocity,
        ResizeObservation,
        TimeAwareObservation,
        TransformObservation,
    )
    from rein.envs.wrappers.rewards import (
        ClipReward,
        ScalarReward,
        ScalarRewardWrapper,
        TransformReward,
        VectorReward,
    )
    from rein.envs.wrappers.tasks import Curriculum, CurriculumStatus, MultiTask
    from rein.envs.wrappers.time import FrameSkip, RandomWarmup, TimeLimit

_HOMES = {
    "ClipAction": "actions",
    "DiscreteContinuousAction": "actions",
    "DiscretizeAction": "actions",
    "ParameterizedAction": "actions",
    "RescaleAction": "actions",
    "TransformAction": "actions",
    "DMAtariPreprocessing": "atari",
    "InfoMetrics": "info",
    "RecordEpisodeStatistics": "info",
    "ActionMaskObservation": "observations",
    "ActionObservationWrapper": "observations",
    "ChannelFirst": "observations",
    "FilterObservation": "observations",
    "FlattenObservation": "observations",
    "GrayscaleObservation": "observations",
    "MaskVelocity": "observations",
    "ResizeObservation": "observations",
    "TimeAwareObservation": "observations",
    "TransformObservation": "observations",
    "ClipReward": "rewards",
    "ScalarReward": "rewards",
    "ScalarRewardWrapper": "rewards",
    "TransformReward": "rewards",
    "VectorReward": "rewards",
    "Curriculum": "tasks",
    "CurriculumStatus": "tasks",
    "MultiTask": "tasks",
    "FrameSkip": "time",
    "RandomWarmup": "time",
    "TimeLimit": "time",
}

__all__ = [
    "ActionMaskObservation",
    "ActionObservationWrapper",
    "ChannelFirst",
    "ClipAction",
    "ClipReward",
    "Curriculum",
    "CurriculumStatus",
    "DMAtariPreprocessing",
    "DiscreteContinuousAction",
    "DiscretizeAction",
    "FilterObservation",
    "FlattenObservation",
    "FrameSkip",
    "GrayscaleObservation",
    "InfoMetrics",
    "MaskVelocity",
    "MultiTask",
    "ParameterizedAction",
    "RandomWarmup",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "ResizeObservation",
    "ScalarReward",
    "ScalarRewardWrapper",
    "TimeAwareObservation",
    "TimeLimit",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
    "VectorReward",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rein.envs.wrappers' has no attribute {name!r}")
    value = getattr(import_module(f"rein.envs.wrappers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
