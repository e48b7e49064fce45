"""The code in docs/search.md runs and shows what the page says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "search.md"


def test_examples_run():
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["taken"].tolist() == [1, 2, 1, 2]
    assert names["visits"].shape == (4, 2)
    assert names["trained"] > 0
