"""The examples of docs/transforms.md run and print what they say."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"
BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples():
    text = PAGE.read_text(encoding="utf-8")
    examples = "\n".join(block.group(1) for block in BLOCK.finditer(text))
    test = doctest.DocTestParser().get_doctest(examples, {"__name__": "page"}, PAGE.name, str(PAGE), 0)
    output = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert result.failed == 0, "".join(output)
    assert result.attempted > 20
