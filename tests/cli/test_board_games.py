"""Board games from the command line: matches against named opponents, and games of a person against the agent."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rein.cli import main

SMALL = [
    "--algorithm=muzero",
    "--env=boards/tic_tac_toe",
    "create_environment.num_parallel_environments=8",
    "simulations=8",
    "hidden_size=8",
    "latent_size=8",
    "TrainerConfig.num_env_steps=600",
    "TrainerConfig.initial_collect_steps=100",
    "TrainerConfig.num_updates_per_train_iter=1",
    "TrainerConfig.mini_batch_size=8",
    "TrainerConfig.num_checkpoints=2",
    "TrainerConfig.evaluate=False",
]


@pytest.fixture(scope="module")
def board_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "board"
    assert main(["train", *SMALL, "--seed", "1", "--dir", str(path)]) == 0
    return path


def test_a_model_of_planes_trains_and_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "planes"
    words = [*SMALL, "board_channels=4", "--seed", "1"]
    assert main(["train", *words, "--dir", str(path)]) == 0
    data = run_json(capsys, "evaluate", path, "--against", "random", "--episodes", "2")
    assert data["against"]["random"]["games"] == 2


def run_json(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_agent_plays_named_opponents_and_is_rated(board_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = f"{board_run}@{min(int(p.name.split('-')[1]) for p in (board_run / 'checkpoints').glob('ckpt-*'))}"
    opponents = ["random", "minimax", earlier]
    words = [word for name in opponents for word in ("--against", name)]
    data = run_json(capsys, "evaluate", board_run, *words, "--episodes", "6", "--record")
    assert list(data["against"]) == opponents
    for result in data["against"].values():
        assert result["wins"] + result["draws"] + result["losses"] == result["games"] == 6
    assert data["against"]["minimax"]["wins"] == 0
    assert data["elo"]["random"] == 0
    assert data["elo"]["minimax"] > data["elo"]["agent"]
    again = run_json(capsys, "evaluate", board_run, *words, "--episodes", "6")
    assert again["against"] == data["against"]
    report = (board_run / "report.html").read_text()
    assert "Opponents" in report
    assert "<td>minimax</td><td>6</td><td>0</td>" in report


def test_a_person_plays_and_sees_visits(
    board_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [f"{column}{row}" for row in (2, 3, 1) for column in "bac"]
    # Each point is tried again and again: those that are taken are refused.
    monkeypatch.setattr(sys, "stdin", io.StringIO("z9\n" + "\n".join(points * 9)))
    capsys.readouterr()
    assert main(["play", str(board_run), "--human"]) == 0
    shown = capsys.readouterr().out
    assert "'z9' is no legal move here" in shown
    assert "visits of the search, value" in shown
    assert "the agent plays" in shown
    assert any(text in shown for text in ("You have won.", "A draw.", "You have lost."))


def test_the_end_of_input_ends_the_game(
    board_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    data = run_json(capsys, "play", board_run, "--human", "--side", "second")
    assert (data["won"], data["drawn"], data["lost"], data["moves"]) == (0, 0, 0, 0)


def test_a_person_at_a_terminal(board_run: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rein.cli", "play", str(board_run), "--human"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    os.write(ours, b"b2\nquit\n")
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how a terminal tells that the other side has gone
            break
        if not part:
            break
        shown += part
    assert process.wait(60) == 0
    assert b"your move:" in shown
    assert b"the agent plays" in shown
    assert b"stopped" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "--against", "nobody"], "there is no opponent 'nobody': choose random"),
        (["evaluate", "--against", "random", "--episodes", "1"], "give at least 2"),
        (["play", "--human", "--window"], "--human is a game in the terminal"),
    ],
)
def test_bad_words_about_games_are_refused(
    board_run: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main([words[0], str(board_run), *words[1:]]) == 2
    assert message in capsys.readouterr().err


def test_only_board_games_have_opponents(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["evaluate", "--against", "random"], ["play", "--human"]):
        assert main([words[0], str(finished_run), *words[1:]]) == 2
        assert "CartPole-v1 is no game of two players" in capsys.readouterr().err
