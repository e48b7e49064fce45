"""Live displays of a run: a progress bar on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from rein.runtime.writers import MultiWriter, SummaryWriter
from rein.training.evaluation import EvaluationResult
from rein.training.notebook import LiveOutput, in_notebook
from rein.training.progress import Progress
from rein.training.supervised import SupervisedEvaluation, SupervisedTrainer
from rein.training.trainer import Trainer

if TYPE_CHECKING:
    from rich.console import Console

_RETURN = "AverageReturn"
_MOST_LOSSES = 4


class LatestLosses(SummaryWriter):
    """Keeps the last value of each loss that is summarized."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def scalar(self, name: str, value: float, step: int) -> None:
        """Takes the value if the name is that of a loss.

        Args:
            name: full name.
            value: the number.
            step: global counter.
        """
        parts = name.lower().split("/")
        if "loss" in parts[-1] or "loss" in parts[0]:
            self.values[name.rpartition("/")[2].removeprefix("loss.").removeprefix("extra.")] = value


class PlainDisplay:
    """A line every few seconds."""

    def __init__(self, file: IO[str], losses: LatestLosses, interval: float = 5.0) -> None:
        """Makes the display.

        Args:
            file: where lines go.
            losses: shown with each line.
            interval: seconds between two lines.
        """
        self._file = file
        self._losses = losses
        self._interval = interval
        self._printed_at = -np.inf
        self._pace = _Pace()

    def on_iteration(self, progress: Progress) -> None:
        """Prints a line if the last one is old, or the run is over."""
        self._pace.see(progress)
        now = time.monotonic()
        if now - self._printed_at < self._interval and progress.fraction < 1.0:
            return
        self._printed_at = now
        parts = [
            f"{progress.fraction:4.0%}",
            f"{_counted(progress):>15}",
            _result_text(progress),
            self._pace.text,
            f"eta {_duration(self._pace.seconds_left(progress))}",
            _losses_text(self._losses),
        ]
        print("  ".join(part for part in parts if part), file=self._file, flush=True)

    def on_evaluation(self, progress: Progress, result: EvaluationResult | SupervisedEvaluation) -> None:
        """Prints the result."""
        print(_evaluation_text(progress, result), file=self._file, flush=True)

    def on_early_stop(self, reason: str) -> None:
        """Prints why a callback has ended the run."""
        print(f"stopped early: {reason}", file=self._file, flush=True)


class RichDisplay:
    """A progress bar that shows what the run is doing."""

    def __init__(self, progress_bar: Any, task: Any, console: "Console", losses: LatestLosses) -> None:
        """Makes the display; `open_display` does this.

        Args:
            progress_bar: of rich.
            task: of the bar.
            console: for lines above the bar.
            losses: shown with the bar.
        """
        self._bar, self._task, self._console, self._losses = progress_bar, task, console, losses
        self._pace = _Pace()
        self._refreshed_at = -np.inf

    def on_iteration(self, progress: Progress) -> None:
        """Moves the bar."""
        self._pace.see(progress)
        now = time.monotonic()
        if now - self._refreshed_at < 0.1 and progress.fraction < 1.0:
            return
        self._refreshed_at = now
        fields = {
            "steps": _counted(progress),
            "result": _result_text(progress),
            "pace": self._pace.text,
            "eta": f"eta {_duration(self._pace.seconds_left(progress))}",
        }
        used = _bar_width(self._console) + len(" 100%") + sum(len(text) + 1 for text in fields.values()) + 1
        losses = _losses_text(self._losses, self._console.width - used)
        self._bar.update(self._task, completed=progress.fraction, losses=losses, **fields)

    def on_evaluation(self, progress: Progress, result: EvaluationResult | SupervisedEvaluation) -> None:
        """Prints the result above the bar."""
        self._console.print(_evaluation_text(progress, result), highlight=False)

    def on_early_stop(self, reason: str) -> None:
        """Prints why a callback has ended the run."""
        self._console.print(f"stopped early: {reason}", highlight=False, markup=False)

    def close(self) -> None:
        """Leaves the bar as it is, so that what follows is printed below it."""
        self._bar.stop()


class NotebookDisplay:
    """One output of a cell that is brought up to date; nothing else is printed."""

    def __init__(self, losses: LatestLosses, interval: float = 0.5) -> None:
        """Makes the display.

        Args:
            losses: shown with the progress.
            interval: seconds between two changes.
        """
        self._output = LiveOutput()
        self._losses, self._interval = losses, interval
        self._pace = _Pace()
        self._shown_at = -np.inf

    def on_iteration(self, progress: Progress) -> None:
        """Moves the bar."""
        self._pace.see(progress)
        now = time.monotonic()
        if now - self._shown_at < self._interval and progress.fraction < 1.0:
            return
        self._shown_at = now
        left = f"eta {_duration(self._pace.seconds_left(progress))}"
        parts = [_counted(progress), _result_text(progress), self._pace.text, left, _losses_text(self._losses)]
        self._output.show(progress.fraction, "  ".join(part for part in parts if part))

    def on_evaluation(self, progress: Progress, result: EvaluationResult | SupervisedEvaluation) -> None:
        """Adds the result."""
        self._output.add_line(_evaluation_text(progress, result))

    def on_early_stop(self, reason: str) -> None:
        """Says why a callback has ended the run."""
        self._output.add_line(f"stopped early: {reason}")


@contextmanager
def open_display(
    trainer: Trainer | SupervisedTrainer, file: IO[str] | None = None, plain: bool | None = None
) -> Iterator["PlainDisplay | RichDisplay | NotebookDisplay"]:
    """Shows the training of `trainer` while the block lasts.

    Args:
        trainer: its losses are shown too.
        file: where to; stdout by default.
        plain: lines instead of a bar; None chooses by whether `file` is a terminal or a notebook.
    """
    from rich.console import Console

    stream = sys.stdout if file is None else file
    console = Console(file=stream)
    is_notebook = plain is None and file is None and in_notebook()
    if plain is None:
        plain = not console.is_terminal
    losses = LatestLosses()
    with ExitStack() as stack:
        display: PlainDisplay | RichDisplay | NotebookDisplay
        if is_notebook:
            display = NotebookDisplay(losses)
        elif plain:
            display = PlainDisplay(stream, losses)
        else:
            display = _rich_display(stack, console, losses)
        trainer.observers.append(display)
        stack.callback(trainer.observers.remove, display)
        writer = trainer.run.writer
        if writer is not None:
            trainer.run.writer = MultiWriter([writer, losses])
            stack.callback(setattr, trainer.run, "writer", writer)
        yield display


def _rich_display(stack: ExitStack, console: "Console", losses: LatestLosses) -> RichDisplay:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as ProgressBar

    columns = (
        BarColumn(bar_width=_bar_width(console)),
        TaskProgressColumn(),
        TextColumn("{task.fields[steps]}"),
        TextColumn("[bold]{task.fields[result]}"),
        TextColumn("{task.fields[pace]}"),
        TextColumn("{task.fields[eta]}"),
        TextColumn("[dim]{task.fields[losses]}"),
    )
    bar = stack.enter_context(ProgressBar(*columns, console=console, refresh_per_second=8))
    task = bar.add_task("", total=1.0, steps="", result="", pace="", eta="", losses="")
    return RichDisplay(bar, task, console, losses)


class _Pace:
    """How fast a run goes, since this display was opened."""

    def __init__(self) -> None:
        self._start: Progress | None = None
        self.steps_per_second = 0.0
        self._unit = "steps"
        self._fraction_per_second = 0.0

    def see(self, progress: Progress) -> None:
        if self._start is None:
            # The first iteration compiles and warms up: it says little about the others.
            self._start = progress
            self._unit = "steps" if progress.env_steps else "iterations"
            self.steps_per_second = self._count(progress) / max(progress.seconds, 1e-9)
            self._fraction_per_second = progress.fraction / max(progress.seconds, 1e-9)
            return
        seconds = max(progress.seconds - self._start.seconds, 1e-9)
        self.steps_per_second = (self._count(progress) - self._count(self._start)) / seconds
        self._fraction_per_second = (progress.fraction - self._start.fraction) / seconds

    def _count(self, progress: Progress) -> int:
        return progress.env_steps if self._unit == "steps" else progress.iterations

    @property
    def text(self) -> str:
        """The pace in words."""
        digits = 0 if self.steps_per_second >= 10 else 1
        return f"{self.steps_per_second:,.{digits}f} {self._unit}/s"

    def seconds_left(self, progress: Progress) -> float:
        return (1.0 - progress.fraction) / self._fraction_per_second if self._fraction_per_second else np.inf


def mean_return(metrics: dict[str, float]) -> float | None:
    """The average return, summed over the dimensions of a vector reward; None before the first episode ended."""
    if _RETURN in metrics:
        return metrics[_RETURN]
    parts = [value for name, value in metrics.items() if name.startswith(f"{_RETURN}/")]
    return sum(parts) if parts else None


def _counted(progress: Progress) -> str:
    """How far a run has come; one without an environment is counted by iterations."""
    return f"{progress.env_steps:,} steps" if progress.env_steps else f"{progress.iterations:,} iterations"


def _result_text(progress: Progress) -> str:
    if "accuracy" in progress.metrics:
        return f"accuracy {progress.metrics['accuracy']:.1%}"
    if "loss" in progress.metrics:
        return f"loss {_number(progress.metrics['loss'])}"
    return f"return {_number(mean_return(progress.metrics))}"


def _evaluation_text(progress: Progress, result: EvaluationResult | SupervisedEvaluation) -> str:
    if isinstance(result, SupervisedEvaluation):
        return f"evaluation after {progress.iterations:,} iterations: {result.headline}"
    low, high = result.confidence_interval()
    return (
        f"evaluation at {progress.env_steps:,} steps: {_number(result.mean)} "
        f"(95% {_number(low)} to {_number(high)}, {len(result.lengths)} episodes)"
    )


def _bar_width(console: "Console") -> int:
    return 24 if console.width >= 110 else 12


def _losses_text(losses: LatestLosses, width: float = np.inf) -> str:
    """The first losses, as many as fit into `width` characters."""
    text = ""
    for name, value in list(losses.values.items())[:_MOST_LOSSES]:
        longer = f"{text} {name} {value:.3g}".strip()
        if len(longer) > width:
            break
        text = longer
    return text


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "?"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
