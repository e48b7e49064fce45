"""A reader who follows a tutorial gets through: its files and commands, one after the other, with short trainings."""

import runpy
import shlex
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from rein.cli import main
from rein.config import fresh_configs
from tools.docs.pages import DOCS, blocks_of

PAGES = [*sorted((DOCS / "tutorials").glob("[01]*.md")), DOCS / "from_cleanrl.md"]
NOT_RUN = {
    "verify": "trains in processes of its own, which nothing here could cut short",
    "sweep": "the same",
    "--backend": "starts processes and clusters; tests/distributed has those",
}
FEW = {"--episodes": "2"}


def test_there_are_ten_tutorials_in_order() -> None:
    assert [page.name[:2] for page in PAGES[:-1]] == [f"{number:02}" for number in range(1, 11)]
    for page, following in pairwise(PAGES[:-1]):
        assert f"]({following.name})" in page.read_text().rstrip().rpartition("\n")[2], page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_tutorial_is_short(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= 190, f"{page.name} has {len(lines)} lines, output included"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_commands_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    try:
        for block in blocks_of(page):
            if block.file is not None:
                (tmp_path / block.file).write_text(block.text)
            for command in block.commands:
                _do(command, f"{page.name}:{block.line}")
    finally:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]


def _do(command: str, place: str) -> None:
    program, *words = shlex.split(command)
    if words[0] == "verify":  # what it would leave is in the repository
        (results := Path("results")).mkdir()
        shutil.copy(DOCS / "results" / f"{words[1]}.json", results)
    if any(word in NOT_RUN for word in words) or _needs_what_was_not_run(words):
        return
    if program == "python":
        with fresh_configs():
            runpy.run_path(words[0], run_name="__main__")
    elif program == "rein":
        for option, value in FEW.items():
            if option in words:
                words[words.index(option) + 1] = value
        assert main(words) == 0, f"{place}: {command}"


def _needs_what_was_not_run(words: list[str]) -> bool:
    return any(word.startswith("sweeps/") and not Path(word).exists() for word in words)
