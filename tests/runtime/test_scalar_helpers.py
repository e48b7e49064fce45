"""Another process reads files of curves; what it has read is followed further here."""

import json

import pytest

from rein.runtime.scalar_files import SCALARS_FILE, ScalarFile, read_scalars
from rein.runtime.scalar_helpers import Helper, HelperError


def _lines(first, end, name="a"):
    return "".join(
        json.dumps({"step": step, "name": name, "value": 0.1 * step, "time": 5.0 + step}) + "\n"
        for step in range(first, end)
    )


def test_a_helper_reads_what_is_read_here_and_a_growing_file_is_followed_from_there(tmp_path):
    path = tmp_path / SCALARS_FILE
    path.write_text(_lines(0, 3000) + _lines(5, 9, "näme, with: punctuation"))
    other = tmp_path / "other.jsonl"
    other.write_text(_lines(7, 8))
    file, second = ScalarFile(path), ScalarFile(other)
    with Helper() as helper:
        helper.read(file)
        helper.read(second)
    assert file.bytes_left == 0
    here = read_scalars(path)
    assert list(file.read()) == list(here)
    for name, one in file.read().items():
        for column, expected in zip(one, here[name], strict=True):
            assert column.tolist() == expected.tolist()
    assert second.read()["a"].step.tolist() == [7]
    with path.open("a") as more:
        more.write(_lines(3000, 3002))
    assert file.read()["a"].step[-2:].tolist() == [3000, 3001]
    assert len(file.read()["a"].step) == 3002


def test_a_file_that_is_not_there_is_said_and_the_next_is_read(tmp_path):
    path = tmp_path / SCALARS_FILE
    path.write_text(_lines(0, 2))
    file = ScalarFile(path)
    with Helper() as helper:
        with pytest.raises(HelperError, match="missing"):
            helper.read(ScalarFile(tmp_path / "missing.jsonl"))
        helper.read(file)
    assert file.read()["a"].step.tolist() == [0, 1]


def test_a_helper_that_has_ended_leaves_the_file_to_be_read_here(tmp_path):
    path = tmp_path / SCALARS_FILE
    path.write_text(_lines(0, 2))
    file = ScalarFile(path)
    helper = Helper()
    helper._process.kill()
    helper._process.wait()
    with pytest.raises(HelperError):
        helper.read(file)
    helper.close()
    assert file.read()["a"].step.tolist() == [0, 1]
