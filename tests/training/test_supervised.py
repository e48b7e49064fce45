"""Runs on labelled data: passes, evaluations, exact resume, and the short way from Python."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import rein
from rein.algorithms.particle_vi import FuncParVIAlgorithm, HyperNetwork
from rein.cli import main
from rein.config import config, fresh_configs
from rein.framework import TrainerConfig
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.training.run_directory import RunDirectory
from rein.training.supervised import SupervisedTrainer
from rein.training.supervised_runs import resume_supervised_run, start_supervised_run


def blobs() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    inputs = torch.randn(40, 2, generator=generator) + 3.0 * labels.unsqueeze(1)
    data = TensorDataset(inputs, labels)
    return DataLoader(data, 8, shuffle=True), DataLoader(data, 40)


def outliers() -> tuple[Any, Any]:
    data = TensorDataset(torch.full((10, 2), 40.0), torch.zeros(10, dtype=torch.long))
    return DataLoader(data, 10), DataLoader(data, 10)


@pytest.fixture
def settings() -> Iterator[None]:
    with fresh_configs():
        rate = LinearScheduler("percent", ((0.0, 0.02), (1.0, 0.0)))
        config(
            "HyperNetwork",
            data_creator=blobs,
            data_creator_outlier=outliers,
            output_dim=2,
            noise_dim=3,
            hidden_layers=(4,),
            num_particles=4,
            optimizer=Adam(lr=rate),
        )
        config(
            "TrainerConfig",
            ml_type="sl",
            algorithm_ctor=HyperNetwork,
            num_iterations=5,
            evaluate=True,
            eval_uncertainty=True,
            eval_interval=2,
            summary_interval=1,
            random_seed=3,
        )
        yield


class StopAfter:
    """Interrupts the run in a pass."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations

    def on_iteration(self, progress: Any) -> None:
        if progress.iterations == self._iterations:
            signal.raise_signal(signal.SIGINT)

    def on_evaluation(self, progress: Any, result: Any) -> None:
        pass


def start(path: Path, **arguments: Any) -> SupervisedTrainer:
    return start_supervised_run(RunDirectory.create(path), "blobs", 3, **arguments)


def scalars(path: Path) -> dict[tuple[str, int], float]:
    rows = [json.loads(line) for line in (path / "summaries" / "scalars.jsonl").read_text().splitlines()]
    return {(row["name"], row["step"]): row["value"] for row in rows if "name" in row}


@pytest.mark.usefixtures("settings")
def test_a_run_evaluates_at_its_interval_and_once_at_the_end(tmp_path: Path) -> None:
    trainer = start(tmp_path / "run")
    result = trainer.train()
    trainer.close()
    assert result.progress.iterations == 5
    assert result.progress.fraction == 1.0
    assert 0.0 <= result.progress.metrics["accuracy"] <= 1.0
    evaluations = trainer.directory.read_evaluations()
    assert [one["iterations"] for one in evaluations] == [2, 4, 5]
    assert set(evaluations[-1]["numbers"]) >= {"test_loss", "test_acc", "auroc_entropy", "auroc_variance"}
    assert result.evaluation is not None
    assert result.evaluation.numbers == evaluations[-1]["numbers"]
    record = trainer.directory.record()
    assert (record["status"], record["iterations"], record["ml_type"]) == ("finished", 5, "sl")
    names = {name for name, _ in scalars(tmp_path / "run")}
    assert {"train_epoch/neglogprob", "train_epoch/avg_acc", "eval/test_acc", "eval/auroc_entropy"} <= names


@pytest.mark.usefixtures("settings")
def test_a_run_that_was_stopped_goes_on_exactly(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole")
    whole.train()
    whole.close()
    stopped = start(tmp_path / "stopped", observers=[StopAfter(3)])
    assert stopped.train().stopped_by == "SIGINT"
    assert stopped.directory.record()["status"] == "stopped"
    stopped.close()
    resumed = SupervisedTrainer(TrainerConfig(root_dir=""), RunDirectory.open(tmp_path / "stopped"))
    assert resumed.run.iterations == 3
    resumed.train()
    resumed.close()
    for name, value in whole.algorithm.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, resumed.algorithm.state_dict()[name]), name
    assert scalars(tmp_path / "whole") == scalars(tmp_path / "stopped")
    numbers = [
        [one["numbers"] for one in RunDirectory.open(tmp_path / name).read_evaluations()]
        for name in ("whole", "stopped")
    ]
    assert numbers[0] == numbers[1]


@pytest.mark.usefixtures("settings")
def test_a_finished_run_trains_no_more_unless_it_is_extended(tmp_path: Path) -> None:
    trainer = start(tmp_path / "run")
    trainer.train()
    before = [p.detach().clone() for p in trainer.algorithm.parameters()]
    trainer.close()
    again = SupervisedTrainer(TrainerConfig(root_dir=""), RunDirectory.open(tmp_path / "run"))
    assert again.train().progress.iterations == 5
    assert all(torch.equal(a, b) for a, b in zip(before, again.algorithm.parameters(), strict=True))
    again.extend(6)
    assert again.run.progress == pytest.approx(5 / 6)
    assert again.train().progress.iterations == 6
    again.close()


@pytest.mark.usefixtures("settings")
def test_evaluations_do_not_change_the_training(tmp_path: Path) -> None:
    first = start(tmp_path / "with")
    first.train()
    first.close()
    config("TrainerConfig", evaluate=False, eval_uncertainty=False, raise_if_used=False, replace=True)
    second = start(tmp_path / "without")
    second.train()
    second.close()
    assert not second.directory.read_evaluations()
    pairs = zip(first.algorithm.parameters(), second.algorithm.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.usefixtures("settings")
def test_schedules_see_the_share_of_passes(tmp_path: Path) -> None:
    trainer = start(tmp_path / "run")
    trainer.train()
    trainer.close()
    with trainer.run:
        assert trainer.algorithm.default_optimizer.learning_rates() == [0.0]


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ml_type": "rl", "eval_uncertainty": False}, 'ml_type="sl"'),
        ({"num_iterations": 0, "num_env_steps": 100}, "set TrainerConfig.num_iterations"),
        ({"algorithm_ctor": None}, "algorithm_ctor is not set"),
        ({"algorithm_ctor": rein.algorithms.particle_vi.ParVIAlgorithm}, "argument 'config'"),
    ],
)
def test_unfit_settings_are_refused_and_leave_nothing(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    config("TrainerConfig", **values, replace=True)
    with pytest.raises((ValueError, TypeError), match=message):
        start(tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.usefixtures("settings")
def test_uncertainty_without_outliers_is_refused_before_the_first_pass(tmp_path: Path) -> None:
    config("HyperNetwork", data_creator_outlier=None, replace=True)
    with pytest.raises(ValueError, match="eval_uncertainty needs outlier data: give data_creator_outlier"):
        start(tmp_path / "run")


def test_examples_without_labels_are_refused() -> None:
    with pytest.raises(TypeError, match="data is ndarray: give arrays"):
        rein.make("hypernetwork", data=points()[0])


def points(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(200, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def test_a_classifier_in_a_few_lines(tmp_path: Path) -> None:
    x, y = points()
    with rein.make(
        "hypernetwork", data=(x, y), outliers=(x + 30.0, y), seed=1, settings={"HyperNetwork.noise_dim": 4}
    ) as learner:
        result = learner.train(8)
        assert result.progress.iterations == 8
        assert learner.evaluate().numbers["test_acc"] > 0.8
        assert "auroc_entropy" in learner.evaluate().numbers
        prediction = learner.predict(x[:5], num_samples=30)
        assert prediction.samples.shape == (5, 30, 2)
        np.testing.assert_allclose(prediction.mean, prediction.samples.mean(1), rtol=1e-5)
        assert prediction.uncertainty.shape == prediction.disagreement.shape == prediction.label.shape == (5,)
        learner.save(tmp_path / "saved")
        assert learner.report().exists()
    alone = rein.load(tmp_path / "saved")
    assert alone.predict(x[:5]).samples.shape == (5, 10, 2)
    with pytest.raises(ValueError, match="there is no test data"):
        alone.evaluate()
    again = rein.load(tmp_path / "saved", data=(x, y))
    assert again.evaluate().numbers["test_acc"] > 0.8
    assert again.train(2).progress.iterations == 10


def test_a_regression_in_a_few_lines_has_deviations() -> None:
    x, _ = points()
    y = (x @ np.array([[1.0], [2.0], [-1.0]])).astype(np.float32)
    learner = rein.make("func_par_vi", data=(x, y), settings={"FuncParVIAlgorithm.num_particles": 5})
    learner.train(40)
    prediction = learner.predict(x[:7])
    assert prediction.samples.shape == (7, 5, 1)
    assert prediction.uncertainty.shape == (7, 1)
    assert np.abs(prediction.mean - y[:7]).mean() < 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "hypernetwork"}, "needs data"),
        ({"algorithm": "hypernetwork", "env": "CartPole-v1"}, "give data=... instead of env"),
        ({"algorithm": "ppo", "data": points()}, "give their paths"),
        ({"algorithm": "hypernetwork", "data": (points()[0], points()[1][:5])}, "200 examples and 5 labels"),
        ({"algorithm": "hypernetwork", "data": (points()[0][:0], points()[1][:0])}, "give at least one"),
        ({"algorithm": "hypernetwork", "data": (points()[0], points()[1] - 1)}, "a label is -1: count classes from 0"),
        ({"algorithm": "hypernetwork", "data": (points()[0], points()[1].astype(str))}, "labels are of type <U21"),
        ({"algorithm": "hypernetwork", "data": TensorDataset(torch.zeros(9, 2))}, "has no labels"),
    ],
)
def test_unfit_data_is_refused_with_the_fix(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rein.make(**arguments)


def test_data_sets_and_pairs_of_arrays_say_how_many_classes_there_are() -> None:
    x, y = points()
    dataset = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    for data in (dataset, (dataset, dataset), DataLoader(dataset, 50), ((x, y), (x[:9], y[:9]))):
        learner = rein.make("hypernetwork", data=data, outliers=x + 30.0, seed=0)
        learner.train(1)
        assert learner.predict(x[:3]).samples.shape == (3, 10, 2)
        assert 0.0 <= learner.evaluate().numbers["auroc_entropy"] <= 1.0


def test_data_of_another_form_is_refused() -> None:
    with pytest.raises(TypeError, match="give arrays"):
        rein.make("hypernetwork", data=3)


def test_digits_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    run = str(tmp_path / "run")
    small = ["HyperNetwork.hidden_layers=(8,)", "HyperNetwork.fc_layer_params=(16,)", "TrainerConfig.num_iterations=2"]
    assert main(["train", "hypernetwork_digits_outliers", *small, "--dir", run, "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["iterations"] == 2
    assert "test_acc" in trained["evaluation"]
    assert main(["evaluate", run, "--json"]) == 0
    assert 0.0 <= json.loads(capsys.readouterr().out)["auroc_entropy"] <= 1.0
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Calibration" in report
    assert "Outliers found" in report
    assert main(["resume", run]) != 0
    assert main(["resume", run, "--epochs", "3", "--json"]) == 0
    assert main(["train", "--algorithm", "hypernetwork", "--env", "CartPole-v1"]) != 0


@pytest.mark.parametrize("name", ["hypernetwork", "func_par_vi"])
def test_digits_by_their_name(name: str) -> None:
    pytest.importorskip("sklearn")
    with rein.make(name, data="digits", seed=0) as learner:
        learner.train(1)
        assert "accuracy" in learner.evaluate().headline
        assert learner.predict(np.zeros((3, 64), np.float32)).mean.shape == (3, 10)


def test_the_algorithms_are_named_in_the_zoo() -> None:
    assert FuncParVIAlgorithm.__name__ == rein.zoo.find_algorithm("func_par_vi").algorithm
    assert rein.zoo.find_task("hypernetwork_digits").is_supervised


def test_a_run_started_from_settings_is_resumed_from_its_directory(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    overrides = {"TrainerConfig.num_iterations": 1, "HyperNetwork.fc_layer_params": (8,)}
    rein.make("hypernetwork_digits", settings=overrides, directory=tmp_path / "run").train(1)
    with fresh_configs():
        trainer = resume_supervised_run(RunDirectory.open(tmp_path / "run"), 2)
        assert trainer.train().progress.iterations == 2
        trainer.close()
