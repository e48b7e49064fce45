"""The compiled loops load when they are needed, and work where nothing can be cached."""

import os
import subprocess
import sys

import pytest


def run(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_package_does_not_import_numba() -> None:
    assert run("import sys, rein.replay; print('numba' in sys.modules)").strip() == "False"


@pytest.mark.slow
def test_loops_work_without_a_writable_cache() -> None:
    code = """
import torch
from rein.replay import SumSegmentTree
from rein.replay.kernels import memory
tree = SumSegmentTree(20)
tree[torch.arange(20)] = 1.0
print(float(tree.summary()))
"""
    locators = """
import numba.core.caching as caching
class Nowhere:
    @classmethod
    def from_function(cls, *args):
        return None
for cls in (caching.CacheImpl, *caching.CacheImpl.__subclasses__()):
    cls._locator_classes = [Nowhere]
"""
    assert run(locators + code).strip() == "20.0"


def test_warm_up_compiles_everything_once() -> None:
    code = """
import torch
from rein.replay import ReplayBuffer, warm_up
from rein.replay.kernels import loops
from rein.data_structures import TimeStep
from rein.specs import TensorSpec
warm_up()
names = [name for name in loops.__all__ if hasattr(getattr(loops, name), "signatures")]
before = {name: len(getattr(loops, name).signatures) for name in names}
spec = TimeStep(TensorSpec((), torch.int32), TensorSpec(()), TensorSpec(()), TensorSpec((3,)))
buffer = ReplayBuffer(spec, 2, 5, prioritized_sampling=True, record_episodic_return=True, num_earliest_frames_ignored=1)
for kind in (0, 1, 1, 2, 0, 1, 2):
    step_type, discount = torch.full((2,), kind, dtype=torch.int32), torch.full((2,), float(kind != 2))
    buffer.add_batch(TimeStep(step_type, torch.ones(2), discount, torch.ones(2, 3)), torch.tensor([1, 0]))
_, info = buffer.get_batch(4, 2)
buffer.update_priority(info.env_ids, info.positions, torch.ones(4))
buffer.steps_to_episode_end(info.positions, info.env_ids)
buffer.get_episode_begin_position(info.positions, info.env_ids)
buffer.get_disc_0_begin_position(info.positions, info.env_ids)
buffer.get_field("reward", info.env_ids, info.positions)
buffer._priorities.tree.find_sum_bound(torch.tensor([0.5]))
ReplayBuffer(TensorSpec(()), 1, 3).add_batch(torch.ones(1))
after = {name: len(getattr(loops, name).signatures) for name in before}
assert len(before) >= 19 and set(before.values()) == {1}, before
assert before == after, (before, after)
"""
    run(code)


def test_a_change_of_any_loop_makes_the_cached_ones_stale() -> None:
    code = """
from rein.replay.kernels import loops, memory, warm_up
warm_up()
loop = loops.update_priorities
assert loop._cache._cache_file._source_stamp == memory._stamp_of_sources()
print(sum(loop.stats.cache_hits.values()), sum(loop.stats.cache_misses.values()))
loop._cache._cache_file._source_stamp = "other"
print(loop._cache._cache_file.load(next(iter(loop.stats.cache_hits or loop.stats.cache_misses))))
"""
    hits, stale = run(code).strip().splitlines()
    assert hits in ("1 0", "0 1")
    assert stale == "None"
