"""Replay: ring buffers of steps, sampled as sequences, uniformly or by priority.

`ReplayBuffer` is what algorithms learn from, `RingBuffer` the queue below it, and the segment trees are what
prioritized sampling draws with. `docs/replay.md` tells how the data lies in memory and why.
"""

from rein.replay.errors import MissingStepsError
from rein.replay.kernels import plain_torch, warm_up
from rein.replay.replay_buffer import BatchInfo, ReplayBuffer
from rein.replay.ring_buffer import RingBuffer
from rein.replay.segment_tree import MaxSegmentTree, MinSegmentTree, SegmentTree, SumSegmentTree

__all__ = [
    "BatchInfo",
    "MaxSegmentTree",
    "MinSegmentTree",
    "MissingStepsError",
    "ReplayBuffer",
    "RingBuffer",
    "SegmentTree",
    "SumSegmentTree",
    "plain_torch",
    "warm_up",
]
