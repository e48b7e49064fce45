"""A run has one writer, and a run that was killed in its first seconds can be started again."""

import json
import os
import signal
import subprocess
import sys

import pytest

from rein.training.run_directory import RunDirectory, RunDirectoryError

HOLDER = """
import sys
from rein.training.run_directory import RunDirectory
directory = RunDirectory.create(sys.argv[1]) if sys.argv[2] == "create" else RunDirectory.open(sys.argv[1])
directory.lock()
print("held", flush=True)
sys.stdin.read()
"""


def _holder(path, how):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_run_that_is_being_trained_is_refused_until_its_process_ends(tmp_path):
    path = tmp_path / "run"
    holder = _holder(path, "create")
    with pytest.raises(RunDirectoryError, match=f"is being trained by process {holder.pid}"):
        RunDirectory.create(path)
    (path / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=f"kill {holder.pid}"):
        RunDirectory.open(path).lock()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    directory = RunDirectory.open(path)
    directory.lock()
    other = RunDirectory.open(path)
    other.lock()  # The same process.
    other.unlock()
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([sys.executable, "-c", HOLDER, str(path), "open"], check=True, capture_output=True, input=b"")
    directory.unlock()
    late = _holder(path, "open")
    late.kill()
    late.wait()


@pytest.mark.parametrize("left", [[".lock"], [".lock", "config/overrides.json", ".run.json.17.part", "agent.json"]])
def test_a_run_that_was_killed_before_it_began_is_started_again(tmp_path, left):
    for name in left:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("{")
    with pytest.raises(RunDirectoryError, match="start it again with --dir"):
        RunDirectory.open(tmp_path / "run")
    directory = RunDirectory.create(tmp_path / "run")
    assert os.listdir(tmp_path / "run") == [".lock"]
    directory.unlock()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/mine").write_text("precious")
    with pytest.raises(RunDirectoryError, match="not empty"):
        RunDirectory.create(tmp_path)
    (tmp_path / ".lock").touch()
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunDirectoryError, match="not empty"):
        RunDirectory.create(tmp_path)
    assert (tmp_path / "config/mine").read_text() == "precious"


@pytest.mark.parametrize("damage", ["", "{", "[]", "[" * 100_000, "\xff"])
def test_a_damaged_record_is_named(tmp_path, damage):
    (tmp_path / "run.json").write_text(damage, encoding="latin-1")
    with pytest.raises(RunDirectoryError, match=r"run.json is damaged"):
        RunDirectory.open(tmp_path).record()


def test_files_are_replaced_only_when_their_content_is_on_the_disk(tmp_path, monkeypatch):
    directory = RunDirectory.create(tmp_path / "run")
    events, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("replace"), replace(*names)))
    directory.start(name="x")
    assert events == ["sync", "replace", "sync"]  # The content, the name, the folder.
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "running"
    directory.unlock()
