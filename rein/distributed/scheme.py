"""`Scheme`: who collects, who computes gradients, and where; checked before anything starts."""

import importlib.util
import logging
from typing import Any

from rein.config import configurable
from rein.framework import RLAlgorithm
from rein.runtime.cores import usable_cores

logger = logging.getLogger(__name__)

KINDS = ("sync", "async")
BACKENDS = ("inline", "process", "ray")
_NOT_BUILT = {
    "impala": "needs an algorithm with V-trace targets",
    "apex": "needs replay shards that collectors fill with priorities of their own",
    "r2d2": "needs burn-in of stored states in the losses",
    "ddppo": "needs learners that all-reduce among themselves",
}


class SchemeError(ValueError):
    """A scheme that cannot be run; says why and what to do."""


@configurable
class Scheme:
    """How a run is spread over workers.

    Collectors act with copies of the algorithm and weights that they pull at the start of each fragment. Gradient workers
    compute gradients of shares of each batch. The updater, which is the process of the run, does all the rest.
    """

    def __init__(
        self,
        kind: str = "sync",
        collectors: int = 1,
        backend: str = "inline",
        gradient_workers: int = 1,
        gradients: str = "sync",
        address: str | None = None,
        fragment_steps: int = 128,
        max_lag: int = 10,
        timeout: float = 120.0,
        max_restarts: int = 3,
        object_store_mb: int = 200,
    ) -> None:
        """Keeps and checks the settings.

        Args:
            kind: "sync": all collectors collect with the same weights, and learning waits for all of them; "async":
                whichever fragment comes first is learnt from, and its collector goes on at once.
            collectors: how many; each has as many environments as the conf says.
            backend: "inline" (this process), "process" (others on this machine) or "ray".
            gradient_workers: how many share each batch; 1 is the updater itself.
            gradients: "sync": all shares of a batch make one update; "async": each batch goes to one worker, and
                whichever gradient comes first is applied.
            address: of a Ray cluster to join, as HOST:PORT; None starts one on this machine.
            fragment_steps: least number of environment steps of a fragment that goes to a replay buffer.
            max_lag: versions of the weights by which a fragment may be older than those that learn from it; older ones
                are dropped.
            timeout: seconds after which a worker that does not answer is replaced.
            max_restarts: how often in a row a worker may die before it has answered once.
            object_store_mb: memory of a Ray cluster that is started here, in megabytes.
        """
        self.kind, self.collectors, self.backend = kind, collectors, backend
        self.gradient_workers, self.gradients, self.address = gradient_workers, gradients, address
        self.fragment_steps, self.max_lag, self.timeout = fragment_steps, max_lag, timeout
        self.max_restarts, self.object_store_mb = max_restarts, object_store_mb
        self._check()

    @property
    def is_central(self) -> bool:
        """Whether the plain trainer is meant."""
        return self.collectors == 1 and self.gradient_workers == 1 and self.kind == "sync" and self.backend == "inline"

    def _check(self) -> None:
        if self.kind in _NOT_BUILT:
            raise SchemeError(f"scheme {self.kind!r} is not built, since it {_NOT_BUILT[self.kind]}: use sync or async")
        for name, allowed in {"kind": KINDS, "backend": BACKENDS, "gradients": KINDS}.items():
            if getattr(self, name) not in allowed:
                hint = "; ddp is not built: use gradient_workers" if getattr(self, name) == "ddp" else ""
                raise SchemeError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(allowed)}{hint}")
        for name in ("collectors", "gradient_workers", "fragment_steps", "max_restarts", "object_store_mb"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemeError(f"{name} is {value!r}: it must be a whole number of at least 1")
        if self.max_lag < 0 or self.timeout <= 0:
            raise SchemeError(f"max_lag is {self.max_lag} and timeout {self.timeout}: neither may be below 0")
        if self.address is not None and self.backend != "ray":
            raise SchemeError(f"an address is given, but the backend is {self.backend!r}: add --backend ray")
        if self.backend == "ray" and importlib.util.find_spec("ray") is None:
            raise SchemeError("the backend ray needs Ray, which is not installed: pip install 'rein-rl[ray]'")
        if self.gradients == "async" and self.gradient_workers == 1:
            raise SchemeError("asynchronous gradients need at least 2 gradient workers: add --gradient-workers 2")
        self._warn_of_cores()

    def _warn_of_cores(self) -> None:
        workers = self.collectors + (self.gradient_workers if self.gradient_workers > 1 else 0)
        cores = usable_cores()
        if self.backend == "process" and workers > cores:
            logger.warning("%d workers on %d cores: they take turns, so %d would be as fast", workers, cores, cores)

    def check_algorithm(self, algorithm: RLAlgorithm) -> None:
        """Raises `SchemeError` if `algorithm` cannot be trained by this scheme."""
        config: Any = algorithm.require_config()
        if self.is_central:
            return
        name = algorithm.name
        if algorithm.env is None:
            raise SchemeError(f"{name} learns from data alone: there is nothing to collect, leave out --scheme")
        if algorithm.on_policy:
            raise SchemeError(
                f"{name} cannot be split: it differentiates through its own rollout, which another worker cannot make; take "
                "an algorithm that learns from stored rollouts, such as ppo"
            )
        for setting in ("unroll_with_grad", "async_unroll"):
            if getattr(config, setting):
                raise SchemeError(f"TrainerConfig.{setting} is True, which a scheme cannot do: set it to False")
        size = config.mini_batch_size
        if self.gradient_workers > 1 and (size is None or size % self.gradient_workers):
            raise SchemeError(
                f"mini_batch_size is {size}, which {self.gradient_workers} gradient workers cannot share equally: make it a "
                "multiple of them"
            )
        steps = int(config.unroll_length) * algorithm.env.batch_size
        if config.trains_on_fresh_rollouts and steps < self.fragment_steps:
            logger.warning(
                "a fragment of %s has %d steps: with fewer than %d, sending it costs more than collecting it",
                name,
                steps,
                self.fragment_steps,
            )
