"""Does what a tutorial says, and writes what the commands print into the page.

python -m tools.docs.run_page docs/tutorials/01_first_agent.md work/
python -m tools.docs.run_page docs/tutorials/01_first_agent.md work/ --only 3   # its third block of commands alone
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tools.docs.pages import Block, blocks_of

_HEAD, _TAIL = 4, 7
"""Lines of a long output that are kept."""


def run_page(page: Path, folder: Path, only: int | None = None) -> None:
    """Writes the files of a page into a folder, runs its commands there, and puts their output into the page."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs: list[tuple[Block, str]] = []
    consoles = 0
    for block in blocks_of(page):
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        if block.kind == "console":
            consoles += 1
            if only in (None, consoles):
                outputs.append((block, _run_block(block, folder)))
    text = page.read_text(encoding="utf-8")
    for block, output in reversed(outputs):
        text = text[: block.start] + output + text[block.start + len(block.text) :]
    page.write_text(text, encoding="utf-8")


def _run_block(block: Block, folder: Path) -> str:
    lines = [line for line in block.text.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{_run(command, folder)}" for line, command in zip(lines, block.commands, strict=True))


def _run(command: str, folder: Path) -> str:
    print(f"$ {command}", flush=True)
    done = subprocess.run(command, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, flush=True)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    if len(lines) > _HEAD + _TAIL + 1:
        lines = [*lines[:_HEAD], "...", *lines[-_TAIL:]]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    run_page(given.page, given.folder, given.only)


if __name__ == "__main__":
    sys.exit(main())
