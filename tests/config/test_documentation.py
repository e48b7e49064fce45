"""The examples of docs/configuration.md run and print what they say."""

import doctest
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    namespace = {"__name__": "configuration_page"}
    examples = 0
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            title, _, code = body.partition("\n")
            path = tmp_path / title.removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
            continue
        line = text[: block.start()].count("\n") + 1
        test = doctest.DocTestParser().get_doctest(body, namespace, PAGE.name, str(PAGE), line)
        output = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=output.append, clear_globs=False)
        assert result.failed == 0, "".join(output)
        namespace = test.globs
        examples += result.attempted
    assert examples > 30
    del sys.modules["driving"]
