"""Curves are read from files of JSON lines, whole or as they grow."""

import json
import math

import pytest

from rein.runtime.scalar_files import SCALARS_FILE, ScalarFile, read_scalars
from rein.runtime.writers import JsonlWriter


def _line(step, name="a", value=1.0, time=5.0):
    return json.dumps({"step": step, "name": name, "value": value, "time": time}) + "\n"


def test_what_the_writer_wrote_is_read(tmp_path):
    writer = JsonlWriter(tmp_path)
    values = [0.5, -1e-12, 3.0, math.inf, -math.inf, 12345678.9]
    for step, value in enumerate(values):
        writer.scalar("plain/name", value, step)
        writer.scalar('odd "näme\\', 2 * value, 10 * step)
    writer.close()
    series = read_scalars(tmp_path)
    assert list(series) == ["plain/name", 'odd "näme\\']
    assert series["plain/name"].step.tolist() == [0, 1, 2, 3, 4, 5]
    assert series["plain/name"].value.tolist() == values
    assert series['odd "näme\\'].value.tolist() == [2 * value for value in values]


@pytest.mark.parametrize(
    "bad",
    [
        *("x\n", "y" + _line(1), '{"step": 1}\n', "\n", _line(2**64), _line("1")),
        *(_line(7).replace("1.0", "1.0.0"), _line(7).replace("7", "007")),
    ],
)
def test_a_damaged_line_is_skipped_and_spoils_no_other(tmp_path, bad):
    (tmp_path / SCALARS_FILE).write_text(_line(0) + bad + _line(2))
    assert read_scalars(tmp_path)["a"].step.tolist() == [0, 2]


def test_a_growing_file_is_followed(tmp_path):
    path = tmp_path / SCALARS_FILE
    path.write_text(_line(0) + _line(1, "b") + _line(1)[:9])
    file = ScalarFile(path)
    assert {name: one.step.tolist() for name, one in file.read().items()} == {"a": [0], "b": [1]}
    with path.open("a") as more:
        more.write(_line(1)[9:] + _line(2, "c"))
    assert {name: one.step.tolist() for name, one in file.read().items()} == {"a": [0, 1], "b": [1], "c": [2]}
    with path.open("a") as more:
        more.write('{"resume_step": 0, "time": 6.0}\n' + _line(1, value="nan"))
    series = file.read()
    assert list(series) == ["a"]
    assert series["a"].step.tolist() == [0, 1]
    assert math.isnan(series["a"].value[1])
    assert read_scalars(path)["a"].step.tolist() == [0, 1]


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    path = tmp_path / SCALARS_FILE
    path.write_text(_line(0) + _line(1))
    file = ScalarFile(path)
    file.read()
    path.write_text(_line(8))
    assert file.read()["a"].step.tolist() == [8]
