"""The code of docs/export.md runs on files that `rein export` wrote."""

import re
from pathlib import Path

import pytest

from rein import api

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


@pytest.mark.slow
def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {"TrainerConfig.evaluate": False}
    with api.make("ppo", env="CartPole-v1", settings=quiet) as agent:
        agent.export(tmp_path / "policy.onnx", check_steps=0)
    with api.make("ppo_recurrent_cartpole", settings=quiet) as agent:
        agent.export(tmp_path / "memory.pt2", check_steps=0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["action"] in (0, 1)
