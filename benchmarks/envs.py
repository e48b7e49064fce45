"""Environment steps per second: Rein's backends beside Gymnasium, Stable-Baselines3 and raw EnvPool.

    python benchmarks/envs.py                                  # everything, about ten minutes on two cores
    python benchmarks/envs.py --worlds CartPole-v1 --counts 8  # one part
    python benchmarks/envs.py --quick                          # one short repetition, to see that it runs

Every contender runs in a fresh process of its own, takes prepared random actions, and is timed after a warm-up, resets
included; Rein's numbers include the `TimeStep`. Contenders take turns, `--repeats` times, and the median counts. Atari is
the usual preprocessing everywhere (no-op starts, frame skip 4, 84x84 gray, no stacking, no sticky actions). What is not
installed is left out and listed.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

WORLDS = ("CartPole-v1", "Pendulum-v1", "Hopper-v5", "Breakout")
COUNTS = (1, 8, 32)
OURS = ("rein sync", "rein process", "rein thread", "rein vector", "rein envpool", "rein auto")
PEERS = ("gymnasium sync", "gymnasium async", "gymnasium vector", "sb3 dummy", "sb3 subproc", "envpool")
NUM_ACTIONS = 64
WARM_UP_STEPS = 20
ATARI_VECTOR = {"stack_num": 1, "repeat_action_probability": 0.0, "reward_clipping": False}

Step = Callable[[int], Any]
Contender = tuple[Step, Callable[[], Any]]


class NotOfferedError(Exception):
    """A contender does not have this world."""


# Contenders: each gives a function that takes step number i, and one that closes -------------------------------------


def rein_contender(backend: str, world: str, count: int) -> Contender:
    import torch

    from rein.envs import create_environment

    torch.set_num_threads(1)
    kwargs: dict[str, Any] = {}
    if world == "Breakout":
        world, kwargs = "ALE/Breakout-v5", {"repeat_action_probability": 0.0}
        if backend == "vector":
            kwargs = ATARI_VECTOR
        elif backend == "envpool":
            world, kwargs = "Breakout-v5", {"stack_num": 1}
    try:
        environment = create_environment(world, count, backend=backend, seed=0, env_kwargs=kwargs)
    except ValueError as error:
        if "no vector environment" in str(error):
            raise NotOfferedError(str(error)) from error
        raise
    environment.reset()
    actions = [environment.action_spec.sample((count,)) for _ in range(NUM_ACTIONS)]
    step = environment.step
    return lambda i: step(actions[i % NUM_ACTIONS]), environment.close


def single_world(world: str) -> Any:
    import gymnasium as gym

    if world != "Breakout":
        return gym.make(world)
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing

    gym.register_envs(ale_py)
    return AtariPreprocessing(gym.make("BreakoutNoFrameskip-v4"), noop_max=30, frame_skip=4, screen_size=84)


def gymnasium_contender(mode: str, world: str, count: int) -> Contender:
    import gymnasium as gym

    make = functools.partial(single_world, world)
    if mode == "sync":
        env: Any = gym.vector.SyncVectorEnv([make] * count)
    elif mode == "async":
        env = gym.vector.AsyncVectorEnv([make] * count)
    elif world == "Breakout":
        import ale_py

        gym.register_envs(ale_py)
        env = gym.make_vec("ALE/Breakout-v5", count, vectorization_mode="vector_entry_point", **ATARI_VECTOR)
    elif gym.spec(world).vector_entry_point is None:
        raise NotOfferedError(f"{world} has no vector entry point")
    else:
        env = gym.make_vec(world, count, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(NUM_ACTIONS)]
    return lambda i: env.step(actions[i % NUM_ACTIONS]), env.close


def sb3_contender(mode: str, world: str, count: int) -> Contender:
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    vector_class = DummyVecEnv if mode == "dummy" else SubprocVecEnv
    if world == "Breakout":
        import ale_py
        import gymnasium as gym

        gym.register_envs(ale_py)
        settings = {"terminal_on_life_loss": False, "clip_reward": False}
        env: Any = make_atari_env(
            "BreakoutNoFrameskip-v4",
            count,
            vec_env_cls=vector_class,
            wrapper_kwargs=settings,  # type: ignore[arg-type]
        )
    else:
        env = vector_class([functools.partial(single_world, world)] * count)
    env.reset()
    actions = [np.array([env.action_space.sample() for _ in range(count)]) for _ in range(NUM_ACTIONS)]
    return lambda i: env.step(actions[i % NUM_ACTIONS]), env.close


def envpool_contender(world: str, count: int) -> Contender:
    import envpool

    name, settings = (world, {}) if world != "Breakout" else ("Breakout-v5", {"stack_num": 1})
    env: Any = envpool.make(name, env_type="gymnasium", num_envs=count, **settings)
    env.reset()
    actions = [np.stack([env.action_space.sample() for _ in range(count)]) for _ in range(NUM_ACTIONS)]
    return lambda i: env.step(actions[i % NUM_ACTIONS]), env.close


def contender(name: str, world: str, count: int) -> Contender:
    library, _, mode = name.partition(" ")
    if library == "rein":
        return rein_contender(mode, world, count)
    if library == "gymnasium":
        return gymnasium_contender(mode, world, count)
    if library == "sb3":
        return sb3_contender(mode, world, count)
    return envpool_contender(world, count)


# Measuring -----------------------------------------------------------------------------------------------------------


def steps_per_second(step: Step, count: int, seconds: float) -> float:
    for number in range(WARM_UP_STEPS):
        step(number)
    taken, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        step(taken)
        taken += 1
    return taken * count / elapsed


def measure_here(name: str, world: str, counts: list[int], seconds: float) -> None:
    """Measures one contender in this process and prints one JSON line per count."""
    warnings.filterwarnings("ignore")
    for count in counts:
        result: dict[str, Any] = {"name": name, "world": world, "count": count}
        try:
            step, close = contender(name, world, count)
        except (ImportError, NotOfferedError) as error:
            result["missing"] = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            result["rate"] = steps_per_second(step, count, seconds)
            close()
        print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)  # Some libraries hang in their threads' destructors.


def measure(name: str, world: str, counts: list[int], seconds: float) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--measure", name, world, "--seconds", str(seconds), "--counts"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *map(str, counts)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    for count in counts[len(lines) :]:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        lines.append({"name": name, "world": world, "count": count, "missing": f"failed: {reason}"})
    return lines


def collect(arguments: argparse.Namespace) -> tuple[dict[tuple[str, int, str], list[float]], dict[str, str]]:
    rates: dict[tuple[str, int, str], list[float]] = {}
    missing: dict[str, str] = {}
    for repeat in range(arguments.repeats):
        for world in arguments.worlds:
            for name in arguments.contenders:
                print(f"{repeat + 1}/{arguments.repeats} {world} {name}", file=sys.stderr, flush=True)
                for result in measure(name, world, arguments.counts, arguments.seconds):
                    if "missing" in result:
                        missing[f"{name} / {world} x {result['count']}"] = result["missing"]
                    else:
                        rates.setdefault((world, result["count"], name), []).append(result["rate"])
    return rates, missing


# Reporting -----------------------------------------------------------------------------------------------------------


def report(arguments: argparse.Namespace, rates: dict[tuple[str, int, str], list[float]]) -> None:
    names = arguments.contenders
    medians = {key: statistics.median(values) for key, values in rates.items()}
    width = max(len(name) for name in names)
    print(
        f"\n{'world':<12} {'envs':>4}  " + " ".join(f"{name:>{width}}" for name in names) + "   best rein / best peer"
    )
    for world in arguments.worlds:
        for count in arguments.counts:
            row = [medians.get((world, count, name)) for name in names]
            cells = " ".join(f"{'-' if rate is None else f'{rate:,.0f}':>{width}}" for rate in row)
            print(f"{world:<12} {count:>4}  {cells}   {ratio(medians, world, count)}")


def ratio(medians: dict[tuple[str, int, str], float], world: str, count: int) -> str:
    def best(names: tuple[str, ...]) -> tuple[float, str] | None:
        found = [(medians[world, count, name], name) for name in names if (world, count, name) in medians]
        return max(found) if found else None

    ours, theirs = best(OURS), best(PEERS)
    if ours is None or theirs is None:
        return "-"
    text = f"{ours[0] / theirs[0]:.2f}x ({ours[1]} / {theirs[1]})"
    pools = [medians.get((world, count, name)) for name in ("rein envpool", "envpool")]
    if pools[0] and pools[1]:
        text += f"; {pools[0] / pools[1]:.2f}x raw envpool"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--counts", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--contenders", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per contender, world and count")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repetition of 0.2 s each")
    parser.add_argument("--json", help="file for all rates")
    parser.add_argument("--measure", nargs=2, metavar=("CONTENDER", "WORLD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure_here(*arguments.measure, arguments.counts, arguments.seconds)
    if arguments.quick:
        arguments.repeats, arguments.seconds = 1, 0.2
    rates, missing = collect(arguments)
    report(arguments, rates)
    for what, reason in missing.items():
        print(f"left out: {what}: {reason}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(
                [{"world": w, "count": c, "name": n, "rates": r} for (w, c, n), r in rates.items()], file, indent=1
            )


if __name__ == "__main__":
    main()
