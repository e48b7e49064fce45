"""What a run loses when collectors are killed: rates, fragments that came twice, samples of unknown versions.

    python benchmarks/distributed_faults.py --backend process --seconds 180 --every 5
    python benchmarks/distributed_faults.py --backend ray --seconds 180 --every 5
    python benchmarks/distributed_faults.py --backend ray --algorithm ppo

CartPole with two asynchronous collectors, in one run: half a minute undisturbed, then half a minute in which a collector is
killed every few seconds, and so on, so that what else the machine does slows both alike. IMPALA learns
once from each fragment, so that collectors have as much to do as the learner: the hardest case. PPO, by the settings of its
conf, learns ten times from each. Every fragment that is delivered is counted here, by number and version.
"""

import argparse
import math
import os
import signal
import tempfile
import time
from typing import Any

_PERIOD = 30.0
"""Seconds until killing begins or ends."""


def run(backend: str, algorithm_name: str, seconds: float, every: float) -> dict[str, Any]:
    """Trains for so long undisturbed, and for as long while collectors are killed."""
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
        given |= {"TrainerConfig.num_env_steps": 10**9, "TrainerConfig.compile": False}
        if algorithm_name == "impala":
            given |= {"TrainerConfig.unroll_length": 64, "TrainerConfig.mini_batch_length": 64}
        pre_config(given, place="faults")
        configure(find_algorithm(algorithm_name).path)
        with Run(seed=0) as current:
            current.seed_everything()
            env = create_environment(seed=0)
            algorithm = build_algorithm(TrainerConfig(root_dir=folder), env)
            attach(algorithm, Scheme("async", collectors=2, backend=backend))
            rollout: Any = algorithm.rollout
            seen = Seen(rollout)
            for _ in range(5):
                algorithm.train_iter()
            steps, spent, killed = [0, 0], [0.0, 0.0], 0
            for period in range(2 * math.ceil(seconds / _PERIOD)):
                kills = period % 2
                first, begin, due = algorithm.env_steps, time.monotonic(), 0.5 * every
                while (passed := time.monotonic() - begin) < min(_PERIOD, seconds):
                    algorithm.train_iter()
                    if kills and passed > due:
                        _kill(rollout._team._workers[killed % 2], backend)
                        killed, due = killed + 1, due + every
                steps[kills] += algorithm.env_steps - first
                spent[kills] += time.monotonic() - begin
            replaced, dropped = rollout._team.replaced, rollout.dropped
            algorithm.close_rollout()
            env.close()
    return {
        "undisturbed": steps[0] / spent[0],
        "disturbed": steps[1] / spent[1],
        "fragments": len(seen.numbers),
        "twice": seen.twice,
        "unknown": seen.unknown,
        "killed": killed,
        "replaced": replaced,
        "dropped": dropped,
    }


class Seen:
    """Counts the fragments that a rollout takes: how many came twice, and how many have a version that nobody published."""

    def __init__(self, rollout: Any) -> None:
        """Looks at what `rollout` takes from now on."""
        self.numbers: set[int] = set()
        self.twice = self.unknown = 0
        self._published: set[int] = set()
        self._take, self._publish = rollout._take, rollout._backend.publish
        rollout._take, rollout._backend.publish = self._look, self._note

    def _note(self, flat: Any, version: int) -> None:
        self._published.add(version)
        self._publish(flat, version)

    def _look(self, fragment: Any) -> None:
        self.twice += fragment.number in self.numbers
        self.unknown += fragment.version not in self._published
        self.numbers.add(fragment.number)
        self._take(fragment)


def _kill(worker: Any, backend: str) -> None:
    if backend == "process":
        os.kill(worker.process.pid, signal.SIGKILL)
    else:
        import ray

        ray.kill(worker.actor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=("process", "ray"), default="process")
    parser.add_argument("--algorithm", choices=("impala", "ppo"), default="impala")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--every", type=float, default=5.0)
    given = parser.parse_args()
    found = run(given.backend, given.algorithm, given.seconds, given.every)
    print(found)
    print(f"{found['disturbed'] / found['undisturbed']:.0%} of the undisturbed rate")


if __name__ == "__main__":
    main()
