"""Which checkpoints there are, which stay, and what saving a step twice does."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from rein.runtime.checkpoint import (
    Checkpointer,
    CheckpointError,
    CheckpointNotFoundError,
    archive,
    durable,
)


def names(directory) -> list[str]:
    return sorted(os.listdir(directory))


def test_newest_is_the_highest_step_as_a_number(tmp_path):
    checkpointer = Checkpointer(str(tmp_path / "a" / "b"))
    assert checkpointer.steps() == []
    assert not (tmp_path / "a").exists()
    for step in (9, 10, 0):
        path = checkpointer.save(step, {"alg": {"step": step}})
        assert path == tmp_path / "a" / "b" / f"ckpt-{step}"
    assert checkpointer.steps() == [0, 9, 10]
    assert checkpointer.latest_step() == 10
    loaded = checkpointer.load()
    assert (loaded.step, loaded.components) == (10, {"alg": {"step": 10}})
    assert loaded.path == path.with_name("ckpt-10")
    assert checkpointer.load(np.int64(9)).components == {"alg": {"step": 9}}


def test_other_names_are_not_checkpoints(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {})
    for name in ("ckpt-02", "ckpt-", "ckpt-1a", "ckpt--3", "best", "ckpt-\u0663", "aside-ckpt-7"):
        (tmp_path / name).mkdir()
    assert checkpointer.steps() == [1]
    assert checkpointer.load().components == {}


def test_step_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(3, {})
    with pytest.raises(CheckpointNotFoundError, match=r"ckpt-4 does not exist.*\[3\]"):
        checkpointer.load(4)


@pytest.mark.parametrize("step", [-1, 1.5, "1", None, True, 10**19])
def test_step_that_is_no_count_is_refused(tmp_path, step):
    with pytest.raises(ValueError, match="a step must be an int"):
        Checkpointer(tmp_path).save(step, {})


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_keep_must_be_a_positive_count(tmp_path, value):
    with pytest.raises(ValueError, match="keep must be"):
        Checkpointer(tmp_path, keep=value)
    with pytest.raises(ValueError, match="keep_every must be"):
        Checkpointer(tmp_path, keep_every=value)


def test_only_the_wanted_components_are_read(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    path = checkpointer.save(1, {"alg": 1, "replay_buffer": torch.arange(100)})
    data = bytearray((path / "replay_buffer.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "replay_buffer.safetensors").write_bytes(data)
    assert checkpointer.load(components=["alg"]).components == {"alg": 1}
    with pytest.raises(CheckpointError, match=r"replay_buffer\.safetensors"):
        checkpointer.load(components=["alg", "replay_buffer"])
    with pytest.raises(ValueError, match=r"no component 'algo'.*\['alg', 'replay_buffer'\]"):
        checkpointer.load(components=["algo"])


def test_latest_ones_and_multiples_stay(tmp_path):
    checkpointer = Checkpointer(tmp_path, keep=2, keep_every=10)
    for step in range(5, 36, 5):
        checkpointer.save(step, {"alg": torch.ones(step)})
    assert checkpointer.steps() == [10, 20, 25, 30, 35]
    assert names(tmp_path) == ["ckpt-10", "ckpt-20", "ckpt-25", "ckpt-30", "ckpt-35"]


def test_pruning_spares_damaged_and_later_checkpoints_and_the_one_just_saved(tmp_path):
    Checkpointer(tmp_path).save(1, {"alg": 1})
    Checkpointer(tmp_path).save(2, {"alg": 2})
    Checkpointer(tmp_path).save(9, {"alg": 9})
    (tmp_path / "ckpt-2" / "alg.json").unlink()
    Checkpointer(tmp_path, keep=1).save(3, {"alg": 3})
    assert Checkpointer(tmp_path).steps() == [2, 3, 9]


def test_failure_to_prune_is_a_warning_because_the_save_succeeded(tmp_path, monkeypatch, caplog):
    checkpointer = Checkpointer(tmp_path, keep=1)
    checkpointer.save(1, {"alg": 1})

    def refuse(path, step):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rein.runtime.checkpoint.checkpointer.remove_directory", refuse)
    with caplog.at_level(logging.WARNING):
        checkpointer.save(2, {"alg": 2})
    assert "could not be removed" in caplog.text
    assert checkpointer.steps() == [1, 2]


def test_same_step_again_needs_the_same_content(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    path = checkpointer.save(1, {"alg": {"w": torch.ones(3)}})
    before = {file.name: file.stat() for file in path.iterdir()}
    assert checkpointer.save(1, {"alg": {"w": torch.ones(3)}}) == path
    with pytest.raises(CheckpointError, match=r"step 1 was not saved.*already holds other content"):
        checkpointer.save(1, {"alg": {"w": torch.zeros(3)}})
    after = {file.name: file.stat() for file in path.iterdir()}
    assert [s.st_mtime_ns for s in before.values()] == [s.st_mtime_ns for s in after.values()]
    assert names(tmp_path) == ["ckpt-1"]


def test_damaged_checkpoint_of_the_same_step_is_set_aside(tmp_path, caplog):
    checkpointer = Checkpointer(tmp_path)
    for number in (1, 2):
        path = checkpointer.save(5, {"alg": number})
        (path / "alg.json").write_text("cut")
    with caplog.at_level(logging.WARNING):
        checkpointer.save(5, {"alg": 3})
    assert "aside-ckpt-5-1" in caplog.text
    assert names(tmp_path) == ["aside-ckpt-5", "aside-ckpt-5-1", "ckpt-5"]
    assert (tmp_path / "aside-ckpt-5" / "alg.json").read_text() == "cut"
    assert checkpointer.load().components == {"alg": 3}


def test_setting_aside_makes_an_older_one_the_newest(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"alg": 1})
    checkpointer.save(2, {"alg": 2})
    assert checkpointer.set_aside(2) == tmp_path / "aside-ckpt-2"
    assert checkpointer.load().step == 1
    with pytest.raises(CheckpointError, match="could not be set aside"):
        checkpointer.set_aside(2)


def test_step_saved_by_another_process_in_between_is_never_overwritten(tmp_path, monkeypatch):
    first, second = Checkpointer(tmp_path), Checkpointer(tmp_path)
    rename = os.rename

    def overtaken(old, new):
        monkeypatch.setattr(os, "rename", rename)
        second.save(1, {"alg": "second"})
        rename(old, new)

    monkeypatch.setattr(os, "rename", overtaken)
    with pytest.raises(CheckpointError, match="already holds other content"):
        first.save(1, {"alg": "first"})
    assert first.load().components == {"alg": "second"}
    assert names(tmp_path) == ["ckpt-1"]


def test_checkpoint_pruned_while_it_is_read_gives_way_to_the_newer_one(tmp_path, monkeypatch, caplog):
    writer, reader = Checkpointer(tmp_path, keep=1), Checkpointer(tmp_path)
    writer.save(1, {"alg": 1})
    original = archive._read_manifest

    def overtaken(directory, path):
        monkeypatch.setattr(archive, "_read_manifest", original)
        writer.save(2, {"alg": 2})
        return original(directory, path)

    monkeypatch.setattr(archive, "_read_manifest", overtaken)
    with caplog.at_level(logging.WARNING):
        assert reader.load().step == 2
    assert not caplog.records


def test_reader_always_finds_a_whole_checkpoint_while_another_process_saves_and_prunes(tmp_path):
    script = f"""
from rein.runtime.checkpoint import Checkpointer
import torch
checkpointer = Checkpointer({str(tmp_path)!r}, keep=1)
for step in range(1, 101):
    checkpointer.save(step, {{"alg": {{"w": torch.full((50,), float(step)), "step": step}}}})
"""
    Checkpointer(tmp_path).save(0, {"alg": {"w": torch.zeros(50), "step": 0}})
    writer = subprocess.Popen([sys.executable, "-c", script])
    seen = []
    while writer.poll() is None:
        loaded = Checkpointer(tmp_path).load()
        assert loaded.components["alg"]["step"] == loaded.step
        assert (loaded.components["alg"]["w"] == loaded.step).all()
        seen.append(loaded.step)
    assert writer.returncode == 0
    assert seen == sorted(seen)
    assert Checkpointer(tmp_path).steps() == [100]


def test_leftovers_of_dead_processes_go_and_others_stay(tmp_path):
    mine = durable.saving_name(1)
    assert durable._SAVING.fullmatch(mine)
    _, _, _, machine, pid, start, token = mine.replace(".", "").replace("saving", "-").split("-")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    zombie_pid = dead.pid
    stay = {
        "running": mine,
        "another machine": f".saving-1-{'0' * 12}-{2**22 + 1}-{start}-{token}",
        "someone's own": ".saving-1",
        "someone's notes": "notes",
        "first process": f".saving-1-{machine}-1-0-{token}",
    }
    go = {
        "no such process": f".saving-1-{machine}-{2**22 + 1}-{start}-{token}",
        "id was reused": f".saving-1-{machine}-{pid}-{int(start) - 1}-{token}",
        "half removed": f".removing-3-{token}",
        "huge id": f".saving-1-{machine}-{10**30}-{start}-{token}",
    }
    for name in (*stay.values(), *go.values()):
        (tmp_path / name).mkdir()
        (tmp_path / name / "alg.json").write_text("1")
    # A zombie has ended, though its id is still taken.
    dead_name = f".saving-1-{machine}-{zombie_pid}-{durable._start_time(zombie_pid)}-{token}"
    os.waitid(os.P_PID, zombie_pid, os.WEXITED | os.WNOWAIT)
    if durable._start_time(zombie_pid) is not None:
        (tmp_path / dead_name).mkdir()
    Checkpointer(tmp_path).save(1, {})
    dead.wait()
    assert names(tmp_path) == sorted([*stay.values(), "ckpt-1"])


def test_loading_needs_no_right_to_write_and_changes_nothing(tmp_path):
    checkpointer = Checkpointer(tmp_path / "checkpoints")
    checkpointer.save(1, {"alg": 1})
    (tmp_path / "checkpoints" / ".removing-3-00000000").mkdir()
    before = names(tmp_path / "checkpoints")
    assert checkpointer.load().step == 1
    assert checkpointer.latest_step() == 1
    assert names(tmp_path / "checkpoints") == before


def test_unreadable_checkpoint_is_an_error_and_not_passed_over(tmp_path, monkeypatch):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"alg": 1})
    checkpointer.save(2, {"alg": 2})
    original = os.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith("alg.json"):
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CheckpointError, match=r"ckpt-2 cannot be read.*Permission denied"):
        checkpointer.load()


def test_directory_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be listed"):
        Checkpointer(tmp_path / "file").load()
    with pytest.raises(CheckpointError, match="was not saved"):
        Checkpointer(tmp_path / "file").save(1, {})


def test_verify_gives_what_a_checkpoint_holds(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    path = checkpointer.save(4, {"alg": torch.ones(2), "metrics": {}})
    (tmp_path / "best").symlink_to(path)
    manifest = checkpointer.verify(tmp_path / "best")
    assert manifest.step == 4
    assert sorted(manifest.files()) == ["alg.json", "alg.safetensors", "metrics.json"]


def test_renamed_checkpoint_still_verifies_but_not_as_another_step(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    path = checkpointer.save(4, {"alg": 1})
    copy = path.rename(tmp_path / "best")
    assert checkpointer.verify(copy).step == 4
    copy.rename(tmp_path / "ckpt-5")
    with pytest.raises(CheckpointError, match="was saved as step 4"):
        checkpointer.load()
