"""Summaries: scopes, conditions, files that survive crashes."""

import json
import math
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein.runtime import Run, summary
from rein.runtime.scalar_files import SCALARS_FILE


class Recorder(summary.SummaryWriter):
    def __init__(self):
        self.records = []

    def scalar(self, name, value, step):
        self.records.append((name, value, step))

    def histogram(self, name, values, step):
        self.records.append((name, values.tolist(), step))

    def image(self, name, image, step):
        self.records.append((name, image.shape, step))

    def text(self, name, text, step):
        self.records.append((name, text, step))


class Unreadable:
    def item(self):
        raise AssertionError("a value that is not recorded must not be read")


def test_nothing_happens_without_a_run_or_a_writer():
    summary.scalar("x", Unreadable())
    with summary.scope("a") as prefix, summary.record_if(lambda: True):
        assert prefix == "a/"
        summary.histogram("x", None)
    with Run():
        assert not summary.should_record_summaries()
        summary.scalar("x", Unreadable())
        summary.image("x", None)
        summary.text("x", "y")


def test_scalars_carry_scope_and_counter():
    recorder = Recorder()
    with Run(writer=recorder) as run:
        run.global_counter = 5
        with summary.scope("agent"), summary.scope("critic") as prefix:
            assert prefix == "agent/critic/"
            summary.scalar("loss", torch.tensor([2.0]))
        summary.scalar("lr", np.float32(0.5), step=9)
        with summary.scope("s"), Run(writer=recorder):
            summary.scalar("inner", 1)
    assert recorder.records == [("agent/critic/loss", 2.0, 5), ("lr", 0.5, 9), ("inner", 1.0, 0)]


def test_record_if_narrows_and_can_override():
    recorder = Recorder()
    with Run(writer=recorder) as run, summary.record_if(lambda: run.global_counter % 2 == 0):
        for _ in range(4):
            summary.scalar("even", 0)
            with summary.record_if(lambda: run.global_counter >= 2):
                summary.scalar("both", 0)
            with summary.record_if(lambda: run.global_counter == 3, override=True):
                summary.scalar("forced", 0)
            run.increment_global_counter()
    assert [(name, step) for name, _, step in recorder.records] == [
        ("even", 0),
        ("even", 2),
        ("both", 2),
        ("forced", 3),
    ]


def test_other_kinds_are_converted():
    recorder = Recorder()
    with Run(writer=recorder):
        summary.histogram("h", torch.tensor([1.0, math.nan, 2.0], dtype=torch.bfloat16))
        summary.histogram("none", np.array([math.inf]))
        summary.image("grey", torch.zeros(4, 5))
        summary.image("colour", np.zeros((3, 4, 5), np.uint8))
        summary.text("t", "hello")
        with pytest.raises(ValueError, match=r"'bad' has shape \(6, 5, 3\)"):
            summary.image("bad", np.zeros((6, 5, 3)))
    assert recorder.records == [("h", [1, 2], 0), ("grey", (1, 4, 5), 0), ("colour", (3, 4, 5), 0), ("t", "hello", 0)]


def test_jsonl_round_trip_with_values_that_are_not_finite(tmp_path):
    writer = summary.JsonlWriter(tmp_path)
    values = [1.5, math.inf, -math.inf, math.nan]
    for step, value in enumerate(values):
        writer.scalar("x/y", value, step)
    writer.close()
    writer.close()
    for line in (tmp_path / SCALARS_FILE).read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    series = summary.read_scalars(tmp_path)["x/y"]
    np.testing.assert_array_equal(series.value, values)
    assert series.step.tolist() == [0, 1, 2, 3]


def test_writing_after_close_is_an_error(tmp_path):
    writer = summary.JsonlWriter(tmp_path)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.scalar("x", 1.0, 0)


def test_records_reach_the_disk_by_count_and_by_age(tmp_path):
    writer = summary.JsonlWriter(tmp_path, flush_seconds=1e9, max_queue=2)
    writer.scalar("x", 1.0, 0)
    assert summary.read_scalars(tmp_path) == {}
    writer.scalar("x", 1.0, 1)
    assert summary.read_scalars(tmp_path)["x"].step.tolist() == [0, 1]
    writer.close()
    eager = summary.JsonlWriter(tmp_path, flush_seconds=0.0)
    eager.scalar("x", 1.0, 2)
    assert summary.read_scalars(tmp_path)["x"].step.tolist() == [0, 1, 2]
    eager.close()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_file_cut_anywhere_is_read_and_continued(tmp_path_factory, cut):
    directory = tmp_path_factory.mktemp("cut")
    writer = summary.JsonlWriter(directory)
    for step in range(20):
        writer.scalar("x", 0.5 * step, step)
    writer.close()
    path = directory / SCALARS_FILE
    data = path.read_bytes()
    kept = data[: cut % len(data)]
    path.write_bytes(kept)
    whole = kept.count(b"\n")
    before = summary.read_scalars(directory)
    assert (before["x"].step.tolist() if before else []) == list(range(whole))
    again = summary.JsonlWriter(directory)
    again.scalar("x", 7.0, 100)
    again.close()
    steps = summary.read_scalars(directory)["x"].step.tolist()
    # A line that lost only its newline is complete once the next record puts it there.
    assert steps in ([*range(whole), 100], [*range(whole + 1), 100])
    assert path.read_bytes().startswith(kept)


@pytest.mark.parametrize("room", [0, 1, 30, 62, 63, 64, 65, 66, 100])
def test_a_failed_write_is_loud_and_every_record_arrives_once(tmp_path, monkeypatch, room):
    writer = summary.JsonlWriter(tmp_path, flush_seconds=1e9)
    for step in range(3):
        writer.scalar("x", 1.0 + step, step)
    real_write = os.write
    free = room

    def nearly_full(file, data):
        nonlocal free
        if free == 0:
            raise OSError("no space left")
        written = real_write(file, data[: min(free, 7)])
        free -= written
        return written

    monkeypatch.setattr(os, "write", nearly_full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            writer.flush()
    free = 3
    with pytest.raises(OSError, match="no space"):
        writer.flush()
    monkeypatch.setattr(os, "write", real_write)
    writer.scalar("x", 4.0, 3)
    writer.close()
    assert summary.read_scalars(tmp_path)["x"].value.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_resuming_voids_later_steps_without_deleting_them(tmp_path):
    writer = summary.JsonlWriter(tmp_path)
    for step in range(5):
        writer.scalar("x", 0.0, step)
    writer.close()
    before = (tmp_path / SCALARS_FILE).read_bytes()
    writer = summary.JsonlWriter(tmp_path, resume_step=2)
    for step in range(3, 5):
        writer.scalar("x", 1.0, step)
    writer.close()
    series = summary.read_scalars(tmp_path / SCALARS_FILE)["x"]
    assert series.step.tolist() == [0, 1, 2, 3, 4]
    assert series.value.tolist() == [0, 0, 0, 1, 1]
    assert (tmp_path / SCALARS_FILE).read_bytes().startswith(before)


def test_tensorboard_holds_what_was_written_and_hides_what_was_voided(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Run(writer=summary.create_summary_writer(tmp_path)) as run:
        for step in range(4):
            run.global_counter = step
            summary.scalar("loss", float(step))
        summary.histogram("h", torch.arange(5.0))
        summary.image("i", torch.zeros(3, 4, 4))
        summary.text("t", "hello")
        run.close()
    with Run(writer=summary.create_summary_writer(tmp_path, resume_step=1)) as run:
        run.global_counter = 2
        summary.scalar("loss", 20.0)
        run.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(0, 0.0), (1, 1.0), (2, 20.0)]
    assert events.Tags()["histograms"] == ["h"]
    assert events.Tags()["images"] == ["i"]
    series = summary.read_scalars(tmp_path)["loss"]
    assert series.value.tolist() == [0.0, 1.0, 20.0]


def test_writer_without_tensorboard_writes_lines_only(tmp_path):
    summary.create_summary_writer(tmp_path, tensorboard=False).close()
    assert [path.name for path in tmp_path.iterdir()] == [SCALARS_FILE]
