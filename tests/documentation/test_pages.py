"""Every block of code on every page is executed, here or in the test of the page; every command can be understood."""

import ast
import doctest
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import rein
from rein.api import AgentHandle
from rein.cli.entry import COMMANDS, make_parser
from rein.config import fresh_configs
from tools.docs.pages import DOCS, ROOT, Block, all_pages, blocks_of

TESTS = {
    path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
}
TUTORIALS = DOCS / "tutorials"
OTHER_COMMANDS = ("python", "pip", "make", "ray", "mkdir", "git", "ls", "tensorboard", "cat", ".venv/bin/pre-commit")


def _has_own_test(page: Path) -> bool:
    """Whether a test elsewhere reads the page: its blocks need more than to be executed one after the other."""
    if page.name == "README.md":  # whose conf is trained elsewhere; the other block is not
        return False
    return page.parent == TUTORIALS or any(f'"{page.name}"' in text for text in TESTS.values())


PLAIN = [
    page
    for page in all_pages()
    if not _has_own_test(page) and any(b.kind in ("python", "pycon") for b in blocks_of(page))
]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.name)
def test_blocks_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    with fresh_configs():
        for block in blocks_of(page):
            _execute(block, page, names)


def _execute(block: Block, page: Path, names: dict[str, Any]) -> None:
    place = f"{page.name}:{block.line}"
    if block.file is not None:
        Path(block.file).write_text(block.text)
    elif block.kind == "python":
        exec(compile(block.text, place, "exec"), names)
    elif block.kind == "pycon":
        output: list[str] = []
        test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
        assert doctest.DocTestRunner(verbose=False).run(test, output.append, False).failed == 0, "".join(output)
        names.update(test.globs)


def test_there_are_pages_of_both_kinds() -> None:
    assert {"replay.md", "index.md"} <= {page.name for page in PLAIN}
    assert _has_own_test(DOCS / "networks.md")


def test_the_page_on_python_names_every_method_and_parameter() -> None:
    text = (DOCS / "python_api.md").read_text()
    methods = {name: one for name, one in vars(AgentHandle).items() if not name.startswith("_")}
    parts = {"make": inspect.unwrap(rein.make), "load": inspect.unwrap(rein.load), **methods}
    for name, part in parts.items():
        parameters = inspect.signature(part).parameters if callable(part) else ()
        words = [name, *(one for one in parameters if one not in ("self", "overrides", "path"))]
        missing = [word for word in words if not re.search(rf"\b{word}\b", text)]
        assert not missing, f"docs/python_api.md says nothing of {missing} of {name}"


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_code_compiles_and_commands_can_be_understood(page: Path) -> None:
    for block in blocks_of(page):
        if block.kind == "python":
            ast.parse(block.text, f"{page.name}:{block.line}")
        for command in block.commands:
            _check_command(command, f"{page.name}:{block.line}")


def _check_command(command: str, place: str) -> None:
    for part in command.split("&&"):
        program, *words = shlex.split(part.partition(" > ")[0].partition(" | ")[0].rstrip("& "))
        if program != "rein":
            assert program in OTHER_COMMANDS, f"{place}: {program}"
            continue
        assert words[0] in COMMANDS or words[0].startswith("-"), f"{place}: rein {words[0]}"
        if words[0] in COMMANDS and "--help" not in words:
            make_parser(words[0]).parse_intermixed_args([word for word in words[1:] if word != "..."])
