"""Folders for model hubs: complete, loadable, and silent about the machine."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rein import api
from rein.cli import main
from rein.export.card import write_card
from rein.training.run_directory import RunDirectory, RunDirectoryError

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> api.AgentHandle:
    path = tmp_path_factory.mktemp("card") / "run"
    small = {"unroll_length": 8, "mini_batch_size": 8, "num_updates_per_train_iter": 1}
    quiet = {"TrainerConfig.evaluate": False, "TrainerConfig.summary_interval": 1}
    agent = api.make("ppo", env="CartPole-v1", directory=path, settings=quiet, **small)
    agent.train(256)
    agent.save(path.parent / "saved")
    RunDirectory.open(path.parent / "saved").add_evaluation(
        {"iterations": 1, "episodes": 5, "mean_return": 12.5, "std_return": 1.5}
    )
    return agent


@pytest.fixture
def saved(agent: api.AgentHandle) -> Path:
    return agent.directory.parent / "saved"


def test_a_card_is_complete_and_loads(agent: api.AgentHandle, saved: Path, tmp_path: Path) -> None:
    assert main(["card", str(saved), "--output", str(tmp_path / "card")]) == 0
    page = (tmp_path / "card" / "README.md").read_text()
    front = yaml.safe_load(page.split("---")[1])
    assert front["model-index"][0]["results"][0]["metrics"][0]["value"] == "12.50 +/- 1.50"
    assert "CartPole-v1" in front["tags"]
    assert "![return against environment steps](curve.svg)" in page
    weights = load_file(tmp_path / "card" / "model.safetensors")
    expected = {name: value.numpy() for name, value in agent.algorithm.state_dict().items() if hasattr(value, "numpy")}
    assert weights.keys() == expected.keys()
    assert all(np.array_equal(weights[name], expected[name]) for name in weights)
    observations = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    loaded = api.load(tmp_path / "card" / "agent")
    np.testing.assert_array_equal(loaded.predict(observations), agent.predict(observations))


def test_a_card_does_not_tell_where_it_was_made(saved: Path, tmp_path: Path) -> None:
    card = write_card(RunDirectory.open(saved), tmp_path / "card")
    texts = [(card.path / name).read_text() for name in card.files if not name.endswith(".safetensors")]
    here = [str(Path(__file__).parents[2]), str(saved.parent), "processor"]
    assert not [word for word in here for text in texts if word in text]


def test_texts_of_a_run_mean_nothing_to_the_page(saved: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    shutil.copytree(saved, hostile)
    directory = RunDirectory.open(hostile)
    directory.adopt({**directory.record(), "name": "x`\n---\n<script>|", "seed": "<b>"})
    page = (write_card(directory, tmp_path / "card").path / "README.md").read_text()
    assert yaml.safe_load(page.split("\n---\n")[0])["model-index"][0]["name"] == "x`\n---\n<script>|"
    assert "<b>" not in page.replace("\\<b\\>", "")
    assert "# `x' --- <script>\\|`" in page


def test_what_is_there_stays_unless_it_is_a_card(saved: Path, tmp_path: Path) -> None:
    directory = RunDirectory.open(saved)
    (tmp_path / "other").mkdir()
    with pytest.raises(RunDirectoryError, match="exists: give another folder"):
        write_card(directory, tmp_path / "other", overwrite=True)
    write_card(directory, tmp_path / "card")
    with pytest.raises(RunDirectoryError, match="--overwrite"):
        write_card(directory, tmp_path / "card")
    assert write_card(directory, tmp_path / "card", overwrite=True).files
