from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.data_structures import Experience, StepType, TimeStep
from rein.replay import ReplayBuffer
from rein.replay.datasets import DataSet
from rein.replay.minari import data_set_to_minari, export_minari, import_minari, minari_to_data_set
from rein.specs import BoundedTensorSpec, TensorSpec

pytest.importorskip("minari")
pytest.importorskip("h5py")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")

OBSERVATION = gym.spaces.Dict(
    {"x": gym.spaces.Box(-100, 100, (2,), np.float64), "image": gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)}
)
ACTION = gym.spaces.Discrete(5)


def make_dataset() -> object:
    """Three episodes, by hand: terminated after 3 transitions, truncated after 2, cut after 1."""
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer

    episodes = []
    for number, (count, terminated, truncated) in enumerate([(3, True, False), (2, False, True), (1, False, False)]):
        ends = np.arange(count) == count - 1
        images = np.arange((count + 1) * 192).reshape(count + 1, 8, 8, 3) % 256
        episodes.append(
            EpisodeBuffer(
                id=number,
                observations={
                    "x": np.arange(2.0 * (count + 1)).reshape(count + 1, 2) + 10 * number,
                    "image": images.astype(np.uint8),
                },
                actions=np.arange(1, count + 1),
                rewards=np.arange(count) + 0.5,
                terminations=ends & terminated,
                truncations=ends & truncated,
                infos={},
            )
        )
    return minari.create_dataset_from_buffers(
        "by/hand-v0", episodes, observation_space=OBSERVATION, action_space=ACTION, jpeg_encoding=False
    )


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return make_dataset()


def test_import_by_hand(dataset: object) -> None:
    buffer = import_minari(dataset, keep_episodic_info=True)
    steps, _ = buffer.gather_all()
    f, m, last = StepType.FIRST, StepType.MID, StepType.LAST
    assert steps.step_type[0].tolist() == [f, m, m, last, f, m, last, f, last]
    assert steps.reward[0].tolist() == [0, 0.5, 1.5, 2.5, 0, 0.5, 1.5, 0, 0.5]
    assert steps.discount[0].tolist() == [1, 1, 1, 0, 1, 1, 1, 1, 1]
    assert steps.action[0].tolist() == [1, 2, 3, 0, 1, 2, 0, 1, 0]
    assert steps.prev_action[0].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1]
    assert steps.observation["x"][0, :, 0].tolist() == [0, 2, 4, 6, 10, 12, 14, 20, 22]
    assert steps.observation["x"].dtype == torch.float32
    assert steps.observation["image"][0, 0].flatten().tolist() == list(range(192))
    to_end = buffer.steps_to_episode_end(torch.arange(9), torch.tensor([0]))
    assert to_end.tolist() == [3, 2, 1, 0, 2, 1, 0, 1, 0]


def test_import_by_id_and_by_path(dataset: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_path = import_minari(tmp_path / "by" / "hand-v0")
    assert by_path.total_size == 9
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    by_id = import_minari("by/hand-v0", directory=tmp_path, max_length=4)
    assert by_id.total_size == 4
    assert by_id.current_pos.tolist() == [9]


def test_round_trip(dataset: object, tmp_path: Path) -> None:
    first = import_minari(dataset)
    exported = export_minari(first, "by/copy-v0", OBSERVATION, ACTION, directory=tmp_path / "other")
    assert exported.total_episodes == 3
    assert (tmp_path / "other" / "by" / "copy-v0").is_dir()
    second = import_minari("by/copy-v0", directory=tmp_path / "other")
    assert torch.equal(first.state_dict()["rows_0"], second.state_dict()["rows_0"])
    episode = next(iter(exported.iterate_episodes()))
    assert episode.rewards.tolist() == [0.5, 1.5, 2.5]
    assert episode.terminations.tolist() == [False, False, True]
    assert episode.truncations.tolist() == [False, False, False]


def test_export_of_a_wrapped_buffer_of_time_steps(tmp_path: Path) -> None:
    spec = TimeStep(
        step_type=TensorSpec((), torch.int32),
        reward=TensorSpec(()),
        discount=TensorSpec(()),
        observation=TensorSpec((1,)),
        prev_action=BoundedTensorSpec((), torch.int64, 0, 9),
    )
    buffer = ReplayBuffer(spec, 1, 6)
    f, m, last = StepType.FIRST, StepType.MID, StepType.LAST
    for number, kind in enumerate([f, m, m, m, last, f, last, f, m]):
        buffer.add_batch(
            TimeStep(
                step_type=torch.tensor([kind], dtype=torch.int32),
                reward=torch.tensor([float(number)]),
                discount=torch.tensor([0.0 if kind == last else 1.0]),
                observation=torch.tensor([[float(number)]]),
                prev_action=torch.tensor([number]),
            )
        )
    space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    exported = export_minari(buffer, "wrapped-v0", space, gym.spaces.Discrete(10), directory=tmp_path)
    episodes = list(exported.iterate_episodes())
    assert [episode.observations[:, 0].tolist() for episode in episodes] == [[3, 4], [5, 6], [7, 8]]
    assert [episode.actions.tolist() for episode in episodes] == [[4], [6], [8]]
    assert [episode.terminations.tolist() for episode in episodes] == [[True], [True], [False]]
    assert [episode.truncations.tolist() for episode in episodes] == [[False], [False], [True]]


def test_nothing_to_export(tmp_path: Path) -> None:
    spec = Experience(time_step=TimeStep(step_type=TensorSpec((), torch.int32)), action=TensorSpec(()))
    with pytest.raises(ValueError, match="no transition"):
        export_minari(ReplayBuffer(spec, 1), "empty-v0", OBSERVATION, ACTION, directory=tmp_path)


def test_a_dataset_becomes_a_file_and_a_dataset_again(dataset: object, tmp_path: Path) -> None:
    path = minari_to_data_set(dataset, tmp_path / "from_minari.data")
    data_set = DataSet.open(path)
    data_set.verify()
    assert data_set.episode_lengths.tolist() == [3, 2, 1]
    assert data_set.manifest.sources[0]["minari"] == "by/hand-v0"
    again = data_set_to_minari(data_set, "by/again-v0", tmp_path / "again")
    for one, other in zip(dataset.iterate_episodes(), again.iterate_episodes(), strict=True):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_allclose(one.rewards, other.rewards)
        np.testing.assert_array_equal(one.terminations, other.terminations)
        np.testing.assert_array_equal(one.observations["image"], other.observations["image"])
