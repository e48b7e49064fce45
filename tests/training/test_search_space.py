"""What sweeps vary, how points are chosen, and the sweep itself with small processes instead of trainings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rein.config import parse_override
from rein.config.overrides import Reference
from rein.training.search_space import Dimension, grid, override_text, parse_dimension, random_point
from rein.training.sweep import Commands, Sweep, SweepError
from rein.training.sweep_plan import Plan, make_sampler


def test_dimensions_are_read() -> None:
    assert parse_dimension("a.b=[1, 2.5, 'x']") == Dimension("a.b", "choice", (1, 2.5, "x"))
    assert parse_dimension("lr=log(1e-4, 1e-2)") == Dimension("lr", "log", (1e-4, 1e-2))
    assert parse_dimension("n = int(1, 8)") == Dimension("n", "int", (1, 8))
    assert parse_dimension("c=['@PPOLoss']").values == (Reference("PPOLoss"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr=3", r"write name=\[a, b, c\]"),
        ("lr", r"write name=\[a, b, c\]"),
        ("lr=[]", "at least one value"),
        ("lr=log(0, 1)", "a > 0"),
        ("lr=uniform(2, 1)", "a < b"),
        ("lr=uniform(2)", "two numbers"),
        ("n=int(1.5, 2)", "two whole numbers"),
        ("n=int(x, 2)", "two numbers"),
        ("3x=[1]", "not a dotted name"),
        ("3x=int(1, 2)", "not a dotted name"),
    ],
)
def test_wrong_dimensions_say_how_to_write_them(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_dimension(text)


def test_a_grid_has_all_combinations() -> None:
    points = grid([Dimension("a", "choice", (1, 2)), Dimension("b", "choice", ("x", "y"))])
    assert points == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert grid([]) == [{}]
    with pytest.raises(ValueError, match="a grid needs choices"):
        grid([Dimension("a", "log", (1, 2))])


def test_random_points_lie_in_their_ranges_and_depend_on_the_trial_only() -> None:
    dimensions = [Dimension("a", "log", (1e-4, 1e-2)), Dimension("b", "int", (1, 3)), Dimension("c", "uniform", (0, 1))]
    points = [random_point(dimensions, seed=0, trial=trial) for trial in range(50)]
    assert points[7] == random_point(dimensions, seed=0, trial=7)
    assert all(1e-4 <= point["a"] <= 1e-2 and point["b"] in (1, 2, 3) and 0 <= point["c"] <= 1 for point in points)
    assert {point["b"] for point in points} == {1, 2, 3}
    assert np.median([point["a"] for point in points]) < 4e-3


def test_overrides_are_read_back() -> None:
    for value in (1, 0.25, "two words", (1, 2), None, True, Reference("PPOLoss")):
        assert parse_override(override_text("name", value)) == ("name", value)


def test_optuna_learns_from_scores_and_takes_up_old_trials() -> None:
    plan = Plan("c", (), (Dimension("a", "uniform", (0.0, 1.0)), Dimension("b", "choice", ("x", (1, 2)))), "optuna", 5)
    sampler = make_sampler(plan)
    sampler.adopt(0, {"a": 0.5, "b": (1, 2)})
    sampler.tell(0, 3.0)
    point = sampler.point(1)
    assert point is not None
    assert 0 <= point["a"] <= 1
    assert point["b"] in ("x", (1, 2))
    sampler.tell(1, None)
    assert sampler.point(5) is None


FAKE_TRAINING = """
import json, os, sys, time
directory, seed, *overrides = sys.argv[1:]
os.makedirs(directory, exist_ok=True)
values = dict(text.split("=") for text in overrides)
count = os.path.join(directory, "starts")
with open(count, "a") as file:
    file.write("start\\n")
with open(os.path.join(directory, "run.json"), "w") as file:
    json.dump({"status": "running"}, file)
time.sleep(float(values.get("sleep", 0)))
if values.get("x") == "13":
    print("unlucky"); sys.exit(1)
with open(os.path.join(directory, "evaluations.jsonl"), "w") as file:
    file.write(json.dumps({"mean_return": float(values.get("x", 0)) + int(seed)}) + "\\n")
with open(os.path.join(directory, "run.json"), "w") as file:
    json.dump({"status": "finished"}, file)
"""


def fake_commands(script: Path, resume_x: str = "x=1") -> Commands:
    script.write_text(FAKE_TRAINING)
    return Commands(
        train=lambda overrides, seed, directory: [sys.executable, str(script), str(directory), str(seed), *overrides],
        resume=lambda directory: [sys.executable, str(script), str(directory), directory.name[-1], resume_x],
    )


def test_a_sweep_runs_everything_once_and_ranks_it(tmp_path: Path) -> None:
    plan = Plan("c", (), (Dimension("x", "choice", (1, 5)),), seeds=(0, 1))
    commands = fake_commands(tmp_path / "train.py")
    with Sweep(tmp_path / "s", plan, commands, jobs=2) as sweep:
        assert sweep.run() is None
        assert [(one.trial, one.mean) for one in sweep.results()] == [(1, 5.5), (0, 1.5)]
    with Sweep(tmp_path / "s", plan, commands, jobs=2) as again:
        assert again.run() is None
        assert [one.mean for one in again.results()] == [5.5, 1.5]
    starts = [path.read_text().count("start") for path in (tmp_path / "s/runs").glob("*/starts")]
    assert starts == [1, 1, 1, 1]
    results = json.loads((tmp_path / "s/results.json").read_text())
    assert results[0]["overrides"] == ["x=5"]
    assert results[0]["ci95"] == [5.0, 6.0]


def test_a_run_that_finished_unnoticed_is_not_run_again(tmp_path: Path) -> None:
    plan = Plan("c", (), (Dimension("x", "choice", (1,)),))
    commands = fake_commands(tmp_path / "train.py")
    with Sweep(tmp_path / "s", plan, commands, jobs=1) as sweep:
        sweep.run()
    journal = tmp_path / "s/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(lines[0] + lines[1][:20])  # Killed while it wrote that the run had finished.
    with Sweep(tmp_path / "s", plan, commands, jobs=1) as again:
        again.run()
        assert [one.mean for one in again.results()] == [1.0]
    assert (tmp_path / "s/runs/trial0000-seed0/starts").read_text() == "start\n"


def test_a_failed_run_is_named_and_tried_again_next_time(tmp_path: Path) -> None:
    plan = Plan("c", (), (Dimension("x", "choice", (13, 1)),))
    with Sweep(tmp_path / "s", plan, fake_commands(tmp_path / "train.py"), jobs=2) as sweep:
        sweep.run()
        assert sweep.failures == ["trial 0 seed 0: ended with code 1: unlucky"]
        assert [one.mean for one in sweep.results()] == [1.0, None]
    with Sweep(tmp_path / "s", plan, fake_commands(tmp_path / "train.py", "x=2"), jobs=2) as again:
        again.run()
        assert again.failures == []


def test_another_plan_or_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    commands = fake_commands(tmp_path / "train.py")
    plan = Plan("c", (), (Dimension("x", "choice", (1,)),))
    second = Sweep(tmp_path / "s", plan, commands, jobs=1)
    with Sweep(tmp_path / "s", plan, commands, jobs=1), pytest.raises(SweepError, match="is in use"):
        second.__enter__()
    with pytest.raises(SweepError, match="another plan"), Sweep(tmp_path / "s", plan._replace(seeds=(4,)), commands, 1):
        pass
    with pytest.raises(SweepError, match="holds no sweep"), Sweep(tmp_path, plan, commands, jobs=1):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "random"}, "--trials N"),
        ({"method": "grid", "trials": 3}, "--trials belongs to"),
        ({"method": "random", "dimensions": (), "trials": 3}, "nothing to choose"),
        ({"seeds": (1, 1)}, "must be some, and different"),
        ({"dimensions": (Dimension("x", "choice", (1,)),) * 2}, "x twice"),
    ],
)
def test_impossible_plans_say_what_to_change(tmp_path: Path, changes: dict, message: str) -> None:
    plan = Plan("c", (), (Dimension("x", "choice", (1,)),))._replace(**changes)
    with pytest.raises(ValueError, match=message):
        Sweep(tmp_path / "s", plan, fake_commands(tmp_path / "train.py"), jobs=1)


CONTROLLER = """
import sys
from pathlib import Path
from rein.training.search_space import Dimension
from rein.training.sweep import Commands, Sweep
from rein.training.sweep_plan import Plan
root, script = Path(sys.argv[1]), sys.argv[2]
plan = Plan("c", ("sleep=30",), (Dimension("x", "choice", (1, 2)),))
commands = Commands(
    lambda overrides, seed, directory: [sys.executable, script, str(directory), str(seed), *overrides],
    lambda directory: [sys.executable, script, str(directory), "0", "x=7"],
)
with Sweep(root, plan, commands, jobs=2) as sweep:
    sweep.run()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="dying with the parent is a feature of Linux")
def test_a_killed_sweep_takes_its_processes_along_and_goes_on(tmp_path: Path) -> None:
    commands = fake_commands(tmp_path / "train.py", "x=7")
    controller = tmp_path / "controller.py"
    controller.write_text(CONTROLLER)
    process = subprocess.Popen([sys.executable, str(controller), str(tmp_path / "s"), str(tmp_path / "train.py")])
    runs = tmp_path / "s" / "runs"
    deadline = time.monotonic() + 120
    while len(list(runs.glob("*/run.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    plan = Plan("c", ("sleep=30",), (Dimension("x", "choice", (1, 2)),))
    while time.monotonic() < deadline:
        try:
            with Sweep(tmp_path / "s", plan, commands, jobs=2) as sweep:
                assert sweep.run() is None
                assert [one.mean for one in sweep.results()] == [7.0, 7.0]
            break
        except SweepError:  # Its processes are still ending.
            time.sleep(0.1)
    else:
        pytest.fail("the processes of the killed sweep did not end")
