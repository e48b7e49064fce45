"""Learners on labelled data in a few lines; made by `rein.make(..., data=...)` and `rein.load`."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from rein.config import Configs, fresh_configs, save_config, use_configs
from rein.ops import disagreement, predictive_entropy
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.run import Run
from rein.training.callbacks import create_callbacks
from rein.training.console import open_display
from rein.training.report import write_report
from rein.training.run_directory import RunDirectory
from rein.training.supervised import (
    SupervisedEvaluation,
    SupervisedResult,
    SupervisedTrainer,
    measure,
)
from rein.training.supervised_runs import load_supervised, resume_supervised_run
from rein.training.supplying import say_what_to_supply

Array = NDArray[np.float32]


class EnsemblePrediction(NamedTuple):
    """What an ensemble says about B examples; N networks."""

    samples: Array
    """[B, N, O] of each network: probabilities of classes, or values."""
    mean: Array
    """[B, O]"""
    uncertainty: Array
    """[B] entropy of the mean probabilities in nats, or for regression [B, O] standard deviation of the values."""
    disagreement: Array
    """[B] variance among the networks, summed over outputs; 0 for a single one."""

    @property
    def label(self) -> NDArray[np.int64]:
        """[B] the class with the greatest mean probability."""
        labels: NDArray[np.int64] = self.mean.argmax(-1)
        return labels


class EnsembleHandle:
    """A learner on labelled data that can be trained, evaluated, asked and saved."""

    def __init__(
        self,
        algorithm: Any,
        directory: RunDirectory,
        configs: Configs,
        trainer: SupervisedTrainer | None,
        random_numbers: AbstractContextManager[None],
        temporary: "TemporaryDirectory[str] | None" = None,
        supply: Mapping[str, Any] | None = None,
    ) -> None:
        self._algorithm = algorithm
        self._directory = directory
        self._configs = configs
        self._trainer = trainer
        self._random_numbers = random_numbers
        self._temporary = temporary
        self._supply = dict(supply or {})

    @classmethod
    def load(
        cls,
        directory: RunDirectory,
        random_numbers: AbstractContextManager[None],
        checkpoint: int | str | None = None,
        supply: Mapping[str, Any] | None = None,
    ) -> "EnsembleHandle":
        """The learner of a run; see `rein.load`."""
        with fresh_configs() as configs:
            algorithm, _ = load_supervised(directory, checkpoint, supply)
        return cls(algorithm, directory, configs, None, random_numbers, supply=supply)

    @property
    def algorithm(self) -> Any:
        """The algorithm, with its networks."""
        return self._algorithm

    @property
    def directory(self) -> Path:
        """Where the records are: summaries, evaluations, checkpoints."""
        return self._directory.path

    def train(self, num_epochs: int, progress: bool = False, *, callbacks: Sequence[Any] = ()) -> SupervisedResult:
        """Trains for so many more passes over the data; schedules run over all passes asked for so far.

        Args:
            num_epochs: on top of those already made.
            progress: show a progress bar.
            callbacks: see this training go on, and may end it; see `AgentHandle.train`.
        """
        if num_epochs < 1:
            raise ValueError(f"num_epochs is {num_epochs}: give at least 1")
        trainer = self._require_trainer()
        with use_configs(self._configs), self._random_numbers:
            trainer.extend(trainer.run.iterations + num_epochs)
            trainer.directory.update(extended_to=trainer.config.num_iterations)
            more = create_callbacks(True, callbacks=callbacks)
            trainer.callbacks.add(more)
            try:
                with open_display(trainer) if progress else nullcontext():
                    return trainer.train()
            finally:
                trainer.callbacks.remove(more)

    def evaluate(self) -> SupervisedEvaluation:
        """Measures on the test data, and how uncertainty finds outliers if there are some."""
        with self._random_numbers, Run(seed=0):
            return measure(self._algorithm, with_uncertainty=self._algorithm.has_outliers)

    def predict(self, examples: ArrayLike, num_samples: int | None = None) -> EnsemblePrediction:
        """What the networks say about examples, with their uncertainty.

        Args:
            examples: [B, ...].
            num_samples: networks to ask, for a generator of networks; None: as many as it trains with.
        """
        inputs = torch.as_tensor(np.asarray(examples)).float().to(torch.get_default_device())
        sizes = {} if num_samples is None else {"num_samples": num_samples}
        with self._random_numbers:
            samples = self._algorithm.sample_outputs(inputs, **sizes)
        spread = disagreement(samples) if samples.shape[1] > 1 else torch.zeros(len(samples))
        if self._algorithm.is_classifier:
            uncertainty = predictive_entropy(samples)
        else:
            uncertainty = samples.std(1, unbiased=samples.shape[1] > 1)
        tensors = samples, samples.mean(1), uncertainty, spread
        return EnsemblePrediction(*(tensor.cpu().numpy() for tensor in tensors))

    def save(self, path: str | Path) -> Path:
        """Saves all that is needed to predict and to train further into a new directory, and returns it."""
        target = RunDirectory.create(path)
        if self._trainer is not None:
            with self._random_numbers:
                self._trainer.save()
        with use_configs(self._configs):
            save_config(target.config)
        newest = self._newest_checkpoint()
        shutil.copytree(newest, target.checkpoints / newest.name)
        for name in ("evaluations.jsonl", "agent.json"):
            if (self.directory / name).exists():
                shutil.copy(self.directory / name, target.path / name)
        if self._directory.summaries.exists():
            shutil.copytree(self._directory.summaries, target.summaries)
        target.adopt({**self._directory.record(), "status": "saved"})
        say_what_to_supply(target, is_data=("data_creator", "data_creator_outlier", "input_tensor_spec"))
        return target.path

    def report(self) -> Path:
        """Writes the report of training so far, one HTML file, and returns its path."""
        return write_report(self._directory)

    def close(self) -> None:
        """Closes the records; predicting still works, training does not."""
        if self._trainer is not None:
            self._trainer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _newest_checkpoint(self) -> Path:
        checkpointer = Checkpointer(self._directory.checkpoints)
        step = checkpointer.latest_step()
        assert step is not None
        return checkpointer.path(step)

    def _require_trainer(self) -> SupervisedTrainer:
        """The trainer; a loaded learner gets one that works on a copy of the directory it was loaded from."""
        if self._trainer is None:
            self._temporary = TemporaryDirectory(prefix="rein-")
            copy = Path(self._temporary.name) / "run"
            shutil.copytree(self.directory, copy)
            self._directory = RunDirectory.open(copy, self._directory.is_trusted)
            with fresh_configs() as self._configs, self._random_numbers:
                self._trainer = resume_supervised_run(self._directory, supply=self._supply)
            self._algorithm = self._trainer.algorithm
        return self._trainer
