"""The loop: budgets, cadence, evaluations that do not disturb, and how runs end."""

import json
import logging
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.config import config, fresh_configs, save_config
from rein.data_structures import LossInfo
from rein.framework import NonFiniteLossError, TrainerConfig
from rein.optimizers import Adam
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.scalar_files import read_scalars
from rein.runtime.schedules import LinearScheduler
from rein.training import RunDirectory, RunDirectoryError, Trainer
from rein.training.schedule import Budget, Every
from rein.training.signals import StopRequest
from rein.training.statistics_of_runs import read_curve


class Short(gym.Env[Any, Any]):
    """Episodes of four steps, each of reward 1; actions do not matter."""

    observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._observe(), 1.0, self.t == 4, False, {}

    def _observe(self) -> Any:
        return self.np_random.normal(size=2).clip(-5, 5).astype(np.float32)


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    with fresh_configs():
        config("create_environment", env_name=Short, num_parallel_environments=2, backend="sync")
        yield


def a2c(**arguments: Any) -> Any:
    return partial(ActorCriticAlgorithm, optimizer=Adam(lr=1e-2), **arguments)


class Recorder:
    def __init__(self) -> None:
        self.iterations: list[Any] = []
        self.evaluations: list[Any] = []

    def on_iteration(self, progress: Any) -> None:
        self.iterations.append(progress)

    def on_evaluation(self, progress: Any, result: Any) -> None:
        self.evaluations.append((progress, result))


class Acts(Recorder):
    """An observer that does something after each iteration."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self.on_iteration = act  # type: ignore[method-assign]


def make(path: Path, observers: Any = (), algorithm: Any = None, **settings: Any) -> Trainer:
    directory = RunDirectory.open(path) if (path / "run.json").exists() else RunDirectory.create(path)
    if not (path / "run.json").exists():
        directory.start()
    settings = dict(unroll_length=5, random_seed=1, async_eval=False) | settings
    config_ = TrainerConfig(str(path), algorithm_ctor=algorithm or a2c(), **settings)
    return Trainer(config_, directory, observers, tensorboard=False)


def train(path: Path, *args: Any, **settings: Any) -> tuple[Trainer, Any]:
    trainer = make(path, *args, **settings)
    result = trainer.train()
    trainer.close()
    return trainer, result


class TestBudget:
    def test_iterations(self, tmp_path: Path) -> None:
        seen = Recorder()
        _, result = train(tmp_path / "run", [seen], num_iterations=3)
        assert result.progress.iterations == 3
        assert result.stopped_by is None
        assert [p.fraction for p in seen.iterations] == pytest.approx([1 / 3, 2 / 3, 1.0])

    def test_environment_steps(self, tmp_path: Path) -> None:
        _, result = train(tmp_path / "run", num_iterations=0, num_env_steps=33)
        assert 33 <= result.progress.env_steps < 33 + 10
        assert result.progress.fraction == 1.0

    def test_both_train_on_without_stepping(self, tmp_path: Path) -> None:
        _, result = train(tmp_path / "run", num_iterations=8, num_env_steps=33)
        assert result.progress.iterations == 8
        assert 33 <= result.progress.env_steps < 33 + 10

    def test_too_few_iterations_for_the_steps_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="num_iterations=2 take 20 environment steps, fewer than num_env_steps=33"):
            make(tmp_path / "run", num_iterations=2, num_env_steps=33)

    def test_schedules_follow_the_progress(self, tmp_path: Path) -> None:
        rates = []

        class Watch(Recorder):
            def on_iteration(self, progress: Any) -> None:
                rates.append(optimizer.param_groups[0]["lr"])

        scheduler = LinearScheduler("percent", ((0.0, 1.0), (1.0, 0.0)))
        trainer = make(
            tmp_path / "run",
            [Watch()],
            partial(ActorCriticAlgorithm, optimizer=Adam(lr=scheduler)),
            num_iterations=4,
        )
        optimizer = trainer.algorithm.optimizers()[0]
        trainer.train()
        assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])

    def test_a_run_can_be_extended(self, tmp_path: Path) -> None:
        trainer, _ = train(tmp_path / "run", num_iterations=0, num_env_steps=20)
        trainer = make(tmp_path / "run", num_iterations=0, num_env_steps=20)
        trainer.extend(50)
        assert trainer.run.progress < 1
        assert trainer.train().progress.env_steps >= 50

    def test_a_finished_run_does_nothing_more(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=3)
        seen = Recorder()
        _, result = train(tmp_path / "run", [seen], num_iterations=3)
        assert seen.iterations == []
        assert result.progress.iterations == 3
        assert RunDirectory(tmp_path / "run").record()["status"] == "finished"

    def test_numbers(self) -> None:
        budget = Budget(TrainerConfig("", num_iterations=0, num_env_steps=100, unroll_length=3), 4)
        assert budget.expected_iterations == 9
        assert budget.progress(0, 50) == 0.5
        assert budget.progress(0, 500) == 1.0
        assert [i for i in range(1, 11) if Every(None, 3, 10).is_due(i)] == [3, 6, 9]
        assert [i for i in range(1, 11) if Every(4, None, 10).is_due(i)] == [4, 8]
        assert Every(4, 100, 10).interval == 1


class TestEvaluation:
    def test_it_does_not_disturb_training(self, tmp_path: Path) -> None:
        algorithm = partial(PPOAlgorithm, loss_class=PPOLoss, optimizer=Adam(lr=1e-2), epsilon_greedy=0.5)
        settings = dict(num_iterations=5, unroll_length=6, mini_batch_length=3, mini_batch_size=2)
        without, _ = train(tmp_path / "without", (), algorithm, **settings)
        seen = Recorder()
        with_it, _ = train(tmp_path / "with", [seen], algorithm, evaluate=True, eval_interval=1, **settings)
        assert len(seen.evaluations) == 5
        for a, b in zip(without.algorithm.parameters(), with_it.algorithm.parameters(), strict=True):
            assert torch.equal(a, b)
        assert without.algorithm.metrics.result() == with_it.algorithm.metrics.result()

    def test_when_and_how_much(self, tmp_path: Path) -> None:
        seen = Recorder()
        settings = dict(evaluate=True, eval_interval=3, num_eval_episodes=5, num_eval_environments=2)
        _, result = train(tmp_path / "run", [seen], num_iterations=7, **settings)
        assert [p.iterations for p, _ in seen.evaluations] == [3, 6, 7]
        assert all(len(r.returns) == 5 for _, r in seen.evaluations)
        assert result.evaluation.returns.tolist() == [4.0] * 5
        records = RunDirectory(tmp_path / "run").read_evaluations()
        assert [r["iterations"] for r in records] == [3, 6, 7]
        assert records[0]["mean_return"] == 4.0
        series = read_scalars(tmp_path / "run" / "summaries")["Evaluation/AverageReturn"]
        assert series.value.tolist() == [4.0] * 3
        assert series.step.tolist() == [3, 6, 7]

    def test_a_number_of_evaluations(self, tmp_path: Path) -> None:
        seen = Recorder()
        train(tmp_path / "run", [seen], num_iterations=8, evaluate=True, num_evals=2, num_eval_episodes=1)
        assert [p.iterations for p, _ in seen.evaluations] == [4, 8]

    def test_none_unless_asked_for(self, tmp_path: Path) -> None:
        _, result = train(tmp_path / "run", num_iterations=2, num_evals=2)
        assert result.evaluation is None
        assert not (tmp_path / "run" / "evaluations.jsonl").exists()


class TestSummaries:
    def steps(self, path: Path, name: str = "ActorCriticAlgorithm/loss") -> list[int]:
        steps: list[int] = read_scalars(path / "summaries")[name].step.tolist()
        return steps

    def test_every_interval_and_all_of_the_first(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=10, summary_interval=4)
        assert self.steps(tmp_path / "run") == [0, 1, 2, 3, 4, 8, 9]

    def test_without_the_first_interval(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=10, summary_interval=4, summarize_first_interval=False)
        assert self.steps(tmp_path / "run") == [0, 4, 8, 9]

    def test_a_number_of_summaries(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=10, num_summaries=2, summarize_first_interval=False)
        assert self.steps(tmp_path / "run") == [0, 5, 9]

    def test_curves_end_where_the_run_does(self, tmp_path: Path) -> None:
        trainer, _ = train(tmp_path / "run", num_iterations=0, num_env_steps=50, num_summaries=2, evaluate=True)
        for name in ("Metrics/AverageReturn", "ActorCriticAlgorithm/loss", "Evaluation/AverageReturn"):
            assert read_curve(trainer.directory, name).x[-1] == trainer.run.env_steps, name

    def test_curves_of_a_stopped_run_end_where_it_was_stopped(self, tmp_path: Path) -> None:
        def stop(progress: Any) -> None:
            if progress.iterations == 7:
                signal.raise_signal(signal.SIGINT)

        trainer, _ = train(tmp_path / "run", [Acts(stop)], num_iterations=20, summary_interval=5)
        assert trainer.run.iterations == 7
        assert read_curve(trainer.directory, "Metrics/AverageReturn").x[-1] == trainer.run.env_steps

    def test_a_run_notes_warnings_and_where_its_time_goes(self, tmp_path: Path) -> None:
        def warn(progress: Any) -> None:
            logging.getLogger("rein.test").warning("iteration %d\nis odd", progress.iterations)

        trainer, _ = train(tmp_path / "run", [Acts(warn)], num_iterations=2)
        lines = trainer.directory.log.read_text().splitlines()
        assert lines[0].endswith("WARNING rein.test: iteration 1")
        assert lines[1] == "  is odd"
        assert len(lines) == 4
        timing = json.loads(trainer.directory.timing.read_text())
        assert timing["sections"]["learn"]["calls"] == 2
        assert 0 < timing["sections"]["learn"]["seconds"] < timing["seconds"]

    def test_the_traceback_of_a_failure_is_kept(self, tmp_path: Path) -> None:
        def fail(progress: Any) -> None:
            raise RuntimeError("of one's own")

        with pytest.raises(RuntimeError, match="of one's own"):
            train(tmp_path / "run", [Acts(fail)], num_iterations=2)
        text = (tmp_path / "run" / "log.txt").read_text()
        assert "ERROR training failed" in text
        assert "RuntimeError: of one's own" in text

    def test_counting_minibatches(self, tmp_path: Path) -> None:
        algorithm = partial(PPOAlgorithm, loss_class=PPOLoss, optimizer=Adam(lr=1e-2))
        settings = dict(unroll_length=6, mini_batch_length=3, mini_batch_size=2, num_updates_per_train_iter=2)
        trainer, _ = train(
            tmp_path / "run",
            (),
            algorithm,
            num_iterations=2,
            summary_interval=1,
            update_counter_every_mini_batch=True,
            **settings,
        )
        assert trainer.run.global_counter == 2 * 2 * 2
        assert self.steps(tmp_path / "run") == list(range(8))

    def test_metrics_of_episodes_are_written(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=4, summary_interval=1)
        series = read_scalars(tmp_path / "run" / "summaries")
        assert series["Metrics/AverageReturn"].value[-1] == 4.0
        assert series["Metrics/AverageEpisodeLength"].value[-1] == 4.0


class NanAfter(ActorCriticAlgorithm):
    """Its loss is NaN from the fourth update on."""

    updates = 0

    def calc_loss(self, info: Any) -> LossInfo:
        self.updates += 1
        loss = super().calc_loss(info)
        return loss._replace(loss=loss.loss * float("nan")) if self.updates > 3 else loss


class TestEnds:
    def test_nan_leaves_the_last_checkpoint_and_good_parameters(self, tmp_path: Path) -> None:
        trainer = make(
            tmp_path / "run", (), partial(NanAfter, optimizer=Adam(lr=1e-2)), num_iterations=10, num_checkpoints=5
        )
        with pytest.raises(NonFiniteLossError, match="Lower the learning rate"):
            trainer.train()
        assert Checkpointer(tmp_path / "run" / "checkpoints").latest_step() == 2
        assert all(torch.isfinite(p).all() for p in trainer.algorithm.parameters())
        record = RunDirectory(tmp_path / "run").record()
        assert record["status"] == "failed"
        assert "NonFiniteLossError" in record["error"]
        resumed, result = train(tmp_path / "run", num_iterations=10, num_checkpoints=5)
        assert result.progress.iterations == 10
        assert RunDirectory(tmp_path / "run").record()["status"] == "finished"
        assert "error" not in RunDirectory(tmp_path / "run").record()
        assert resumed.run.iterations == 10

    def test_nothing_is_saved_upon_a_crash_unless_confirmed(self, tmp_path: Path) -> None:
        for name, confirm in (("ask", True), ("save", False)):
            trainer = make(
                tmp_path / name,
                (),
                partial(NanAfter, optimizer=Adam(lr=1e-2)),
                num_iterations=10,
                confirm_checkpoint_upon_crash=confirm,
            )
            with pytest.raises(NonFiniteLossError):
                trainer.train()
        assert not (tmp_path / "ask" / "crash").exists()
        crash = Checkpointer(tmp_path / "save" / "crash")
        assert crash.latest_step() == 3
        assert "_actor_network.projections.0.logits.weight" in str(list(crash.load().components["alg"]))

    def test_checkpoints_are_spread_over_the_run_and_only_so_many_kept(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=9, num_checkpoints=3)
        assert Checkpointer(tmp_path / "run" / "checkpoints").steps() == [3, 6, 9]

    def test_an_interrupt_stops_after_the_iteration(self, tmp_path: Path) -> None:
        class Interrupt(Recorder):
            def on_iteration(self, progress: Any) -> None:
                super().on_iteration(progress)
                if progress.iterations == 2:
                    signal.raise_signal(signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        seen = Interrupt()
        _, result = train(tmp_path / "run", [seen], num_iterations=100)
        assert result.stopped_by == "SIGINT"
        assert len(seen.iterations) == 2
        assert Checkpointer(tmp_path / "run" / "checkpoints").latest_step() == 2
        assert RunDirectory(tmp_path / "run").record()["status"] == "stopped"
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_second_interrupt_does_not_wait(self) -> None:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.is_set
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    def test_training_in_a_thread_leaves_signals_alone(self, tmp_path: Path) -> None:
        results: list[Any] = []
        trainer = make(tmp_path / "run", num_iterations=2)
        thread = threading.Thread(target=lambda: results.append(trainer.train()))
        thread.start()
        thread.join(60)
        assert results[0].progress.iterations == 2


class TestDirectory:
    def test_another_run_is_not_written_over(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=1)
        before = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "run").rglob("*"))
        with pytest.raises(RunDirectoryError, match="holds another run: give another directory, or continue"):
            RunDirectory.create(tmp_path / "run")
        assert before == sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "run").rglob("*"))

    def test_other_files_are_not_mixed_with(self, tmp_path: Path) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.tex").write_text("years of work")
        with pytest.raises(RunDirectoryError, match="exists and is not empty"):
            RunDirectory.create(tmp_path / "full")
        (tmp_path / "file").write_text("x")
        with pytest.raises(RunDirectoryError, match="exists and is not empty"):
            RunDirectory.create(tmp_path / "file")
        with pytest.raises(RunDirectoryError, match=r"has no run\.json"):
            RunDirectory.open(tmp_path / "full")

    def test_the_record_says_what_happened(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=3, conf_file="here.py")
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        assert record["status"] == "finished"
        assert record["iterations"] == 3
        assert record["env_steps"] > 0
        assert record["conf_file"] == "here.py"

    def test_a_torn_line_of_evaluations_is_skipped(self, tmp_path: Path) -> None:
        directory = RunDirectory.create(tmp_path / "run")
        directory.add_evaluation({"iterations": 1})
        directory.add_evaluation({"iterations": 5})
        with directory.evaluations.open("a") as file:
            file.write('{"iterations": 9, "ret')
        assert [r["iterations"] for r in directory.read_evaluations()] == [1, 5]
        directory.forget_evaluations_after(1)
        assert [r["iterations"] for r in directory.read_evaluations()] == [1]


class TestOptions:
    def test_profiling_leaves_a_profile(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=2, profiling=True)
        assert "train_iter" in (tmp_path / "run" / "py_train.INFO").read_text()

    def test_code_snapshots_are_kept(self, tmp_path: Path) -> None:
        train(tmp_path / "run", num_iterations=1, code_snapshots=["algorithms/on_policy/ppo.py"])
        kept = (tmp_path / "run" / "code" / "algorithms" / "on_policy" / "ppo.py").read_text()
        assert "class PPOAlgorithm" in kept
        with pytest.raises(ValueError, match=r"code_snapshots.*nowhere\.py"):
            make(tmp_path / "other", code_snapshots=["nowhere.py"])

    def test_an_optimizer_given_in_code_does_not_spoil_the_end(self, tmp_path: Path) -> None:
        """Its text changes when it gets its parameters, so that the configuration seems to have changed."""
        config("ActorCriticAlgorithm", optimizer=Adam(lr=1e-2))
        trainer = make(tmp_path / "run", (), ActorCriticAlgorithm, num_iterations=2)
        save_config(trainer.directory.config)
        assert trainer.train().progress.iterations == 2

    def test_supervised_learning_is_not_the_trainers_business(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="ml_type"):
            make(tmp_path / "run", ml_type="sl")

    def test_without_an_algorithm(self, tmp_path: Path) -> None:
        directory = RunDirectory.create(tmp_path / "run")
        with pytest.raises(ValueError, match="algorithm_ctor is not set"):
            Trainer(TrainerConfig(str(tmp_path / "run")), directory, tensorboard=False)

    def test_network_outputs_can_be_summarized(self, tmp_path: Path) -> None:
        plain, _ = train(tmp_path / "plain", num_iterations=2)
        loud, _ = train(tmp_path / "loud", num_iterations=2, summarize_output=True, summary_interval=1)
        names = set(read_scalars(tmp_path / "loud" / "summaries"))
        assert any("output" in name and "_value_network" in name for name in names), names
        for a, b in zip(plain.algorithm.parameters(), loud.algorithm.parameters(), strict=True):
            assert torch.equal(a, b)
