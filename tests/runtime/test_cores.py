"""Cores that a process may use."""

import os

import pytest

from rein.runtime import cores


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 8), ("150000 100000", 1), ("350000 100000", 3), ("20000 100000", 1)]
)
def test_a_quota_of_time_counts_as_whole_cores(tmp_path, monkeypatch, text, expected):
    (tmp_path / "cpu.max").write_text(text + "\n")
    monkeypatch.setattr(cores, "_CGROUP", tmp_path)
    monkeypatch.setattr(cores, "_allowed", lambda: set(range(8)))
    assert cores.usable_cores() == expected


def test_the_older_form_of_a_quota_is_understood(tmp_path, monkeypatch):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("200000")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000")
    monkeypatch.setattr(cores, "_CGROUP", tmp_path)
    monkeypatch.setattr(cores, "_allowed", lambda: set(range(8)))
    assert cores.usable_cores() == 2
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1")
    assert cores.usable_cores() == 8


def test_idle_time_of_the_allowed_cores_is_summed(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu 9 9 9 9 9\ncpu0 1 2 3 400 50 6\ncpu1 1 2 3 100 0 6\ncpu12 1 1 1 7000 0 0\nintr 5\n")
    monkeypatch.setattr(cores, "_STAT", stat)
    monkeypatch.setattr(cores, "_allowed", lambda: {0, 1})
    assert cores.idle_seconds() == pytest.approx(550 / os.sysconf("SC_CLK_TCK"))
    monkeypatch.setattr(cores, "_STAT", tmp_path / "none")
    assert cores.idle_seconds() is None
