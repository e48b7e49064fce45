"""Weights & Biases: an account there, or with `mode="offline"` files that `wandb sync` sends later."""

import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rein.runtime.writers import SummaryWriter

STEP = "rein/step"
_ID_FILE = "wandb.id"


class WandbWriter(SummaryWriter):
    """Logs scalars, histograms and pictures to a run of Weights & Biases, drawn over the global counter."""

    def __init__(
        self,
        project: str = "rein",
        mode: str | None = None,
        *,
        directory: str | os.PathLike[str],
        facts: Mapping[str, Any],
        name: str | None = None,
        group: str | None = None,
        entity: str | None = None,
    ) -> None:
        """Begins a run there, or goes on with the one that this directory has begun.

        Args:
            project: where it is listed.
            mode: "online", "offline" or "disabled"; None is what the environment variable WANDB_MODE says, or "online".
            directory: of the summaries.
            facts: of the run: its settings, seed and folder.
            name: of the run; None is that of its folder.
            group: of several runs, such as those of one task.
            entity: account or team; None is the default one.
        """
        try:
            import wandb
        except ImportError as error:
            raise ImportError("the sink wandb needs the package wandb: pip install 'rein-rl[wandb]'") from error
        self._wandb = wandb
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / _ID_FILE
        if not known.exists():
            known.write_text(uuid.uuid4().hex[:8])
        self._run: Any = wandb.init(
            project=project,
            entity=entity,
            name=name or str(facts.get("name", "run")),
            group=group,
            id=known.read_text().strip(),
            resume="allow",
            mode=mode,
            dir=str(folder),
            config=dict(facts),
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)
        self._waiting: dict[str, Any] = {}
        self._step = -1

    def _add(self, name: str, value: Any, step: int) -> None:
        """Keeps a value until those of another step come: they are logged together."""
        if step != self._step:
            self._log()
        self._step = step
        self._waiting[name] = value

    def _log(self) -> None:
        if self._waiting:
            self._run.log({STEP: self._step, **self._waiting})
            self._waiting = {}

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        self._add(name, value if math.isfinite(value) else float("nan"), step)

    def histogram(self, name: str, values: np.ndarray, step: int) -> None:  # noqa: D102
        self._add(name, self._wandb.Histogram(values.reshape(-1)), step)

    def image(self, name: str, image: np.ndarray, step: int) -> None:  # noqa: D102
        self._add(name, self._wandb.Image(np.moveaxis(image, 0, -1)), step)

    def flush(self) -> None:  # noqa: D102
        self._log()

    def close(self) -> None:  # noqa: D102
        self._log()
        self._run.finish()
