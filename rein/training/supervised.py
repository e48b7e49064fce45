"""Supervised training, `ml_type="sl"`: an iteration is a pass over the data, and there is no environment.

The algorithm is made as `algorithm_ctor(config=config)`. Everything else is as in other runs: the same directory,
summaries (counted by passes), checkpoints, and a resumed run equals one that never stopped: the order of the data comes
from the random numbers of the run, which are saved.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from rein.config import SavedConfigError, configurable, save_config
from rein.framework import Algorithm, TrainerConfig
from rein.runtime import get_rng_state, set_rng_state, summary
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.run import Run
from rein.runtime.seeding import seed_everything
from rein.runtime.writers import create_summary_writer
from rein.training.callbacks import CallbackRunner, create_callbacks
from rein.training.full_disk import ToleratedSaving
from rein.training.journal import Journal
from rein.training.keepsakes import keep_code, keep_crash, profile_to
from rein.training.progress import Progress
from rein.training.run_directory import RunDirectory
from rein.training.run_sinks import open_sinks
from rein.training.schedule import Every
from rein.training.signals import StopRequest
from rein.training.threads import choose_threads, threads_record

logger = logging.getLogger(__name__)


class SupervisedEvaluation(NamedTuple):
    """What was measured on test data, by name: losses, accuracies as shares, areas under curves."""

    numbers: dict[str, float]

    @property
    def headline(self) -> str:
        """The most important numbers in a line."""
        return ", ".join(" ".join(describe_number(name, value)) for name, value in self.numbers.items())

    def to_json(self) -> dict[str, Any]:
        """In plain values."""
        return {"numbers": self.numbers}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SupervisedEvaluation":
        """From what `to_json` gave."""
        return cls(dict(data["numbers"]))


_TITLES = {
    "test_acc": "accuracy",
    "member_acc": "accuracy of one network",
    "test_nll": "negative log likelihood",
    "test_loss": "loss",
    "calibration_error": "calibration error",
    "auroc_entropy": "AUROC of the entropy",
    "auroc_variance": "AUROC of the variance",
}


def describe_number(name: str, value: float) -> tuple[str, str]:
    """What a number of an evaluation is called, and its text."""
    return _TITLES.get(name, name), f"{value:.2%}" if name.endswith("_acc") else f"{value:.4g}"


class SupervisedObserver(Protocol):
    """Sees a run go on; for displays."""

    def on_iteration(self, progress: Progress) -> None:
        """Called after every pass."""

    def on_evaluation(self, progress: Progress, result: SupervisedEvaluation) -> None:
        """Called after every evaluation."""


class SupervisedResult(NamedTuple):
    """How a run ended."""

    progress: Progress
    stopped_by: str | None
    """Name of the signal that stopped it; None if it ran to its end."""
    evaluation: SupervisedEvaluation | None
    """The last evaluation."""
    stop_reason: str | None = None
    """Why a callback ended it early; None if none did."""


@configurable
class SupervisedTrainer:
    """Trains the algorithm that the settings describe on labelled data."""

    def __init__(
        self,
        config: TrainerConfig,
        directory: RunDirectory,
        observers: Sequence[SupervisedObserver] = (),
        tensorboard: bool = True,
        deterministic: bool = False,
        fail_on_save_error: bool = False,
    ) -> None:
        """Builds the algorithm, and restores the newest checkpoint if there is one.

        Args:
            config: settings of the run.
            directory: where the run leaves its files.
            observers: displays.
            tensorboard: write TensorBoard events besides JSON lines.
            deterministic: use deterministic algorithms only.
            fail_on_save_error: stop when a checkpoint cannot be written, for example because the disk is full; else
                training goes on with a warning, and the next save tries again.
        """
        if config.ml_type != "sl":
            raise ValueError(f'ml_type is {config.ml_type!r}: SupervisedTrainer trains on labelled data, ml_type="sl"')
        if config.num_iterations < 1:
            raise ValueError("supervised training counts passes over the data: set TrainerConfig.num_iterations")
        keep_code(config.code_snapshots or (), directory.code)
        self.config = config
        self.directory = directory
        self.observers: list[Any] = list(observers)
        self._checkpointer = Checkpointer(directory.checkpoints, keep=max(1, config.num_checkpoints))
        self.saving = ToleratedSaving(fail_on_save_error)
        self._last_evaluation: SupervisedEvaluation | None = None
        self._generators: dict[str, Any] | None = None
        self._seconds = 0.0
        self._threads = choose_threads(config.num_threads, is_exact=deterministic)
        self.run = Run(directory.path, seed=config.random_seed, enable_timers=True)
        with self.run:
            self.run.seed_everything(deterministic)
            self.algorithm = build_supervised(config)
            # Said before the first pass, and not by the evaluation after it.
            if config.eval_uncertainty and not getattr(self.algorithm, "has_outliers", True):
                raise ValueError(
                    f"{self.algorithm.name}: eval_uncertainty needs outlier data: give data_creator_outlier, or set "
                    "TrainerConfig.eval_uncertainty=False"
                )
            self.callbacks = CallbackRunner(self, create_callbacks(directory.is_trusted))
            self._restore()
        self._open_records(tensorboard)
        self._set_periods()

    def extend(self, num_iterations: int) -> None:
        """Goes on to so many passes in all, whatever the settings said; schedules stretch to it."""
        self.config.num_iterations = num_iterations
        self.run.progress = min(1.0, self.run.iterations / num_iterations)
        self._set_periods()

    def _set_periods(self) -> None:
        config, expected = self.config, self.config.num_iterations
        self._summaries = Every(config.summary_interval, config.num_summaries, expected)
        self._evaluations = Every(config.eval_interval, config.num_evals, expected)
        self._checkpoints = Every(None, config.num_checkpoints, expected)

    def _open_records(self, tensorboard: bool) -> None:
        """Opens the summaries, without what was recorded after the checkpoint that the run is resumed from."""
        run, config, resume_step = self.run, self.config, None
        if run.iterations:
            resume_step = run.global_counter - 1  # What a pass records stands under the counter before it.
            self.directory.forget_evaluations_after(run.iterations)
        run.writer = create_summary_writer(
            self.directory.summaries,
            resume_step=resume_step,
            flush_seconds=config.summaries_flush_secs,
            max_queue=config.summary_max_queue,
            tensorboard=tensorboard,
            sinks=open_sinks(self.directory, run, resume_step),
        )
        evaluations = [one for one in self.directory.read_evaluations() if "iterations" in one]
        if run.iterations and evaluations:
            self._last_evaluation = SupervisedEvaluation.from_json(evaluations[-1])
            if evaluations[-1]["iterations"] == run.iterations:
                self._summarize(self._last_evaluation)

    # The loop.

    def train(self) -> SupervisedResult:
        """Runs to the last pass, or to the end of the one in which a stop is asked for."""
        with profile_to(self.directory.path / "py_train.INFO" if self.config.profiling else None):
            try:
                return self._train()
            except KeyboardInterrupt:
                self.directory.note(status="stopped")
                raise
            except Exception as error:
                self._keep_crash(error)
                raise

    def _train(self) -> SupervisedResult:
        run, config = self.run, self.config
        journal = Journal(self.directory, run.timers)
        with run, journal, summary.record_if(self._records), StopRequest() as stop:
            started = time.perf_counter() - self._seconds
            progress = self._progress()
            self.callbacks.start(progress)
            if self._generators is not None:  # Last: modules that were imported since may have drawn from them.
                set_rng_state(self._generators)
                self._generators = None
            while progress.fraction < 1.0 and not stop.is_set and self.callbacks.stop_reason is None:
                before = time.perf_counter()
                trained = self.algorithm.train_iter()
                if self._threads is not None:
                    self._threads.see(run.iterations, time.perf_counter() - before, trained)
                run.iterations += 1
                run.increment_global_counter()
                run.progress = min(1.0, run.iterations / config.num_iterations)
                self._seconds = time.perf_counter() - started
                progress = self._progress()
                journal.tick()
                for observer in self.observers:
                    observer.on_iteration(progress)
                self.callbacks.iteration(progress)
                is_over = progress.fraction >= 1.0 or self.callbacks.stop_reason is not None
                if is_over or self._evaluations.is_due(run.iterations):
                    self._evaluate(progress)
                if not is_over and self._checkpoints.is_due(run.iterations):
                    self.saving.try_to(self.save)
            stop.disarm()
            self._save_at_end()
            self.callbacks.end()
            reason = self.callbacks.stop_reason if progress.fraction < 1.0 else None
            self.directory.note(
                status="stopped" if progress.fraction < 1.0 else "finished",
                stop_reason=reason,
                iterations=progress.iterations,
                seconds=round(self._seconds, 3),
                conf_file=config.conf_file or None,
                threads=threads_record(self._threads),
                error=None,
            )
            if run.writer is not None:
                run.writer.flush()
        self._save_config()
        if reason is not None:
            for observer in self.observers:
                getattr(observer, "on_early_stop", bool)(reason)
        return SupervisedResult(progress, stop.reason, self._last_evaluation, reason)

    def _save_at_end(self) -> None:
        self.saving.insist_on(self.save)

    def _save_config(self) -> None:
        """Saves the configuration again, now with all that was used."""
        try:
            save_config(self.directory.config)
        except (SavedConfigError, OSError) as error:
            # What was trained is not worth less because of it.
            logger.warning("the configuration was not saved again at the end of the run: %s", error)

    def _records(self) -> bool:
        counter = self.run.global_counter
        in_first_interval = self.config.summarize_first_interval and counter < self._summaries.interval
        is_last = self.run.iterations + 1 >= self.config.num_iterations
        return in_first_interval or counter % self._summaries.interval == 0 or is_last

    def _progress(self) -> Progress:
        metrics = self.algorithm.progress_metrics() if self.run.iterations else {}
        return Progress(self.run.iterations, 0, self.run.progress, self._seconds, metrics)

    # Evaluation.

    def _evaluate(self, progress: Progress) -> None:
        if not (self.config.evaluate or self.config.eval_uncertainty):
            return
        seed = self.run.spawn_seeds(1, f"evaluation {progress.iterations}")[0]
        policy = self.callbacks.policy_to_evaluate()
        with _random_numbers_of(seed), summary.record_if(lambda: False, override=True):
            result = measure(self.algorithm, self.config.evaluate, self.config.eval_uncertainty)
        self._last_evaluation = result
        self._summarize(result)
        record = {"iterations": progress.iterations, "seconds": progress.seconds}
        self.directory.add_evaluation({**record, **result.to_json()})
        for observer in self.observers:
            observer.on_evaluation(progress, result)
        self.callbacks.evaluation(progress, result, policy)

    def _summarize(self, result: SupervisedEvaluation) -> None:
        with self.run, summary.record_if(lambda: True, override=True):
            for name, value in result.numbers.items():
                percent = 100.0 if name.endswith("_acc") else 1.0
                summary.scalar(f"eval/{name}", percent * value, self.run.global_counter)

    # Checkpoints.

    def save(self) -> None:
        """Saves a checkpoint from which the run goes on exactly."""
        if self._checkpointer.latest_step() == self.run.iterations:
            return
        if self.run.writer is not None:
            self.run.writer.flush()
        with self.run:
            state = {
                "alg": dict(self.algorithm.state_dict()),
                "trainer": {"run": self.run.state_dict(), "seconds": self._seconds},
            }
            if states := self.callbacks.state_dict():
                state["callbacks"] = states
            self.callbacks.checkpoint(self._checkpointer.save(self.run.iterations, state))

    def _restore(self) -> None:
        if self._checkpointer.latest_step() is None:
            return
        components = self._checkpointer.load().components
        self.algorithm.load_state_dict(components["alg"])
        self._seconds = components["trainer"]["seconds"]
        self.run.load_state_dict(components["trainer"]["run"])
        self._generators = components["trainer"]["run"]["global_generators"]
        self.callbacks.load_state_dict(components.get("callbacks", {}))
        self.run.progress = min(1.0, self.run.iterations / self.config.num_iterations)

    def _keep_crash(self, error: Exception) -> None:
        """Records that training failed, and keeps the parameters if the user wants them."""
        for observer in self.observers:
            getattr(observer, "close", bool)()
        self.directory.note(status="failed", error=f"{type(error).__name__}: {error}")
        question = f"Training failed with {type(error).__name__}: save the parameters to {self.directory.crash}?"
        keep_crash(question, self.config.confirm_checkpoint_upon_crash, self._save_crash)

    def _save_crash(self) -> None:
        with self.run:
            Checkpointer(self.directory.crash).save(self.run.iterations, {"alg": dict(self.algorithm.state_dict())})

    def close(self) -> None:
        """Closes the writers, and lets others train the run."""
        self.run.close()
        self.directory.unlock()


def build_supervised(config: TrainerConfig) -> Any:
    """The algorithm that the settings describe."""
    if config.algorithm_ctor is None:
        raise ValueError("TrainerConfig.algorithm_ctor is not set: name the algorithm to train")
    algorithm = config.algorithm_ctor(config=config)
    lacking = [name for name in ("train_iter", "evaluate", "progress_metrics") if not hasattr(algorithm, name)]
    if not isinstance(algorithm, Algorithm) or lacking:
        raise ValueError(
            f'{type(algorithm).__name__} cannot be trained with ml_type="sl": it has no {", ".join(lacking) or "parameters"}'
        )
    algorithm.set_path("")
    return algorithm


def measure(algorithm: Any, evaluates: bool = True, with_uncertainty: bool = False) -> SupervisedEvaluation:
    """Evaluates an algorithm on its test data, and how well its uncertainty tells outliers."""
    numbers: dict[str, float] = dict(algorithm.evaluate()) if evaluates else {}
    if with_uncertainty:
        by_entropy, by_variance = algorithm.eval_uncertainty()
        numbers |= {"auroc_entropy": by_entropy, "auroc_variance": by_variance}
    return SupervisedEvaluation(numbers)


@contextmanager
def _random_numbers_of(seed: int) -> Iterator[None]:
    """A block with random numbers of its own: training goes on as if there had been none."""
    before = get_rng_state()
    try:
        seed_everything(seed)
        yield
    finally:
        set_rng_state(before)
