"""Runs beside runs: groups, interquartile means, probabilities of improvement, and what is said about them."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import rein
from rein.training.comparison import Comparison, compare, probability_of_improvement
from rein.training.comparison_page import write_comparison
from rein.training.run_directory import RunDirectory


def make_runs(folder: Path, name: str, scores: Sequence[float], env: str = "CartPole-v1", **facts: object) -> Path:
    for seed, score in enumerate(scores):
        directory = RunDirectory.create(folder / f"{name}-{seed}")
        directory.start(name=name, seed=seed, env=env, **facts)
        directory.add_evaluation({"iterations": 1, "mean_return": score})
        directory.unlock()
    return folder


def test_the_probability_of_improvement_counts_pairs() -> None:
    assert probability_of_improvement(np.array([3.0, 1.0]), np.array([2.0])) == 0.5
    assert probability_of_improvement(np.array([3.0, 4.0, 2.0]), np.array([2.0, 1.0])) == pytest.approx(5.5 / 6)


def test_a_clear_difference_is_called_one(tmp_path: Path) -> None:
    make_runs(tmp_path, "slow", [10, 12, 11, 9, 10])
    make_runs(tmp_path, "fast", [50, 55, 52, 51, 300])
    result = rein.compare([tmp_path])
    best, worst = result.groups
    assert (best.label, worst.label) == ("fast", "slow")
    assert best.iqm == pytest.approx((51 + 52 + 55) / 3)  # The lowest and the highest of five are cut off.
    assert best.interval[0] <= best.iqm <= best.interval[1]
    (pair,) = result.pairs
    assert (pair.probability, pair.interval) == (1.0, (1.0, 1.0))
    assert pair.verdict.startswith("fast is better than slow")
    assert len(result.words()) == 1
    assert "fast" in str(result)


def test_what_is_alike_cannot_be_told_apart(tmp_path: Path) -> None:
    make_runs(tmp_path, "one", [1, 2, 3, 4, 5, 6])
    make_runs(tmp_path, "other", [1.5, 2.5, 3.5, 4.5, 5.5, 0.5])
    (pair,) = compare([tmp_path]).pairs
    assert "cannot be told apart" in pair.verdict
    assert pair.interval[0] < 0.5 < pair.interval[1]


def test_few_seeds_are_doubted(tmp_path: Path) -> None:
    make_runs(tmp_path, "a", [1.0, 2.0])
    make_runs(tmp_path, "b", [3.0] * 5)
    words = compare([tmp_path]).words()
    assert any(line.startswith("a: fewer than 5 seeds") for line in words)


def test_folders_over_several_tasks_are_compared_on_one_scale(tmp_path: Path) -> None:
    for folder, low, high in (("ppo", 100.0, -5.0), ("a2c", 50.0, -10.0)):
        make_runs(tmp_path / folder, f"{folder}_cartpole", [low, low + 1], "CartPole-v1")
        make_runs(tmp_path / folder, f"{folder}_reach", [high, high + 1], "Reach-v0")
    result = compare([tmp_path / "a2c", tmp_path / "ppo"])
    assert [group.label for group in result.groups] == ["ppo", "a2c"]
    assert result.is_normalised
    assert result.tasks == ("CartPole-v1", "Reach-v0")
    assert 0.9 < result.groups[0].iqm <= 1.0
    assert 0.0 <= result.groups[1].iqm < 0.1
    assert any("normalised" in line for line in result.words())


def test_the_same_conf_in_two_folders_is_two_groups(tmp_path: Path) -> None:
    make_runs(tmp_path / "old", "task", [1.0, 2.0])
    make_runs(tmp_path / "new", "task", [3.0, 4.0])
    assert [group.label for group in compare([tmp_path / "old", tmp_path / "new"]).groups] == ["new", "old"]


def test_groups_may_be_named(tmp_path: Path) -> None:
    make_runs(tmp_path, "task", [1.0, 2.0, 3.0])
    result = compare({"first": tmp_path / "task-0", "others": [tmp_path / "task-1", tmp_path / "task-2"]})
    assert [(group.label, group.num_runs) for group in result.groups] == [("others", 2), ("first", 1)]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    make_runs(tmp_path / "a", "a", [1.0, 2.0])
    with pytest.raises(ValueError, match="only a to compare"):
        compare([tmp_path / "a"])
    make_runs(tmp_path / "b", "b", [1.0], env="Acrobot-v1")
    with pytest.raises(ValueError, match="no task in common"):
        compare([tmp_path / "a", tmp_path / "b"])
    directory = RunDirectory.create(tmp_path / "c")
    directory.start(name="c", seed=0, env="CartPole-v1")
    with pytest.raises(ValueError, match="has no return yet"):
        compare([tmp_path / "a", tmp_path / "c"])


@pytest.fixture
def result(tmp_path: Path) -> Comparison:
    make_runs(tmp_path, "<b>x</b>", [1.0, 2.0, 3.0])
    make_runs(tmp_path, "plain", [2.0, 2.0, 2.0])
    return compare([tmp_path])


def test_pictures_and_pages_escape_names(result: Comparison, tmp_path: Path) -> None:
    picture = ElementTree.parse(write_comparison(result, tmp_path / "c.svg")).getroot()
    assert sum(one.tag.endswith("circle") for one in picture.iter()) == 6
    page = write_comparison(result, tmp_path / "c.html").read_text()
    assert "<b>x" not in page
    assert "cannot be told apart" in page
    with pytest.raises(ValueError, match=r"must end in .html or .svg"):
        write_comparison(result, tmp_path / "c.png")
