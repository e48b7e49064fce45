"""Many steps added in one call."""

import pytest
import torch

from rein.replay import ReplayBuffer, RingBuffer
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


def test_fields_that_disagree_about_steps_and_environments_are_refused() -> None:
    buffer = RingBuffer({"a": TensorSpec(()), "b": TensorSpec(())}, num_environments=2, max_length=8)
    with pytest.raises(ValueError, match="2 steps"):
        buffer.add_rollout({"a": torch.zeros(3, 2), "b": torch.zeros(2, 3)})


def test_a_replay_buffer_that_follows_episodes_or_priorities_takes_a_rollout_too() -> None:
    step = {"step_type": TensorSpec((), torch.int32), "x": TensorSpec(())}
    kinds = torch.tensor([[0, 0], [1, 1], [2, 1], [0, 2], [1, 0]], dtype=torch.int32)
    for settings in ({}, {"prioritized_sampling": True}):
        one, many = (ReplayBuffer(step, 2, 8, **settings) for _ in range(2))
        rollout = {"step_type": kinds, "x": torch.arange(10.0).reshape(5, 2)}
        for t in range(5):
            one.add_batch({key: value[t] for key, value in rollout.items()})
        many.add_rollout(rollout)
        assert torch.equal(many.gather_all()[0]["x"], one.gather_all()[0]["x"])
        assert many.total_size == one.total_size


def test_a_rollout_of_a_single_environment_is_added_to_it() -> None:
    buffer = RingBuffer({"n": TensorSpec((), torch.int64)}, num_environments=1, max_length=2000)
    buffer.add_rollout({"n": torch.arange(1000).reshape(1000, 1)})
    assert buffer.current_size.tolist() == [1000]
    assert buffer.dequeue(n=1000)["n"].tolist() == [list(range(1000))]  # type: ignore[index]
