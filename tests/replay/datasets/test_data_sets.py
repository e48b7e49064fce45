"""Data sets: what is written is read, and what is wrong is refused in one line that names it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.replay import ReplayBuffer
from rein.replay.datasets import (
    DataSet,
    DataSetBuffer,
    DataSetError,
    DataSetWriter,
    join_data_sets,
    make_offline_buffer,
)
from rein.replay.datasets.buffers import data_set_spec
from rein.replay.datasets.episodes import cut_episodes
from rein.replay.datasets.spec_text import spec_from_json, spec_to_json
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = {
    "image": BoundedTensorSpec((2, 2), torch.uint8, 0, 255),
    "speed": BoundedTensorSpec((3,), torch.float32, -np.inf, [1.0, 2.0, np.inf]),
}
ACTION = (BoundedTensorSpec((), torch.int64, 0, 4), BoundedTensorSpec((2,), torch.float32, -1.0, 1.0))
F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


def episode(length: int, seed: int = 0, terminated: bool = True, reward_shape: tuple[int, ...] = ()) -> Experience:
    """`length` actions, random."""
    generator = torch.Generator().manual_seed(seed)
    count = length + 1
    kinds = torch.tensor([F, *[M] * (length - 1), L], dtype=torch.int32)
    reward = torch.rand(count, *reward_shape, generator=generator)
    reward[0] = 0
    discount = torch.ones(count)
    discount[-1] = 0.0 if terminated else 1.0
    taken = (
        torch.randint(0, 5, (count,), generator=generator),
        torch.rand(count, 2, generator=generator) * 2 - 1,
    )
    for leaf in taken:
        leaf[-1] = 0
    led = nest.map_structure(lambda leaf: torch.cat([torch.zeros_like(leaf[:1]), leaf[:-1]]), taken)
    observation = {
        "image": torch.randint(0, 256, (count, 2, 2), generator=generator).to(torch.uint8),
        "speed": torch.randn(count, 3, generator=generator),
    }
    env_id = torch.zeros(count, dtype=torch.int64)
    return Experience(TimeStep(kinds, reward, discount, observation, led, env_id), action=taken)


EPISODES = [episode(3, 1), episode(1, 2, terminated=False), episode(5, 3)]


def write(path: Path, episodes: list[Experience] = EPISODES, **facts: Any) -> Path:
    with DataSetWriter(path, OBSERVATION, ACTION) as writer:
        writer.add_source({"run": "here", **facts})
        for one in episodes:
            writer.add_episode(one)
    return path


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(nest.flatten(one), nest.flatten(other), strict=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "some.data")


def test_episodes_come_back_as_they_were(file: Path) -> None:
    data_set = DataSet.open(file)
    data_set.verify()
    assert data_set.specs == (OBSERVATION, ACTION, TensorSpec(()))
    assert (data_set.num_episodes, data_set.num_steps) == (3, 4 + 2 + 6)
    assert data_set.episode_lengths.tolist() == [3, 1, 5]
    returns = [float(one.reward.double().sum()) for one in EPISODES]
    np.testing.assert_allclose(data_set.episode_returns, returns, rtol=1e-6)
    for index, one in enumerate(EPISODES):
        assert same(data_set.episode(index), one)
    facts = data_set.describe()
    assert facts["transitions"] == 9
    assert facts["sources"][0]["run"] == "here"
    assert facts["sources"][0]["episodes"] == 3
    json.dumps(facts)


def test_any_reader_of_safetensors_opens_the_file(file: Path) -> None:
    with safe_open(file, "numpy") as opened:
        assert set(opened.keys()) == set(DataSet.open(file).columns)
        np.testing.assert_array_equal(
            opened.get_tensor("observation.speed")[:4], EPISODES[0].observation["speed"].numpy()
        )
        manifest = json.loads(opened.metadata()["manifest"])
    assert manifest["episodes"] == 3


def test_a_vector_reward_is_kept(tmp_path: Path) -> None:
    one = episode(4, reward_shape=(2,))
    with DataSetWriter(tmp_path / "vector.data", OBSERVATION, ACTION, TensorSpec((2,))) as writer:
        writer.add_source({})
        writer.add_episode(one)
    data_set = DataSet.open(tmp_path / "vector.data")
    assert same(data_set.episode(0), one)
    assert data_set.episode_returns.shape == (1, 2)


def test_the_buffer_gives_the_steps_of_the_file(file: Path) -> None:
    buffer = DataSetBuffer(DataSet.open(file))
    assert (buffer.total_size, buffer.num_environments) == (12, 1)
    steps, _ = buffer.gather_all()
    joined = nest.map_structure(lambda *leaves: torch.cat(leaves)[None], *EPISODES)
    assert same(steps, joined)
    torch.manual_seed(0)
    batch, info = buffer.get_batch(200, 3)
    for row in range(200):
        start = int(info.positions[row])
        wanted = nest.map_structure(lambda leaf, at=start: leaf[0, at : at + 3], joined)
        assert same(nest.index_nest(batch, row), wanted)
    assert set(info.positions.tolist()) == set(range(10))


def test_what_is_not_in_the_file_cannot_be_asked_for(file: Path) -> None:
    data_set = DataSet.open(file)
    spec = data_set_spec(data_set)
    with pytest.raises(DataSetError, match=r"has no rollout_info.value, which is asked for"):
        DataSetBuffer(data_set, spec._replace(rollout_info={"value": TensorSpec(())}))
    with pytest.raises(DataSetError, match=r"reward is .*, but time_step.reward is asked for as .*\(2,\)"):
        DataSetBuffer(data_set, spec._replace(time_step=spec.time_step._replace(reward=TensorSpec((2,)))))


def test_the_newest_steps_alone(file: Path) -> None:
    steps, _ = DataSetBuffer(DataSet.open(file), length=6).gather_all()
    assert same(nest.index_nest(steps, 0), EPISODES[2])


@pytest.mark.parametrize("length", [None, 9])
def test_episodes_are_indexed_as_if_steps_were_added_one_by_one(file: Path, length: int | None) -> None:
    mapped = DataSetBuffer(DataSet.open(file), length=length, keep_episodic_info=True)
    plain = ReplayBuffer(mapped.data_spec, 1, mapped.max_length, keep_episodic_info=True)
    steps, _ = mapped.gather_all()
    plain.add_rollout(nest.map_structure(lambda leaf: leaf.transpose(0, 1), steps))
    positions, ids = torch.arange(mapped.total_size), torch.tensor([0])
    for name in ("steps_to_episode_end", "get_episode_begin_position", "get_disc_0_begin_position"):
        assert torch.equal(getattr(mapped, name)(positions, ids), getattr(plain, name)(positions, ids)), name


def test_priorities_work_as_in_memory(file: Path) -> None:
    mapped = DataSetBuffer(DataSet.open(file), prioritized_sampling=True)
    plain = make_offline_buffer([file, file], prioritized_sampling=True, length=12)
    assert mapped.total_size == 12
    assert plain.total_size == 24
    for buffer in (mapped, plain):
        _, info = buffer.get_batch(8, 2)
        everywhere = torch.arange(buffer.total_size)
        buffer.update_priority(torch.zeros_like(everywhere), everywhere, torch.zeros(len(everywhere)))
        buffer.update_priority(torch.tensor([0]), torch.tensor([4]), torch.tensor([2.0]))
        _, info = buffer.get_batch(8, 2)
        assert info.positions.tolist() == [4] * 8
        state = buffer.priority_state()
        buffer.update_priority(torch.tensor([0]), torch.tensor([1]), torch.tensor([9.0]))
        buffer.load_priority_state(state)
        assert buffer.get_batch(8, 2)[1].positions.tolist() == [4] * 8


def test_nothing_can_be_written_to_the_buffer_of_a_file(file: Path) -> None:
    buffer = DataSetBuffer(DataSet.open(file))
    before = file.read_bytes()
    with pytest.raises(TypeError, match="only read"):
        buffer.add_batch(nest.map_structure(lambda leaf: leaf[:1], EPISODES[0]))
    with pytest.raises(TypeError, match="only read"):
        buffer.add_rollout(nest.map_structure(lambda leaf: leaf.unsqueeze(1), EPISODES[0]))
    with pytest.raises(TypeError, match="only read"):
        buffer.load_state_dict(buffer.state_dict())
    buffer.end_open_episodes()
    assert file.read_bytes() == before


def test_several_files_follow_each_other(file: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.data", [episode(2, 7)], run="there")
    steps, _ = make_offline_buffer([file, other]).gather_all()
    joined = DataSet.open(join_data_sets([file, other], tmp_path / "joined.data"))
    joined.verify()
    assert same(steps, DataSetBuffer(joined).gather_all()[0])
    assert [source["run"] for source in joined.manifest.sources] == ["here", "there"]
    assert joined.episode_sources.tolist() == [0, 0, 0, 1]
    shortened, _ = make_offline_buffer([file, other], length=2).gather_all()
    assert shortened.step_type[0].tolist() == [M, L, M, L]


def test_files_of_other_specs_are_not_joined(file: Path, tmp_path: Path) -> None:
    with DataSetWriter(tmp_path / "other.data", TensorSpec((1,)), ACTION) as writer:
        writer.add_source({})
        one = episode(2)
        writer.add_episode(one._replace(time_step=one.time_step._replace(observation=torch.zeros(3, 1))))
    with pytest.raises(DataSetError, match=r"other.data does not fit: its observation is TensorSpec.*is missing"):
        make_offline_buffer([file, tmp_path / "other.data"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.observation["speed"][2].fill_(math.nan), r"observation.speed of episode 1 is nan at its step 2"),
        (lambda e: e.reward[1].fill_(math.inf), r"reward of episode 1 is inf at its step 1"),
        (lambda e: e.action[1][0].fill_(math.nan), r"action.1 of episode 1 is nan at its step 0"),
        (lambda e: e.step_type[1].fill_(L), r"episode 1 is not FIRST, MID ..., LAST, but \[0, 2, 1, 2\]"),
    ],
)
def test_what_is_not_an_episode_of_finite_numbers_is_not_written(tmp_path: Path, change: Any, message: str) -> None:
    bad = episode(3, 1)
    change(bad)
    with pytest.raises(DataSetError, match=message):
        write(tmp_path / "x.data", [EPISODES[0], bad])
    assert list(tmp_path.iterdir()) == []


def alter(file: Path, column: str, row: int, value: Any, fix_checksum: bool) -> None:
    """Changes a row of a column in the file, and its checksum with it if asked for."""
    import hashlib

    from rein.runtime.checkpoint.tensor_file import parse_header

    content = bytearray(file.read_bytes())
    header = parse_header(content, "it")
    array = np.frombuffer(content, np.uint8)
    entry = header.entries[column]
    old = DataSet.open(file).columns[column]
    begin = header.data_start + entry.begin
    rows = array[begin : begin + old.nbytes].view(old.dtype).reshape(old.shape)
    rows[row] = value
    if fix_checksum:
        digest = hashlib.sha256(rows.tobytes()).hexdigest().encode()
        manifest = DataSet.open(file).manifest
        text = header.metadata["manifest"]
        fixed = text.replace(manifest.checksums[column], digest.decode())
        whole = bytes(content).replace(manifest.checksums[column].encode(), digest)
        outer = (hashlib.sha256(one.encode()).hexdigest().encode() for one in (text, fixed))
        content = bytearray(whole.replace(*outer))
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("observation.speed", 5, math.nan, "observation.speed of episode 1 at its step 1: it is nan"),
        ("action.1", 1, math.inf, "action.1 of episode 0 at its step 0: it is inf"),
        ("action.0", 9, 7, "action.0 of episode 2 at its step 2: 7 is not possible"),
        ("action.0", 4, 3, "action is not zero in front of every episode"),
        ("step_type", 4, M, "step_type of episode 1 does not go from FIRST to LAST"),
        ("step_type", 8, L, "step_type has FIRST or LAST steps in the middle"),
        ("discount", 2, 2.0, "discount is between 0.0 and 2.0"),
        ("episode.begin", 1, 3, "does not go from FIRST to LAST"),
        ("episode.begin", 1, 11, "do not follow each other"),
        ("episode.source", 0, 1, "names sources that it does not have"),
    ],
)
def test_what_a_file_must_not_hold_is_named(file: Path, column: str, row: int, value: Any, message: str) -> None:
    alter(file, column, row, value, fix_checksum=True)
    with pytest.raises(DataSetError, match=message) as caught:
        DataSet.open(file).verify()
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_changed_byte_is_found(file: Path) -> None:
    alter(file, "observation.image", 3, 77, fix_checksum=False)
    with pytest.raises(DataSetError, match=r"column observation.image does not match its checksum"):
        make_offline_buffer(file)


def test_a_file_cut_anywhere_is_refused(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    cut = tmp_path / "cut.data"
    for size in [0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1]:
        cut.write_bytes(content[:size])
        with pytest.raises(DataSetError, match=r"cut.data is (an empty file|cut short)"):
            DataSet.open(cut)


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(3)}, tmp_path / "x.safetensors")
    with pytest.raises(DataSetError, match="is a safetensors file, but not a data set"):
        DataSet.open(tmp_path / "x.safetensors")
    with pytest.raises(DataSetError, match="there is no data set"):
        DataSet.open(tmp_path / "nothing.data")
    with pytest.raises(DataSetError, match="would hold no episode"), DataSetWriter(tmp_path / "y", OBSERVATION, ACTION):
        pass
    with pytest.raises(DataSetError, match="name at least one"):
        make_offline_buffer([])


def test_an_altered_manifest_is_refused(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content.replace(b"here", b"Here", 1))
    with pytest.raises(DataSetError, match="its manifest does not match its own hash"):
        DataSet.open(file)


def test_a_file_that_is_there_is_not_replaced_unless_asked(file: Path) -> None:
    with pytest.raises(DataSetError, match="exists: give another name"):
        DataSetWriter(file, OBSERVATION, ACTION)
    with DataSetWriter(file, OBSERVATION, ACTION, overwrite=True) as writer:
        writer.add_source({})
        writer.add_episode(EPISODES[1])
    assert DataSet.open(file).num_episodes == 1


def test_specs_that_differ_are_named_with_both_specs(file: Path) -> None:
    data_set = DataSet.open(file)
    data_set.require_specs(data_set.specs._replace(action=(ACTION[0], TensorSpec((2,)))), "me")  # Bounds may differ.
    wider = {**OBSERVATION, "speed": TensorSpec((4,))}
    with pytest.raises(DataSetError, match=r"its observation.speed is .*\(3,\).*that of Hopper is .*\(4,\)"):
        data_set.require_specs(data_set.specs._replace(observation=wider), "Hopper")
    more = (BoundedTensorSpec((), torch.int64, 0, 9), ACTION[1])
    with pytest.raises(DataSetError, match=r"its action.0 is .*maximum=4.*maximum=9"):
        data_set.require_specs(data_set.specs._replace(action=more), "me")


def test_specs_survive_json() -> None:
    for spec in (OBSERVATION, ACTION, TensorSpec((2, 3), torch.float64), BoundedTensorSpec((), torch.bool, 0, 1)):
        assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec
    for wrong in ({"shape": [1], "dtype": "O"}, {"shape": [-1], "dtype": "<f4"}, [], {"dict": {"a": 1}}):
        with pytest.raises(ValueError, match="describes no spec"):
            spec_from_json(wrong)


def test_episodes_are_cut_out_of_a_stream_of_steps() -> None:
    kinds = [M, M, L, F, M, M, F, L, F]
    steps = nest.map_structure(lambda *leaves: torch.cat(leaves)[:9], *EPISODES)
    steps.time_step.step_type.copy_(torch.tensor(kinds))
    steps.time_step.reward.fill_(1.0)
    found = list(cut_episodes(steps))
    assert [one.step_type.tolist() for one in found] == [[F, M, L], [F, M, L], [F, L]]
    assert [one.reward.tolist() for one in found] == [[0, 1, 1], [0, 1, 1], [0, 1]]


def test_more_steps_than_are_asked_for_at_once_stay_on_the_disk(tmp_path: Path) -> None:
    """The columns of the buffer are those of the file, not copies."""
    data_set = DataSet.open(write(tmp_path / "big.data", [episode(50, seed) for seed in range(20)]))
    buffer = DataSetBuffer(data_set)
    view: Tensor = buffer.buffer.time_step.observation["speed"]
    assert view.data_ptr() == data_set.columns["observation.speed"].ctypes.data
