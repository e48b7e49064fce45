"""The code in docs/particle_vi.md runs, and its commands parse."""

import re
import shlex
from pathlib import Path
from typing import Any

from rein.cli.entry import make_parser

PAGE = (Path(__file__).parents[3] / "docs" / "particle_vi.md").read_text()


def test_code_on_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/particle_vi.md", "exec"), names)
    assert names["prediction"].samples.shape == (3, 50, 2)
    assert names["particles"].particles.shape == (32, 2)
    assert names["estimator"].calc_pmi(names["x"], names["x"]).shape == (64,)


def test_commands_on_the_page_parse() -> None:
    lines = re.findall(r"^\$ (rein .*)$", PAGE, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        _, name, *words = shlex.split(line.partition("  #")[0])
        make_parser(name).parse_intermixed_args(words)
