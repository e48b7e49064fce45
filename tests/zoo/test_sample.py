"""The sample that is trained again: chosen by the date, within the time, and what counts as holding."""

from typing import Any

import pytest

from rein.zoo import task_entries
from rein.zoo.families import FAMILIES, algorithm_name, family_of
from rein.zoo.sample import choose_sample, still_holds


def make_entry(name: str, minutes: float = 1.0, **facts: Any) -> dict[str, Any]:
    return {"name": name, "bar": 1.0, "record": {"minutes": minutes, "met": True, "is_stale": False}, **facts}


ZOO = [make_entry(f"entry{index}", 0.5 + index % 5) for index in range(20)]


def test_the_date_chooses() -> None:
    first = choose_sample(ZOO, "2026-11-17", 3, 15)
    assert len(set(first)) == 3
    assert choose_sample(ZOO, "2026-11-17", 3, 15) == first
    assert any(choose_sample(ZOO, f"2026-11-{day}", 3, 15) != first for day in range(18, 28))


@pytest.mark.parametrize("minutes", [2.0, 5.0, 15.0])
def test_the_sample_fits_into_the_time(minutes: float) -> None:
    length = {one["name"]: one["record"]["minutes"] for one in ZOO}
    for day in range(10, 30):
        assert sum(length[name] for name in choose_sample(ZOO, f"2026-11-{day}", 3, minutes)) <= 0.8 * minutes


def test_only_records_that_should_hold_are_sampled() -> None:
    record = ZOO[0]["record"]
    zoo = [
        make_entry("good"),
        make_entry("unverified", record=None),
        make_entry("stale", record={**record, "is_stale": True}),
        make_entry("missed", record={**record, "met": False}),
        make_entry("for_comparison", bar=None),
        make_entry("long", minutes=100.0),
        make_entry("learns_from_recordings", recordings=["expert"]),
    ]
    assert choose_sample(zoo, "today", 5, 15) == ["good"]


@pytest.mark.parametrize(("score", "holds"), [(500.0, True), (480.0, True), (470.0, False)])
def test_a_seed_holds_at_the_bar_or_among_the_recorded_ones(score: float, holds: bool) -> None:
    record = {"bar": 490.0, "seeds": [{"mean_return": 480.0}, {"mean_return": 500.0}]}
    assert still_holds(record, score) is holds


@pytest.mark.parametrize(
    ("name", "algorithm", "family"),
    [
        ("ppo_cartpole", "ppo", "on_policy"),
        ("ppo_icm_mountaincar", "ppo", "on_policy"),
        ("ddqn_lunarlander", "ddqn", "off_policy"),
        ("ppg_cartpole", "ppg", "on_policy"),
        ("mbrl_learnt_reward_pendulum", "mbrl_cem", "model_based"),
        ("muzero_cartpole", "muzero", "search"),
        ("bc_cartpole", "bc", "offline"),
    ],
)
def test_entries_know_their_algorithm_and_family(name: str, algorithm: str, family: str) -> None:
    entry = task_entries()[name]
    assert (algorithm_name(entry), family_of(entry)) == (algorithm, family)


def test_every_entry_has_a_family() -> None:
    assert {family_of(entry) for entry in task_entries().values()} <= set(FAMILIES) - {"other"}
