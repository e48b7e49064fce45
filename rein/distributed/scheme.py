"""`Scheme`: who collects, who computes gradients, and where; checked before anything starts."""

import importlib.util
import logging
from typing import Any

from rein.config import configurable
from rein.framework import RLAlgorithm
from rein.runtime.cores import usable_cores

logger = logging.getLogger(__name__)

MODES = ("sync", "async")
BACKENDS = ("inline", "process", "ray", "ddp")
PRESETS: dict[str, dict[str, Any]] = {
    "sync": {},
    "async": {},
    "impala": {"collecting": "async"},
    "apex": {"collecting": "async", "shards": 1, "exploration_power": 7.0},
    "r2d2": {"collecting": "async", "shards": 1, "exploration_power": 7.0},
    "ddppo": {"collecting": "sync", "backend": "ddp"},
}
"""What the names that people ask for stand for."""


class SchemeError(ValueError):
    """A scheme that cannot be run; says why and what to do."""


@configurable
class Scheme:
    """How a run is spread over workers.

    Collectors act with copies of the algorithm and weights that they pull at the start of each fragment. Gradient workers
    compute gradients of shares of each batch. The updater, which is the process of the run, does all the rest. With the
    backend "ddp" there are ranks instead: whole trainers whose gradients are averaged.
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
        fraction_workers: float = 1.0,
        fraction_samples: float = 1.0,
        decentralised: bool = False,
        shards: int = 0,
        samples_per_insert: float | None = None,
        fragments_per_update: int | None = None,
    ) -> None:
        """Keeps and checks the settings.

        Args:
            kind: "sync": all collectors collect with the same weights, and learning waits for all of them; "async":
                whichever fragment comes first is learnt from, and its collector goes on at once; "impala": the latter,
                for an algorithm with V-trace; "apex": the latter, with prioritized shards and a degree of exploration
                for each collector; "r2d2": that for recurrent networks, with stored states and burn-in; "ddppo": whole
                trainers that average their gradients.
            collectors: how many; each has as many environments as the conf says.
            backend: "inline" (this process), "process" (others on this machine), "ray" or "ddp" (torch.distributed).
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
            fraction_workers: with "sync", the share of collectors that must have finished before the others are told to
                stop early; 1 waits for all.
            fraction_samples: the share of its steps that a collector makes before it stops early.
            decentralised: whether gradient workers step copies of their own with the mean gradient, in the place of the
                updater.
            shards: workers that hold the replay buffer and sample from it; 0 is the updater itself.
            samples_per_insert: samples that are drawn from shards for each step that is inserted, held within 5 %: who is
                ahead waits. None takes what the settings of updates amount to.
            fragments_per_update: with "async", how many of the fragments that come first are learnt from together, with
                one new version of the weights; None is one for every `max_lag` collectors, so that lag stays below it.
        """
        preset = PRESETS.get(kind, {})
        self.kind, self.collectors = kind, collectors
        self.backend = preset.get("backend", backend) if backend == "inline" else backend
        self.collecting: str = preset.get("collecting", kind)
        """"sync" or "async"."""
        self.exploration_power: float | None = preset.get("exploration_power")
        """Collector i of n explores with the rate 0.4 to the power of 1 + i / (n - 1) times this; None: as they are."""
        self.gradient_workers, self.gradients, self.address = gradient_workers, gradients, address
        self.fragment_steps, self.max_lag, self.timeout = fragment_steps, max_lag, timeout
        self.max_restarts, self.object_store_mb = max_restarts, object_store_mb
        self.fraction_workers, self.fraction_samples = fraction_workers, fraction_samples
        self.decentralised = decentralised
        self.shards = shards or preset.get("shards", 0)
        self.samples_per_insert = samples_per_insert
        several = isinstance(collectors, int) and max_lag > 0
        self.fragments_per_update = fragments_per_update or max(1, -(-collectors // max_lag) if several else 1)
        self._check()

    @property
    def ranks(self) -> int:
        """Whole trainers that average their gradients; 1 with other backends than "ddp"."""
        return max(self.collectors, self.gradient_workers) if self.backend == "ddp" else 1

    @property
    def is_central(self) -> bool:
        """Whether the plain trainer is meant."""
        alone = self.collectors == 1 and self.gradient_workers == 1 and self.shards == 0
        return alone and self.collecting == "sync" and self.backend in ("inline", "ddp")

    def _check(self) -> None:
        for name, allowed in {"kind": PRESETS, "backend": BACKENDS, "gradients": MODES}.items():
            if getattr(self, name) not in allowed:
                raise SchemeError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(allowed)}")
        sizes = ("collectors", "gradient_workers", "fragment_steps", "max_restarts", "object_store_mb")
        for name in (*sizes, "fragments_per_update"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemeError(f"{name} is {value!r}: it must be a whole number of at least 1")
        for name in ("fraction_workers", "fraction_samples"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise SchemeError(f"{name} is {getattr(self, name)}: it is a share, above 0 and at most 1")
        if self.shards < 0 or (self.samples_per_insert is not None and self.samples_per_insert <= 0):
            raise SchemeError(
                f"shards is {self.shards} and samples_per_insert {self.samples_per_insert}: give positive ones"
            )
        if self.max_lag < 0 or self.timeout <= 0:
            raise SchemeError(f"max_lag is {self.max_lag} and timeout {self.timeout}: neither may be below 0")
        if self.address is not None and self.backend != "ray":
            raise SchemeError(f"an address is given, but the backend is {self.backend!r}: add --backend ray")
        if self.backend == "ray" and importlib.util.find_spec("ray") is None:
            raise SchemeError("the backend ray needs Ray, which is not installed: pip install 'rein-rl[ray]'")
        if self.gradients == "async" and self.gradient_workers == 1:
            raise SchemeError("asynchronous gradients need at least 2 gradient workers: add --gradient-workers 2")
        self._check_combinations()
        self._warn_of_cores()

    def _check_combinations(self) -> None:
        if self.preempts and self.collecting != "sync":
            raise SchemeError(f"slow collectors are stopped early with sync only, and the scheme is {self.kind!r}")
        if self.decentralised and (self.gradient_workers == 1 or self.gradients == "async"):
            raise SchemeError(
                "a decentralised update needs parallel, synchronous gradients: add --gradient-workers 2, without "
                "--gradients async"
            )
        if self.backend == "ddp":
            wrong = "async" if "async" in (self.collecting, self.gradients) else "shards" if self.shards else ""
            if wrong or self.preempts:
                raise SchemeError(f"the backend ddp is synchronous and whole: leave out {wrong or 'early stops'}")
        elif self.kind == "ddppo":
            raise SchemeError(f"the scheme ddppo has the backend ddp: leave out --backend {self.backend}")
        if self.samples_per_insert is not None and not self.shards:
            raise SchemeError("samples_per_insert is held by replay shards: set shards=1 or more")

    def exploration_rate(self, index: int) -> float | None:
        """How much a collector explores (Horgan et al. 2018, arXiv:1803.00933); None: as the algorithm says."""
        if self.exploration_power is None:
            return None
        return float(0.4 ** (1 + self.exploration_power * index / max(1, self.collectors - 1)))

    @property
    def preempts(self) -> bool:
        """Whether slow collectors are told to stop early."""
        return self.fraction_workers < 1.0 and self.fraction_samples < 1.0

    def _warn_of_cores(self) -> None:
        workers = self.collectors + (self.gradient_workers if self.gradient_workers > 1 else 0)
        cores = usable_cores()
        if self.backend != "inline" and self.address is None and workers > cores:
            logger.warning("%d workers on %d cores: they take turns, so %d would be as fast", workers, cores, cores)

    def _check_preset(self, algorithm: RLAlgorithm) -> None:
        config, name = algorithm.require_config(), algorithm.name
        if self.kind == "impala" and not getattr(algorithm, "corrects_old_rollouts", False):
            raise SchemeError(
                f"{name} takes rollouts for its own, but those of the scheme impala are old: take --algorithm impala, or a "
                "loss_class that is VTraceLoss"
            )
        if self.exploration_power is not None and not hasattr(algorithm, "explore_at"):
            raise SchemeError(
                f"{name} has no rate of exploration that the scheme {self.kind} could set: take dqn or ddqn"
            )
        if self.shards and config.trains_on_fresh_rollouts:
            raise SchemeError(f"{name} learns from fresh rollouts: there is nothing that replay shards could hold")
        transformer = algorithm.data_transformer
        if self.shards and (
            getattr(transformer, "stack_size", 1) > 1 or getattr(transformer, "needs_replay_buffer", False)
        ):
            raise SchemeError(f"a data transformer of {name} looks around in the replay buffer: it cannot be in shards")
        if self.kind in ("apex", "r2d2") and not config.priority_replay:
            raise SchemeError(
                f"the scheme {self.kind} samples by priority: add TrainerConfig.priority_replay=True and "
                f"{type(algorithm).__name__}.calculate_priority=True"
            )
        if self.kind == "r2d2" and not (config.use_rollout_state and config.burn_in_steps):
            raise SchemeError(
                "the scheme r2d2 needs recurrent networks, TrainerConfig.use_rollout_state=True and burn_in_steps: take "
                "--algorithm r2d2"
            )

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
        size, sharing = config.mini_batch_size, max(self.gradient_workers, self.ranks)
        if sharing > 1 and (size is None or size % sharing):
            who = "ranks" if self.ranks > 1 else "gradient workers"
            raise SchemeError(
                f"mini_batch_size is {size}, which {sharing} {who} cannot share equally: make it a multiple of them"
            )
        self._check_preset(algorithm)
        steps = int(config.unroll_length) * algorithm.env.batch_size
        if config.trains_on_fresh_rollouts and steps < self.fragment_steps:
            logger.warning(
                "a fragment of %s has %d steps: with fewer than %d, sending it costs more than collecting it",
                name,
                steps,
                self.fragment_steps,
            )
