"""Many steps added in one call."""

import pytest
import torch

from rein.replay import RingBuffer
from rein.specs import TensorSpec


def test_a_rollout_is_added_step_by_step() -> None:
    spec = {"x": TensorSpec((2,)), "n": TensorSpec((), torch.int64)}
    one, many = (RingBuffer(spec, num_environments=3, max_length=4) for _ in range(2))
    rollout = {"x": torch.randn(6, 2, 2), "n": torch.arange(12).reshape(6, 2)}
    env_ids = torch.tensor([2, 0])
    for step in range(6):
        one.add_batch({key: value[step] for key, value in rollout.items()}, env_ids)
    many.add_rollout(rollout, env_ids)
    assert torch.equal(many.current_size, one.current_size)
    ours, theirs = many.dequeue(env_ids, 4), one.dequeue(env_ids, 4)
    assert torch.equal(ours["n"], theirs["n"])
    assert ours["n"].tolist() == [[4, 6, 8, 10], [5, 7, 9, 11]]
    assert torch.equal(ours["x"], theirs["x"])


def test_a_rollout_of_other_types_is_refused() -> None:
    buffer = RingBuffer({"n": TensorSpec((), torch.int64)}, num_environments=2, max_length=4)
    with pytest.raises(ValueError, match="n"):
        buffer.add_rollout({"n": torch.zeros(3, 2)})
