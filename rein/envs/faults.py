"""What can go wrong in a world, who is told, and when a run stops because of it.

A fault is one of: the world raised, returned something that its spaces forbid (wrong shape, wrong dtype, NaN), hung, or
died with its worker process. By default the world is made anew, its episode is marked as truncated and the fault is
counted; a strict policy stops at the first one.
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["EnvironmentFaultError", "Fault", "FaultLog", "FaultPolicy"]

logger = logging.getLogger("rein.envs")

_MOST_CAUSES = 1000
KINDS = ("raised", "invalid", "hung", "died")
OUT_OF_BOUNDS = ("warn", "clip", "raise")
STEPS_PER_RESTART = 100
"""Batched steps after which an environment may be made anew once more."""


class Fault(NamedTuple):
    """One thing that went wrong."""

    env_id: int
    """Row of the environment in the batch."""
    step: int
    """Number of the batched step at which it happened, counted from the creation of the batch."""
    kind: str
    """"raised", "invalid", "hung" or "died"."""
    message: str
    """Why, with the end of the traceback where there is one."""

    def __str__(self) -> str:
        return f"environment {self.env_id} {self.kind} at step {self.step}: {self.message}"


class EnvironmentFaultError(RuntimeError):
    """A fault that ends the run: the policy is strict, or the world has been restarted too often."""

    def __init__(self, fault: Fault, reason: str = "") -> None:
        super().__init__(f"{fault}\n{reason}" if reason else str(fault))
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.fault,))


@dataclass(frozen=True)
class FaultPolicy:
    """How much a run endures.

    Attributes:
        strict: stop at the first fault.
        max_restarts: how often one environment of the batch may be made anew before the run stops. Every
            `STEPS_PER_RESTART` steps give one of them back, so that rare faults never stop a long run.
        step_timeout: seconds that a worker may take for one batched step (or reset) before it counts as hung.
        start_timeout: seconds that a worker may take to make its environments.
        out_of_bounds: what to do with an observation outside of its Box: "warn" once and pass it on, "clip" it, or "raise"
            it as a fault.
    """

    strict: bool = False
    max_restarts: int = 10
    step_timeout: float = 60.0
    start_timeout: float = 120.0
    out_of_bounds: str = "warn"

    def __post_init__(self) -> None:
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts is {self.max_restarts}: give 0 or more")
        for name in ("step_timeout", "start_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give a positive number of seconds")
        if self.out_of_bounds not in OUT_OF_BOUNDS:
            raise ValueError(f"out_of_bounds is {self.out_of_bounds!r}: choose one of {OUT_OF_BOUNDS}")


class FaultLog:
    """Counts the faults of a batch and decides when they are too many."""

    def __init__(self, policy: FaultPolicy, batch_size: int, announce: bool = True) -> None:
        """Starts without faults.

        Args:
            policy: what to endure.
            batch_size: number of environments.
            announce: whether to log a warning for each fault.
        """
        self.policy = policy
        self._announce = announce
        self.counts: NDArray[np.int64] = np.zeros(batch_size, dtype=np.int64)
        """[B] faults of each environment so far."""
        self.recent: deque[Fault] = deque(maxlen=100)
        """The last faults, oldest first."""
        self._restarts_left = np.full(batch_size, float(policy.max_restarts))
        self._last_steps: NDArray[np.int64] = np.zeros(batch_size, dtype=np.int64)
        self._met: dict[str, int] = {}

    def add(self, fault: Fault) -> None:
        """Counts a fault; raises `EnvironmentFaultError` where the policy does not endure it."""
        self.counts[fault.env_id] += 1
        self.recent.append(fault)
        if self.policy.strict:
            raise EnvironmentFaultError(fault, "Stopped because the fault policy is strict.")
        if not self._spend_restart(fault):
            raise EnvironmentFaultError(
                fault,
                f"This is fault number {self.counts[fault.env_id]} of this environment, more than "
                f"max_restarts={self.policy.max_restarts} allows; {STEPS_PER_RESTART} steps give one restart back.",
            )
        if self._announce:
            self._tell(fault)

    def _tell(self, fault: Fault) -> None:
        """Logs a fault in full when it is new, and then how often it came again, ever more seldom."""
        cause = f"{fault.kind} {fault.message.partition(': ')[2] or fault.message}"
        again = self._met.get(cause, 0)
        if len(self._met) < _MOST_CAUSES or again:
            self._met[cause] = again + 1
        if not again:
            logger.warning("%s\nThe environment is made anew and its episode counts as truncated.", fault)
        elif (again & (again - 1)) == 0:
            first = fault.message.splitlines()[0]
            logger.warning("environment %d %s again, %d times by now: %s", fault.env_id, fault.kind, again + 1, first)

    def _spend_restart(self, fault: Fault) -> bool:
        """Whether the environment may be made anew once more; good steps since its last fault count."""
        row = fault.env_id
        earned = max(0, fault.step - self._last_steps[row]) / STEPS_PER_RESTART
        self._last_steps[row] = fault.step
        left = min(self._restarts_left[row] + earned, float(self.policy.max_restarts)) - 1.0
        self._restarts_left[row] = left
        return bool(left >= 0.0)
