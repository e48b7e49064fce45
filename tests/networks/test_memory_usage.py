"""The memory with two dimensions and three slots whose usage does not decay, step by step."""

import pytest
import torch

from rein.networks import MemoryReader, MemoryWithUsage

FIRST, SECOND, THIRD = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([[-1.0, -1.0]])


@pytest.fixture
def memory():
    return MemoryWithUsage(2, 3, scale=20.0, usage_decay=1.0)


def usage(state):
    return state.usage[0].tolist()


def test_writes_and_reads(memory):
    state = memory.write(memory.initial_state(1), FIRST)
    assert usage(state) == [1, 0, 0]
    read, state = memory.read(state, FIRST.unsqueeze(1))
    torch.testing.assert_close(read[:, 0], FIRST, rtol=0, atol=1e-6)
    assert usage(state) == pytest.approx([2, 0, 0], abs=1e-6)
    state = memory.write(state, SECOND)
    assert usage(state) == pytest.approx([2, 1, 0], abs=1e-6)
    assert torch.equal(state.memory[0, 1], SECOND[0])
    # The diagonal is as near to one as to the other.
    read, state = memory.read(state, torch.tensor([[[1.0, 1.0]]]))
    torch.testing.assert_close(read[:, 0], torch.tensor([[1.0, 1.0]]), rtol=0, atol=1e-5)
    assert usage(state) == pytest.approx([2.5, 1.5, 0], abs=1e-5)
    state = memory.write(state, THIRD)
    assert usage(state) == pytest.approx([2.5, 1.5, 1], abs=1e-5)
    state = memory.write(state, FIRST)  # over the least used
    assert torch.equal(state.memory[0, 2], FIRST[0])


def test_two_keys_count_both(memory):
    state = memory.write(memory.write(memory.initial_state(1), FIRST), SECOND)
    read, state = memory.read(state, torch.stack([FIRST, SECOND], 1))
    torch.testing.assert_close(read[0], torch.cat([FIRST, SECOND]), rtol=0, atol=1e-6)
    assert usage(state) == pytest.approx([2, 2, 0], abs=1e-6)


def test_without_sharpness_the_mean_of_all_slots_is_read(memory):
    state = memory.write(memory.write(memory.initial_state(1), FIRST), SECOND)
    read, _ = memory.read(state, FIRST.unsqueeze(1), torch.zeros(1, 1))
    torch.testing.assert_close(read[0, 0], torch.tensor([2 / 3, 2 / 3]))


def test_an_empty_memory_reads_zeros_with_finite_gradients(memory):
    reader = MemoryReader(4, memory, 2)
    query = torch.randn(1, 4, requires_grad=True)
    read, _ = reader(query, memory.initial_state(1))
    assert read.shape == (1, 4)
    assert (read == 0).all()
    (gradient,) = torch.autograd.grad(read.sum(), query)
    assert torch.isfinite(gradient).all()
