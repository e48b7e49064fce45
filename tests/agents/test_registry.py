"""Parts by name: what texts mean, what is refused and why, and parts of installed packages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rein.agents import registry
from rein.agents.part_text import read_part, read_parts
from rein.agents.registry import SLOTS, PartError, find_part, list_parts


def install(folder: Path, entry_points: str, **modules: str) -> None:
    """Puts a package with entry points where Python finds it."""
    info = folder / "bonus-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bonus\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[rein.components]\n{entry_points}\n")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def test_the_list_says_what_the_functions_say() -> None:
    for listing in list_parts():
        part = find_part(listing.name)
        assert part.summary == listing.summary
        assert set(part.slot.split(", ")) <= set(SLOTS)
        assert part.parameters()


def test_listing_imports_no_part() -> None:
    code = (
        "import sys; from rein.agents.registry import list_parts; list_parts(); "
        "print('rein.agents.built_in_parts' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("rnd", {}),
        (" rnd = 0.5 ", {"coef": 0.5}),
        ("rnd()", {}),
        ("rnd(coef=2, hidden_layers=(8, 8))", {"coef": 2, "hidden_layers": (8, 8)}),
        ("rnd(hidden_layers=[8], clip_value=-1.5)", {"hidden_layers": [8], "clip_value": -1.5}),
        ("entropy_target=-1", {"target_entropy": -1}),
        ("entropy_target=None", {"target_entropy": None}),
        ("lagrangian=[None, 0.5]", {"reward_thresholds": [None, 0.5]}),
        ("predictive(predict_observation=False)", {"predict_observation": False}),
    ],
)
def test_texts_name_parts_and_set_parameters(text: str, arguments: dict[str, object]) -> None:
    assert read_part(text).arguments == arguments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rdn", "there is no part 'rdn'. Did you mean 'rnd'?"),
        ("ppo", "`--algorithm`"),
        ("xyzzy", "`rein list parts` shows them"),
        ("rnd(coeff=1)", "has no parameter 'coeff'. Did you mean 'coef'? Its parameters: coef=0.1, hidden_layers="),
        ("rnd=abc", "coef is 'abc': give a number"),
        ("rnd=True", "coef is True: give a number"),
        ("goal_generator=2.5", "num_of_goals is 2.5: give a whole number"),
        ("encoding=64", "hidden_layers is 64: give a list, each a whole number"),
        ("encoding=[64, 'x']", "give a list, each a whole number"),
        ("entropy_target=x", "give a number or None"),
        ("predictive(predict_observation=1)", "give True or False"),
        ("lagrangian", "needs reward_thresholds, a list, each a number or None: write 'lagrangian=VALUE'"),
        ("rnd(0.5)", "name every parameter, 'rnd(parameter=value)'"),
        ("rnd(**{})", "name every parameter"),
        ("rnd(coef=1, coef=2)", "coef is given twice"),
        ("rnd(coef=open('x'))", "is no Python literal; nothing is evaluated"),
        ("rnd(coef=1+1)", "is no Python literal"),
        ("rnd=2*3", "no Python literal"),
        ("rnd=true", "Write True"),
        ("rnd=", "part 'rnd=' has no value: write NAME, NAME=VALUE or"),
        ("rnd=@RNDAlgorithm", "is no literal"),
        ("rnd(", "cannot be read: write NAME, NAME=VALUE or"),
        ("", "cannot be read"),
        ("a.b(c=1)", "cannot be read"),
        ("entropy_target(rl_algorithm_cls=None)", "has no parameter 'rl_algorithm_cls'"),
    ],
)
def test_wrong_texts_are_refused_with_what_to_change(text: str, message: str) -> None:
    with pytest.raises(PartError, match=re.escape(message)):
        read_part(text)


def test_an_agent_has_one_part_of_a_kind() -> None:
    with pytest.raises(PartError, match=r"'rnd' and 'icm=0.5' both are the intrinsic_reward of the agent"):
        read_parts(["rnd", "encoding", "icm=0.5"])
    with pytest.raises(PartError, match="both are the goals"):
        read_parts(["goal_generator", "diayn"])
    with pytest.raises(PartError, match=r"give a list of texts, \['rnd'\]"):
        read_parts("rnd")
    with pytest.raises(PartError, match="is no text"):
        read_parts([3])  # type: ignore[list-item]


def test_parts_of_installed_packages_are_found_and_imported_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = 'def good(coef: float = 1.0) -> dict:\n    """Rewards everything."""\n    return {"intrinsic_reward_coef": coef}\n'
    install(tmp_path, "intrinsic_reward.good = bonus_parts:good", bonus_parts=code)
    monkeypatch.syspath_prepend(str(tmp_path))
    listed = {part.name: part for part in list_parts()}["good"]
    assert (listed.slot, listed.source, listed.summary) == ("intrinsic_reward", "bonus 1.2", "bonus_parts:good")
    assert "bonus_parts" not in sys.modules
    call = read_part("good=3")
    assert call.part.summary == "Rewards everything."
    assert call.make(object) == {"intrinsic_reward_coef": 3}
    with pytest.raises(PartError, match="both are the intrinsic_reward"):
        read_parts(["good", "rnd"])


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("goals.bad = bonus_nowhere:bad", "'bad' of bonus 1.2 .bonus_nowhere:bad. cannot be imported: ModuleNotFound"),
        ("goals.bad = bonus_broken:bad", "cannot be imported: ZeroDivisionError"),
        ("goals.bad = bonus_number:bad", "is 3, not a function"),
        ("nonsense.bad = bonus_number:bad", "the name must be SLOT.NAME with a slot out of representation, goals"),
        ("bad = bonus_number:bad", "the name must be SLOT.NAME"),
    ],
)
def test_broken_packages_are_named_and_break_no_list(
    entry_point: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, entry_point, bonus_broken="1 / 0\n", bonus_number="bad = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "bad" in [part.name for part in list_parts()]
    with pytest.raises(PartError, match=message):
        find_part("bad")
    assert find_part("rnd").source == "rein"


def test_names_of_rein_cannot_be_taken_and_doubles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", "goals.rnd = a:b\ngoals.twin = a:b")
    install(tmp_path / "two", "goals.twin = a:b")
    (tmp_path / "two/bonus-1.2.dist-info").rename(tmp_path / "two/other-2.0.dist-info")
    (tmp_path / "two/other-2.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    monkeypatch.syspath_prepend(str(tmp_path / "two"))
    assert find_part("rnd").source == "rein"
    assert any("Rein has a part of that name" in part.summary for part in list_parts())
    with pytest.raises(PartError, match=r"brought by bonus 1.2 and other 2.0: uninstall one"):
        find_part("twin")


def test_the_built_in_table_is_complete() -> None:
    from rein.agents import built_in_parts, replay_parts, representation_parts, uncertainty_parts

    functions = {
        name
        for home in (built_in_parts, replay_parts, representation_parts, uncertainty_parts)
        for name, value in vars(home).items()
        if getattr(value, "__module__", "") == home.__name__ and hasattr(value, "__configurable__")
    }
    functions = {name for name in functions if not name.endswith("_codec")}  # what parts are made of
    assert functions == set(registry._BUILT_IN)
