"""Elo ratings of players from all games among them at once."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

_POINTS_PER_FACTOR_TEN = 400.0
_MOST_STEPS = 100


def elo_ratings(
    points: Mapping[tuple[str, str], float], games: Mapping[tuple[str, str], int], anchor: str
) -> dict[str, float]:
    """The most likely ratings, if a player rated d above another gets 1 / (1 + 10^(-d / 400)) of the points.

    Each pair that met is given one draw more, which keeps the ratings of those who never lost finite.

    Args:
        points: of the first of each pair, against the second: 1 for a win, 1/2 for a draw.
        games: how many they played.
        anchor: the player whose rating is 0; all others must have met it, or someone who did.

    >>> ratings = elo_ratings({("a", "b"): 75.0}, {("a", "b"): 100}, anchor="b")
    >>> {name: round(rating) for name, rating in ratings.items()}
    {'a': 188, 'b': 0}
    """
    names = sorted({name for pair in games for name in pair} | {anchor})
    pairs = [(names.index(first), names.index(second)) for first, second in games]
    scored = np.array([points[pair] + 0.5 for pair in games])
    played = np.array([number + 1.0 for number in games.values()])
    rating = np.zeros(len(names))
    free = [i for i, name in enumerate(names) if name != anchor]
    for _ in range(_MOST_STEPS):
        slope, curvature = _derivatives(rating, pairs, scored, played)
        step = np.zeros(len(names))
        # The least-squares solution leaves those whom nothing connects with the anchor where they are.
        step[free] = np.linalg.lstsq(curvature[np.ix_(free, free)], slope[free], rcond=None)[0]
        rating += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-9:
            break
    scale = _POINTS_PER_FACTOR_TEN / math.log(10.0)
    return {name: float(scale * rating[i]) for i, name in enumerate(names)}


def _derivatives(
    rating: np.ndarray, pairs: Sequence[tuple[int, int]], scored: np.ndarray, played: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the log-likelihood, and its negative second derivative."""
    slope, curvature = np.zeros(len(rating)), np.zeros((len(rating), len(rating)))
    for (i, j), points, games in zip(pairs, scored, played, strict=True):
        expected = 1.0 / (1.0 + math.exp(rating[j] - rating[i]))
        slope[i] += points - games * expected
        slope[j] -= points - games * expected
        weight = games * expected * (1.0 - expected)
        curvature[i, i] += weight
        curvature[j, j] += weight
        curvature[i, j] -= weight
        curvature[j, i] -= weight
    return slope, curvature
