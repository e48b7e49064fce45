"""Steps live in preallocated memory: how long they last, and that none is allocated."""

import gc

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import nest
from rein.envs import create_environment
from rein.envs.shared_block import BatchSpaces, BlockLayout, private_block
from rein.specs import check_matches

BACKENDS = ["sync", "process", "thread", "vector"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_outlives_the_next_one_and_its_memory_returns_after_that(backend):
    with create_environment("CartPole-v1", 2, backend=backend, seed=0) as environment:
        action = torch.zeros(2, dtype=torch.int64)
        before = environment.reset()
        copy = nest.map_structure(torch.clone, before)
        pointers = {before.observation.data_ptr()}
        after = environment.step(action)
        pointers.add(after.observation.data_ptr())
        for kept, wanted in zip(nest.flatten(before), nest.flatten(copy), strict=True):
            assert torch.equal(kept, wanted)
        for _ in range(10):
            pointers.add(environment.step(action).observation.data_ptr())
        assert len(pointers) == 2


def test_more_slots_keep_steps_for_longer():
    with create_environment("CartPole-v1", 2, backend="sync", seed=0, num_slots=5) as environment:
        first = environment.reset()
        copy = first.observation.clone()
        for _ in range(4):
            environment.step(torch.zeros(2, dtype=torch.int64))
        assert torch.equal(first.observation, copy)
        environment.step(torch.zeros(2, dtype=torch.int64))
        assert not torch.equal(first.observation, copy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_match_their_specs(backend):
    with create_environment("Pendulum-v1", 3, backend=backend, seed=0) as environment:
        step = environment.reset()
        spec = environment.time_step_spec()
        check_matches(step, spec, 1, "time step")
        assert environment.current_time_step() is step
        assert step.env_id.tolist() == [0, 1, 2]
        assert environment.batch_size == 3
        step = environment.step(torch.zeros(3, 1))
        check_matches(step, spec, 1, "time step")
        assert environment.current_time_step() is step


def test_the_first_current_step_is_a_reset():
    with create_environment("CartPole-v1", 2, backend="sync", seed=0) as environment:
        assert environment.current_time_step().is_first().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_needs_a_reset_and_an_open_environment(backend):
    environment = create_environment("CartPole-v1", 2, backend=backend, seed=0)
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(torch.zeros(2, dtype=torch.int64))
    environment.reset()
    environment.close()
    environment.close()
    for call in (lambda: environment.step(torch.zeros(2, dtype=torch.int64)), environment.reset):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_forgotten_environments_are_closed():
    environment = create_environment("CartPole-v1", 2, backend="process", seed=0)
    worker = environment._workers[0].process
    del environment
    gc.collect()
    worker.join(5)
    assert not worker.is_alive()


def shapes():
    return st.lists(st.integers(0, 4), max_size=3).map(tuple)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(shapes(), st.sampled_from([np.float32, np.uint8, np.int64])), max_size=5), st.integers(1, 4))
def test_arrays_of_a_block_never_overlap_and_are_aligned(parts, batch_size):
    space = spaces.Tuple([spaces.Box(0, 1, shape, dtype) for shape, dtype in parts])
    layout = BlockLayout(BatchSpaces(space, spaces.Discrete(3), reward_dim=2), batch_size, 3)
    slots = layout.slots(private_block(layout.nbytes))
    arrays = [array for slot in slots for array in slot.arrays()]
    for number, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0 or array.size == 0
        array[...] = number % 2
    for number, array in enumerate(arrays):
        assert (array == number % 2).all()
    assert [a.shape for a in slots[0].observation] == [(batch_size, *shape) for shape, _ in parts]
