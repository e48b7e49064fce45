"""Environment steps per second of schemes beside each other, and beside RLlib.

    python benchmarks/distributed_speed.py overhead     # process and ray with 2 collectors against inline, PPO on Pendulum
    python benchmarks/distributed_speed.py sleeping     # the same in a world that sleeps a millisecond per step
    python benchmarks/distributed_speed.py rllib --rllib-python PEER/bin/python
                                                        # 2 env runners, PPO on CartPole and SAC on Pendulum

Every run is a process of its own; runs take turns, `--repeats` times, and the medians are compared. Rates are by the clock:
the machine must be quiet, so what it is busy with before each run is printed where it is more than 0.15 cores. Updates are
not compiled unless `--compile` is given. RLlib (`pip install torch 'ray[rllib]'`) lives in an environment of its own. It has
as many worlds, steps, updates and hidden units as ours: PPO 2 x 4 worlds, 1,024 steps, ten passes in minibatches of 64,
networks of 64 x 64; SAC 2 x 1 worlds, one update from 256 transitions for every 2 steps, networks of 256 x 256, uniform
replay.
"""

import argparse
import json
import statistics
import sys
import time
from typing import Any

import gymnasium
from measuring import BUSY, busy_seconds, emit, run_measured

_TIMEOUT = 1800.0

OVERHEAD = {
    "inline": {},
    "process": {"kind": "sync", "collectors": 2, "backend": "process"},
    "ray": {"kind": "sync", "collectors": 2, "backend": "ray"},
}
SLEEPING = {
    **OVERHEAD,
    "process, async": {"kind": "async", "collectors": 2, "backend": "process"},
    "ray, async": {"kind": "async", "collectors": 2, "backend": "ray"},
}
PEERS = {"ppo": ("CartPole-v1", 4, 60_000), "sac": ("Pendulum-v1", 1, 6_000)}
"""Of each algorithm the world, how many of it a worker has, and steps to time."""


class Sleeping(gymnasium.Wrapper):
    """A world whose step sleeps a millisecond."""

    def step(self, action: Any) -> Any:
        """Sleeps first."""
        time.sleep(1e-3)
        return self.env.step(action)


def sleeping_pendulum() -> gymnasium.Env:
    """Pendulum whose step sleeps a millisecond."""
    return Sleeping(gymnasium.make("Pendulum-v1"))


def measure_rein(
    algorithm: str, env: str, steps: int, scheme: dict[str, Any], worlds: int | None, compiled: bool
) -> None:
    """Environment steps per second of a run by `rein.make`, once a quarter of them has been made."""
    import torch

    import rein

    torch.set_num_threads(1)
    settings: dict[str, Any] = {"TrainerConfig.compile": compiled, "TrainerConfig.evaluate": False}
    if worlds is not None:
        settings["create_environment.num_parallel_environments"] = worlds
    if algorithm == "sac":
        settings["TrainerConfig.unroll_length"] = 2
    world = sleeping_pendulum if env == "sleeping" else env
    with rein.make(algorithm, world, scheme=scheme or None, seed=0, settings=settings) as agent:
        agent.train(steps // 4)
        first, begin = agent.algorithm.env_steps, time.monotonic()
        agent.train(steps)
        emit("rate", "env steps/s", value=(agent.algorithm.env_steps - first) / (time.monotonic() - begin))


def measure_rllib(algorithm: str, env: str, seconds: float, worlds: int) -> None:
    """The same by RLlib with two env runners."""
    import importlib

    import torch

    torch.set_num_threads(1)
    module = importlib.import_module(f"ray.rllib.algorithms.{algorithm}")
    settings = getattr(module, f"{algorithm.upper()}Config")()
    settings = settings.environment(env).env_runners(num_env_runners=2, num_envs_per_env_runner=worlds)
    if algorithm == "ppo":
        settings = settings.training(train_batch_size_per_learner=1024, minibatch_size=64, num_epochs=10)
        network = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False}
    else:
        replay = {"type": "EpisodeReplayBuffer", "capacity": 1_000_000}
        settings = settings.env_runners(rollout_fragment_length=1).training(
            train_batch_size_per_learner=256, num_steps_sampled_before_learning_starts=1000, replay_buffer_config=replay
        )
        network = {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"}
    built = settings.rl_module(model_config=network).build_algo()
    try:
        steps = 0
        # Until it learns.
        while steps < 1_100:
            steps = _sampled(built.train())
        first, begin = steps, time.monotonic()
        while time.monotonic() - begin < seconds:
            result = built.train()
        rate = (_sampled(result) - first) / (time.monotonic() - begin)
        learners = result["learners"]["__all_modules__"]
        trained = learners.get("num_module_steps_trained_lifetime", learners.get("num_env_steps_trained_lifetime"))
        emit("rate", "env steps/s", value=rate, trained_per_step=float(trained or 0) / _sampled(result))
    finally:
        built.stop()


def _sampled(result: dict[str, Any]) -> int:
    return int(result["env_runners"]["num_env_steps_sampled_lifetime"])


def compare(runs: dict[str, list[str]], repeats: int) -> dict[str, list[float]]:
    """Rates of runs that take turns, by name; a run is a command."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, command in runs.items():
            busy = cores_in_use()
            measured = run_measured(command, threads=2, timeout=_TIMEOUT)
            if measured.error:
                raise SystemExit(f"{name}: {measured.error}")
            found = measured.records[-1]
            rates[name].append(found["value"])
            more = {key: one for key, one in found.items() if key == "trained_per_step"}
            warning = f"  (others use {busy:.2f} cores: this says little)" if busy > BUSY else ""
            print(f"  {name}: {found['value']:,.0f} steps/s {more or ''}{warning}", flush=True)
    return rates


def cores_in_use(seconds: float = 2.0) -> float:
    """What the machine is busy with while this process sleeps."""
    before = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - before) / seconds


def report(rates: dict[str, list[float]], against: str, bar: float) -> None:
    """Prints each rate as a share of that of `against`."""
    base = statistics.median(rates[against])
    for name, found in rates.items():
        middle = statistics.median(found)
        print(
            f"{name}: {middle:,.0f} steps/s ({min(found):,.0f} to {max(found):,.0f}), {middle / base:.2f} x (bar {bar})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("row", choices=("overhead", "sleeping", "rllib", "one"))
    parser.add_argument("--steps", type=int, help="to time in each of our runs (default: 40,000; 20,000 that sleep)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run of RLlib")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="compile our updates")
    parser.add_argument("--rllib-python", default=sys.executable, help="interpreter that has RLlib")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row == "one":
        (measure_rllib if given.run.pop("library") == "rllib" else measure_rein)(**given.run)
        return

    def command(python: str, library: str, **run: Any) -> list[str]:
        return [python, __file__, "one", "--run", json.dumps({"library": library, **run})]

    def ours(algorithm: str, env: str, steps: int, scheme: dict[str, Any], worlds: int | None = None) -> list[str]:
        run = {"algorithm": algorithm, "env": env, "steps": given.steps or steps, "scheme": scheme}
        return command(sys.executable, "rein", **run, worlds=worlds, compiled=given.compile)

    if given.row == "rllib":
        for algorithm, (env, worlds, steps) in PEERS.items():
            print(f"{algorithm} {env}")
            theirs = {"algorithm": algorithm, "env": env, "seconds": given.seconds, "worlds": worlds}
            scheme = {"kind": "sync", "collectors": 2, "backend": "ray"}
            runs = {
                "rllib": command(given.rllib_python, "rllib", **theirs),
                "rein": ours(algorithm, env, steps, scheme, worlds),
            }
            report(compare(runs, given.repeats), "rllib", 3.0)
        return
    sleeps = given.row == "sleeping"
    env, steps = ("sleeping", 20_000) if sleeps else ("Pendulum-v1", 40_000)
    runs = {name: ours("ppo", env, steps, scheme) for name, scheme in (SLEEPING if sleeps else OVERHEAD).items()}
    report(compare(runs, given.repeats), "inline", 1.8 if sleeps else 0.8)


if __name__ == "__main__":
    main()
