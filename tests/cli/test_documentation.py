"""The commands and code in the documentation are real."""

import re
import shlex
from pathlib import Path

import pytest

import rein
from rein.api import AgentHandle
from rein.cli import main
from rein.cli.entry import COMMANDS, make_parser

DOCS = Path(__file__).parents[2] / "docs"
README = (DOCS.parent / "README.md").read_text()
COMMAND_LINES = [
    line[2:].partition(" #")[0].strip()
    for line in (DOCS / "cli.md").read_text().splitlines()
    if line.startswith("$ rein ")
]


README_LINES = [line.partition("  #")[0].strip() for line in README.splitlines() if line.startswith("rein ")]


@pytest.mark.parametrize("line", [*COMMAND_LINES, *README_LINES])
def test_commands_in_the_documentation_parse(line: str) -> None:
    _, name, *words = shlex.split(line)
    make_parser(name).parse_intermixed_args(words)


def test_every_command_is_documented() -> None:
    assert {shlex.split(line)[1] for line in COMMAND_LINES} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_in_the_section_of_its_command(name: str) -> None:
    head, *sections = re.split(r"^## ", (DOCS / "cli.md").read_text(), flags=re.MULTILINE)
    text = head + "".join(one for one in sections if name in one.partition("\n")[0].split(", "))
    assert text != head, f"docs/cli.md has no section on {name}"
    options = {option for action in make_parser(name)._actions for option in action.option_strings} - {"-h", "--help"}
    missing = sorted(option for option in options if not re.search(rf"{option}(?![\w-])", text))
    assert not missing, f"docs/cli.md says nothing of {missing} in the section on {name}"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("report", "demo", "resume", "evaluate")])
def test_examples_in_the_help_parse(name: str) -> None:
    parser = make_parser(name)
    epilog = (parser.epilog or "").replace("\\\n", "")
    lines = re.findall(rf"^\s*rein {name} .*$", epilog, re.MULTILINE)
    assert lines or name == "list"
    for line in lines:
        parser.parse_intermixed_args(shlex.split(line)[2:])


@pytest.mark.parametrize(("page", "count"), [("python_api.md", 4), ("callbacks.md", 4), ("from_sb3.md", 1)])
def test_code_in_the_documentation_runs(page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(blocks) == count
    monkeypatch.chdir(tmp_path)
    train, make = AgentHandle.train, rein.make
    monkeypatch.setattr(AgentHandle, "train", lambda self, steps, **options: train(self, 64, **options))
    short = {"unroll_length": 8, "mini_batch_size": 32, "num_evals": 1, "num_eval_episodes": 1}
    monkeypatch.setattr(rein, "make", lambda *words, **options: make(*words, **{**short, **options}))
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_conf_of_the_readme_makes_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(# my_conf.py\n.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_conf.py").write_text(block)
    small = ["TrainerConfig.num_env_steps=64", "TrainerConfig.unroll_length=8", "TrainerConfig.evaluate=False"]
    assert main(["train", "my_conf.py", *small]) == 0
    assert main(["resume", "runs/my_conf-0-1", "--env-steps", "128"]) == 0
    assert main(["show", "runs/my_conf-0-1"]) == 0
    assert "RNDAlgorithm" in capsys.readouterr().out
