import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rein.training.statistics_of_runs import interquartile_mean, stratified_interval
from rein.zoo import ZooEntry, read_entry, task_entries
from rein.zoo.records import (
    _LEADING_NUMBER,
    is_stale,
    note_texts,
    read_record,
    results_page,
    settings_facts,
    write_fresh,
    write_record,
)
from rein.zoo.trained_settings import TrainedSettings, trained_settings
from rein.zoo.verification import _record, _share_of_bars, verify

NOTHING = TrainedSettings({}, {})
CONF = '''"""A tiny run."""
from rein.config import config, import_config

ENTRY = {"algorithm": "PPOAlgorithm", "env": "CartPole-v1", "env_steps": 256, "bar": %s}

import_config("%s")
config("create_environment", env_name="CartPole-v1")
config("TrainerConfig", num_env_steps=256, unroll_length=16, mini_batch_size=32, num_updates_per_train_iter=1, evaluate=False)
'''


def make_entry(folder: Path, bar: float = 1, comment: str = "") -> ZooEntry:
    base = task_entries()["ppo_cartpole"].path.parents[1] / "bases" / "ppo.py"
    path = folder / "tiny.py"
    path.write_text(CONF % (bar, base) + comment)
    return read_entry(path)


def make_record(**facts: Any) -> dict[str, Any]:
    seed = {"seed": 0, "mean_return": 500.0, "seconds": 60.0, "curve": [[0, 10.0], [100, 500.0]]}
    entry = task_entries()["ppo_cartpole"]
    record = {
        "name": entry.name,
        "algorithm": entry.algorithm,
        "env": entry.env,
        "env_steps": 100_000,
        "bar": 490,
        "reference": None,
        "score": 500.0,
        "met": True,
        "iqm": 500.0,
        "iqm_interval": [499.0, 500.0],
        "episodes": 100,
        "seeds": [seed],
        **settings_facts(entry, trained_settings(entry.path)),
        "version": "0.1.0",
    }
    return {**record, **facts}


def test_interquartile_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -100.0])) == pytest.approx(3.5)
    assert interquartile_mean(np.array([7.0])) == 7.0


def test_the_interval_covers_the_estimate_and_shrinks_with_data() -> None:
    rng = np.random.default_rng(0)
    few = [rng.normal(10, 1, 20) for _ in range(3)]
    many = [rng.normal(10, 1, 400) for _ in range(3)]
    low, high = stratified_interval(few, resamples=300)
    assert low < interquartile_mean(np.concatenate(few)) < high
    narrow = stratified_interval(many, resamples=300)
    assert narrow[1] - narrow[0] < high - low


def test_texts_are_noted_where_only_they_have_changed(tmp_path: Path) -> None:
    write_record(make_record(conf_text="other"), tmp_path)
    note_texts(tmp_path)
    assert (read_record("ppo_cartpole", tmp_path) or {})["conf_text"] == make_record()["conf_text"]
    record = make_record(conf_text="other")
    record["settings"]["chosen"]["PPOLoss.gamma"] = "0.1"
    write_record(record, tmp_path)
    note_texts(tmp_path)
    assert (read_record("ppo_cartpole", tmp_path) or {})["conf_text"] == "other"
    assert "stale: PPOLoss.gamma changed" in results_page(tmp_path)


def test_the_page_shows_scores_and_marks_stale_records(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_record(make_record(), results)
    page = (tmp_path / "results.md").read_text()
    assert "## On-policy\n" in page
    assert "| ppo_cartpole | ppo | CartPole-v1 | 100k |" in page
    assert "stale" not in page
    assert (results / "ppo_cartpole.svg").read_text().startswith("<svg")
    record = read_record("ppo_cartpole", results)
    assert record is not None
    assert not is_stale(record, task_entries()["ppo_cartpole"])
    write_record(make_record(settings=None, met=False), results)
    page = results_page(results)
    assert "stale: all of them" in page
    assert "**no**" in page
    assert read_record("nothing", results) is None


def test_the_page_says_how_far_a_score_lies_from_the_number_that_its_reference_begins_with(tmp_path: Path) -> None:
    reference = task_entries()["ppo_cartpole"].facts["reference"]
    assert reference.startswith("500 at")
    write_record(make_record(score=493.5), tmp_path / "results")
    assert f"| {reference} | -6.5 |" in results_page(tmp_path / "results")


@pytest.mark.parametrize(
    ("reference", "number"),
    [("500", "500"), ("-83.4 (some page)", "-83.4"), ("1: solved", "1"), ("95 % of it", None), ("TAAC 0.9", None)],
)
def test_numbers_of_references(reference: str, number: str | None) -> None:
    found = _LEADING_NUMBER.match(reference)
    assert (found and found[0]) == number


def test_fresh_seeds_have_a_table_of_their_own(tmp_path: Path) -> None:
    write_record(make_record(), tmp_path / "results")
    seeds = [{"seed": seed, "mean_return": 480.0 + seed} for seed in (10, 11)]
    record = make_record(measure="mean_return", at_most=None, in_every_seed=False, commit="0", seeds=seeds, score=490.5)
    write_fresh(record, "2026-11-18", tmp_path / "results")
    page = (tmp_path / "results.md").read_text()
    assert "1 of 1 hold their bar" in page
    assert "| 2026-11-18 | ppo_cartpole | 10, 11 | 490.0 | **490.5** | 490.0, 491.0 | yes |" in page
    assert len(list((tmp_path / "results").glob("*.json"))) == 1


def test_fresh_seeds_of_settings_that_have_changed_since_are_marked(tmp_path: Path) -> None:
    entry = task_entries()["ppo_cartpole"]
    settings = trained_settings(entry.path)
    old = settings._replace(chosen={**settings.chosen, "PPOLoss.gamma": "0.5"})
    facts = make_record(measure="mean_return", at_most=None, in_every_seed=False, commit="0")
    write_fresh({**facts, **settings_facts(entry, old)}, "2026-11-18", tmp_path / "results")
    page = (tmp_path / "results.md").read_text()
    assert "| 2026-11-18 | ppo_cartpole (before PPOLoss.gamma changed) |" in page


def test_success_rates_are_shown_as_percentages_with_upper_bars(tmp_path: Path) -> None:
    seed = {"seed": 0, "mean_return": -14.9, "success_rate": 0.02, "seconds": 60.0, "curve": []}
    record = make_record(measure="success_rate", bar=None, at_most=0.15, score=0.02, seeds=[seed])
    write_record(record, tmp_path / "results")
    assert "| 0 | at most 15 % | **2 %** | 2 % |" in results_page(tmp_path / "results")


def test_curves_show_the_bar(tmp_path: Path) -> None:
    write_record(make_record(), tmp_path)
    drawn = (tmp_path / "ppo_cartpole.svg").read_text()
    assert drawn.count("stroke-dasharray") == 1
    assert "490" in drawn
    write_record(make_record(bar=None), tmp_path)
    assert "stroke-dasharray" not in (tmp_path / "ppo_cartpole.svg").read_text()
    assert ", for comparison" in (tmp_path / "ppo_cartpole.svg").read_text()
    assert "| for comparison |" in results_page(tmp_path)
    # The bar is about the share of successes, the curve about returns.
    write_record(
        make_record(measure="success_rate", bar=0.95, seeds=[{**make_record()["seeds"][0], "success_rate": 1.0}]),
        tmp_path,
    )
    drawn = (tmp_path / "ppo_cartpole.svg").read_text()
    assert "stroke-dasharray" not in drawn
    assert "bar 95 %" in drawn


def test_a_bar_for_every_seed_says_so(tmp_path: Path) -> None:
    write_record(make_record(bar=90, in_every_seed=True), tmp_path / "results")
    assert "| 90.0 in every seed |" in results_page(tmp_path / "results")


@pytest.mark.parametrize(
    ("facts", "met"),
    [
        ({"bar": 3.0}, False),
        ({"bar": 2.0}, True),
        ({"bar": 2.0, "in_every_seed": True}, False),
        ({"bar": 1.0, "in_every_seed": True}, True),
        ({"at_most": 2.0, "in_every_seed": True}, False),
        ({"measure": "success_rate", "bar": 0.8}, True),
        ({"measure": "success_rate", "bar": 0.9}, False),
        ({"measure": "success_rate", "at_most": 0.8}, True),
        ({"measure": "success_rate", "at_most": 0.7}, False),
    ],
)
def test_bars_are_compared_with_what_they_are_about(tmp_path: Path, facts: dict[str, Any], met: bool) -> None:
    entry = make_entry(tmp_path)
    bare = {key: value for key, value in entry.facts.items() if key != "bar"}
    entry = entry._replace(facts={**bare, **facts})
    results = [
        {"seed": 0, "mean_return": 1.0, "success_rate": 0.6, "returns": [1.0, 1.0]},
        {"seed": 1, "mean_return": 3.0, "success_rate": 1.0, "returns": [2.0, 4.0]},
    ]
    assert _record(entry, NOTHING, results, 2)["met"] is met


def test_a_success_that_the_environment_does_not_report_is_refused(tmp_path: Path) -> None:
    entry = make_entry(tmp_path)
    result = {"seed": 0, "mean_return": 1.0, "returns": [1.0]}
    with pytest.raises(ValueError, match="no env_info"):
        _record(entry._replace(facts={**entry.facts, "measure": "success_rate"}), NOTHING, [dict(result)], 1)
    with pytest.raises(ValueError, match="measure is 'length'"):
        _record(entry._replace(facts={**entry.facts, "measure": "length"}), NOTHING, [dict(result)], 1)


def test_games_are_measured_by_the_worst_of_their_bars(tmp_path: Path) -> None:
    bars = {"random": {"not_lost_rate": 0.9}, "minimax": {"not_lost_rate": 0.5, "win_rate": 0.1}}
    against = {
        "random": {"win_rate": 0.8, "not_lost_rate": 0.99},
        "minimax": {"win_rate": 0.05, "not_lost_rate": 0.9},
    }
    assert _share_of_bars(against, bars) == 0.5
    entry = make_entry(tmp_path)
    entry = entry._replace(facts={**entry.facts, "measure": "share_of_bars", "bar": 1.0})
    result = {"seed": 0, "mean_return": 1.0, "returns": [1.0]}
    assert _record(entry, NOTHING, [{**result, "share_of_bars": 1.1}], 1)["met"] is True
    with pytest.raises(ValueError, match="ENTRY has no 'against'"):
        _record(entry, NOTHING, [result], 1)


def test_every_kept_record_belongs_to_an_entry() -> None:
    folder = Path(__file__).parents[2] / "docs" / "results"
    for path in folder.glob("*.json"):
        assert json.loads(path.read_text())["name"] in task_entries()


@pytest.mark.slow
def test_verification_trains_evaluates_and_goes_on_where_it_was(tmp_path: Path) -> None:
    entry = make_entry(tmp_path)
    said: list[str] = []
    record = verify(entry, [0, 1], tmp_path / "work", episodes=4, at_once=2, say=said.append)
    assert len(said) == 2
    assert len(record["seeds"]) == 2
    assert record["met"] == (record["score"] >= 1)
    assert record["seeds"][0]["curve"]
    again = verify(entry, [0, 1], tmp_path / "work", episodes=4, at_once=2, say=said.append)
    assert len(said) == 2
    assert [s["mean_return"] for s in again["seeds"]] == [s["mean_return"] for s in record["seeds"]]
