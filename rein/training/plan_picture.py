"""What a planning policy expects, drawn beside what happens: imagined and real trajectories of one episode."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rein.algorithms.model_based import LatentMbrlAlgorithm, MbrlAlgorithm
from rein.data_structures import TimeStep
from rein.framework import RLAlgorithm
from rein.runtime.run import Run
from rein.training.evaluation import EvaluationResult, evaluate
from rein.training.policy import Policy
from rein.training.run_directory import write_atomically
from rein.training.statistics_of_runs import Band
from rein.training.svg_chart import line_chart

_MOST_NUMBERS = 8
_WIDTH, _HEIGHT, _LEGEND_LINE = 640, 220, 18

Array = NDArray[np.float64]


class ImaginedPlan(NamedTuple):
    """A plan that was acted on, as the model saw it."""

    step: int
    """Of the episode, where it begins."""
    paths: Array
    """[particles, H + 1, d] where it leads; the first is what was observed."""


class PlannedEpisode(NamedTuple):
    """An episode of a planning policy."""

    real: Array
    """[T + 1, d] what was observed."""
    plans: list[ImaginedPlan]
    result: EvaluationResult


class NoPlansError(ValueError):
    """There are no plans to show; the message says why."""


def draw_plans(policy: Policy, path: Path, num_plans: int = 5, seed: int | None = None) -> PlannedEpisode:
    """Plays an episode on a held-out seed, and draws some of its plans beside what happened, as SVG.

    Args:
        policy: who plays; its RL algorithm plans.
        path: ends in .svg; replaced if it exists.
        num_plans: how many to draw, evenly spread over the episode.
        seed: chooses another held-out seed.

    Raises:
        NoPlansError: the policy does not plan, or what it imagines cannot be drawn.
    """
    episode = play_with_plans(policy, num_plans, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, plans_svg(episode))
    return episode


def play_with_plans(policy: Policy, num_plans: int, seed: int | None = None) -> PlannedEpisode:
    """Plays one episode and keeps what it imagines; see `draw_plans`."""
    planner = _planning_part(policy.algorithm)
    seen: list[tuple[Tensor, Tensor]] = []
    raw: list[Tensor] = []

    def on_step(time_step: TimeStep) -> None:
        if isinstance(time_step.observation, Tensor):
            raw.append(time_step.observation[0].clone())

    planner.planner.set_plan_listener(lambda observation, plan: seen.append((observation.clone(), plan.clone())))
    try:
        with policy.make_environment(1, policy.held_out_seed(seed)) as env, Run(seed=policy.seed):
            result = evaluate(policy.algorithm, env, 1, on_step)
    finally:
        planner.planner.set_plan_listener(None)
    real = raw if isinstance(planner, LatentMbrlAlgorithm) else [observation[0] for observation, _ in seen]
    if not real or real[0].ndim != 1:
        raise NoPlansError("only trajectories of vectors are drawn; what this policy observes is something else")
    steps = np.unique(np.linspace(0, len(seen) - 1, num_plans + 1).astype(int)[:-1])
    plans = [ImaginedPlan(int(step), _paths(planner, *seen[step])) for step in steps]
    return PlannedEpisode(np.stack([one.double().numpy() for one in real]), plans, result)


def _planning_part(algorithm: RLAlgorithm) -> MbrlAlgorithm:
    for module in algorithm.modules():
        if isinstance(module, MbrlAlgorithm):
            return module
    raise NoPlansError(f"{algorithm.name} does not plan: only MbrlAlgorithm and LatentMbrlAlgorithm have plans to show")


def _paths(planner: MbrlAlgorithm, observation: Tensor, plan: Tensor) -> Array:
    try:
        paths = planner.imagine(observation, plan)[0]
    except ValueError as error:
        raise NoPlansError(f"what {planner.name} imagines cannot be drawn: {error}") from error
    return paths.double().numpy()


def plans_svg(episode: PlannedEpisode) -> str:
    """One chart for each number that is observed, eight at most, below each other.

    Args:
        episode: what happened and what was imagined.
    """
    size = min(episode.real.shape[1], _MOST_NUMBERS)
    height = _HEIGHT + _LEGEND_LINE * (1 + len(episode.plans))
    charts = []
    for number in range(size):
        chart = line_chart(
            _bands(episode, number), f"observation {number}", "step of the episode", "", width=_WIDTH, height=_HEIGHT
        )
        place = f'<svg x="0" y="{number * height}" width="{_WIDTH}" height="{height}" '
        charts.append(chart.replace("<svg ", place, 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {size * height}" width="{_WIDTH}" '
        f'style="color:#222;background:#fff">{"".join(charts)}</svg>\n'
    )


def _bands(episode: PlannedEpisode, number: int) -> list[Band]:
    """What happened, and of each plan the mean of its particles and where nine of ten of them are."""
    real = episode.real[:, number]
    bands = [Band("real", np.arange(len(real), dtype=np.float64), real, real, real, 1)]
    for plan in episode.plans:
        values = plan.paths[..., number]
        x = plan.step + np.arange(values.shape[1], dtype=np.float64)
        low, high = np.quantile(values, [0.05, 0.95], axis=0)
        bands.append(Band(f"imagined at step {plan.step}", x, values.mean(0), low, high, len(values)))
    return bands
