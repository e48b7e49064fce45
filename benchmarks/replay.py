"""How fast replay buffers add, sample and re-prioritize, beside other libraries in the same run.

    python benchmarks/replay.py                                   # Rein and whatever this interpreter can import
    python benchmarks/replay.py --peers-python PY --tianshou-python PY   # other libraries in environments of their own
    python benchmarks/replay.py --quick                           # small and short: does it run at all?

Every library runs in a process of its own, one thread, and the libraries take turns for `--rounds` rounds; the table
shows the median round. What is timed is the same for all: adding one transition of each of 8 environments, sampling 256
transitions (state, action, reward, next state) uniformly and by priority, changing 256 priorities, and sampling 256
sequences of 8 steps. Rein stores each state once, so a transition is a sequence of two steps; the others store the next
state too. Priorities are changed at the places of earlier samples, never twice the same set in a row.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

NUM_ENVS, BATCH, LENGTH = 8, 256, 8
LIBRARIES = ["rein", "sb3", "torchrl", "tianshou", "cpprb"]
ROWS = ["add", "sample", "add by priority", "sample by priority", "update priorities", "sequences"]
UNITS = {"add": "transitions/s", "add by priority": "transitions/s"}
Operations = dict[str, Callable[[], Any]]


class Workload:
    """The data of one benchmark: `vec` (17 floats, 6 actions) or `img` (84x84x4 bytes, discrete actions)."""

    def __init__(self, kind: str, is_quick: bool) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        self.kind = kind
        self.capacity = {"vec": 1_000_000, "img": 100_000}[kind] // (50 if is_quick else 1)
        self.fill = min(self.capacity, 200_000 if kind == "vec" else 100_000)
        if kind == "vec":
            self.observation = rng.standard_normal((NUM_ENVS, 17)).astype(np.float32)
            self.action = rng.standard_normal((NUM_ENVS, 6)).astype(np.float32)
        else:
            self.observation = rng.integers(0, 255, (NUM_ENVS, 4, 84, 84), dtype=np.uint8)
            self.action = rng.integers(0, 4, (NUM_ENVS,), dtype=np.int64)
        self.reward = np.ones(NUM_ENVS, np.float32)
        self.done = np.zeros(NUM_ENVS, bool)
        self.priorities = rng.random(BATCH).astype(np.float32) + 1e-3


def rein_operations(work: Workload, by_priority: bool) -> Operations:
    import torch

    from rein import nest
    from rein.data_structures import Experience, TimeStep
    from rein.replay import ReplayBuffer, warm_up
    from rein.specs import extract_spec

    torch.set_num_threads(1)
    warm_up()
    observation, action = torch.from_numpy(work.observation), torch.from_numpy(work.action)
    step = Experience(
        time_step=TimeStep(
            step_type=torch.ones(NUM_ENVS, dtype=torch.int32),
            reward=torch.from_numpy(work.reward),
            discount=torch.ones(NUM_ENVS),
            observation=observation,
        ),
        action=action,
    )
    spec = extract_spec(step)
    length = work.capacity // NUM_ENVS
    buffer = ReplayBuffer(spec, NUM_ENVS, length, prioritized_sampling=by_priority)
    priorities = torch.from_numpy(work.priorities)
    places: list[Any] = []

    def update() -> None:
        info = places[0]
        places.append(places.pop(0))
        buffer.update_priority(info.env_ids, info.positions, priorities)

    def prepare() -> None:
        places.extend(buffer.get_batch(BATCH, 2)[1] for _ in range(64))

    raw = sum(leaf.numel * leaf.dtype.itemsize for leaf in nest.flatten(spec)) * NUM_ENVS * length
    print(json.dumps({"row": "memory", "value": buffer.memory_bytes / raw}), flush=True)
    return {
        "add": lambda: buffer.add_batch(step),
        "sample": lambda: buffer.get_batch(BATCH, 2),
        "sequences": lambda: buffer.get_batch(BATCH, LENGTH),
        "prepare": prepare,
        "update": update,
    }


def sb3_operations(work: Workload, by_priority: bool) -> Operations:
    import gymnasium as gym
    import numpy as np
    from stable_baselines3.common.buffers import ReplayBuffer

    if by_priority:
        return {}
    box = gym.spaces.Box
    if work.kind == "vec":
        spaces = box(-np.inf, np.inf, (17,), np.float32), box(-1, 1, (6,), np.float32)
    else:
        spaces = box(0, 255, (4, 84, 84), np.uint8), gym.spaces.Discrete(4)
    buffer = ReplayBuffer(work.capacity, *spaces, device="cpu", n_envs=NUM_ENVS)
    infos: list[dict[str, Any]] = [{} for _ in range(NUM_ENVS)]
    arrays = (work.observation, work.observation, work.action, work.reward, work.done)
    return {"add": lambda: buffer.add(*arrays, infos), "sample": lambda: buffer.sample(BATCH)}


def torchrl_operations(work: Workload, by_priority: bool) -> Operations:
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

    torch.set_num_threads(1)
    observation, done = torch.from_numpy(work.observation), torch.from_numpy(work.done)[:, None]
    after = {
        "observation": observation,
        "reward": torch.from_numpy(work.reward)[:, None],
        "terminated": done,
        "done": done,
    }
    step = TensorDict(
        {"observation": observation, "action": torch.from_numpy(work.action), "next": TensorDict(after, [NUM_ENVS])},
        [NUM_ENVS],
    )
    storage = LazyTensorStorage(work.capacity)
    if by_priority:
        buffer: Any = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=storage, batch_size=BATCH)
    else:
        buffer = TensorDictReplayBuffer(storage=storage, batch_size=BATCH)
    priorities, places = torch.from_numpy(work.priorities), []

    def update() -> None:
        places.append(places.pop(0))
        buffer.update_priority(places[0], priorities)

    sequences = None
    if not by_priority:
        sampler = SliceSampler(slice_len=LENGTH, end_key=("next", "done"), cache_values=True)
        slices = TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=BATCH * LENGTH)
        sequences = slices.sample
    operations = {
        "add": lambda: buffer.extend(step),
        "sample": buffer.sample,
        "prepare": lambda: places.extend(buffer.sample()["index"] for _ in range(64)),
        "update": update,
    }
    return {**operations, "sequences": sequences} if sequences is not None else operations


def tianshou_operations(work: Workload, by_priority: bool) -> Operations:
    import numpy as np
    from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer

    if by_priority:
        buffer: Any = PrioritizedVectorReplayBuffer(work.capacity, NUM_ENVS, alpha=0.6, beta=0.4)
    else:
        buffer = VectorReplayBuffer(work.capacity, NUM_ENVS)
    ids, places = np.arange(NUM_ENVS), []

    def add() -> None:
        batch = Batch(
            obs=work.observation,
            act=work.action,
            rew=work.reward,
            terminated=work.done,
            truncated=work.done,
            obs_next=work.observation,
            info=Batch(),
        )
        buffer.add(batch, buffer_ids=ids)

    def update() -> None:
        places.append(places.pop(0))
        buffer.update_weight(places[0], work.priorities)

    def sequences() -> Any:
        indices = [buffer.sample_indices(BATCH)]
        for _ in range(LENGTH - 1):
            indices.append(buffer.next(indices[-1]))
        return buffer[np.stack(indices, axis=1).reshape(-1)]

    return {
        "add": add,
        "sample": lambda: buffer.sample(BATCH),
        "prepare": lambda: places.extend(buffer.sample(BATCH)[1] for _ in range(64)),
        "update": update,
        "sequences": sequences,
    }


def cpprb_operations(work: Workload, by_priority: bool) -> Operations:
    import cpprb
    import numpy as np

    shape = work.observation.shape[1:]
    kind = np.float32 if work.kind == "vec" else np.uint8
    fields = {
        "obs": {"shape": shape, "dtype": kind},
        "act": {"shape": (6,), "dtype": np.float32} if work.kind == "vec" else {"shape": 1, "dtype": np.int64},
        "rew": {},
        "next_obs": {"shape": shape, "dtype": kind},
        "done": {},
    }
    step = {
        "obs": work.observation,
        "act": work.action,
        "rew": work.reward,
        "next_obs": work.observation,
        "done": work.done,
    }
    places: list[Any] = []
    if not by_priority:
        plain = cpprb.ReplayBuffer(work.capacity, fields)
        return {"add": lambda: plain.add(**step), "sample": lambda: plain.sample(BATCH)}
    buffer = cpprb.PrioritizedReplayBuffer(work.capacity, fields, alpha=0.6)

    def update() -> None:
        places.append(places.pop(0))
        buffer.update_priorities(places[0], work.priorities)

    return {
        "add": lambda: buffer.add(**step),
        "sample": lambda: buffer.sample(BATCH, beta=0.4),
        "prepare": lambda: places.extend(buffer.sample(BATCH, beta=0.4)["indexes"] for _ in range(64)),
        "update": update,
    }


def rate(operation: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    """Calls per second, over windows of a fifth of the time: the median one."""
    for _ in range(3):
        operation()
    start = clock()
    operation()
    block = max(1, int(0.01 / max(clock() - start, 1e-5)))
    rates = []
    for _ in range(5):
        count, start = 0, clock()
        while (elapsed := clock() - start) < seconds / 5:
            for _ in range(block):
                operation()
            count += block
        rates.append(count / elapsed)
    return statistics.median(rates)


def work(library: str, kind: str, is_quick: bool, seconds: float, clock: Callable[[], float]) -> None:
    """Measures one library, and prints one JSON line per row."""
    make = globals()[f"{library}_operations"]
    data = Workload(kind, is_quick)
    for by_priority, suffix in ((False, ""), (True, " by priority")):
        operations = make(data, by_priority)
        if not operations:
            continue
        for _ in range(data.fill // NUM_ENVS):
            operations["add"]()
        timed = {f"add{suffix}": operations["add"], f"sample{suffix}": operations["sample"]}
        if by_priority:
            operations["prepare"]()
            timed["update priorities"] = operations["update"]
        elif "sequences" in operations:
            timed["sequences"] = operations["sequences"]
        for row, operation in timed.items():
            value = rate(operation, seconds, clock) * (NUM_ENVS if row.startswith("add") else 1)
            print(json.dumps({"row": row, "value": value}), flush=True)
        del operations, timed


def measure(library: str, python: str, kind: str, options: argparse.Namespace) -> dict[str, float] | str:
    """The rows of one library, or why there are none."""
    command = [python, __file__, "--worker", library, "--workload", kind, "--seconds", str(options.seconds)]
    command += ["--quick"] if options.quick else []
    command += ["--cpu-time"] if options.cpu_time else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    rows = {line["row"]: line["value"] for line in lines}
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        if not rows:
            return last
        print(f"  {library} stopped early: {last}")
    return rows


def report(kind: str, found: dict[str, dict[str, float]]) -> None:
    """A table of rates, and Rein's ratio to the best and to the median of the others."""
    names = list(found)
    print(f"\n{kind}: calls per second ({', '.join(f'{row}: {unit}' for row, unit in UNITS.items())})")
    print(f"{'':20}" + "".join(f"{name:>12}" for name in names) + f"{'/ best':>9}{'/ median':>9}")
    for row in ROWS:
        values = [found[name].get(row) for name in names]
        others = [found[name][row] for name in names if name != "rein" and row in found[name]]
        line = f"{row:20}" + "".join(f"{value:12,.0f}" if value else f"{'-':>12}" for value in values)
        if others and "rein" in found and row in found["rein"]:
            own = found["rein"][row]
            line += f"{own / max(others):9.2f}{own / statistics.median(others):9.2f}"
        print(line)
    if "rein" in found:
        print(f"memory of rein, full, over the raw data: {found['rein']['memory']:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=["vec", "img"], help="only one of them")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter for sb3, torchrl and cpprb")
    parser.add_argument("--tianshou-python", help="interpreter for tianshou; by default that of the peers")
    parser.add_argument("--seconds", type=float, default=2.0, help="per row and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the capacity, one short round")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine: count processor time only")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        clock = time.process_time if options.cpu_time else time.perf_counter
        work(options.worker, options.workload, options.quick, options.seconds, clock)
        return
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    pythons = dict.fromkeys(LIBRARIES, options.peers_python)
    pythons["rein"] = sys.executable
    pythons["tianshou"] = options.tianshou_python or options.peers_python
    for kind in [options.workload] if options.workload else ["vec", "img"]:
        rounds: dict[str, list[dict[str, float]]] = {}
        skipped: dict[str, str] = {}
        for _ in range(options.rounds):
            for library in options.libraries:
                if library in skipped:
                    continue
                rows = measure(library, pythons[library], kind, options)
                if isinstance(rows, str):
                    skipped[library] = rows
                else:
                    rounds.setdefault(library, []).append(rows)
        for library, reason in skipped.items():
            print(f"{library} is left out: {reason}")
        medians = {
            library: {row: statistics.median(r[row] for r in several if row in r) for row in several[0]}
            for library, several in rounds.items()
        }
        report(kind, medians)


if __name__ == "__main__":
    main()
