"""What counts as trained."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rein.zoo import tasks, verification


@pytest.mark.parametrize("status", ["stopped", "running"])
def test_a_run_that_was_stopped_is_not_scored(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: Any) -> Any:
        return SimpleNamespace(poll=lambda: 0, returncode=0)

    directory = SimpleNamespace(open=lambda path: SimpleNamespace(record=lambda: {"status": status}))
    monkeypatch.setattr(verification, "_train", ended)
    monkeypatch.setattr(verification, "RunDirectory", directory)
    monkeypatch.setattr(verification, "_result", lambda *_: pytest.fail("scored"))
    with pytest.raises(RuntimeError, match="stopped before its end"):
        verification.verify(tasks()["ppo_cartpole"], [0], tmp_path)
