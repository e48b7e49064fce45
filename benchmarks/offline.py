"""Updates per second of offline algorithms, and learning from a file that is larger than memory.

    python benchmarks/offline.py updates iql             # eager
    python benchmarks/offline.py updates iql --compile
    python benchmarks/offline.py large --gigabytes 10    # peak of the process's own memory while it learns from such a file

Sizes of `updates`: 17 observations, 6 actions, minibatches of 256 transitions, networks of 256x256, two critics. One thread.
Rates are by wall and by processor time (`cpu_rate`), which other processes disturb less. Each prints a result line.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from measuring import calls_per_second, emit

import rein
from rein.api import AgentHandle
from rein.data_structures import Experience, StepType, TimeStep
from rein.replay.datasets import DataSetWriter
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATIONS, ACTIONS, LENGTH = 17, 6, 1000


def write(path: Path, episodes: int, observations: int = OBSERVATIONS) -> None:
    """A data set of random numbers."""
    action = BoundedTensorSpec((ACTIONS,), torch.float32, -1.0, 1.0)
    with DataSetWriter(path, TensorSpec((observations,)), action) as writer:
        writer.add_source({"policy": "random numbers"})
        kinds = torch.full((LENGTH,), StepType.MID, dtype=torch.int32)
        kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
        for _ in range(episodes):
            time_step = TimeStep(
                step_type=kinds,
                reward=torch.randn(LENGTH),
                discount=torch.ones(LENGTH),
                observation=torch.randn(LENGTH, observations),
            )
            writer.add_episode(Experience(time_step, action=torch.rand(LENGTH, ACTIONS) * 2 - 1))


def make(name: str, path: Path, **settings: Any) -> AgentHandle:
    """An agent whose iterations are twenty updates."""
    common = {"TrainerConfig.summarize_first_interval": False, "TrainerConfig.summary_interval": 10**6}
    agent = rein.make(name, data=path, seed=0, num_updates_per_train_iter=20, settings={**common, **settings})
    assert isinstance(agent, AgentHandle)
    return agent


def updates(name: str, is_compiled: bool, seconds: float) -> None:
    """Updates per second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.data"
        write(path, 100)
        agent = make(name, path, **{"TrainerConfig.compile": is_compiled})
        window = calls_per_second(agent.algorithm.train_iter, seconds, warm_calls=5)
        result = {key: (20 * value if key != "opened_after" else value) for key, value in window.result().items()}
        emit(f"offline/{name}/{'compiled' if is_compiled else 'eager'}", "updates/s", **result)


def memory(field: str) -> float:
    """Megabytes that the system says about this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def large(gigabytes: float, folder: str | None) -> None:
    """Learns from a file of that size; the peak is of memory that cannot be given back, which the mapped file can."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path, observations = Path(place) / "large.data", 250
        row = 4 * (observations + ACTIONS + 3)
        write(path, int(gigabytes * 2**30 / row / LENGTH) + 1, observations)
        before = memory("RssAnon")
        agent = make("iql", path)
        peak = before
        for _ in range(20):
            agent.algorithm.train_iter()
            peak = max(peak, memory("RssAnon"))
        size = path.stat().st_size / 2**30
        emit("offline/large", "MB", value=peak, before=before, file_gb=round(size, 2), updates=400)


def main() -> None:
    """Runs one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("updates", "large"))
    parser.add_argument("algorithm", nargs="?", default="iql", choices=("bc", "causal_bc", "iql"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", help="where the large file goes (default: the system's temporary directory)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "updates":
        updates(arguments.algorithm, arguments.compile, arguments.seconds)
    else:
        large(arguments.gigabytes, arguments.folder)


if __name__ == "__main__":
    main()
