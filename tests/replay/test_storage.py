import gc
import pickle
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp

from rein import nest
from rein.data_structures import StepType, TimeStep
from rein.replay import ReplayBuffer, RingBuffer
from rein.replay.storage import RowStorage
from rein.specs import TensorSpec

SPEC = {"small": TensorSpec((3,)), "flag": TensorSpec((), torch.bool), "frame": TensorSpec((40, 40), torch.uint8)}


def make_batch(number: int, size: int = 2) -> dict[str, torch.Tensor]:
    return {
        "small": torch.full((size, 3), float(number)),
        "flag": torch.full((size,), number % 2 == 0),
        "frame": torch.full((size, 40, 40), number % 256, dtype=torch.uint8),
    }


def test_fields_are_aligned_and_packed_without_gaps() -> None:
    specs = [
        ("a", TensorSpec((), torch.bool)),
        ("b", TensorSpec((3,))),
        ("c", TensorSpec((), torch.int64)),
        ("d", TensorSpec((5,), torch.float16)),
        ("e", TensorSpec((2000,), torch.uint8)),
    ]
    storage = RowStorage(specs, 2, 3, torch.device("cpu"))
    offsets = {field.path: (field.group, field.offset) for field in storage.fields}
    assert offsets == {"c": (0, 0), "b": (0, 8), "d": (0, 20), "a": (0, 30), "e": (1, 0)}
    assert storage.row_sizes == [32, 2000]
    for index, (_, spec) in enumerate(specs):
        assert storage.view(index).shape == (2, 3, *spec.shape)
        assert storage.view(index).dtype == spec.dtype
    storage.view(1)[1, 2, 0] = 7
    assert float(storage.view(1)[1, 2, 0]) == 7


def test_buffer_views_show_what_was_added() -> None:
    buffer = RingBuffer(SPEC, 2, 4)
    buffer.add_batch(make_batch(3))
    assert buffer.buffer["small"].shape == (2, 4, 3)
    assert buffer.buffer["small"][:, 0].tolist() == [[3.0] * 3] * 2
    assert int(buffer.buffer["frame"][1, 0, 39, 39]) == 3


def test_mapped_buffer_works_like_one_in_memory_and_leaves_no_files(tmp_path: Path) -> None:
    mapped = ReplayBuffer(SPEC, 2, 50, storage="mmap", storage_dir=str(tmp_path / "rows"))
    plain = ReplayBuffer(SPEC, 2, 50)
    for number in range(120):
        mapped.add_batch(make_batch(number))
        plain.add_batch(make_batch(number))
    for one, two in zip(nest.flatten(mapped.gather_all()[0]), nest.flatten(plain.gather_all()[0]), strict=True):
        assert torch.equal(one, two)
    copy = ReplayBuffer(SPEC, 2, 50, storage="mmap", storage_dir=str(tmp_path / "rows"))
    copy.load_state_dict(mapped.state_dict())
    assert torch.equal(copy.gather_all()[0]["frame"], plain.gather_all()[0]["frame"])
    assert list((tmp_path / "rows").iterdir()) == []


def test_shared_mapped_files_vanish_with_the_buffer(tmp_path: Path) -> None:
    buffer = ReplayBuffer(SPEC, 2, 50, storage="mmap", storage_dir=str(tmp_path), allow_multiprocess=True)
    assert len(list(tmp_path.iterdir())) == 2
    del buffer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_only_shared_buffers_can_be_sent() -> None:
    with pytest.raises(TypeError, match="allow_multiprocess=True"):
        pickle.dumps(ReplayBuffer(SPEC, 2, 5))


TIME_STEP = TimeStep(
    step_type=TensorSpec((), torch.int32),
    reward=TensorSpec(()),
    discount=TensorSpec(()),
    observation=TensorSpec((2,)),
)


def write_and_read(buffer: ReplayBuffer, results: "mp.SimpleQueue[object]") -> None:
    """What the other process does: reads what is there, then adds, then changes priorities."""
    buffer.get_batch(4, 2)
    results.put(buffer.get_field("reward", torch.tensor([0, 1]), torch.tensor([3, 4])).tolist())
    for number in range(5, 9):
        kind = StepType.LAST if number == 8 else StepType.MID
        buffer.add_batch(
            TimeStep(
                step_type=torch.full((2,), kind, dtype=torch.int32),
                reward=torch.tensor([float(number), 10.0 + number]),
                discount=torch.ones(2),
                observation=torch.zeros(2, 2),
            )
        )
    buffer.update_priority(torch.tensor([1]), torch.tensor([7]), torch.tensor([9.0]))
    results.put(buffer.steps_to_episode_end(torch.tensor([5]), torch.tensor([0])).tolist())
    queue = buffer.dequeue(torch.tensor([0]), blocking=True)
    results.put(queue.reward.tolist())


@pytest.mark.parametrize("storage", ["memory", "mmap"])
def test_processes_share_a_buffer(tmp_path: Path, storage: str) -> None:
    buffer = ReplayBuffer(
        TIME_STEP,
        2,
        6,
        prioritized_sampling=True,
        keep_episodic_info=True,
        allow_multiprocess=True,
        storage=storage,
        storage_dir=str(tmp_path) if storage == "mmap" else None,
    )
    for number in range(5):
        buffer.add_batch(
            TimeStep(
                step_type=torch.full((2,), 0 if number == 0 else 1, dtype=torch.int32),
                reward=torch.tensor([float(number), 10.0 + number]),
                discount=torch.ones(2),
                observation=torch.zeros(2, 2),
            )
        )
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=write_and_read, args=(buffer, results))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert results.get() == [3.0, 14.0]
    assert results.get() == [3]
    assert results.get() == [[3.0]]
    assert buffer.current_pos.tolist() == [9, 9]
    assert buffer.current_size.tolist() == [5, 6]
    assert buffer.initial_priority == 9
    assert buffer.get_field("reward", torch.tensor([1]), torch.arange(3, 9)).tolist() == [13, 14, 15, 16, 17, 18]
    assert buffer.steps_to_episode_end(torch.tensor([5]), torch.tensor([1])).tolist() == [3]
    _, info = buffer.get_batch(64, 2)
    assert float((info.positions == 7).float().mean()) > 0.4
