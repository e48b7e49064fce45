"""The trainer owns the loop: iterations, summaries, evaluations, checkpoints, and how a run ends."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rein.config import SavedConfigError, configurable, save_config
from rein.envs import Environment, create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.framework.updating import check_finite_state
from rein.framework.updating.output_summaries import summarize_outputs
from rein.runtime import summary
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.run import Run
from rein.runtime.seeding import set_rng_state
from rein.runtime.writers import create_summary_writer
from rein.training.callbacks import CallbackRunner, create_callbacks
from rein.training.construction import WorldSpecs, algorithm_state, build_algorithm
from rein.training.evaluation import EvaluationResult
from rein.training.full_disk import ToleratedSaving
from rein.training.journal import Journal
from rein.training.keepsakes import keep_code, keep_crash, profile_to
from rein.training.offline import has_environment, plan_offline, require_enough
from rein.training.progress import Progress
from rein.training.replay_memory import fit_replay_buffer
from rein.training.run_directory import RunDirectory, RunDirectoryError
from rein.training.run_evaluation import RunEvaluation
from rein.training.run_sinks import open_sinks
from rein.training.schedule import Budget, Every
from rein.training.signals import StopNowError, StopRequest
from rein.training.threads import choose_threads, threads_record
from rein.training.unused_settings import UnusedSettingError, refuse_settings_of_absent_algorithms

logger = logging.getLogger(__name__)
_EVALUATION_SECONDS = 4.0
"""For an evaluation under way to end when the run is asked to."""


class TrainingObserver(Protocol):
    """Sees a run go on; for displays."""

    def on_iteration(self, progress: Progress) -> None:
        """Called after every iteration."""

    def on_evaluation(self, progress: Progress, result: EvaluationResult) -> None:
        """Called after every evaluation."""


class TrainingResult(NamedTuple):
    """How a run ended."""

    progress: Progress
    stopped_by: str | None
    """Name of the signal that stopped it; None if it ran to its end."""
    evaluation: EvaluationResult | None
    """The last evaluation."""
    stop_reason: str | None = None
    """Why a callback ended it early; None if none did."""


@configurable
class Trainer:
    """Trains the algorithm that the settings describe."""

    def __init__(
        self,
        config: TrainerConfig,
        directory: RunDirectory,
        observers: Sequence[TrainingObserver] = (),
        tensorboard: bool = True,
        deterministic: bool = False,
        fail_on_save_error: bool = False,
        prepare: Callable[[RLAlgorithm], int | None] | None = None,
    ) -> None:
        """Builds environment and algorithm, and restores the newest checkpoint if there is one.

        A run that learns from data alone has no environment; see `rein.training.offline`.

        Args:
            config: settings of the run.
            directory: where the run leaves its files.
            observers: displays.
            tensorboard: write TensorBoard events besides JSON lines.
            deterministic: use deterministic algorithms only.
            fail_on_save_error: stop when a checkpoint cannot be written, for example because the disk is full; else
                training goes on with a warning, and the next save tries again.
            prepare: called with the algorithm once it is built, before a checkpoint is restored; may return how many
                environments report in an iteration.
        """
        if config.ml_type != "rl":
            raise ValueError(f'ml_type is {config.ml_type!r}: Trainer trains by reinforcement only, ml_type="rl"')
        keep_code(config.code_snapshots or (), directory.code)
        self.config = config
        self.directory = directory
        self.observers = list(observers)
        self._tensorboard = tensorboard
        self._checkpointer = Checkpointer(directory.checkpoints, keep=max(1, config.num_checkpoints))
        self.saving = ToleratedSaving(fail_on_save_error)
        self._last_evaluation: EvaluationResult | None = None
        self._evaluation = RunEvaluation(config, directory, self._record_evaluation)
        self._stop = StopRequest()
        self._generators: dict[str, Any] | None = None
        self._seconds = 0.0
        self._threads = choose_threads(config.num_threads, is_exact=deterministic)
        self.run = Run(directory.path, seed=config.random_seed, enable_timers=True)
        with self.run:
            self.run.seed_everything(deterministic)
            self._build()
            if prepare is not None and self.env is not None:
                self.budget = Budget(config, prepare(self.algorithm) or self._num_envs)
            self.callbacks = CallbackRunner(self, create_callbacks(directory.is_trusted))
            self._restore()
        self._open_records()
        self._set_periods()

    def _build(self) -> None:
        """Makes the environment, the algorithm, and the budget."""
        config = self.config
        offline = plan_offline(config)
        self.env: Environment | None = None
        if offline is not None and offline.specs is not None:
            self.specs = offline.specs
            self.algorithm: RLAlgorithm = build_algorithm(config, None, specs=self.specs)
            offline.teach(self.algorithm, config)
        else:
            self.env = create_environment(seed=self.run.spawn_seeds(1, "env")[0])
            self.specs = WorldSpecs.of(self.env)
            fit_replay_buffer(config, self.env)
            self.algorithm = build_algorithm(config, self.env)
            if self.algorithm.offline_data is not None:
                require_enough(self.algorithm, self.algorithm.offline_data)
        self._refuse_settings()
        if config.evaluate and not has_environment():
            logger.warning("this run has no environment, so its policy is not evaluated: name one to have that")
            config.evaluate = False
        if config.summarize_output:
            summarize_outputs(self.algorithm)
        self.budget = Budget(config, self._num_envs)

    def _refuse_settings(self) -> None:
        """See `refuse_settings_of_absent_algorithms`; leaves no worlds behind."""
        try:
            refuse_settings_of_absent_algorithms(self.algorithm)
        except UnusedSettingError:
            if self.env is not None:
                self.env.close()
            raise

    @property
    def _is_stopping(self) -> bool:
        """Whether the process is asked to end soon, and not by a person who can wait or insist."""
        return self._stop.reason == "SIGTERM"

    @property
    def _num_envs(self) -> int:
        return 0 if self.env is None else self.env.batch_size

    @property
    def num_updates(self) -> int:
        """Updates that were made, in a run that makes equally many in every iteration."""
        return self.run.iterations * self.config.num_updates_per_train_iter

    def extend(self, num_env_steps: int) -> None:
        """Goes on to `num_env_steps` environment steps in all, whatever the settings said; schedules stretch to it."""
        self.config.num_iterations, self.config.num_env_steps = 0, num_env_steps
        self.budget = Budget(self.config, self._num_envs)
        self.run.progress = self.budget.progress(self.run.iterations, self.run.env_steps)
        self._set_periods()

    def extend_updates(self, num_updates: int) -> None:
        """Goes on to `num_updates` updates in all, rounded up to whole iterations; schedules stretch to it."""
        per_iteration = self.config.num_updates_per_train_iter
        self.config.num_iterations, self.config.num_env_steps = -(-num_updates // per_iteration), 0
        self.budget = Budget(self.config, self._num_envs)
        self.run.progress = self.budget.progress(self.run.iterations, self.run.env_steps)
        self._set_periods()

    def _set_periods(self) -> None:
        config, expected = self.config, self.budget.expected_iterations
        self._summaries = Every(config.summary_interval, config.num_summaries, expected)
        self._evaluations = Every(config.eval_interval, config.num_evals, expected)
        self._checkpoints = Every(None, config.num_checkpoints, expected)

    def _open_records(self) -> None:
        """Opens the summaries, without what was recorded after the checkpoint that the run is resumed from."""
        run, config, resume_step = self.run, self.config, None
        if run.iterations:
            # What an iteration records stands under the counter before it.
            resume_step = run.global_counter - (not config.update_counter_every_mini_batch)
            self.directory.forget_evaluations_after(run.iterations)
        run.writer = create_summary_writer(
            self.directory.summaries,
            resume_step=resume_step,
            flush_seconds=config.summaries_flush_secs,
            max_queue=config.summary_max_queue,
            tensorboard=self._tensorboard,
            sinks=open_sinks(self.directory, run, resume_step),
        )
        evaluations = [one for one in self.directory.read_evaluations() if "iterations" in one]
        if run.iterations and evaluations:
            self._last_evaluation = EvaluationResult.from_json(evaluations[-1])
            if evaluations[-1]["iterations"] == run.iterations and not config.update_counter_every_mini_batch:
                self._summarize_evaluation(self._last_evaluation, run.global_counter)

    # The loop.

    def train(self) -> TrainingResult:
        """Runs to the end of the budget, or to the end of the iteration in which a stop is asked for."""
        with profile_to(self.directory.path / "py_train.INFO" if self.config.profiling else None):
            try:
                return self._train()
            except KeyboardInterrupt as stop:
                self.directory.note(status="stopped")
                raise self._stop.named(stop) from None
            except Exception as error:
                self._keep_crash(error)
                raise

    def _train(self) -> TrainingResult:
        journal = Journal(self.directory, self.run.timers)
        with self.run, journal, summary.record_if(self._records), StopRequest() as stop:
            self._stop = stop
            if self.config.evaluate:
                self._evaluation.start()
            started = time.perf_counter() - self._seconds
            progress = self._progress()
            self.callbacks.start(progress)
            self._restore_generators()
            if self._checkpointer.latest_step() is None:
                # A run that hangs or is killed in its first iteration can be loaded, too.
                self.saving.try_to(self.save)
            while progress.fraction < 1.0 and not stop.is_set and self.callbacks.stop_reason is None:
                self._iterate()
                self._count()
                self._seconds = time.perf_counter() - started
                progress = self._progress()
                journal.tick()
                for observer in self.observers:
                    observer.on_iteration(progress)
                self.callbacks.iteration(progress)
                is_over = progress.fraction >= 1.0 or self.callbacks.stop_reason is not None
                self._evaluation.collect(wait=False)
                if self.config.evaluate and (is_over or self._evaluations.is_due(self.run.iterations)):
                    self._evaluate_or_save(progress)
                if not is_over and self._checkpoints.is_due(self.run.iterations):
                    self.saving.try_to(self.save)
            stop.disarm()
            if progress.fraction < 1.0:
                self._record_stop()
            self._save_at_end()
            self.callbacks.end()
            reason = self.callbacks.stop_reason if progress.fraction < 1.0 else None
            self.directory.note(
                status="stopped" if progress.fraction < 1.0 else "finished",
                stop_reason=reason,
                iterations=progress.iterations,
                env_steps=progress.env_steps,
                seconds=round(self._seconds, 3),
                conf_file=self.config.conf_file or None,
                skipped_updates=self.run.skipped_updates or None,
                threads=threads_record(self._threads),
                error=None,
            )
            if self.run.writer is not None:
                self.run.writer.flush()
        self._save_config()
        if reason is not None:
            for observer in self.observers:
                getattr(observer, "on_early_stop", bool)(reason)
        return TrainingResult(progress, stop.reason, self._last_evaluation, reason)

    def _iterate(self) -> None:
        """One iteration, from whose time the number of threads is chosen."""
        if self._threads is None:
            self.algorithm.train_iter()
            return
        before = time.perf_counter()
        trained = self.algorithm.train_iter()
        self._threads.see(self.run.iterations, time.perf_counter() - before, trained)

    def _save_config(self) -> None:
        """Saves the configuration again, now with all that was used."""
        try:
            save_config(self.directory.config)
        except (SavedConfigError, OSError) as error:
            # What was trained is not worth less because of it.
            logger.warning("the configuration was not saved again at the end of the run: %s", error)

    def _count(self) -> None:
        run = self.run
        run.iterations += 1
        run.env_steps = self.algorithm.env_steps
        run.progress = self.budget.progress(run.iterations, run.env_steps)

    def _records(self) -> bool:
        counter = self.run.global_counter
        in_first_interval = self.config.summarize_first_interval and counter < self._summaries.interval
        return in_first_interval or counter % self._summaries.interval == 0 or self._may_be_last()

    def _may_be_last(self) -> bool:
        """Whether the run may end with this iteration, so that no curve ends before it does."""
        run, budget = self.run, self.budget
        return budget.progress(run.iterations + 1, run.env_steps + budget.steps_per_iteration) >= 1.0

    def _record_stop(self) -> None:
        """Has the curves of metrics end where the run was stopped; recorded again from there on if it is resumed."""
        with summary.record_if(lambda: True, override=True):
            self.algorithm.summarize_metrics()

    def _progress(self) -> Progress:
        run = self.run
        metrics = self.algorithm.progress_metrics() if run.iterations else {}
        return Progress(run.iterations, run.env_steps, run.progress, self._seconds, metrics)

    def _evaluate_or_save(self, progress: Progress) -> None:
        """Evaluates; if that is stopped, the iteration before it is not lost."""
        try:
            self._evaluate(progress)
        except StopNowError:
            self._evaluation.give_up()
            self.save()
            raise

    def _save_at_end(self) -> None:
        """Saves what the run has come to; an evaluation that does not end does not keep it from that."""
        self.saving.insist_on(self.save)

    def _evaluate(self, progress: Progress) -> None:
        # By the iteration, so that a resumed run sees the same episodes as one that never stopped.
        seed = self.run.spawn_seeds(1, f"evaluation {progress.iterations}")[0]
        policy = self.callbacks.policy_to_evaluate()
        self._evaluation.request(self.algorithm, seed, (progress, self.run.global_counter, policy))

    def _record_evaluation(self, at: tuple[Progress, int, Any], result: EvaluationResult) -> None:
        progress, counter, policy = at
        self._last_evaluation = result
        self._summarize_evaluation(result, counter)
        record = {"iterations": progress.iterations, "env_steps": progress.env_steps, "seconds": progress.seconds}
        self.saving.try_to(lambda: self.directory.add_evaluation({**record, **result.to_json()}))
        for observer in self.observers:
            observer.on_evaluation(progress, result)
        self.callbacks.evaluation(progress, result, policy)

    def _summarize_evaluation(self, result: EvaluationResult, counter: int) -> None:
        with self.run, summary.record_if(lambda: True, override=True):
            summary.scalar("Evaluation/AverageReturn", result.mean, counter)
            summary.scalar("Evaluation/AverageEpisodeLength", float(result.lengths.mean()), counter)

    def _keep_crash(self, error: Exception) -> None:
        """Records that training failed, and keeps the parameters if the user wants them.

        They are in the middle of an iteration, so nothing is resumed from them.
        """
        for observer in self.observers:
            getattr(observer, "close", bool)()
        self.directory.note(status="failed", error=f"{type(error).__name__}: {error}")
        question = f"Training failed with {type(error).__name__}: save the parameters to {self.directory.crash}?"
        keep_crash(question, self.config.confirm_checkpoint_upon_crash, self._save_crash)

    def _save_crash(self) -> None:
        with self.run:
            Checkpointer(self.directory.crash).save(self.run.iterations, {"alg": dict(self.algorithm.state_dict())})

    # Checkpoints.

    def save(self) -> None:
        """Saves a checkpoint from which the run goes on exactly."""
        if self._checkpointer.latest_step() == self.run.iterations:
            return
        check_finite_state(self.algorithm, self.algorithm.optimizers())
        if not self._evaluation.collect(wait=True, seconds=_EVALUATION_SECONDS if self._is_stopping else None):
            logger.warning("the evaluation under way has not ended in time: it is given up")
            self._evaluation.give_up()
        if self.run.writer is not None:
            # A run that is resumed from here does not record again what came before.
            self.run.writer.flush()
        with self.run:
            path = self._checkpointer.save(self.run.iterations, self._state())
            self.callbacks.checkpoint(path)

    def _state(self) -> dict[str, Any]:
        return {
            "alg": dict(self.algorithm.state_dict()),
            "trainer": {"run": self.run.state_dict(), "seconds": self._seconds},
            **self.algorithm.training_state(),
            **({"callbacks": states} if (states := self.callbacks.state_dict()) else {}),
        }

    def _restore(self) -> None:
        if self._checkpointer.latest_step() is None:
            return
        components = self._checkpointer.load().components
        if "trainer" not in components:
            raise RunDirectoryError(f"{self.directory.path} holds a policy to act only: train the run that it is from")
        self.algorithm.load_training_state(components)
        # What was loaded from elsewhere when the run began has been trained since.
        self.algorithm.load_state_dict(algorithm_state(components), skip_preloded=False)
        self._seconds = components["trainer"]["seconds"]
        self.run.load_state_dict(components["trainer"]["run"])
        self._generators = components["trainer"]["run"]["global_generators"]
        self.callbacks.load_state_dict(components.get("callbacks", {}))
        self.run.progress = self.budget.progress(self.run.iterations, self.run.env_steps)

    def _restore_generators(self) -> None:
        """Restores the global generators last: modules that were imported since may have drawn from them."""
        if self._generators is not None:
            set_rng_state(self._generators)
            self._generators = None

    def close(self) -> None:
        """Closes environments and writers."""
        self.algorithm.close_rollout()
        if self.env is not None:
            self.env.close()
        self._evaluation.close()
        self.run.close()
        self.directory.unlock()
