"""From a scheme to workers: gives an algorithm collectors and gradient workers in the place of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch.optim import Optimizer

from rein.config.sending import configs_to_send
from rein.distributed.backends import Backend
from rein.distributed.collector import CollectorTask
from rein.distributed.gradient_workers import GradientTask, SharedGradients
from rein.distributed.ranks import STAYS_HERE, Ranks
from rein.distributed.rate_limiter import RateLimiter
from rein.distributed.rollout import SchemeRollout
from rein.distributed.scheme import Scheme
from rein.distributed.shards import ShardedReplay, ShardTask, limit_updates
from rein.distributed.team import Team
from rein.distributed.weights import Weights
from rein.framework import RLAlgorithm
from rein.framework.acting.rollout import Rollout
from rein.runtime.processes.sending import pack
from rein.runtime.run import current_run_or_none
from rein.runtime.seeding import draw_seed


def attach(algorithm: RLAlgorithm, scheme: Scheme | None = None) -> int | None:
    """Lets `algorithm` be trained by a scheme; one that is central changes nothing.

    Args:
        algorithm: the root algorithm, with its environment, before it has acted.
        scheme: None takes the one of the configuration in force.

    Returns:
        How many environments report in an iteration, if that is another number than the algorithm has.
    """
    scheme = Scheme() if scheme is None else scheme
    if scheme.is_central:
        return None
    scheme.check_algorithm(algorithm)
    if scheme.backend == "ddp":
        return Ranks(algorithm, scheme, _seeds(2 * scheme.ranks, "ranks"), _device()).envs_per_iteration
    backends = []
    try:
        if scheme.collectors > 1 or scheme.collecting == "async" or scheme.shards:
            backends.append(_add_collectors(algorithm, scheme))
        if scheme.shards:
            backends.append(_add_shards(algorithm, scheme))
        if scheme.gradient_workers > 1:
            backends.append(_add_gradient_workers(algorithm, scheme))
    except BaseException:
        for backend in backends:
            backend.close()
        raise
    if algorithm._rollout is None:
        assert algorithm.env is not None
        algorithm._rollout = _ClosingRollout(algorithm, algorithm.env)
    close = algorithm._rollout.close

    def close_all() -> None:
        # The first one may own the cluster of the others.
        for backend in reversed(backends):
            backend.close()
        close()

    algorithm._rollout.close = close_all  # type: ignore[method-assign]
    return getattr(algorithm._rollout, "envs_per_iteration", None)


class _ClosingRollout(Rollout):
    """A rollout in this process, with gradient workers to end when it is closed."""


def _add_collectors(algorithm: RLAlgorithm, scheme: Scheme) -> Backend:
    config, env = algorithm.require_config(), algorithm.env
    assert env is not None
    algorithm._check_transformer(config)
    name = f"{algorithm.name} and its settings"
    copy = pack((configs_to_send(), algorithm), name, leave_out=(*STAYS_HERE, Optimizer))
    device = _device()
    seeds = _seeds(2 * scheme.collectors, "collectors")

    def task(index: int, restarts: int = 0) -> CollectorTask:
        # A replacement must not live through the same episodes again.
        env_seed, seed = (one + 7919 * restarts for one in (seeds[2 * index], seeds[2 * index + 1]))
        return CollectorTask(copy, index, env_seed, seed, device, scheme.exploration_rate(index))

    backend = make_backend(scheme, algorithm)
    tasks = [task(index) for index in range(scheme.collectors)]
    team = Team(backend, tasks, scheme.timeout, scheme.max_restarts, task)
    algorithm._rollout = SchemeRollout(algorithm, env, scheme, team, backend)
    return backend


def _add_shards(algorithm: RLAlgorithm, scheme: Scheme) -> Backend:
    backend, learning = make_backend(scheme, algorithm), algorithm.learning
    limiter = None
    if scheme.samples_per_insert is not None:
        limiter = RateLimiter(scheme.samples_per_insert, learning.settings.initial_collect_steps)
        limit_updates(learning, limiter)

    def start(task: Callable[[int, int], ShardTask], count: int) -> Team:
        return Team(backend, [task(index, 0) for index in range(count)], scheme.timeout, scheme.max_restarts, task)

    learning.buffer_ctor = partial(ShardedReplay, start, scheme.shards, limiter)
    return backend


def _add_gradient_workers(algorithm: RLAlgorithm, scheme: Scheme) -> Backend:
    seeds, device = _seeds(scheme.gradient_workers, "gradient workers"), _device()
    copies: list[bytes] = []
    made: list[SharedGradients] = []

    def task(index: int, restarts: int = 0) -> GradientTask:
        # Copies that step by themselves are not sent weights: a replacement begins where the others are.
        if not copies or (scheme.decentralised and restarts):
            content = (configs_to_send(), algorithm, algorithm.learning.settings)
            copies[:] = [pack(content, f"{algorithm.name} and its settings", leave_out=STAYS_HERE)]
        version = made[0].version if scheme.decentralised and made else 0
        return GradientTask(copies[0], seeds[index] + 7919 * restarts, device, version)

    backend = make_backend(scheme, algorithm)
    tasks = [task(index) for index in range(scheme.gradient_workers)]
    team = Team(backend, tasks, scheme.timeout, scheme.max_restarts, task)
    made.append(SharedGradients(algorithm, team, backend, scheme.gradients == "async", scheme.decentralised))
    return backend


def make_backend(scheme: Scheme, algorithm: RLAlgorithm) -> Backend:
    """The backend that a scheme names."""
    if scheme.backend == "process":
        from rein.distributed.backends.process import ProcessBackend

        return ProcessBackend(Weights(algorithm).size)
    if scheme.backend == "ray":
        from rein.distributed.backends.ray import RayBackend

        return RayBackend(scheme, scheme.collectors + scheme.gradient_workers)
    from rein.distributed.backends.inline import InlineBackend

    return InlineBackend()


def _seeds(count: int, purpose: str) -> list[int]:
    run = current_run_or_none()
    return [draw_seed() for _ in range(count)] if run is None else run.spawn_seeds(count, purpose)


def _device() -> str:
    run: Any = current_run_or_none()
    return "cpu" if run is None else str(run.device)
