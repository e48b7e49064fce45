"""What a sweep does, and who chooses its points."""

from typing import Any, NamedTuple, Protocol

from rein.training.search_space import Dimension, grid, override_text, random_point

METHODS = ("grid", "random", "optuna")


class Plan(NamedTuple):
    """What a sweep does."""

    conf: str
    overrides: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    method: str = "grid"
    trials: int | None = None
    """Trials of "random" and "optuna"; a grid has as many as it has points."""
    seeds: tuple[int, ...] = (0,)
    sampler_seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The plan in plain values, to compare with that of a directory."""
        dimensions = [[one.name, one.kind, [str(value) for value in one.values]] for one in self.dimensions]
        return {
            **self._asdict(),
            "overrides": list(self.overrides),
            "dimensions": dimensions,
            "seeds": list(self.seeds),
        }


class Sampler(Protocol):
    """Chooses the points of a sweep."""

    def point(self, trial: int) -> dict[str, Any] | None:
        """The settings of a trial by name; None if there are no more trials."""

    def adopt(self, trial: int, point: dict[str, Any]) -> None:
        """Takes up a trial that was begun before the sweep was stopped."""

    def tell(self, trial: int, score: float | None) -> None:
        """Learns the score of a trial; None if it failed."""


def make_sampler(plan: Plan) -> Sampler:
    """The sampler for the plan's method."""
    return _Optuna(plan) if plan.method == "optuna" else _Listed(plan)


def check_plan(plan: Plan) -> None:
    """Raises `ValueError` that says what to change if the plan cannot be carried out."""
    if plan.method not in METHODS:
        raise ValueError(f"--method {plan.method!r} is unknown: choose one of {', '.join(METHODS)}")
    if not plan.dimensions and plan.method != "grid":
        raise ValueError(f"--method {plan.method} has nothing to choose: add --vary name=[a, b], or leave out --method")
    if plan.method != "grid" and (plan.trials is None or plan.trials < 1):
        raise ValueError(f"--method {plan.method} needs to know when to stop: add --trials N")
    if plan.method == "grid" and plan.trials is not None:
        raise ValueError("--trials belongs to --method random and optuna; a grid has as many trials as points")
    names = [dimension.name for dimension in plan.dimensions]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"--vary gives {', '.join(sorted(twice))} twice: keep one of them")
    if not plan.seeds or len(set(plan.seeds)) < len(plan.seeds):
        raise ValueError(f"the seeds {list(plan.seeds)} must be some, and different")


class _Listed:
    """Points that are known beforehand."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._points = grid(plan.dimensions) if plan.method == "grid" else None

    def point(self, trial: int) -> dict[str, Any] | None:
        if self._points is not None:
            return self._points[trial] if trial < len(self._points) else None
        assert self._plan.trials is not None
        return (
            random_point(self._plan.dimensions, self._plan.sampler_seed, trial) if trial < self._plan.trials else None
        )

    def adopt(self, trial: int, point: dict[str, Any]) -> None:
        """Nothing to take up: the points do not depend on each other."""

    def tell(self, trial: int, score: float | None) -> None:
        """Nothing to learn."""


class _Optuna:
    """Points chosen by Optuna from the scores so far."""

    def __init__(self, plan: Plan) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ImportError("--method optuna needs optuna: pip install 'rein-rl[sweep]'") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan = plan
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=plan.sampler_seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: dict[int, Any] = {}

    def adopt(self, trial: int, point: dict[str, Any]) -> None:
        """Takes up a trial that was begun before the sweep was stopped."""
        labels = {one.name: _label(one, point[one.name]) for one in self._plan.dimensions}
        self._study.enqueue_trial(labels)
        self._ask(trial)

    def point(self, trial: int) -> dict[str, Any] | None:
        assert self._plan.trials is not None
        return self._ask(trial) if trial < self._plan.trials else None

    def _ask(self, trial: int) -> dict[str, Any]:
        asked = self._asked[trial] = self._study.ask()
        return {one.name: _suggest(asked, one) for one in self._plan.dimensions}

    def tell(self, trial: int, score: float | None) -> None:
        if score is None:
            self._study.tell(self._asked[trial], state=self._failed)
        else:
            self._study.tell(self._asked[trial], score)


def _label(dimension: Dimension, value: Any) -> Any:
    """Optuna's name of a value: choices go by their position, since not all kinds of values are allowed there."""
    if dimension.kind != "choice":
        return value
    return [override_text("x", one) for one in dimension.values].index(override_text("x", value))


def _suggest(trial: Any, dimension: Dimension) -> Any:
    if dimension.kind == "choice":
        return dimension.values[trial.suggest_categorical(dimension.name, list(range(len(dimension.values))))]
    low, high = dimension.values
    if dimension.kind == "int":
        return trial.suggest_int(dimension.name, low, high)
    return trial.suggest_float(dimension.name, low, high, log=dimension.kind == "log")
