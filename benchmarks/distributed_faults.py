"""What a run loses when collectors are killed: rates, fragments that came twice, samples of unknown versions.

    python benchmarks/distributed_faults.py --backend process --seconds 180 --every 5
    python benchmarks/distributed_faults.py --backend ray --seconds 180 --every 5

PPO on CartPole with two asynchronous collectors, once undisturbed and once with a collector killed every few seconds. A
fragment that comes twice, or has a version that was never published, ends the run with an error.
"""

import argparse
import os
import signal
import tempfile
import time
from typing import Any


def run(backend: str, seconds: float, every: float | None) -> dict[str, Any]:
    """Trains for so long, killing a collector from time to time."""
    import torch

    from rein.config import fresh_configs, install_name_resolver, pre_config
    from rein.distributed import Scheme, attach
    from rein.envs import create_environment
    from rein.framework import TrainerConfig
    from rein.runtime import Run
    from rein.training.construction import build_algorithm
    from rein.training.launch import configure
    from rein.zoo import find_algorithm

    torch.set_num_threads(1)
    with fresh_configs(), tempfile.TemporaryDirectory() as folder:
        install_name_resolver()
        world = {"env_name": "CartPole-v1", "num_parallel_environments": 8, "num_workers": 1}
        given = {f"create_environment.{name}": value for name, value in world.items()}
        pre_config({**given, "TrainerConfig.unroll_length": 64, "TrainerConfig.num_env_steps": 10**9}, place="faults")
        configure(find_algorithm("impala").path, ["TrainerConfig.mini_batch_length=64"])
        with Run(seed=0) as current:
            current.seed_everything()
            env = create_environment(seed=0)
            algorithm = build_algorithm(TrainerConfig(root_dir=folder), env)
            attach(algorithm, Scheme("async", collectors=2, backend=backend))
            rollout: Any = algorithm.rollout
            for _ in range(5):
                algorithm.train_iter()
            first, begin, killed = algorithm.env_steps, time.monotonic(), 0
            while time.monotonic() - begin < seconds:
                algorithm.train_iter()
                if every is not None and time.monotonic() - begin > (killed + 1) * every:
                    _kill(rollout._team._workers[killed % 2], backend)
                    killed += 1
            spent = time.monotonic() - begin
            rate, fragments = (algorithm.env_steps - first) / spent, rollout.delivered
            replaced, dropped = rollout._team.replaced, rollout.dropped
            algorithm.close_rollout()
            env.close()
    return {
        "steps_per_second": rate,
        "fragments": fragments,
        "killed": killed,
        "replaced": replaced,
        "dropped": dropped,
    }


def _kill(worker: Any, backend: str) -> None:
    if backend == "process":
        os.kill(worker.process.pid, signal.SIGKILL)
    else:
        import ray

        ray.kill(worker.actor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=("process", "ray"), default="process")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--every", type=float, default=5.0)
    given = parser.parse_args()
    clean = run(given.backend, given.seconds, None)
    print(f"undisturbed: {clean}", flush=True)
    killed = run(given.backend, given.seconds, given.every)
    print(f"killed every {given.every:g} s: {killed}")
    share = killed["steps_per_second"] / clean["steps_per_second"]
    print(f"{share:.0%} of the clean rate, 0 fragments twice, 0 of unknown version (either ends the run)")


if __name__ == "__main__":
    main()
