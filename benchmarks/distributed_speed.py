"""Environment steps per second of schemes beside each other, and beside RLlib.

    python benchmarks/distributed_speed.py overhead     # process and ray with 2 collectors against inline, PPO on Pendulum
    python benchmarks/distributed_speed.py sleeping     # the same in a world that sleeps a millisecond per step
    python benchmarks/distributed_speed.py rllib        # 2 env runners, PPO on CartPole and SAC on Pendulum; needs ray[rllib]

Runs take turns in one session, `--repeats` times, and the medians are compared. Rates are by the clock: the machine must be
quiet, so a warning is printed where others use more than 0.15 cores.
"""

import argparse
import os
import statistics
import time
from typing import Any

BUSY = 0.15


def rein_rate(algorithm: str, env: str, steps: int, **scheme: Any) -> float:
    """Environment steps per second of a run by `rein.make`, once it is warm."""
    import torch

    import rein

    torch.set_num_threads(1)
    with rein.make(algorithm, env, scheme=scheme or None, seed=0) as agent:
        agent.train(steps // 4)
        begin = time.monotonic()
        agent.train(steps)
        return steps / (time.monotonic() - begin)


def rllib_rate(algorithm: str, env: str, seconds: float) -> float:
    """The same by RLlib with two env runners and the sizes of our confs."""
    import importlib

    module = importlib.import_module(f"ray.rllib.algorithms.{algorithm}")
    settings = getattr(module, f"{algorithm.upper()}Config")()
    settings = settings.environment(env).env_runners(num_env_runners=2, num_envs_per_env_runner=4)
    if algorithm == "ppo":
        settings = settings.training(train_batch_size_per_learner=1024, minibatch_size=64, num_epochs=10)
    else:
        settings = settings.training(train_batch_size_per_learner=128)
    built = settings.build_algo()
    total = "num_env_steps_sampled_lifetime"
    try:
        first, begin = built.train()["env_runners"][total], time.monotonic()
        while time.monotonic() - begin < seconds:
            last = built.train()["env_runners"][total]
        return (last - first) / (time.monotonic() - begin)
    finally:
        built.stop()


def sleeping_world() -> str:
    """Registers Pendulum whose step sleeps a millisecond; its id."""
    import gymnasium

    class Sleeping(gymnasium.Wrapper):
        def step(self, action: Any) -> Any:
            time.sleep(1e-3)
            return self.env.step(action)

    name = "SleepingPendulum-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=lambda **_: Sleeping(gymnasium.make("Pendulum-v1")), max_episode_steps=200)
    return name


def compare(runs: dict[str, Any], repeats: int) -> dict[str, float]:
    """Medians of runs that take turns."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            rates[name].append(run())
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("row", choices=("overhead", "sleeping", "rllib"))
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run of RLlib")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if os.getloadavg()[0] > BUSY:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): these rates say little")
    if given.row == "rllib":
        two = {"kind": "sync", "collectors": 2, "backend": "ray"}
        for algorithm, env in (("ppo", "CartPole-v1"), ("sac", "Pendulum-v1")):
            runs = {
                "rein": lambda a=algorithm, e=env: rein_rate(a, e, given.steps, **two),
                "rllib": lambda a=algorithm, e=env: rllib_rate(a, e, given.seconds),
            }
            found = compare(runs, given.repeats)
            print(f"{algorithm} {env}: {found}, {found['rein'] / found['rllib']:.1f} times (bar 3)")
        return
    env = sleeping_world() if given.row == "sleeping" else "Pendulum-v1"
    runs = {
        name: lambda scheme=scheme: rein_rate("ppo", env, given.steps, **scheme)
        for name, scheme in {
            "inline": {},
            "process": {"kind": "sync", "collectors": 2, "backend": "process"},
            "ray": {"kind": "sync", "collectors": 2, "backend": "ray"},
        }.items()
    }
    found = compare(runs, given.repeats)
    for name in ("process", "ray"):
        print(
            f"{name}: {found[name]:,.0f} steps/s, {found[name] / found['inline']:.2f} of inline ({found['inline']:,.0f})"
        )


if __name__ == "__main__":
    main()
