"""A board of runs written by hand."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rein.board import BoardServer, Shelf
from tests.board.example_runs import MADE, write_hostile_run, write_run


@pytest.fixture
def board(tmp_path: Path) -> Iterator[BoardServer]:
    """A board of four runs: two seeds of one task, another task, a hostile one; and a secret beside their folder."""
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "secret.mp4").write_text("the secret")
    for seed in (0, 1):
        write_run(tmp_path / "runs" / f"task-{seed}", seed, offset=float(seed))
    write_run(tmp_path / "runs" / "deep" / "other", 5, name="other", env="Pendulum-v1")
    write_hostile_run(tmp_path / "runs" / MADE)
    server = BoardServer(Shelf([tmp_path / "runs"]))
    thread = threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
