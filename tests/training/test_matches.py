"""Ratings, and matches among players."""

import numpy as np
import pytest

from rein.training.elo import elo_ratings


def test_ratings_follow_the_logistic_curve():
    ratings = elo_ratings({("a", "b"): 9_091.0}, {("a", "b"): 10_000}, anchor="b")
    assert ratings["b"] == 0.0
    assert ratings["a"] == pytest.approx(400.0, abs=1.0), "ten points to one"
    swapped = elo_ratings({("b", "a"): 909.0}, {("b", "a"): 10_000}, anchor="b")
    assert swapped["a"] == pytest.approx(ratings["a"], abs=1e-6)


def test_ratings_are_finite_and_in_order_for_players_who_never_lost():
    points = {("best", "good"): 50.0, ("good", "random"): 50.0, ("best", "random"): 50.0}
    ratings = elo_ratings(points, dict.fromkeys(points, 50), anchor="random")
    assert ratings["best"] > ratings["good"] > ratings["random"] == 0.0
    assert np.isfinite(list(ratings.values())).all()


def test_known_ratings_are_found_again():
    truth = {"a": 300.0, "b": 100.0, "c": -50.0, "random": 0.0}
    names, games = list(truth), {}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            games[first, second] = 100_000
    points = {pair: n / (1 + 10 ** ((truth[pair[1]] - truth[pair[0]]) / 400)) for pair, n in games.items()}
    assert elo_ratings(points, games, "random") == pytest.approx(truth, abs=0.1)
