"""Nothing that was saved is lost: not to kill -9 at any instant, a full disk or missing permission.

The killing is done by this same file, run as a script: it loads torch once and then forks.
"""

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rein.runtime.checkpoint import Checkpointer, CheckpointError

SYSTEM_CALLS = ("open", "fsync", "rename", "mkdir", "close", "listdir", "stat")


def state_of(step: int) -> dict[str, Any]:
    """A state in which every tensor and every field tells the step."""
    return {
        "alg": {f"w{i}": torch.full((64, 128), float(step)) for i in range(4)} | {"step": step},
        "trainer": {"step": [step, (step, str(step))], "rng": np.full(625, step, dtype=np.uint32)},
        "metrics": {step: float(step), "text": f"{step} " * 500},
    }


def check_is_whole(step: int, components: dict[str, Any]) -> None:
    expected = state_of(step)
    assert components.keys() == expected.keys()
    alg = components["alg"]
    assert alg["step"] == step
    assert all(torch.equal(alg[f"w{i}"], expected["alg"][f"w{i}"]) for i in range(4))
    assert components["trainer"]["step"] == expected["trainer"]["step"]
    assert np.array_equal(components["trainer"]["rng"], expected["trainer"]["rng"])
    assert components["metrics"] == expected["metrics"]


def leftovers(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith(".")]


def run(mode: str, directory: Path, *arguments: str, wrapper: tuple[str, ...] = ()) -> Any:
    command = [*wrapper, sys.executable, __file__, mode, str(directory), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kill_at_200_random_instants_never_loses_or_mixes(tmp_path):
    report = run("kill", tmp_path, "200", "1")
    assert report["kills"] == 200
    # The test is worth something only if many kills struck in the middle of a save.
    assert report["interrupted saves"] >= 20
    assert report["saves reported"] >= 20


@pytest.mark.slow
def test_kill_at_1000_random_instants_never_loses_or_mixes(tmp_path):
    report = run("kill", tmp_path, "1000", "2")
    assert report["kills"] == 1000


def test_death_at_each_system_call_never_loses_or_mixes(tmp_path):
    report = run("each-call", tmp_path)
    assert report["deaths"] > 40


def test_file_size_limit_is_reported_and_the_old_checkpoint_stays(tmp_path):
    report = run("limit", tmp_path)
    assert "step 2 was not saved" in report["error"]
    assert "File too large" in report["error"]
    check_is_whole(1, Checkpointer(tmp_path).load().components)
    assert os.listdir(tmp_path) == ["ckpt-1"]


def test_full_file_system_is_reported_and_the_old_checkpoint_stays(tmp_path):
    script = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'
    wrapper = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(tmp_path))
    try:
        probe = subprocess.run([*wrapper, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if probe.returncode != 0:
        pytest.skip(f"no small file system can be made here: {probe.stderr!r}")
    report = run("full", tmp_path, wrapper=wrapper)
    assert "No space left on device" in report["error"]
    assert report["after"] == ["ckpt-1"]
    assert report["then"] == 3


def test_missing_permission_is_reported_and_the_old_checkpoint_stays():
    with tempfile.TemporaryDirectory() as name:
        report = run("permission", Path(name))
        assert "step 2 was not saved" in report["error"]
        assert "Permission denied" in report["error"]
        check_is_whole(1, Checkpointer(name).load().components)
        assert os.listdir(name) == ["ckpt-1"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("call", ["open", "fsync", "rename", "mkdir"])
def test_failure_of_each_system_call_is_never_reported_as_saved(tmp_path, monkeypatch, call, code):
    original = getattr(os, call)
    outcomes = Counter()
    for nth in range(60):
        directory = tmp_path / str(nth)
        checkpointer = Checkpointer(directory, keep=1)
        checkpointer.save(1, state_of(1))
        count = 0

        def failing(*args, nth=nth, **kwargs):
            nonlocal count
            count += 1
            if count == nth + 1:
                raise OSError(code, os.strerror(code))
            return original(*args, **kwargs)

        monkeypatch.setattr(os, call, failing)
        try:
            checkpointer.save(2, state_of(2))
            failure = None
        except CheckpointError as error:
            failure = str(error)
        monkeypatch.setattr(os, call, original)
        saved = failure is None
        assert saved or os.strerror(code) in failure
        loaded = checkpointer.load()
        check_is_whole(loaded.step, loaded.components)
        assert loaded.step == 2 or not saved
        assert saved or 1 in checkpointer.steps()
        assert not [name for name in leftovers(directory) if name.startswith(".saving")]
        outcomes[saved] += 1
        if count <= nth:
            break
    else:
        pytest.fail("the call never stopped being made")
    assert outcomes[True] >= 1
    assert outcomes[False] >= 1


def test_interrupt_from_the_keyboard_leaves_nothing_behind(tmp_path, monkeypatch):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, state_of(1))

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            checkpointer.save(2, state_of(2))
    assert os.listdir(tmp_path) == ["ckpt-1"]


def test_everything_is_on_the_disk_before_the_name_appears(tmp_path, monkeypatch):
    events: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(descriptor):
        events.append(("sync", os.path.basename(os.path.realpath(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def record_rename(old, new):
        events.append(("rename", os.path.basename(new)))
        rename(old, new)

    directory = tmp_path / "run" / "checkpoints"
    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    Checkpointer(directory).save(7, state_of(7))
    names = [name if not name.startswith(".saving-7-") else ".saving" for _, name in events]
    files = [
        "alg.json", "alg.safetensors", "trainer.json", "trainer.safetensors", "metrics.json",
        "manifest.json",
    ]  # fmt: skip
    # The new directories, each in its parent; then files, manifest last; then directory, name, parent.
    assert names == [tmp_path.name, "run", *files, ".saving", "ckpt-7", "checkpoints"]
    assert events[-2] == ("rename", "ckpt-7")


def fork_running(function: Callable[[], None]) -> int:
    """The id of a child process that runs `function` and ends with 0, or 3 if it raises."""
    pid = os.fork()
    if pid:
        return pid
    try:
        function()
    except BaseException as error:
        print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(3)
    os._exit(0)


def save_for_ever(checkpointer: Checkpointer, step: int, report: int) -> None:
    while True:
        checkpointer.save(step, state_of(step))
        os.write(report, step.to_bytes(8, "little"))
        step += 1


def kill_while_saving(directory: Path, kills: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    checkpointer = Checkpointer(directory, keep=3)
    durations = []
    for step in range(5):
        began = time.perf_counter()
        checkpointer.save(step, state_of(step))
        durations.append(time.perf_counter() - began)
    one_save = sorted(durations)[2]
    began = time.perf_counter()
    interrupted = reported = 0
    for _ in range(kills):
        first = checkpointer.load().step + 1
        reading, writing = os.pipe()
        pid = fork_running(partial(save_for_ever, checkpointer, first, writing))
        os.close(writing)
        time.sleep(chance.uniform(0, 4 * one_save))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"the child ended by itself: {status}"
        with os.fdopen(reading, "rb") as pipe:
            done = pipe.read()
        last = int.from_bytes(done[-8:], "little") if done else first - 1
        reported += len(done) // 8
        interrupted += bool(leftovers(directory))
        loaded = checkpointer.load()
        check_is_whole(loaded.step, loaded.components)
        assert loaded.step in (last, last + 1), (loaded.step, last)
        for step in checkpointer.steps():
            check_is_whole(step, checkpointer.load(step).components)
    checkpointer.save(loaded.step + 1, state_of(loaded.step + 1))
    assert not leftovers(directory)
    assert len(checkpointer.steps()) == 3
    return {
        "kills": kills,
        "interrupted saves": interrupted,
        "saves reported": reported,
        "seconds": round(time.perf_counter() - began, 1),
        "milliseconds for one save": round(1000 * one_save, 1),
    }


def die_at_each_call(directory: Path) -> dict[str, Any]:
    checkpointer = Checkpointer(directory, keep=1)
    checkpointer.save(1, state_of(1))
    for nth in range(1000):
        step = checkpointer.load().step
        pid = fork_running(partial(save_and_die, checkpointer, step + 1, nth))
        _, status = os.waitpid(pid, 0)
        loaded = checkpointer.load()
        check_is_whole(loaded.step, loaded.components)
        if status == 0:
            assert loaded.step == step + 1
            assert not leftovers(directory)
            return {"deaths": nth}
        assert os.waitstatus_to_exitcode(status) == 9
        assert loaded.step in (step, step + 1)
    raise AssertionError("the calls never ended")


def save_and_die(checkpointer: Checkpointer, step: int, nth: int) -> None:
    """Saves, and dies just before the system call number `nth`."""
    count = 0

    def dying(original):
        def call(*args, **kwargs):
            nonlocal count
            if count == nth:
                os._exit(9)
            count += 1
            return original(*args, **kwargs)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, dying(getattr(os, name)))
    checkpointer.save(step, state_of(step))


def save_too_much(directory: Path, limit: bool) -> dict[str, Any]:
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, state_of(1))
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        checkpointer.save(2, {"first": 1, "alg": torch.zeros(1_000_000)})
        return {"error": ""}
    except CheckpointError as error:
        after = os.listdir(directory)
        check_is_whole(1, checkpointer.load().components)
        checkpointer.save(3, state_of(3))
        then = checkpointer.load().step
        if limit:
            checkpointer.set_aside(3).rename(directory.parent / "aside")
        return {"error": str(error), "after": after, "then": then}


def save_without_permission(directory: Path) -> dict[str, Any]:
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, state_of(1))
    os.chmod(directory, 0o555)
    try:
        if os.geteuid() == 0:
            os.seteuid(65534)  # The rights of a superuser would pass over the mode.
        checkpointer.save(2, state_of(2))
        return {"error": ""}
    except CheckpointError as error:
        return {"error": str(error)}
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        os.chmod(directory, 0o755)


def main(mode: str, directory: str, *arguments: str) -> dict[str, Any]:
    path = Path(directory)
    if mode == "kill":
        return kill_while_saving(path, *map(int, arguments))
    if mode == "each-call":
        return die_at_each_call(path)
    if mode == "permission":
        return save_without_permission(path)
    return save_too_much(path, limit=mode == "limit")


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
