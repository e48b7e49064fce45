"""The benchmark of defaults: what is tried, how it is judged, what the page says."""

from pathlib import Path
from typing import Any

import pytest

from rein.zoo import algorithms, defaults
from rein.zoo.defaults_page import compare, defaults_page, write_figures


def figures(algorithm: str, env: str, *scores: float, version: str = "1") -> dict[str, Any]:
    seeds = [{"seed": i, "mean_return": score} for i, score in enumerate(scores)]
    steps = {task.env: task.env_steps for task in defaults.TASKS}[env]
    return {"algorithm": algorithm, "env": env, "env_steps": steps, "episodes": 100, "seeds": seeds} | {
        "versions": {"x": version},
        "date": "2026-01-01",
    }


def test_every_base_that_learns_in_an_environment_is_tried_or_left_out_for_a_reason() -> None:
    tried = {*defaults.DISCRETE, *defaults.CONTINUOUS}
    assert not tried & defaults.LEFT_OUT.keys()
    in_environments = {name for name, base in algorithms().items() if not base.facts.keys() & {"learns_from", "data"}}
    assert in_environments == tried | defaults.LEFT_OUT.keys()


def test_there_are_at_least_forty_pairs() -> None:
    assert len(defaults.pairs()) >= 40


def test_pairs_are_chosen_by_algorithm_environment_or_both() -> None:
    assert {pair.task.env for pair in defaults.pairs(["td3"])} == {t.env for t in defaults.TASKS if not t.is_discrete}
    assert {pair.algorithm for pair in defaults.pairs(["CartPole-v1"])} == set(defaults.DISCRETE)
    assert [pair.name for pair in defaults.pairs(["ppo/CartPole-v1"])] == ["ppo/CartPole-v1"]
    with pytest.raises(ValueError, match=r"'pppo'.*ppo"):
        defaults.pairs(["pppo"])
    with pytest.raises(ValueError, match="plans at every step"):
        defaults.pairs(["mbrl_cem"])


def test_a_difference_counts_beyond_its_interval() -> None:
    # Variances 1 and 1, three seeds each: the error is sqrt(2 / 3), times 4.30.
    found = compare([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], solved=100.0)
    assert found.difference == pytest.approx(-1.0)
    assert found.half_width == pytest.approx(4.30 * (2 / 3) ** 0.5)
    assert found.verdict == "level"
    assert compare([1.0, 1.1, 0.9], [9.0, 9.1, 8.9], 100.0).verdict == "behind"
    assert compare([9.0, 9.1, 8.9], [1.0, 1.1, 0.9], 100.0).verdict == "ahead"
    assert compare([99.0, 99.0, 80.0], [101.0, 101.0, 101.0], 100.0).verdict == "fails"
    assert compare([1.0], [9.0], 100.0).verdict == "level"


def test_figures_are_added_and_the_page_counts_them(tmp_path: Path) -> None:
    directory = tmp_path / "results/defaults"
    write_figures("rein", [figures("ppo", "CartPole-v1", 500, 500, 500)], directory)
    write_figures("rein", [figures("a2c", "CartPole-v1", 100, 101, 99)], directory)
    write_figures("rein", [figures("a2c", "CartPole-v1", 200, 201, 199)], directory)
    write_figures("stable_baselines3", [figures("a2c", "CartPole-v1", 480, 490, 500)], directory)
    assert list(defaults.read_figures("rein", directory)) == ["a2c/CartPole-v1", "ppo/CartPole-v1"]
    page = (tmp_path / "defaults.md").read_text()
    assert page == defaults_page(directory)
    assert (
        "2 pairs; both libraries in 1: at or above within the interval in 0 of them, behind in 0, and in 1 ours fails"
        in page
    )
    assert "**fails**" in page
    assert "pairs have not been run yet: a2c (7)" in page
