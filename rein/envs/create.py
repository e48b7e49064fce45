"""One constructor for every backend."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from rein import nest
from rein.config import configurable, get_config_value, is_given
from rein.envs.batch import BatchEnvironment
from rein.envs.environment import Environment
from rein.envs.envpool import EnvPoolEnvironment
from rein.envs.faults import FaultPolicy
from rein.envs.instances import TurnGames
from rein.envs.process import ProcessEnvironment, worker_rows
from rein.envs.single import EnvFactory, EnvSource, fitted_factory, success_factory
from rein.envs.suites import suite_of
from rein.envs.thread import ThreadEnvironment
from rein.envs.vector import VectorEnvironment, native_vector_env
from rein.runtime.cores import usable_cores

__all__ = ["BACKENDS", "create_environment", "is_atari_chosen", "is_self_play_chosen"]

logger = logging.getLogger("rein.envs")

BACKENDS = ("auto", "sync", "process", "thread", "vector", "envpool")

_MEASURE_SECONDS = 0.25
_WORTHWHILE_SECONDS = 300e-6
"""A batched step shorter than this cannot gain from processes: waking them costs about as much."""
_WORTHWHILE_GAIN = 1.1
"""How much faster processes must be to be worth their memory and start-up."""


@configurable
def create_environment(
    env_name: EnvSource = "CartPole-v1",
    num_parallel_environments: int = 1,
    backend: str = "auto",
    seed: int | None = None,
    wrappers: Sequence[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = (),
    env_kwargs: dict[str, Any] | None = None,
    num_workers: int | None = None,
    start_method: str | None = None,
    strict: bool = False,
    max_restarts: int = 10,
    step_timeout: float = 60.0,
    start_timeout: float = 120.0,
    num_slots: int = 2,
    env_load_fn: Callable[..., gym.Env[Any, Any]] | None = None,
    start_serially: bool = False,
    out_of_bounds: str = "warn",
    action_form: str = "any",
    action_masks: bool = False,
    count_successes: bool = False,
) -> Environment:
    """Creates a batch of worlds.

    Backends:

    - "sync": single worlds one after the other in this process;
    - "process": single worlds in worker processes over shared memory; survives worlds that hang or crash;
    - "thread": single worlds in threads of this process, for evaluation beside training;
    - "vector": a compiled batch (classic control, planar MuJoCo walkers) or the world's native vector environment;
    - "envpool": the EnvPool library, with its own ids;
    - "auto": "vector" if there is a compiled batch that gives exactly Gymnasium's trajectories, else the faster of
      "sync" and "process" by a short measurement.

    The same seed gives the same trajectories on sync, process, thread, compiled vector and auto. Native vector
    environments and EnvPool have random numbers of their own.

    Args:
        env_name: an id of Gymnasium or of a suite, or a function that returns a `gymnasium.Env`; an EnvPool id for
            "envpool"; for "vector" also a function ``num_envs -> gymnasium.vector.VectorEnv``.
        num_parallel_environments: number of worlds, the batch size.
        backend: see above.
        seed: of the whole batch; each world gets its own seed derived from it. None for a random one.
        wrappers: applied in order to each world; not available for "vector" and "envpool".
        env_kwargs: passed to the world, for instance ``{"render_mode": "rgb_array"}``.
        num_workers: number of processes or threads; None for one per usable core.
        start_method: how processes start: "forkserver", "spawn" or "fork"; None for the first that there is.
        strict: stop at the first fault instead of making the world anew.
        max_restarts: how often each world may be made anew before the run stops; 100 steps give one restart back.
        step_timeout: seconds after which a worker counts as hung.
        start_timeout: seconds that a worker may take to make its worlds.
        num_slots: number of buffers that steps alternate between; a `TimeStep` stays valid for ``num_slots - 1``
            further steps.
        env_load_fn: makes a world, called as `env_load_fn(env_name, **env_kwargs)` in place of the suites, such as
            `rein.envs.loaders.suite_gym.load`; not available for "vector" and "envpool".
        start_serially: whether each worker process must have made its worlds before the next one starts.
        out_of_bounds: what to do with an observation outside of its Box: "warn" once and pass it on, "clip" it, or "raise"
            it as a fault of the world; not for "vector" and "envpool".
        action_form: one of `rein.envs.action_forms.ACTION_FORMS` that the actions of single worlds are brought into;
            "any" leaves them as they are.
        action_masks: whether a discrete action whose valid values the world tells (by `info["action_mask"]`, an observation
            `action_mask` or a method `action_masks`) is observed with them, see `ActionMaskObservation`.
        count_successes: whether `is_success` of single worlds that do not declare it is looked for in the info of every
            step, as evaluation does; NaN where a world does not say it. Without this it is there if a world says it in its
            first steps.

    Returns:
        The environment, not yet reset; close it after use, or use it in a `with` statement.
    """
    _check_arguments(env_name, num_parallel_environments, backend, num_slots)
    policy = FaultPolicy(strict, max_restarts, step_timeout, start_timeout, out_of_bounds)
    factory = EnvFactory(env_name, tuple(wrappers), dict(env_kwargs or {}), env_load_fn, action_form)
    if backend not in ("vector", "envpool") and _exact_batch(factory) is None:
        if action_form != "any" or action_masks:
            factory = fitted_factory(factory, action_masks)
        if count_successes:
            factory = success_factory(factory)
    reason = "as asked for"
    if backend == "auto":
        backend, reason = _choose_backend(factory, num_parallel_environments, num_workers, start_method, policy)
    logger.info("%s x %d: backend %r, %s", factory.name, num_parallel_environments, backend, reason)
    recipe = partial(
        _create,
        factory,
        num_parallel_environments,
        backend,
        policy,
        num_workers,
        start_method,
        seed,
        num_slots,
        start_serially,
    )
    env = recipe()
    env.recipe = recipe
    return env


def is_atari_chosen() -> bool:
    """Whether the configuration in force gives an Atari game by its id; confs ask this to choose what is usual there."""
    return _chosen_suite() == "atari"


def is_self_play_chosen() -> bool:
    """Whether the configuration in force gives a board game without an opponent."""
    if not is_given("create_environment.env_name"):
        return False
    source = get_config_value("create_environment.env_name")
    if not isinstance(source, TurnGames) and _chosen_suite() not in ("boards", "pettingzoo"):
        return False
    kwargs = get_config_value("create_environment.env_kwargs") or {}
    return kwargs.get("opponent", "self") == "self" and kwargs.get("reward_view", "player_0") == "player_0"


def _chosen_suite() -> str:
    """Name of the suite of the id in force; "" if there is no id, or none that is known."""
    if not is_given("create_environment.env_name") or is_given("create_environment.env_load_fn"):
        return ""
    name = get_config_value("create_environment.env_name")
    try:
        return suite_of(name).name if isinstance(name, str) else ""
    except ValueError:
        return ""  # whoever makes it says that nobody knows it


def _create(
    factory: EnvFactory,
    batch_size: int,
    backend: str,
    policy: FaultPolicy,
    num_workers: int | None,
    start_method: str | None,
    seed: int | None,
    num_slots: int,
    start_serially: bool,
) -> Environment:
    common: dict[str, Any] = {"seed": seed, "num_slots": num_slots}
    if factory.loader is not None and backend in ("vector", "envpool"):
        raise ValueError(f"env_load_fn makes single worlds, and the {backend} backend has none: use backend='sync'")
    if backend == "vector":
        return _create_vector(factory, batch_size, policy, common)
    if backend == "envpool":
        return _create_envpool(factory, batch_size, policy, num_workers, common)
    common["fault_policy"] = policy
    if backend == "sync":
        return BatchEnvironment(factory, batch_size, **common)
    if backend == "thread":
        return ThreadEnvironment(factory, batch_size, num_workers=num_workers, **common)
    return ProcessEnvironment(
        factory,
        batch_size,
        num_workers=num_workers,
        start_method=start_method,
        start_serially=start_serially,
        **common,
    )


def _check_arguments(env_name: EnvSource, batch_size: int, backend: str, num_slots: int) -> None:
    if not isinstance(env_name, str) and not callable(env_name):
        raise TypeError(f"env_name is {env_name!r}: give an id or a function that returns a gymnasium.Env")
    if batch_size < 1:
        raise ValueError(f"num_parallel_environments is {batch_size}: give at least 1")
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}: choose one of {BACKENDS}")
    if num_slots < 2:
        raise ValueError(f"num_slots is {num_slots}: give at least 2, since a step looks at the one before it")


def _create_vector(factory: EnvFactory, batch_size: int, policy: FaultPolicy, common: dict[str, Any]) -> Environment:
    if factory.wrappers:
        raise ValueError("wrappers work on single worlds, and the vector backend has none: use backend='sync'")
    if isinstance(factory.source, str):
        make = _exact_batch(factory)
        if make is not None:
            return make(batch_size, fault_policy=policy, **common)
        vector_env = native_vector_env(factory.source, batch_size, **factory.kwargs)
        if vector_env is None:
            raise ValueError(f"{factory.name!r} has no vector environment: use backend='sync' or 'process'")
    else:
        vector_env = factory.source(batch_size, **factory.kwargs)  # type: ignore[assignment]
    if not isinstance(vector_env, VectorEnv):
        raise TypeError(
            f"{factory.name} gave {type(vector_env).__name__}: for backend='vector' the function must take the number of "
            "worlds and return a gymnasium.vector.VectorEnv"
        )
    return VectorEnvironment(vector_env, fault_policy=policy, **common)


def _create_envpool(
    factory: EnvFactory, batch_size: int, policy: FaultPolicy, num_workers: int | None, common: dict[str, Any]
) -> Environment:
    if factory.wrappers or not isinstance(factory.source, str):
        raise ValueError("the envpool backend takes an EnvPool id and no wrappers: use another backend for the rest")
    kwargs = dict(factory.kwargs)
    if num_workers is not None:
        kwargs.setdefault("num_threads", num_workers)
    return EnvPoolEnvironment(factory.source, batch_size, fault_policy=policy, **common, **kwargs)


# Choosing a backend --------------------------------------------------------------------------------------------------


def _exact_batch(factory: EnvFactory) -> Callable[..., Environment] | None:
    """What makes a compiled batch of the factory's worlds; None if there is none, or none for these arguments."""
    if (
        factory.wrappers
        or factory.kwargs
        or factory.masks
        or factory.loader is not None
        or not isinstance(factory.source, str)
    ):
        return None
    from rein.envs.vectorised import exact_batch

    return exact_batch(factory.source)


def _choose_backend(
    factory: EnvFactory, batch_size: int, num_workers: int | None, start_method: str | None, policy: FaultPolicy
) -> tuple[str, str]:
    """The backend for a batch, and why."""
    if _exact_batch(factory) is not None:
        return "vector", "because it has a compiled batch that was checked against Gymnasium"
    if batch_size == 1:
        return "sync", "because one world has nothing to run beside"
    if len(worker_rows(batch_size, num_workers)) == 1 or usable_cores() == 1:
        return "sync", "because there is only one core or worker"
    with BatchEnvironment(factory, min(batch_size, 4), seed=0, fault_policy=policy) as few:
        seconds = seconds_per_step(few) * batch_size / few.batch_size
    if seconds < _WORTHWHILE_SECONDS:
        return "sync", f"because a step of all worlds takes only {seconds * 1e6:.0f} us"
    with ProcessEnvironment(
        factory, batch_size, 0, policy, num_workers=num_workers, start_method=start_method
    ) as processes:
        in_processes = seconds_per_step(processes)
    measured = f"because a step takes {seconds * 1e6:.0f} us in this process and {in_processes * 1e6:.0f} us in workers"
    return ("process" if seconds > _WORTHWHILE_GAIN * in_processes else "sync"), measured


def seconds_per_step(environment: Environment) -> float:
    """Mean time of a batched step under random actions, resets included."""
    batch = (environment.batch_size,)
    actions = [nest.map_structure(lambda spec: spec.sample(batch), environment.action_spec) for _ in range(16)]
    environment.reset()
    environment.step(actions[0])
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < _MEASURE_SECONDS or count < 3:
        environment.step(actions[count % len(actions)])
        count += 1
    return elapsed / count if count else float(np.inf)
