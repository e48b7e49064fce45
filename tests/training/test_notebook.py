"""Notebooks: one quiet output while training, and agents, curves and videos that show themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

import rein
from rein.training.notebook import Picture, Video

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"
SMALL: dict[str, Any] = {"unroll_length": 8, "mini_batch_size": 16, "summary_interval": 1, "num_eval_episodes": 1}


def outputs_of(path: Path, folder: Path) -> list[list[Any]]:
    """The outputs of the code cells of a notebook, executed in a kernel with trainings cut short."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.from_dict(json.loads(path.read_text().replace("20_000", "3_000")))
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
def test_a_notebook_is_quiet_and_shows_agent_curve_and_video(tmp_path: Path) -> None:
    train, agent, curve, video = outputs_of(NOTEBOOK, tmp_path)
    assert [one.output_type for one in train] == ["display_data", "execute_result"]
    assert "100%" in train[0].data["text/html"]
    assert "evaluation at" in train[0].data["text/plain"]
    shown = agent[0].data["text/html"]
    assert "<svg" in shown
    assert "ppo on CartPole-v1" in shown
    assert "return" in agent[0].data["text/plain"]
    assert "<svg" in curve[0].data["text/html"]
    assert "data:image/gif;base64," in video[0].data["text/html"]


def test_an_agent_shows_itself(tmp_path: Path) -> None:
    with rein.make("ppo", env="CartPole-v1", settings={"TrainerConfig.async_eval": False}, **SMALL) as agent:
        assert "not trained yet" in agent._repr_html_()
        assert repr(agent) == "<ppo on CartPole-v1>"
        with pytest.raises(
            ValueError, match="nothing was recorded of Evaluation/AverageReturn or Metrics/AverageReturn"
        ):
            agent.plot()
        agent.train(100)
        assert "ppo on CartPole-v1, " in repr(agent)
        assert "steps, return " in repr(agent)
        assert "<svg" in agent._repr_html_()
        picture = agent.plot()
        assert isinstance(picture, Picture)
        assert picture.save(tmp_path / "curve.svg").read_text().startswith("<svg")
        assert "Return while training" in agent.plot("Metrics/AverageReturn").svg
        with pytest.raises(ValueError, match=r"does not end in \.svg"):
            picture.save(tmp_path / "curve.png")
        with pytest.raises(ValueError, match="nothing was recorded of Metrics/Retrun"):
            agent.plot("Metrics/Retrun")


def test_names_of_runs_are_escaped(tmp_path: Path) -> None:
    with rein.make("ppo", env="CartPole-v1", directory=tmp_path / "run", **SMALL) as agent:
        record = tmp_path / "run" / "run.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "name": "<script>alert(1)</script>"}))
        assert "<script>" not in agent._repr_html_()
    large = Video(tmp_path / "<b>.mp4")
    assert large._repr_html_().startswith("<code>")
    assert "<b>" not in large._repr_html_()
