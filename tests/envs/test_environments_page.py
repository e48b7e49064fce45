"""The examples of docs/environments.md run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n", 1)[0])
def test_example(block: str) -> None:
    exec(compile(block, str(PAGE), "exec"), {"__name__": "environments_page"})


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2
