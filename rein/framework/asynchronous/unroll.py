"""Asynchronous unrolls: another process steps the environments while this one learns.

The process has a copy of the algorithm and the only environments; this process closes its own. Each step of all
environments becomes an `UnrollResult` in a bounded queue. The trainer takes results from there, and sends parameters from
time to time; in the other direction come the buffers that acting changes, such as the statistics of a normalizer.
"""

import multiprocessing
import multiprocessing.util
import os
import signal
import time
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.optim import Optimizer

from rein import nest
from rein.config.sending import configs_to_send
from rein.distributions import distributions_to_params, params_to_distributions
from rein.envs import Environment
from rein.envs.metrics import EpisodeMetrics
from rein.framework.acting.acting_state import ActingState
from rein.framework.acting.rollout import Rollout
from rein.framework.asynchronous.shared_records import SharedRecords, fields_of
from rein.framework.asynchronous.worker import (
    SAVE,
    STOP,
    UPDATE,
    Links,
    UnrollJob,
    UnrollResult,
    UnrollTask,
    published_fields,
    run_unroll,
)
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating.offline_data import OfflineData
from rein.framework.updating.replay_training import ReplayTraining
from rein.replay.ring_buffer import RingBuffer
from rein.runtime.processes.sending import pack, unpack
from rein.runtime.processes.starting import start_context
from rein.runtime.run import current_run_or_none
from rein.runtime.seeding import draw_seed

if TYPE_CHECKING:
    from rein.framework.rl_algorithm import RLAlgorithm

__all__ = ["AsyncUnrollError", "AsyncUnroller", "UnrollJob", "UnrollResult"]

_POLL_SECONDS = 0.05
_CLOSE_SECONDS = 5.0
_STAYS_HERE = (Environment, RingBuffer, ReplayTraining, Rollout, EpisodeMetrics, OfflineData, Optimizer)
"""What acting does not need; the process has an environment and a rollout of its own."""


class AsyncUnrollError(RuntimeError):
    """The process that unrolls failed; its traceback is in the message."""


class AsyncUnroller:
    """The trainer's side of the process that unrolls."""

    def __init__(self, algorithm: "RLAlgorithm", config: TrainerConfig, state: dict[str, Any] | None = None) -> None:
        """Closes the environment of `algorithm` and starts a process with one that is made alike.

        Args:
            algorithm: the root algorithm.
            config: settings of the run.
            state: what `state_dict` gave, to go on from there; None begins.
        """
        env = algorithm.env
        assert env is not None
        assert env.recipe is not None
        self._config = config
        self._state = ActingState(algorithm)
        self._parameters = SharedRecords(fields_of(self._state.tensors()))
        self._published = SharedRecords(published_fields(self._state))
        copy = pack(
            (configs_to_send(), algorithm, env.recipe),
            f"{algorithm.name} and its environment",
            "set TrainerConfig.async_unroll=False",
            leave_out=_STAYS_HERE,
        )
        self._results: deque[UnrollResult] = deque()
        self._restored: list[Tensor] = [] if state is None else state["results"]
        self._layout: tuple[Any, Any] | None = None
        self._ring: SharedRecords | None = None
        self._received = 0
        self._saved: Any = None
        self._failure = ""
        # Some worlds exist only once, such as a robot.
        env.close()
        context = start_context(None)
        context.set_forkserver_preload(["__main__", run_unroll.__module__])
        ours, theirs = context.Pipe()
        self._links = self._make_links(context, ours)
        run = current_run_or_none()
        task = UnrollTask(
            copy=copy,
            rollout_state=None if state is None else pack(state["worker"]),
            queue_size=config.unroll_queue_size,
            step_interval=config.unroll_step_interval,
            seed=draw_seed() if run is None else run.spawn_seeds(1, "async unroll")[0],
            device="cpu" if run is None else str(run.device),
            parent_pid=os.getpid(),
            links=self._links._replace(pipe=theirs),
        )
        # Not a daemon, since the environments may have processes of their own.
        self._process = context.Process(target=run_unroll, args=(task,), name="rein-unroll", daemon=False)  # type: ignore[attr-defined]
        self._process.start()
        theirs.close()
        # At exit this comes before Python waits for processes that are no daemons.
        self._closer = multiprocessing.util.Finalize(self, _end, (self._process, self._links), exitpriority=10)

    def _make_links(self, context: BaseContext, pipe: Connection) -> Links:
        return Links(
            pipe=pipe,
            free=context.Semaphore(self._config.unroll_queue_size),
            filled=context.Semaphore(0),
            jobs=context.Semaphore(0),
            lock=context.Semaphore(1),
            wanted=context.Semaphore(1),
            published=context.Semaphore(0),
            parameters=self._parameters.block,
            buffers=self._published.block,
        )

    @property
    def pid(self) -> int:
        """Process id of the process that unrolls."""
        return int(self._process.pid or 0)

    # Results.

    def gather_unroll_results(self, unroll_length: int, max_unroll_length: int) -> list[UnrollResult]:
        """Takes results, oldest first.

        Args:
            unroll_length: how many, waiting for them; 0 takes those that are there, maybe none.
            max_unroll_length: the most to take if `unroll_length` is 0.
        """
        self._take_buffers()
        wanted = unroll_length or max_unroll_length
        while len(self._results) < wanted:
            if unroll_length:
                self._acquire(self._links.filled)
            elif not self._links.filled.acquire(False):
                if not self._results and self._has_ended() and not self._links.filled.get_value():
                    self._fail()
                break
            self._receive()
        return [self._results.popleft() for _ in range(min(wanted, len(self._results)))]

    def put_back(self, results: list[UnrollResult]) -> None:
        """Gives back results that were taken last; they come first the next time."""
        self._results.extendleft(reversed(results))

    def _receive(self) -> None:
        """Moves a result from the queue to `_results`; `filled` was acquired for it."""
        if self._ring is None:
            self._read_messages()
        if self._ring is None:
            self._fail()
        leaves = self._ring.read(self._received % len(self._ring))
        self._links.free.release()
        self._received += 1
        self._results.append(self._result(leaves))

    def _result(self, leaves: list[Tensor]) -> UnrollResult:
        assert self._layout is not None
        structure, info_spec = self._layout
        result: UnrollResult = nest.pack_sequence_as(structure, leaves)
        info = params_to_distributions(result.policy_step.info, info_spec)
        return result._replace(policy_step=result.policy_step._replace(info=info))

    def _take_buffers(self) -> None:
        """Copies the buffers that acting changed into the algorithm that learns."""
        if not self._links.published.acquire(False):
            return
        self._acquire(self._links.lock)
        mask, *buffers = self._published.views(0)
        self._state.load_buffers({i: buffer for i, buffer in enumerate(buffers) if mask[i]})
        self._links.lock.release()
        self._links.wanted.release()

    # Jobs.

    def update_parameter(self, algorithm: "RLAlgorithm") -> None:
        """Sends the parameters as they are now; the process takes them over before its next step.

        Args:
            algorithm: the root algorithm, the one that this was made with.
        """
        self._take_buffers()
        self._acquire(self._links.lock)
        self._parameters.write(0, self._state.tensors())
        self._links.lock.release()
        run = current_run_or_none()
        counters = ("env_steps", "iterations", "progress") if run is not None else ()
        self._send(
            UnrollJob(
                UPDATE,
                step_metrics={name: getattr(run, name) for name in counters},
                global_counter=0 if run is None else run.global_counter,
                state_dict=self._state.extra_states(),
            )
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the process stands, and the results that were not taken yet.

        The buffers that acting changes are brought up to date in the algorithm.
        """
        self._send(UnrollJob(SAVE))
        while self._saved is None:
            if self._links.filled.acquire(True, _POLL_SECONDS):
                self._receive()  # The process may wait until there is room in the queue.
            if self._has_ended():
                self._fail()
        saved, self._saved = self._saved, None
        while self._received < saved["produced"]:
            self._acquire(self._links.filled)
            self._receive()
        self._state.load_buffers(saved.pop("buffers"))
        since = self._received - saved.pop("produced")
        results = list(self._results)[: len(self._results) - since]
        return {"worker": saved, "results": self._restored if self._layout is None else _stacked(results)}

    def _send(self, job: UnrollJob) -> None:
        try:
            self._links.pipe.send_bytes(pack(job))
        except OSError:
            self._fail()
        self._links.jobs.release()

    # Messages and failures.

    def _acquire(self, semaphore: Any) -> None:
        while not semaphore.acquire(True, _POLL_SECONDS):
            if self._has_ended():
                if semaphore.acquire(False):
                    return
                self._fail()

    def _has_ended(self) -> bool:
        """Whether the process failed or is gone; takes in what it said before."""
        self._read_messages()
        return bool(self._failure)

    def _read_messages(self) -> None:
        """Takes in the messages that have come."""
        pipe = self._links.pipe
        try:
            while not self._failure and pipe.poll():
                kind, content = unpack(pipe.recv_bytes())
                if kind == "layout":
                    structure, info_spec, fields = content
                    self._ring = SharedRecords(fields, self._config.unroll_queue_size, pipe.recv())
                    self._layout = structure, info_spec
                    self._unpack_restored()
                elif kind == "saved":
                    self._saved = content
                else:
                    self._failure = f"the process that unrolls raised:\n{content}"
        except (EOFError, OSError):  # Its end of the pipe closes with the process, however that ended.
            self._failure = self._how_it_ended()

    def _unpack_restored(self) -> None:
        restored, self._restored = self._restored, []
        count = len(restored[0]) if restored else 0
        self._results.extend(self._result([leaf[i] for leaf in restored]) for i in range(count))

    def _how_it_ended(self) -> str:
        self._process.join(_CLOSE_SECONDS)
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        hint = " (a script that trains must do so under `if __name__ == '__main__':`)" if self._ring is None else ""
        return f"the process that unrolls, {self._process.pid}, {how}{hint}"

    def _fail(self) -> NoReturn:
        """Raises what the process said, or how it ended."""
        raise AsyncUnrollError(self._failure or self._how_it_ended())

    def close(self) -> None:
        """Ends the process; results that were not taken are lost. May be called again."""
        self._closer()


def _end(process: Any, links: Links) -> None:
    """Asks the process to end, and kills it if it does not."""
    deadline = time.monotonic() + _CLOSE_SECONDS
    try:
        links.pipe.send_bytes(pack(UnrollJob(STOP)))
        links.jobs.release()
        while links.pipe.poll(max(0.0, deadline - time.monotonic())):
            links.pipe.recv_bytes()
        # Not by `process`, which knows nothing any more if the fork server was killed with a process group.
        os.kill(process.pid, signal.SIGKILL)
    except (EOFError, OSError):
        pass  # It has ended.
    process.join(_CLOSE_SECONDS)
    links.pipe.close()


def _stacked(results: list[UnrollResult]) -> list[Tensor]:
    """The tensors of results, [N, B, ...] each; `[]` for no results."""
    rows = [nest.flatten(distributions_to_params(result)) for result in results]
    return [torch.stack(column) for column in zip(*rows, strict=True)]
