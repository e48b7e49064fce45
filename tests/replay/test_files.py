import shutil
from pathlib import Path

import pytest
import torch

from rein import nest
from rein.data_structures import StepType, TimeStep
from rein.replay import ReplayBuffer
from rein.replay.files import load_offline_buffer, load_replay_buffer, save_replay_buffer
from rein.runtime.checkpoint import CheckpointError
from rein.specs import TensorSpec

SPEC = TimeStep(
    step_type=TensorSpec((), torch.int32),
    reward=TensorSpec(()),
    discount=TensorSpec(()),
    observation=TensorSpec((30, 30), torch.uint8),
)


def make(num_envs: int = 2, max_length: int = 6, **options: object) -> ReplayBuffer:
    return ReplayBuffer(SPEC, num_envs, max_length, prioritized_sampling=True, keep_episodic_info=True, **options)


def fill(buffer: ReplayBuffer, count: int, start: int = 0) -> ReplayBuffer:
    for number in range(start, start + count):
        size = buffer.num_environments
        kind = StepType.FIRST if number % 4 == 0 else StepType.LAST if number % 4 == 3 else StepType.MID
        values = torch.arange(size) * 100 + number
        buffer.add_batch(
            TimeStep(
                step_type=torch.full((size,), kind, dtype=torch.int32),
                reward=values.float(),
                discount=torch.ones(size),
                observation=(values % 256).to(torch.uint8)[:, None, None].expand(size, 30, 30),
            )
        )
    return buffer


def test_saved_buffer_loads_exactly(tmp_path: Path) -> None:
    buffer = fill(make(), 9)
    buffer.update_priority(torch.tensor([0]), torch.tensor([7]), torch.tensor([4.0]))
    save_replay_buffer(buffer, tmp_path)
    copy = make()
    load_replay_buffer(copy, tmp_path)
    first, second = buffer.state_dict(), copy.state_dict()
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(value, second[key]) if isinstance(value, torch.Tensor) else value == second[key]
    torch.manual_seed(0)
    one = buffer.get_batch(8, 2)
    torch.manual_seed(0)
    two = copy.get_batch(8, 2)
    for a, b in zip(nest.flatten(one[0]), nest.flatten(two[0]), strict=True):
        assert torch.equal(a, b)


def test_a_second_save_replaces_the_first(tmp_path: Path) -> None:
    buffer = make()
    save_replay_buffer(fill(buffer, 2), tmp_path)
    save_replay_buffer(fill(buffer, 3, start=2), tmp_path)
    copy = make()
    load_replay_buffer(copy, tmp_path)
    assert copy.current_pos.tolist() == [5, 5]
    assert len(list(tmp_path.glob("ckpt-*"))) == 1


def test_other_capacity_is_refused(tmp_path: Path) -> None:
    save_replay_buffer(fill(make(), 3), tmp_path)
    with pytest.raises(ValueError, match="does not fit"):
        load_replay_buffer(make(max_length=7), tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = save_replay_buffer(fill(make(), 9), tmp_path)
    largest = max((file for file in path.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    content = largest.read_bytes()
    if damage == "cut":
        largest.write_bytes(content[:-100])
    elif damage == "flip":
        largest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        largest.unlink()
    copy = make()
    with pytest.raises(CheckpointError):
        load_replay_buffer(copy, tmp_path)
    assert copy.total_size == 0


def test_nothing_saved(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        load_replay_buffer(make(), tmp_path)


def test_offline_buffer_joins_directories(tmp_path: Path) -> None:
    save_replay_buffer(fill(make(), 10), tmp_path / "a")
    save_replay_buffer(fill(make(max_length=9), 3, start=50), tmp_path / "b")
    buffer = load_offline_buffer(SPEC, [tmp_path / "a", tmp_path / "b"], keep_episodic_info=True)
    steps, _ = buffer.gather_all()
    assert steps.reward[0].tolist() == [4, 5, 6, 7, 8, 9, 50, 51, 52]
    assert steps.reward[1].tolist() == [104, 105, 106, 107, 108, 109, 150, 151, 152]
    assert steps.observation[0, :, 0, 0].tolist() == [4, 5, 6, 7, 8, 9, 50, 51, 52]
    assert steps.step_type[0, 5] == StepType.LAST, "cut where one saved buffer ends"
    to_end = buffer.steps_to_episode_end(torch.arange(9), torch.tensor([0]))
    assert to_end.tolist() == [3, 2, 1, 0, 1, 0, 1, 0, 0]


def test_offline_buffer_takes_the_newest_steps(tmp_path: Path) -> None:
    buffer = fill(make(), 5)
    buffer.remove_up_to(3, torch.tensor([1]))
    save_replay_buffer(buffer, tmp_path)
    loaded = load_offline_buffer(SPEC, tmp_path, length=3, with_replacement=True)
    assert loaded.current_size.tolist() == [3, 2]
    reward = loaded.get_field("reward", torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 0, 1]))
    assert reward.tolist() == [2, 3, 4, 103, 104]


def test_offline_buffer_bad_input(tmp_path: Path) -> None:
    save_replay_buffer(fill(make(), 3), tmp_path / "a")
    save_replay_buffer(fill(make(num_envs=1), 3), tmp_path / "b")
    with pytest.raises(ValueError, match="different numbers of environments"):
        load_offline_buffer(SPEC, [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="does not fit"):
        load_offline_buffer(SPEC._replace(reward=TensorSpec((2,))), tmp_path / "a")
    with pytest.raises(ValueError, match="length is 0"):
        load_offline_buffer(SPEC, tmp_path / "a", length=0)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(CheckpointError):
        load_offline_buffer(SPEC, tmp_path / "b")
