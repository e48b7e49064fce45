"""The examples of docs/suites.md run as they are printed, one after the other."""

import re
from pathlib import Path

import pytest

from rein.envs import wrappers
from rein.envs.suites import available_suites
from rein.envs.toy import TOY_ENTRY_POINTS

PAGE = Path(__file__).parents[3] / "docs" / "suites.md"


def test_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "squares.gif").stat().st_size > 0


def test_page_names_every_toy_world_suite_and_wrapper():
    text = PAGE.read_text()
    for name in (*TOY_ENTRY_POINTS, *(suite.name for suite in available_suites())):
        assert name in text
    for name in set(wrappers.__all__) - {"CurriculumStatus"}:
        assert name in text, name
