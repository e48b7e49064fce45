"""The code on the pages: blocks of files and of commands, in the order in which a reader meets them.

A block of Python or TOML whose first line is a comment with a file name, such as `# corridor.py`, is that file. Any other
block of Python is a script that goes on where the one before it was. A line of a `console` or `bash` block that starts with
`$ `, or with `rein `, is a command; the lines after it are what it printed.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.(?:py|toml))\n")
_COMMAND = re.compile(r"^(?:\S*\$ |(?=rein ))(.+?)(?:\s+#\s.*)?$")


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    text: str
    line: int
    start: int
    """Where the text starts in the page, in characters."""

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        found = _FILE.match(self.text) if self.kind in ("python", "toml") else None
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """The commands of a block of commands, without the comments behind them; lines that end in a backslash go on."""
        if self.kind not in ("console", "bash"):
            return []
        found = (_COMMAND.match(line) for line in self.text.replace("\\\n", "").splitlines())
        return [command[1] for command in found if command]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text[: found.start()].count("\n") + 1, found.start(2))
        for found in _FENCE.finditer(text)
    ]


def all_pages() -> list[Path]:
    """Every page of the site and of the front of the repository."""
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
