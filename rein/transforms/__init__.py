"""Data transformers: what happens to time steps and replayed experience before an algorithm sees them.

`docs/transforms.md` tells which there are, in which order they may stand, and how to write one.
"""

from rein.transforms.base import DataSource, DataTransformer, IdentityDataTransformer, SimpleDataTransformer
from rein.transforms.frames import FrameStacker, FrameStackState
from rein.transforms.hindsight import HindsightExperienceTransformer, l2_dist_close_reward_fn
from rein.transforms.observation import ImageScaleTransformer, ObservationNormalizer
from rein.transforms.reward import (
    FunctionalRewardTransformer,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    RewardTransformer,
)
from rein.transforms.self_play import SelfPlayTransformer
from rein.transforms.sequential import SequentialDataTransformer, create_data_transformer
from rein.transforms.untransformed import UntransformedTimeStep

__all__ = [
    "DataSource",
    "DataTransformer",
    "FrameStackState",
    "FrameStacker",
    "FunctionalRewardTransformer",
    "HindsightExperienceTransformer",
    "IdentityDataTransformer",
    "ImageScaleTransformer",
    "ObservationNormalizer",
    "RewardClipping",
    "RewardNormalizer",
    "RewardScaling",
    "RewardShifting",
    "RewardTransformer",
    "SelfPlayTransformer",
    "SequentialDataTransformer",
    "SimpleDataTransformer",
    "UntransformedTimeStep",
    "create_data_transformer",
    "l2_dist_close_reward_fn",
]
