"""What `train`, `resume` and `demo` share: a device, a display, an end."""

import argparse
import sys
from typing import Any, overload

from rein.cli.command import Outcome, Session
from rein.training.console import open_display
from rein.training.report import write_report
from rein.training.signals import exit_code, leaving_in_time
from rein.training.supervised import SupervisedResult, SupervisedTrainer
from rein.training.trainer import Trainer, TrainingResult


def use_machine(arguments: argparse.Namespace) -> None:
    """Applies --device and --threads to this process."""
    import torch

    from rein.runtime import set_default_device, set_torch_threads

    if arguments.threads == "auto":
        torch.set_num_threads(1)  # Acting needs no more, and a training chooses for itself.
    else:
        set_torch_threads(arguments.threads)
    if arguments.device is not None:
        set_default_device(arguments.device)


@overload
def train_to_end(
    trainer: Trainer, session: Session, plain: bool | None = None, fail_on_save_error: bool = False
) -> TrainingResult: ...
@overload
def train_to_end(
    trainer: SupervisedTrainer, session: Session, plain: bool | None = None, fail_on_save_error: bool = False
) -> SupervisedResult: ...
def train_to_end(
    trainer: Trainer | SupervisedTrainer,
    session: Session,
    plain: bool | None = None,
    fail_on_save_error: bool = False,
) -> TrainingResult | SupervisedResult:
    """Trains with a display and writes the report.

    Args:
        trainer: ready to go.
        session: of the command.
        plain: lines instead of a bar; None chooses by the terminal.
        fail_on_save_error: stop when a checkpoint cannot be written.
    """
    session.start_working()
    if fail_on_save_error:
        trainer.saving.fail = True
    with leaving_in_time(lambda: trainer.directory.note(status="stopped")):
        try:
            with open_display(trainer, session.stream, plain):
                result = trainer.train()
        finally:
            trainer.close()
    try:
        write_report(trainer.directory)
    except OSError as error:  # A full disk, say; what was trained is safe.
        print(f"rein: the report was not written: {error}", file=sys.stderr)
    return result


def training_outcome(trainer: Trainer, result: TrainingResult) -> Outcome:
    """What to say about a training that has ended."""
    progress, path = result.progress, trainer.directory.path
    data: dict[str, Any] = {
        "directory": str(path),
        "status": "finished" if progress.fraction >= 1.0 else "stopped",
        "stopped_by": result.stopped_by,
        "stop_reason": result.stop_reason,
        "env_steps": progress.env_steps,
        "iterations": progress.iterations,
        "seconds": round(progress.seconds, 3),
        "metrics": progress.metrics,
        "evaluation": None if result.evaluation is None else result.evaluation.to_json(),
        "report": str(trainer.directory.report),
    }
    done = f"{progress.env_steps:,} environment steps"
    if trainer.algorithm.has_offline and trainer.env is None:
        data["updates"] = trainer.num_updates
        done = f"{data['updates']:,} updates from data"
    lines = [f"{done} in {progress.seconds:.1f} s"]
    if result.stop_reason is not None:
        lines.append(f"ended early; go on with: rein resume {path}")
    if result.evaluation is not None:
        low, high = result.evaluation.confidence_interval()
        lines.append(f"last evaluation: {result.evaluation.mean:.2f} (95% {low:.2f} to {high:.2f})")
    lines.append(f"report: {trainer.directory.report}")
    if result.stopped_by is not None:
        lines.append(f"stopped by {result.stopped_by} and saved; go on with: rein resume {path}")
    else:
        lines.append(f"next: rein evaluate {path}; rein play {path}; rein plot {path}")
    return Outcome(data, "\n".join(lines), exit_code(result.stopped_by))


def supervised_outcome(trainer: SupervisedTrainer, result: SupervisedResult) -> Outcome:
    """What to say about a training on labelled data that has ended."""
    progress, path = result.progress, trainer.directory.path
    data: dict[str, Any] = {
        "directory": str(path),
        "status": "finished" if progress.fraction >= 1.0 else "stopped",
        "stopped_by": result.stopped_by,
        "stop_reason": result.stop_reason,
        "iterations": progress.iterations,
        "seconds": round(progress.seconds, 3),
        "metrics": progress.metrics,
        "evaluation": None if result.evaluation is None else result.evaluation.numbers,
        "report": str(trainer.directory.report),
    }
    lines = [f"{progress.iterations:,} passes over the data in {progress.seconds:.1f} s"]
    if result.stop_reason is not None:
        lines.append(f"ended early; go on with: rein resume {path}")
    if result.evaluation is not None:
        lines.append(f"last evaluation: {result.evaluation.headline}")
    lines.append(f"report: {trainer.directory.report}")
    if result.stopped_by is not None:
        lines.append(f"stopped by {result.stopped_by} and saved; go on with: rein resume {path}")
    else:
        lines.append(f"next: rein evaluate {path}")
    return Outcome(data, "\n".join(lines), exit_code(result.stopped_by))
