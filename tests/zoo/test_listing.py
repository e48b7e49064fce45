"""Lists of the zoo: the evidence beside every entry, and algorithms of installed packages."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rein import zoo
from rein.zoo import listing
from rein.zoo.conf_texts import text_hash
from rein.zoo.records import settings_facts
from rein.zoo.trained_settings import trained_settings

RECORD = {
    "score": 499.0,
    "met": True,
    "seeds": [{"seed": 0, "seconds": 30.0}, {"seed": 1, "seconds": 90.0}],
    "date": "2026-01-02",
    "version": "0.1.0",
}


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(listing, "_HOMES", (tmp_path / "nowhere", tmp_path))
    known = zoo.task_entries()
    settings = trained_settings(known["ppo_cartpole"].path)
    facts = settings_facts(known["ppo_cartpole"], settings)
    (tmp_path / "ppo_cartpole.json").write_text(json.dumps({**RECORD, **facts}))
    (tmp_path / "ppo_acrobot.json").write_text(json.dumps({**RECORD, **facts, "met": False}))
    facts = settings_facts(known["a2c_cartpole"], trained_settings(known["a2c_cartpole"].path))
    (tmp_path / "a2c_cartpole.json").write_text(json.dumps({**RECORD, **facts, "conf_text": "of another layout"}))
    return {one["name"]: one for one in listing.list_zoo()}


def test_records_stand_beside_their_entries(entry: dict[str, Any]) -> None:
    assert entry["ppo_cartpole"]["record"] == {
        "score": 499.0,
        "met": True,
        "seeds": [0, 1],
        "minutes": 1.0,
        "date": "2026-01-02",
        "version": "0.1.0",
        "is_stale": False,
    }
    assert entry["ppo_acrobot"]["record"]["is_stale"]
    assert not entry["a2c_cartpole"]["record"]["is_stale"]
    assert entry["sac_pendulum"]["record"] is None


def test_without_records_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_HOMES", (tmp_path / "nowhere",))
    assert listing.find_records() is None
    assert all(one["record"] is None for one in listing.list_zoo())


def test_a_checkout_has_its_records() -> None:
    assert listing.find_records() == Path(__file__).parents[2] / "docs" / "results"


def test_the_text_of_a_conf_has_imports_and_no_comments(tmp_path: Path) -> None:
    conf, part = tmp_path / "conf.py", tmp_path / "part.py"
    conf.write_text('import_config("part.py")\n')
    part.write_text("x = 1\n")
    plain = text_hash(conf)
    conf.write_text('"""Says."""\nENTRY = {"bar": 3}\nimport_config("part.py")  # why\n')
    assert text_hash(conf) == plain
    part.write_text("x = 2\n")
    assert text_hash(conf) != plain
    conf.write_text('import_config("bases/ddqn.py")\n')
    assert text_hash(conf) != text_hash(part)


def test_listing_imports_nothing_heavy() -> None:
    code = "import sys; from rein.zoo.listing import list_zoo; list_zoo(); print({'torch', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_installed_packages_bring_algorithms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "extra_algorithms-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-algorithms\nVersion: 3.0\n")
    points = "algorithm.mine = extra_conf\nalgorithm.bare = extra_bare\nalgorithm.gone = extra_gone\n"
    (info / "entry_points.txt").write_text(f"[rein.components]\n{points}")
    (tmp_path / "extra_conf.py").write_text('"""Mine."""\nENTRY = {"algorithm": "PPOAlgorithm"}\nraise ValueError\n')
    (tmp_path / "extra_bare.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = zoo.find_algorithm("mine")
    assert (found.name, found.path, found.summary) == ("mine", tmp_path / "extra_conf.py", "Mine.")
    assert {"mine", "bare", "gone"} == {one.name for one in zoo.installed_algorithms()}
    with pytest.raises(zoo.UnknownEntryError, match=r"'bare' of extra-algorithms 3.0 .* has no ENTRY"):
        zoo.find_algorithm("bare")
    with pytest.raises(zoo.UnknownEntryError, match="must name a module that is a conf"):
        zoo.find_algorithm("gone")
    with pytest.raises(zoo.UnknownEntryError, match="Did you mean 'mine'"):
        zoo.find_algorithm("minee")
