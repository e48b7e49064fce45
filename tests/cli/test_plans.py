"""Planning policies from the command line: trained by name, with parts, and their plans drawn."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rein.cli import main

SMALL = [
    "population=6",
    "horizon=3",
    "iterations=1",
    "hidden_layers=(4,)",
    "TrainerConfig.num_env_steps=40",
    "TrainerConfig.initial_collect_steps=20",
    "TrainerConfig.num_evals=1",
    "TrainerConfig.num_eval_episodes=1",
]
CART_POLE = ["--env", "rein/CartPoleContinuous-v0"]


def train(path: Path, *words: str) -> Path:
    assert main(["train", *words, *SMALL, "--seed", "1", "--dir", str(path)]) == 0
    return path


def run_json(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_plans_are_drawn_into_the_run_and_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path / "run", "--algorithm", "mbrl_cem", *CART_POLE, "num_replicas=2", "stochastic=True")
    data = run_json(capsys, "play", run, "--plan")
    assert data["plans"] >= 2
    picture = Path(data["picture"])
    assert picture.parent == run / "plans"
    text = picture.read_text()
    assert text.count("observation ") == 2 * 4, "a chart with a title for each number"
    assert text.count("imagined at step 0 (2 runs)") == 2 * 4
    assert len(re.findall("<polygon", text)) == 4 * data["plans"], "a band of particles for each plan"
    assert "data:image/svg+xml" in (run / "report.html").read_text()
    other = run_json(capsys, "play", run, "--plan", "--output", tmp_path / "a.svg", "--seed", "3")
    assert (tmp_path / "a.svg").exists()
    assert other["returns"] != data["returns"]


def test_decoded_plans_in_latent_space_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path / "run", "--algorithm", "mbrl_latent", *CART_POLE)
    data = run_json(capsys, "play", run, "--plan")
    assert Path(data["picture"]).read_text().count("imagined at step 0") == 2 * 4


def test_a_planner_is_composed_with_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path / "run", "--algorithm", "mbrl_cem", *CART_POLE, "--with", "encoding", "--with", "rnd")
    assert json.loads((run / "run.json").read_text())["algorithm"] == "Agent"
    assert main(["train", "--algorithm", "mbrl_latent", *CART_POLE, "--with", "encoding", "--dir", str(tmp_path / "b")])
    assert "compose it with a PredictiveRepresentationLearner" in capsys.readouterr().err


def test_what_cannot_be_drawn_is_refused(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(finished_run), "--plan"]) == 2
    assert "does not plan: only MbrlAlgorithm" in capsys.readouterr().err
    assert main(["play", str(finished_run), "--plan", "--output", str(tmp_path / "a.mp4")]) == 2
    assert "must end in .svg" in capsys.readouterr().err
    assert main(["play", str(finished_run), "--plan", "--window"]) == 2
