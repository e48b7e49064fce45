"""The loop around algorithms: training, evaluation, records."""

from rein.training.evaluation import EvaluationResult, evaluate
from rein.training.progress import Progress
from rein.training.run_directory import RunDirectory, RunDirectoryError
from rein.training.trainer import Trainer, TrainingObserver, TrainingResult

__all__ = [
    "EvaluationResult",
    "Progress",
    "RunDirectory",
    "RunDirectoryError",
    "Trainer",
    "TrainingObserver",
    "TrainingResult",
    "evaluate",
]
