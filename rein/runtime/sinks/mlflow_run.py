"""MLflow: a server, or a file of SQLite that `mlflow ui` shows."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rein.runtime.writers import SummaryWriter

_ID_FILE = "mlflow.id"
_LONGEST_PARAMETER = 500
_MOST_AT_ONCE = 500
_STRANGE = re.compile(r"[^\w\-. :/]")


class MlflowWriter(SummaryWriter):
    """Logs scalars to a run of MLflow, and the settings as its parameters."""

    def __init__(
        self,
        uri: str = "sqlite:///mlflow.db",
        experiment: str = "rein",
        *,
        directory: str | os.PathLike[str],
        facts: Mapping[str, Any],
        name: str | None = None,
    ) -> None:
        """Begins a run there, or goes on with the one that this directory has begun.

        Args:
            uri: of the server, or "sqlite:///FILE"; a relative file lies in the working directory.
            experiment: where it is listed; made if there is none.
            directory: of the summaries.
            facts: of the run: its settings, seed and folder.
            name: of the run; None is that of its folder.
        """
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise ImportError("the sink mlflow needs the package mlflow: pip install 'rein-rl[mlflow]'") from error
        self._metric = Metric
        self._client: Any = MlflowClient(tracking_uri=uri)
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / _ID_FILE
        if known.exists():
            self._id = known.read_text().strip()
            self._client.update_run(self._id, status="RUNNING")
        else:
            found = self._client.get_experiment_by_name(experiment)
            place = self._client.create_experiment(experiment) if found is None else found.experiment_id
            self._id = self._client.create_run(place, run_name=name or str(facts.get("name", "run"))).info.run_id
            params = [Param(_key(str(key)), str(value)[:_LONGEST_PARAMETER]) for key, value in facts.items()]
            for begin in range(0, len(params), 100):  # as many as the server takes at a time
                self._client.log_batch(self._id, params=params[begin : begin + 100])
            known.write_text(self._id)
        self._waiting: list[Any] = []

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        self._waiting.append(self._metric(_key(name), float(value), int(1000 * time.time()), step))
        if len(self._waiting) >= _MOST_AT_ONCE:
            self.flush()

    def flush(self) -> None:  # noqa: D102
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._client.log_batch(self._id, metrics=waiting)

    def close(self) -> None:  # noqa: D102
        self.flush()
        self._client.set_terminated(self._id)


def _key(name: str) -> str:
    """A name that MLflow takes."""
    return _STRANGE.sub("_", name)[:250]
