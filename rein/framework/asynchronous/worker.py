"""The other process of an asynchronous unroll: steps the environments with a copy of the algorithm.

Each step becomes a record in a ring of shared memory, and semaphores count the free and the filled ones. Parameters come
through shared memory too. A pipe carries only what is rare: jobs from the trainer, and to it the layout of the records,
saved states, and what went wrong.
"""

import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
import torch.multiprocessing
from torch import Tensor

from rein import nest
from rein.config import use_configs
from rein.data_structures import AlgStep, TimeStep
from rein.distributions import distributions_to_params, extract_spec
from rein.framework.acting.acting_state import ActingState
from rein.framework.acting.rollout import Rollout
from rein.framework.asynchronous.shared_records import Field, SharedRecords, fields_of
from rein.nest import Nest
from rein.runtime import Run
from rein.runtime.processes.living import die_with_parent
from rein.runtime.processes.sending import pack, unpack

_POLL_SECONDS = 0.05

UPDATE, SAVE, STOP = "update_parameter", "save", "stop"
"""Types of jobs."""


class UnrollJob(NamedTuple):
    """What the trainer asks of the process that unrolls."""

    type: str
    step_metrics: dict[str, float] = {}  # noqa: RUF012 - never written to
    """Counters of the run, for schedules: its attributes by name."""
    global_counter: int = 0
    state_dict: dict[int, Any] = {}  # noqa: RUF012 - never written to
    """What modules keep beside tensors; parameters and buffers come through shared memory."""


class UnrollResult(NamedTuple):
    """One step of every environment."""

    time_step: Any = ()
    """The `TimeStep` that was acted on, [B, ...], as the environment gave it; where the algorithm learns from its rollouts,
    as the data transformer made it, with the other one in `untransformed`."""
    policy_step: Any = ()
    """The `AlgStep` of `rollout_step`, [B, ...], without the state after it."""
    policy_state: Nest = ()
    """Recurrent state before the step, [B, ...], where training uses it."""
    env_step_time: Any = ()
    """Seconds that the step of the environments took."""
    step_time: Any = ()
    """Seconds from the end of the step before to the end of this one."""


class Links(NamedTuple):
    """What the two processes communicate by; made by the trainer."""

    pipe: Connection
    free: Any
    """Semaphore: records that may be written."""
    filled: Any
    """Semaphore: records that were written and not read."""
    jobs: Any
    """Semaphore: jobs in the pipe."""
    lock: Any
    """Semaphore of one: held by who reads or writes `parameters` or `buffers`."""
    wanted: Any
    """Semaphore: 1 if the trainer has taken what is in `buffers`."""
    published: Any
    """Semaphore: 1 if there is something new in `buffers`."""
    parameters: Tensor
    """One record of `ActingState.tensors`."""
    buffers: Tensor
    """One record of `published_fields`."""


@dataclass
class UnrollTask:
    """What the process needs to know; travels once, when it starts."""

    copy: bytes
    """Packed: the configuration in force, the algorithm, and what makes its environment."""
    rollout_state: bytes | None
    """Packed: what a process was asked to save, to go on from there."""
    queue_size: int
    step_interval: float
    seed: int
    device: str
    parent_pid: int
    links: Links


def published_fields(state: ActingState) -> list[Field]:
    """Fields of a record of buffers: first whether acting changes each of them, [N] bool, then the N buffers."""
    buffers = state.buffers()
    return [Field((len(buffers),), torch.bool), *fields_of(buffers)]


def run_unroll(task: UnrollTask) -> None:
    """Unrolls until told to stop, or until the trainer is gone."""
    # These reach the trainer too, which saves what there is before it stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(task.parent_pid)
    torch.set_num_threads(1)
    try:
        configs, algorithm, make_env = unpack(task.copy)
        with use_configs(configs), Run(seed=task.seed, device=task.device) as run:
            run.seed_everything()
            with make_env() as env:
                UnrollLoop(task, algorithm, env, run).unroll()
    except Exception:
        task.links.pipe.send_bytes(pack(("error", traceback.format_exc())))
        _wait_to_be_stopped(task.links)


def _wait_to_be_stopped(links: Links) -> None:
    """Keeps the records of this process until the trainer has read them."""
    while True:
        links.jobs.acquire()
        if unpack(links.pipe.recv_bytes()).type == STOP:
            return


class UnrollLoop:
    """Acts, step by step."""

    def __init__(self, task: UnrollTask, algorithm: Any, env: Any, run: Run) -> None:
        """Goes to where the rollout was saved, if it was.

        Args:
            task: from the trainer.
            algorithm: the copy that acts.
            env: the environments.
            run: holds the counters that schedules look at, and the random generators.
        """
        self._task, self._links, self._algorithm, self._run = task, task.links, algorithm, run
        self._state = ActingState(algorithm)
        self._parameters = SharedRecords(fields_of(self._state.tensors()), 1, task.links.parameters)
        self._published = SharedRecords(published_fields(self._state), 1, task.links.buffers)
        self._rollout = algorithm._rollout = Rollout(algorithm, env)
        if task.rollout_state is not None:
            saved = unpack(task.rollout_state)
            self._rollout.load_state_dict(saved["rollout"])
            run.load_state_dict(saved["run"])
        self._is_fresh = algorithm.require_config().trains_on_fresh_rollouts
        self._ring: SharedRecords | None = None
        self._produced = 0
        self._is_stopped = False
        self._due = self._ended_at = time.perf_counter()

    def unroll(self) -> None:
        """Fills records until told to stop; jobs are done between two steps."""
        while True:
            self._serve()
            if self._is_stopped:
                return
            early = self._due - time.perf_counter()
            if early > 0:
                time.sleep(min(early, _POLL_SECONDS))
            elif self._links.free.acquire(True, _POLL_SECONDS):
                self._due = time.perf_counter() + self._task.step_interval
                self._put(self._step())
                self._publish_buffers()

    # Acting.

    def _step(self) -> UnrollResult:
        quick = None if self._is_fresh else self._rollout.quick_for_replay()
        if quick is None:
            return self._step_by_rollout_step()
        experience, env_seconds = quick.step()
        policy_step = AlgStep(experience.action, info=experience.rollout_info)
        return self._result(experience.time_step, policy_step, experience.state, env_seconds)

    def _step_by_rollout_step(self) -> UnrollResult:
        rollout = self._rollout
        raw = rollout.env.current_time_step()
        acted = rollout.act(raw, with_grad=False, keep=True)
        begun = time.perf_counter()
        rollout.step(acted)
        env_seconds = time.perf_counter() - begun
        alg_step = rollout.as_done(acted.step)
        seen = acted.time_step._replace(untransformed=raw) if self._is_fresh else raw
        keeps_state = self._algorithm.need_full_rollout_state()
        policy_step = AlgStep(alg_step.output, info=alg_step.info)
        return self._result(seen, policy_step, acted.state if keeps_state else (), env_seconds)

    def _result(self, seen: TimeStep, policy_step: AlgStep, state: Nest, env_seconds: float) -> UnrollResult:
        ended = time.perf_counter()
        seconds = [torch.tensor(one, dtype=torch.float64) for one in (env_seconds, ended - self._ended_at)]
        self._ended_at = ended
        return UnrollResult(seen, policy_step, state, *seconds)

    def _put(self, result: UnrollResult) -> None:
        info_spec: Any = None
        if self._ring is None:
            info_spec = extract_spec(result.policy_step.info)
        info = distributions_to_params(result.policy_step.info)
        result = result._replace(policy_step=result.policy_step._replace(info=info))
        leaves = nest.flatten(result)
        if self._ring is None:
            fields = fields_of(leaves)
            self._ring = SharedRecords(fields, self._task.queue_size)
            structure = nest.map_structure(lambda leaf: None, result)
            self._send("layout", (structure, info_spec, fields))
            self._links.pipe.send(self._ring.block)
        self._ring.write(self._produced % self._task.queue_size, leaves)
        self._produced += 1
        self._links.filled.release()

    # Talking to the trainer.

    def _publish_buffers(self) -> None:
        """Shows the trainer the buffers that acting changed, if it has taken what it was shown before."""
        if not self._links.wanted.acquire(False):
            return
        if not self._state.notice_changes():
            self._links.wanted.release()
            return
        mask, *targets = self._published.views(0)
        buffers = self._state.buffers()
        with self._links.lock:
            for index in self._state.changed_by_acting:
                mask[index] = True
                targets[index].copy_(buffers[index])
        self._links.published.release()

    def _serve(self) -> None:
        """Does the jobs that have come."""
        answers: dict[str, Callable[[UnrollJob], None]] = {UPDATE: self._update, SAVE: self._save, STOP: self._stop}
        while self._links.jobs.acquire(False):
            job = unpack(self._links.pipe.recv_bytes())
            answers[job.type](job)

    def _update(self, job: UnrollJob) -> None:
        with self._links.lock:
            self._state.load(self._parameters.views(0))
        self._state.load_extra_states(job.state_dict)
        self._run.global_counter = job.global_counter
        for name, value in job.step_metrics.items():
            setattr(self._run, name, value)

    def _save(self, job: UnrollJob) -> None:
        self._state.notice_changes()
        buffers = self._state.buffers()
        answer = {
            "rollout": self._rollout.state_dict(),
            "run": self._run.state_dict(),
            "buffers": {index: buffers[index].cpu() for index in self._state.changed_by_acting},
            "produced": self._produced,
        }
        self._send("saved", answer)

    def _stop(self, job: UnrollJob) -> None:
        self._is_stopped = True

    def _send(self, kind: str, content: Any) -> None:
        self._links.pipe.send_bytes(pack((kind, content)))
