"""Saves that fail or are killed lose nothing."""

import errno
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import rein
from rein.config import fresh_configs
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.checkpoint import checkpointer as checkpointer_module
from rein.runtime.checkpoint.durable import put_in_place
from rein.runtime.scalar_files import read_scalars
from rein.runtime.writers import JsonlWriter
from rein.training.full_disk import ToleratedSaving
from rein.training.launch import resume_run
from rein.training.run_directory import RunDirectory

SMALL = {
    "create_environment.num_parallel_environments": 2,
    "TrainerConfig.unroll_length": 8,
    "TrainerConfig.mini_batch_size": 16,
    "TrainerConfig.num_updates_per_train_iter": 1,
    "TrainerConfig.evaluate": False,
}


def _full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device", "ckpt-2")


def test_a_full_disk_does_not_stop_training(tmp_path, monkeypatch, caplog):
    agent = rein.make("ppo", env="CartPole-v1", directory=tmp_path / "run", settings=SMALL)
    agent.train(32)
    before = Checkpointer(tmp_path / "run/checkpoints").steps()
    save, failures = Checkpointer.save, []

    def sometimes_full(self, *args, **kwargs):
        if len(failures) < 2:
            failures.append(1)
            _full()
        return save(self, *args, **kwargs)

    monkeypatch.setattr(checkpointer_module.Checkpointer, "save", sometimes_full)
    with caplog.at_level(logging.WARNING):
        agent.train(320)
    assert len(failures) == 2
    assert "NOT SAVED: ckpt-2: No space left on device" in caplog.text
    assert Checkpointer(tmp_path / "run/checkpoints").latest_step() > max(before)
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "finished"
    agent.close()


def test_errors_of_the_disk_stop_those_who_want_it():
    strict, patient = ToleratedSaving(fail=True), ToleratedSaving()
    with pytest.raises(OSError, match="No space"):
        strict.try_to(_full)
    assert not patient.try_to(_full)
    with pytest.raises(OSError, match="No space"):
        patient.insist_on(_full)  # There is no later.
    with pytest.raises(PermissionError):
        patient.try_to(lambda: os.open("/proc/1/mem", os.O_RDONLY) if os.getuid() else _denied())


def _denied():
    raise PermissionError(errno.EACCES, "no", "x")


def test_summaries_wait_for_room(tmp_path, monkeypatch, caplog):
    writer = JsonlWriter(tmp_path, max_queue=1)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr("os.write", _full)
        for step in range(3):
            writer.scalar("a", 1.5, step)
    assert caplog.text.count("summaries wait in memory") == 1
    writer.scalar("a", 2.5, 3)
    writer.close()
    assert read_scalars(tmp_path)["a"].value.tolist() == [1.5, 1.5, 1.5, 2.5]


def test_one_directory_takes_the_place_of_another(tmp_path):
    for name in ("new", "agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_text(name)
    put_in_place(tmp_path / "new", tmp_path / "agent")
    assert os.listdir(tmp_path) == ["agent"]
    assert (tmp_path / "agent/content").read_text() == "new"
    (tmp_path / "newer").mkdir()
    put_in_place(tmp_path / "newer", tmp_path / "other")
    assert sorted(os.listdir(tmp_path)) == ["agent", "other"]


SAVER = """
import sys
import rein
agent = rein.make("ppo", env="CartPole-v1", settings={settings})
agent.save(sys.argv[1], overwrite=True)
print("saved", flush=True)
while True:
    agent.save(sys.argv[1], overwrite=True)
"""


def test_an_agent_that_is_saved_again_is_never_missing(tmp_path):
    """Looked at again and again while it is being replaced, and after a kill."""
    path = tmp_path / "agent"
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVER.format(settings=SMALL), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert saver.stdout.readline() == "saved\n"
    deadline = time.monotonic() + 3.0
    looks = 0
    while time.monotonic() < deadline:
        assert (path / "run.json").exists()
        looks += 1
    saver.send_signal(signal.SIGKILL)
    saver.wait()
    assert looks > 100
    agent = rein.load(path)
    agent.save(path, overwrite=True)
    assert os.listdir(tmp_path) == ["agent"]  # What the kill left is gone with the next save.
    assert Checkpointer(path / "checkpoints").load().step == 0


def test_pythons_generator_is_restored_last(tmp_path):
    with rein.make("ppo", env="CartPole-v1", directory=tmp_path / "run", settings=SMALL) as agent:
        agent.train(32)
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    saved = Checkpointer(copy / "checkpoints").load().components["trainer"]["run"]["global_generators"]
    with fresh_configs():
        trainer = resume_run(RunDirectory.open(copy))
        trainer.extend(48)
        random.random()
        seen = []
        iterate = trainer.algorithm.train_iter

        def first_iteration():
            seen.append(rein.runtime.get_rng_state())
            return iterate()

        trainer.algorithm.train_iter = first_iteration
        trainer.train()
        trainer.close()
    assert str(seen[0]["python"]) == str(saved["python"])
