"""Scripts in the idiom of Stable-Baselines3 run with nothing changed but the import."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "sb3_scripts").glob("s*.py"))
QUICK = {"s01", "s03", "s05", "s06", "s08", "s16", "s18"}


def marked(path: Path) -> object:
    return pytest.param(path, id=path.stem, marks=[] if path.stem[:3] in QUICK else [pytest.mark.slow])


def test_there_are_twenty() -> None:
    assert len(SCRIPTS) == 20


@pytest.mark.parametrize("path", [marked(path) for path in SCRIPTS])
def test_a_script_runs_with_its_import_changed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    assert "stable_baselines3" in text
    assert "rein" not in text
    changed = tmp_path / path.name
    changed.write_text(text.replace("stable_baselines3", "rein.compat.sb3"))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(changed), run_name="__main__")
