"""What an examination says: what is there, what is missing, and what to do about it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rein.cli import main
from rein.doctor import Finding, examination, installation, machine, worlds
from rein.envs.suites import SuiteInfo


def test_the_command_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--quick", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert code == (1 if data["problems"] else 0)
    subjects = {finding["subject"] for finding in data["findings"]}
    assert {"python", "torch", "cores", "memory", "disk"} <= subjects
    assert all(finding["fix"] for finding in data["findings"] if finding["status"] != "ok")


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Finding]:
        raise OSError("no such device")
        yield

    monkeypatch.setattr(examination, "disk", broken)
    found = {finding.subject: finding for finding in examination.examine(quick=True)}
    assert found["broken"].status == "problem"
    assert "no such device" in found["broken"].text


def test_more_threads_than_cores_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    threads = next(finding for finding in machine.cores() if finding.subject == "threads")
    assert (threads.status, threads.fix) == ("problem", "export OMP_NUM_THREADS=2, or unset it")


@pytest.mark.parametrize(("free", "status"), [(64 << 20, "problem"), (8 << 30, "ok")])
def test_little_shared_memory_is_a_problem(
    free: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(free, 0, free))  # type: ignore[attr-defined]
    (finding,) = machine.shared_memory(tmp_path)
    assert finding.status == status
    assert ("--shm-size" in finding.fix) is (status == "problem")


def test_missing_packages_of_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch>=2.6",
        "no-such-package>=1; extra == 'atari'",
        'numpy>=2.0; extra == "data"',
        "rein-rl[atari]; extra == 'all'",
    ]
    monkeypatch.setattr(installation, "requires", lambda name: lines)
    present, missing = installation.extras()
    assert present.text == "installed: data"
    assert (missing.subject, missing.status) == ("extra atari", "missing")
    assert missing.fix == "pip install 'rein-rl[atari]'"
    assert "no-such-package" in missing.text


def test_worlds_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    suites = [
        SuiteInfo("classic", "", "classic", True, ("CartPole-v1",)),
        SuiteInfo("toy", "", "", True, ("NoSuchWorld-v0",)),
        SuiteInfo("atari", "Atari games", "atari", False, ()),
    ]
    monkeypatch.setattr(worlds, "available_suites", lambda: suites)
    works, fails, missing = worlds.worlds()
    assert works.text == "CartPole-v1 works, 1 ids"
    assert (fails.status, fails.fix) == ("problem", "`rein check-env NoSuchWorld-v0` says more")
    assert missing.fix == "pip install 'rein-rl[atari]'"
