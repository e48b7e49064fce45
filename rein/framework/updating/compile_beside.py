"""Compiling a recorded update in another process, so that training does not wait for the C++ compiler.

The process leaves its kernels where inductor looks for them; whoever compiles the same graph then takes seconds. In a
thread it would not do: inductor restores torch's random generator when it is done, and with it what training has drawn
meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule

from rein.framework.updating.graph_products import product_operation
from rein.framework.updating.graph_sums import stored_operation
from rein.runtime.processes.sending import pack, unpack

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
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # No workers of its own, which would outlive it.
        }
        command = [sys.executable, "-m", __name__, str(os.getpid())]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open until the end
        # Files without names: nobody else can write what the process reads, and nothing is left, however this ends.
        with tempfile.TemporaryFile() as task:
            task.write(pack((graph, [InputForm.of(tensor) for tensor in inputs], options), "a recorded update"))
            task.seek(0)
            self._process = subprocess.Popen(
                command, env=environment, stdin=task, stdout=subprocess.DEVNULL, stderr=self._log
            )
        self._end = weakref.finalize(self, _end, self._process)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def close(self) -> str | None:
        """Ends it; returns why it failed, or None."""
        if self._process.poll() is None:
            self._end()
            return "it was not awaited"
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()
        self._log.close()
        if self._process.returncode == 0:
            return None
        return f"the compiling process ended with {self._process.returncode}" + (f": {said[-1]}" if said else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _compile_task(parent: int) -> None:
    """What the process does with the task at its standard input."""
    from torch._inductor import compile as compile_graph

    from rein.runtime.processes.living import end_with_parent

    end_with_parent(parent)
    product_operation(), stored_operation()  # Recorded graphs may have them.
    os.nice(_NICENESS)
    graph, forms, options = unpack(sys.stdin.buffer.read())
    torch.set_num_threads(1)
    compile_graph(graph, [form.empty() for form in forms], options=options)


if __name__ == "__main__":
    _compile_task(int(sys.argv[1]))
