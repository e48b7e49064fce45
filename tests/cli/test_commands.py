"""Every command at work, on trainings of a few iterations."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rein.cli import main
from rein.runtime.checkpoint import Checkpointer
from rein.training.run_directory import RunDirectory


def run_json(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_train_leaves_a_complete_run(finished_run: Path) -> None:
    run = RunDirectory.open(finished_run)
    record = run.record()
    assert record["status"] == "finished"
    assert record["name"] == "ppo_cartpole"
    assert (record["seed"], record["env"], record["algorithm"]) == (1, "CartPole-v1", "PPOAlgorithm")
    assert record["command"].startswith("rein train ppo_cartpole TrainerConfig.num_env_steps=512")
    assert record["env_steps"] >= 512
    for path in ("config/operative.py", "config/conf/tasks/ppo_cartpole.py", "summaries/scalars.jsonl", "report.html"):
        assert (finished_run / path).stat().st_size > 0
    assert run.read_evaluations()[-1]["episodes"] == 2


def test_train_prints_json_only(
    tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = run_json(capsys, "train", *tiny)
    second = run_json(capsys, "train", *tiny)
    assert [first["directory"], second["directory"]] == ["runs/ppo_cartpole-0-1", "runs/ppo_cartpole-0-2"]
    assert first["status"] == "finished"
    assert first["evaluation"]["episodes"] == 2
    assert first["evaluation"]["returns"] == second["evaluation"]["returns"]


def test_train_an_algorithm_on_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["TrainerConfig.num_env_steps=64", "TrainerConfig.unroll_length=8", "TrainerConfig.evaluate=False"]
    words = ["train", "--algorithm", "ppo", "--env", "Acrobot-v1", *settings, "TrainerConfig.mini_batch_size=16"]
    data = run_json(capsys, *words, "--dir", tmp_path / "run")
    assert data["evaluation"] is None
    assert RunDirectory.open(tmp_path / "run").record()["env"] == "Acrobot-v1"


def test_directories_name_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["TrainerConfig.num_env_steps=64", "TrainerConfig.unroll_length=8", "TrainerConfig.evaluate=False"]
    parts = ["--with", "rnd(coef=0.5)", "--with", "entropy_target=0.3"]
    data = run_json(capsys, "train", "ppo_cartpole", *settings, "TrainerConfig.mini_batch_size=16", *parts)
    assert data["directory"] == "runs/ppo_cartpole+rnd+entropy_target-0-1"


def test_train_never_touches_another_run(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    assert main(["train", "ppo_cartpole", "--dir", str(finished_run)]) == 2
    assert "holds another run" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")} == before


def test_evaluate(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "evaluate", finished_run, "--episodes", "12", "--level", "0.9")
    assert data["episodes"] == len(data["returns"]) == 12
    low, high = data["interval"]
    assert low <= data["mean_return"] <= high
    assert data["mean_return"] == pytest.approx(np.mean(data["returns"]))
    again = run_json(capsys, "evaluate", finished_run, "--episodes", "12")
    other = run_json(capsys, "evaluate", finished_run, "--episodes", "12", "--seed", "5")
    assert again["returns"] == data["returns"]
    assert other["returns"] != data["returns"]
    assert main(["evaluate", str(finished_run), "--episodes", "0"]) == 2


def test_play_records_a_video(finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "play", finished_run, "--output", tmp_path / "a.gif", "--every", "3", "--scale", "4")
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF89a")
    assert data["frames"] >= 3
    assert main(["play", str(finished_run), "--output", str(tmp_path / "a.avi")]) == 2
    assert main(["play", str(finished_run), "--window", "--output", str(tmp_path / "a.mp4")]) == 2


def test_plot_and_its_metrics(finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = run_json(capsys, "plot", finished_run, "--metrics")["metrics"]
    assert {"Metrics/AverageReturn", "Evaluation/AverageReturn"} <= set(metrics)
    data = run_json(capsys, "plot", finished_run.parent, "--x", "iterations", "--output", tmp_path / "a.html")
    assert data["groups"][0]["runs"] == 1
    assert "<svg" in (tmp_path / "a.html").read_text()
    assert main(["plot", str(finished_run), "--metric", "nothing"]) == 2


def test_report(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(run_json(capsys, "report", finished_run)["report"])
    assert "<svg" in path.read_text()


def test_show_a_run_and_a_conf(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_run = run_json(capsys, "show", finished_run)
    of_conf = run_json(capsys, "show", "ppo_cartpole", "hidden_layers=(8,)")
    assert of_run["parameters"] == 9155
    assert of_conf["parameters"] == (4 * 8 + 8 + 8 * 2 + 2) + (4 * 8 + 8 + 8 + 1)
    assert sum(layer["parameters"] for layer in of_conf["layers"]) == of_conf["parameters"]
    assert [one["num_elements"] for one in of_conf["optimizers"]] == [of_conf["parameters"]]
    assert of_conf["tree"]["root"]["parameters"] == of_conf["parameters"]
    assert of_conf["not_optimized"] == []
    assert "num_env_steps': 512" in of_run["config"]
    capsys.readouterr()
    assert main(["show", "ppo_cartpole"]) == 0
    text = capsys.readouterr().out
    assert "9,155 parameters" in text
    assert "Adam" in text
    assert "config(" not in text
    assert main(["show", "ppo_cartpole", "--layers", "PPOLoss.gamma=0.5", "ICMAlgorithm.hidden_size=3"]) == 0
    text = capsys.readouterr().out
    assert "weight[64, 4]" in text
    assert "settings without effect: rein.algorithms.exploration.icm.ICMAlgorithm.hidden_size" in text


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "list")
    assert "ppo" in [one["name"] for one in data["algorithms"]]
    assert "ppo_cartpole" in [one["name"] for one in data["zoo"]]
    assert any("CartPole-v1" in suite["ids"] for suite in data["envs"])
    assert {"rnd", "entropy_target"} <= {one["name"] for one in data["parts"]}
    assert all("record" in one for one in data["zoo"])
    assert main(["list", "zoo"]) == 0
    text = capsys.readouterr().out
    (line,) = (line for line in text.splitlines() if line.split()[0] == "ppo_cartpole")
    assert line.split() == ["ppo_cartpole", "ppo", "CartPole-v1", "500.0", "490.0", "met"]
    assert max(map(len, text.splitlines())) <= 100
    (line,) = (line for line in text.splitlines() if line.split()[0] == "ppo_mountaincar")
    assert line.endswith("for comparison")
    assert main(["list", "zoo", "--all"]) == 0
    assert "100,000" in capsys.readouterr().out


def test_list_parts_with_their_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "list", "parts", "--all")
    rnd = next(one for one in data["parts"] if one["name"] == "rnd")
    assert (rnd["slot"], rnd["source"], rnd["error"]) == ("intrinsic_reward", "rein", None)
    assert rnd["parameters"][0] == "coef=0.1"


def test_a_composed_run_is_resumed_evaluated_played_and_shown_with_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    small = ["num_env_steps=64", "unroll_length=8", "mini_batch_size=16", "hidden_layers=(8,)", "num_evals=1"]
    parts = ["--with", "rnd(hidden_layers=(8,), coef=0.5)", "--with", "diayn=3"]
    words = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", *small, "num_eval_episodes=1"]
    assert main([*words, *parts, "--dir", str(run)]) == 2
    assert "both are the intrinsic_reward of the agent" in capsys.readouterr().err
    parts = ["--with", "rnd(hidden_layers=(8,), coef=0.5)", "--with", "goal_generator=3"]
    run_json(capsys, *words, *parts, "--dir", run)
    record = RunDirectory.open(run).record()
    assert record["parts"] == parts[1::2]
    assert record["overrides"][:2] == ["--with goal_generator=3", "--with rnd(hidden_layers=(8,), coef=0.5)"]
    before = Checkpointer(run / "checkpoints").load().components["alg"]
    assert any(name.startswith("_irm._predictor_net") for name in before)
    assert run_json(capsys, "resume", run, "--env-steps", "128")["status"] == "finished"
    after = Checkpointer(run / "checkpoints").load().components["alg"]
    assert set(after) == set(before)
    assert run_json(capsys, "evaluate", run, "--episodes", "2")["episodes"] == 2
    assert run_json(capsys, "play", run, "--output", tmp_path / "a.gif", "--scale", "8")["frames"] > 1
    tree = run_json(capsys, "show", run, "--svg", tmp_path / "a.svg")["tree"]
    assert [child["name"] for child in tree["root"]["children"]] == ["rl_algorithm", "goal_generator", "irm"]
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    report = (run / "report.html").read_text()
    assert "<h2>Agent</h2>" in report
    assert "RandomCategoricalGoalGenerator" in report


def test_resume_goes_on_and_a_finished_run_can_be_extended(
    tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run_json(capsys, "train", *tiny, "--dir", run)
    assert main(["resume", str(run)]) == 2
    assert "has finished: give --env-steps" in capsys.readouterr().err
    assert main(["resume", str(run), "--env-steps", "100"]) == 2
    assert "ask for more than that" in capsys.readouterr().err
    assert RunDirectory.open(run).record()["status"] == "finished"
    data = run_json(capsys, "resume", run, "--env-steps", "1024")
    assert data["env_steps"] >= 1024
    assert data["status"] == "finished"


def test_a_run_that_another_process_trains_is_not_resumed(
    tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run_json(capsys, "train", *tiny, "--dir", run)
    directory = RunDirectory.open(run)
    code = "import sys, rein.training.run_directory as d; d.RunDirectory(sys.argv[1]).mark_running(); print(1); input()"
    command = [sys.executable, "-c", code, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        before = directory.record()
        assert main(["resume", str(run), "--env-steps", "1024"]) == 2
        assert f"being trained by process {other.pid}: wait for its end" in capsys.readouterr().err
        assert directory.record() == before
        other.kill()
    assert run_json(capsys, "resume", run, "--env-steps", "1024")["status"] == "finished"


def test_a_stopped_and_resumed_run_equals_one_that_never_stopped(
    tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*(word for word in tiny if "num_env_steps" not in word), "TrainerConfig.num_env_steps=1500"]
    whole = run_json(capsys, "train", *words, "--dir", tmp_path / "whole")
    main(["train", *words, "--dir", str(tmp_path / "cut")])
    checkpoints = Checkpointer(tmp_path / "cut/checkpoints")
    steps = checkpoints.steps()
    assert len(steps) > 1
    checkpoints.set_aside(steps[-1])
    RunDirectory.open(tmp_path / "cut").update(status="stopped")
    data = run_json(capsys, "resume", tmp_path / "cut")
    assert data["evaluation"]["returns"] == whole["evaluation"]["returns"]
    assert data["iterations"] == whole["iterations"]
    first, second = (Checkpointer(tmp_path / name / "checkpoints").load() for name in ("whole", "cut"))
    parameters = {name: one for name, one in first.components["alg"].items() if isinstance(one, torch.Tensor)}
    assert parameters
    for name, one in parameters.items():
        assert torch.equal(one, second.components["alg"][name]), name


def test_a_stop_signal_finishes_the_iteration_and_exits_with_its_number(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "rein.cli", "train", "ppo_cartpole", "TrainerConfig.num_env_steps=10000000"]
    process = subprocess.Popen(
        [*command, "TrainerConfig.evaluate=False", "--dir", str(run)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    scalars = run / "summaries/scalars.jsonl"
    while not (scalars.exists() and scalars.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "stopped by SIGTERM and saved; go on with: rein resume" in output
    assert RunDirectory.open(run).record()["status"] == "stopped"
    assert Checkpointer(run / "checkpoints").latest_step() is not None


def test_sweep(tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = ["--with", "rnd", "--vary", "rnd.coef=[0.5]"]
    words = [
        *tiny,
        *parts,
        "--vary",
        "learning_rate=[1e-3]",
        "--seeds",
        "2",
        "--jobs",
        "2",
        "--dir",
        tmp_path / "sweep",
    ]
    data = run_json(capsys, "sweep", *words)
    assert data["failures"] == []
    assert [sorted(trial["scores"]) for trial in data["trials"]] == [["0", "1"]]
    assert run_json(capsys, "sweep", "--continue", tmp_path / "sweep") == data
    plot = run_json(capsys, "plot", tmp_path / "sweep", "--output", tmp_path / "sweep.svg")
    assert [group["runs"] for group in plot["groups"]] == [2]


def test_pictures_of_a_representation_go_into_the_run_and_its_report(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    small = ["num_env_steps=64", "unroll_length=8", "mini_batch_size=16", "hidden_layers=(8,)", "num_evals=1"]
    words = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", *small, "num_eval_episodes=1"]
    run_json(capsys, *words, "--with", "vae(z_dim=2, hidden_layers=(8,))", "--dir", run)
    shown = run_json(capsys, "show", run, "--pictures")
    names = ["reconstructions.png", "traversals.png"]
    assert shown["pictures"] == [str(run / "pictures" / name) for name in names]
    assert all((run / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert "data:image/png;base64," in (run / "report.html").read_text()
    other = run_json(capsys, "show", run, "--pictures", tmp_path / "elsewhere")
    assert other["pictures"] == [str(tmp_path / "elsewhere" / name) for name in names]
    capsys.readouterr()
    assert main(["show", "ppo_cartpole", "--pictures"]) == 2
    assert "give the directory of a run" in capsys.readouterr().err
    assert main(["show", str(finished_run), "--pictures"]) != 0
    assert "--with vae" in capsys.readouterr().err


def test_check_env_names_faults_and_how_to_mend_them(tmp_path, monkeypatch, capsys):
    (tmp_path / "odd_world.py").write_text(
        "import gymnasium as gym\n"
        "class Odd(gym.Env):\n"
        "    observation_space = gym.spaces.Discrete(3)\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        return 0, None, False, False, {}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["check-env", "odd_world:Odd", "--steps", "5"]) == 1
    assert "fault: reward is None: return a number from every step" in capsys.readouterr().out
    assert main(["check-env", "CartPole-v1", "--steps", "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps_per_second"] > 0
    assert main(["check-env", "odd_world:Even"]) == 2
    assert "odd_world has no Even: name a class or function" in capsys.readouterr().err
