"""Compiling a recorded update in another process, so that training does not wait for the C++ compiler.

The process leaves its kernels where inductor looks for them; whoever compiles the same graph then takes seconds. In a
thread it would not do: inductor restores torch's random generator when it is done, and with it what training has drawn
meanwhile.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule

_NICENESS = 5


class InputForm(NamedTuple):
    """What a graph depends on of an input."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> "InputForm":
        """The form of a tensor."""
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def empty(self) -> Tensor:
        """A tensor of this form."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)


class CompilingProcess:
    """A process that compiles one graph and ends; it does not outlive this one for long."""

    def __init__(self, graph: GraphModule, inputs: list[Tensor], options: dict[str, Any]) -> None:
        """Starts it.

        Args:
            graph: recorded operations.
            inputs: like those that it will be called with.
            options: of inductor.
        """
        directory = tempfile.mkdtemp(prefix="rein-compile-")
        path = Path(directory, "graph")
        # Written here and read by our own process only, in a directory that nobody else may enter.
        path.write_bytes(pickle.dumps((graph, [InputForm.of(tensor) for tensor in inputs], options)))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # No workers of its own, which would outlive it.
        }
        command = [sys.executable, "-m", __name__, str(path), str(os.getpid())]
        self._log = Path(directory, "log")
        with self._log.open("wb") as log:
            quiet = subprocess.DEVNULL
            self._process = subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=log)
        self._end = weakref.finalize(self, _end, self._process, Path(directory))

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def close(self) -> str | None:
        """Ends it, and removes its files; returns why it failed, or None."""
        if self._process.poll() is None:
            self._end()
            return "it was not awaited"
        said = self._log.read_text(errors="replace").strip().splitlines()
        self._end()
        return (
            None if self._process.returncode == 0 else (said[-1] if said else f"exit code {self._process.returncode}")
        )


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    shutil.rmtree(directory, ignore_errors=True)


def _compile_file(path: Path, parent: int) -> None:
    """What the process does."""
    from torch._inductor import compile as compile_graph

    from rein.runtime.processes.living import end_with_parent

    end_with_parent(parent)
    os.nice(_NICENESS)
    graph, forms, options = pickle.loads(path.read_bytes())
    torch.set_num_threads(1)
    compile_graph(graph, [form.empty() for form in forms], options=options)


if __name__ == "__main__":
    _compile_file(Path(sys.argv[1]), int(sys.argv[2]))
