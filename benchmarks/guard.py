"""Finds out whether something became slower, before a release; run it by hand.

    python benchmarks/guard.py                 # exit code 1 if a cost grew by more than 25 %
    python benchmarks/guard.py --update        # what is measured now becomes the baseline
    python benchmarks/guard.py --against HEAD~1 --seconds 0.5     # beside another commit, in turns; what CI runs

Each cost is divided by that of a yardstick of plain torch, numpy or optree that does work of the same kind, measured in
the same process in turns: the ratio depends little on the machine and on what else runs there. Processor time counts,
and of many short bursts the fastest. What seems slower is measured again, and counts only if it is slower twice.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 0.25
BURST = 0.01

Call = Callable[[], object]
Pair = tuple[Call, Call]
"""What is guarded, and its yardstick."""


# Yardsticks ----------------------------------------------------------------------------------------------------------


def plain_updates(sizes: list[tuple[int, ...]], batch: int, count: int = 1) -> Call:
    """`count` updates of some multilayer perceptrons in plain torch: forward, backward, Adam."""
    import torch
    from torch import nn

    networks, inputs = nn.ModuleList(), []
    for layers in sizes:
        parts: list[nn.Module] = []
        for before, after in pairwise(layers):
            parts += [nn.Linear(before, after), nn.Tanh()]
        networks.append(nn.Sequential(*parts[:-1]))
        inputs.append(torch.randn(batch, layers[0]))
    optimizer = torch.optim.Adam(networks.parameters(), fused=True)

    def update() -> None:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            losses = [network(data).square().mean() for network, data in zip(networks, inputs, strict=True)]
            torch.autograd.backward(torch.stack(losses).sum())
            optimizer.step()

    return update


def plain_acting(steps: int) -> Call:
    """Two networks of 64x64 on 8 observations, `steps` times."""
    import torch
    from torch import nn

    network = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    observation = torch.randn(8, 4)

    def act() -> None:
        with torch.no_grad():
            for _ in range(steps):
                network(observation)
                network(observation)

    return act


def plain_rows(width: int, count: int, write: bool) -> Call:
    """Writes or reads `count` rows of bytes of an array of numpy."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = np.zeros((100_000, width), np.uint8)
    places, data = rng.integers(0, len(rows), (64, count)), np.zeros((count, width), np.uint8)
    turn = [0]

    def write_rows() -> None:
        turn[0] = (turn[0] + 1) % 64
        rows[places[turn[0]]] = data

    def read_rows() -> None:
        turn[0] = (turn[0] + 1) % 64
        np.take(rows, places[turn[0]], axis=0)

    return write_rows if write else read_rows


def plain_physics() -> Call:
    """The arithmetic of eight carts and poles in numpy."""
    import numpy as np

    state = np.random.default_rng(0).standard_normal((8, 4))

    def step() -> None:
        position, speed, angle, spin = state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (10.0 + 0.05 * spin * spin * sine) / 1.1
        turning = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
        np.stack([position + speed * 0.02, speed + push * 0.02, angle + spin * 0.02, spin + turning * 0.02], 1)

    return step


# What is guarded -----------------------------------------------------------------------------------------------------


@contextmanager
def trained(name: str) -> Iterator[Any]:
    """The trainer of a workload, past the steps in which it only collects, with its run in force."""
    from measuring import Window
    from workload import WORKLOADS, make_trainer, train_until_closed

    from rein.config import fresh_configs
    from rein.runtime import summary

    workload = WORKLOADS[name]()
    small = {"TrainerConfig.replay_buffer_length": 50_000} if workload.base != "ppo" else {}
    with tempfile.TemporaryDirectory(prefix="rein-guard-") as directory, fresh_configs():
        trainer = make_trainer(workload, directory, "auto", compile=False, **small)
        train_until_closed(trainer, Window(1100, 0.01, 1))
        with trainer.run, summary.record_if(lambda: False):
            yield trainer
        trainer.close()


def guarded(stack: ExitStack) -> dict[str, Pair]:
    """All pairs, ready to be called."""
    import optree

    from rein import nest

    ppo = stack.enter_context(trained("ppo/CartPole-v1")).algorithm
    sac = stack.enter_context(trained("sac/HalfCheetah-v5")).algorithm
    dqn = stack.enter_context(trained("dqn/CartPole-v1")).algorithm
    rollout, step, env = ppo.unroll(128), sac.rollout.peek(), ppo.rollout.env
    buffer = sac.replay_buffer
    actions = [env.action_spec.sample((8,)) for _ in range(64)]
    turn = iter(range(1 << 60))
    data: Any = {"a": 1, "b": (2, [3, 4], ()), "c": (5, {"x": 6, "y": 7}), "d": {"z": (8, 9), "w": 10}}

    def identity(leaf: object) -> object:
        return leaf

    return {
        "PPO update, 16 minibatches": (
            lambda: ppo.learning.train_from_rollout(rollout, num_bootstrap_steps=1),
            plain_updates([(4, 64, 64, 2), (4, 64, 64, 1)], 256, 16),
        ),
        "SAC update": (
            sac.train_from_replay_buffer,
            plain_updates([(17, 256, 256, 12), *[(23, 256, 256, 1)] * 4], 256),
        ),
        "DQN update": (dqn.train_from_replay_buffer, plain_updates([(4, 120, 84, 2)], 128)),
        "rollout, 8 environments, 16 steps": (lambda: ppo.unroll(16), plain_acting(16)),
        "replay: add a step": (lambda: sac.observe_for_replay(step), plain_rows(120, 1, True)),
        "replay: sample 256 pairs": (lambda: buffer.get_batch(256, 2), plain_rows(120, 512, False)),
        "nest: map 10 leaves": (lambda: nest.map_structure(identity, data), lambda: optree.tree_map(identity, data)),
        "environment: step 8 CartPoles": (lambda: env.step(actions[next(turn) % 64]), plain_physics()),
    }


# Measuring -----------------------------------------------------------------------------------------------------------


def cost_ratio(pair: Pair, seconds: float) -> float:
    """Processor time of the first over that of the second, each the fastest of many bursts that take turns."""
    counts, fastest = [], [float("inf"), float("inf")]
    for call in pair:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(BURST / max(time.perf_counter() - start, 1e-7))))
    deadline, rounds = time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < deadline:
        for index, call in enumerate(pair):
            start = time.process_time()
            for _ in range(counts[index]):
                call()
            fastest[index] = min(fastest[index], (time.process_time() - start) / counts[index])
        rounds += 1
    return fastest[0] / fastest[1]


def compare(measured: dict[str, float], baseline: dict[str, float], tolerance: float) -> list[str]:
    """Names of what became slower than the baseline allows."""
    return [name for name, ratio in measured.items() if name in baseline and ratio > (1.0 + tolerance) * baseline[name]]


def report(measured: dict[str, float], baseline: dict[str, float], slower: list[str]) -> str:
    """A table of costs in units of their yardsticks."""
    lines = [f"{'cost / yardstick':36}{'now':>9}{'baseline':>10}{'change':>9}"]
    for name, ratio in measured.items():
        line = f"{name:36}{ratio:9.2f}"
        if name in baseline:
            line += f"{baseline[name]:10.2f}{ratio / baseline[name] - 1.0:+9.0%}"
            line += "  SLOWER" if name in slower else ""
        else:
            line += "  not in the baseline: run with --update"
        lines.append(line)
    return "\n".join(lines)


def measured_in(tree: Path, seconds: float) -> dict[str, float]:
    """What the guard of a tree of files measures in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="rein-guard-") as directory:
        file = Path(directory) / "costs.json"
        command = [sys.executable, str(tree / "benchmarks" / "guard.py"), "--update", "--baseline", str(file)]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(
            [*command, "--seconds", str(seconds)], cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        found: dict[str, float] = json.loads(file.read_text())
    return found


def beside(commit: str, seconds: float, rounds: int = 2) -> tuple[dict[str, float], dict[str, float]]:
    """Costs here and at another commit of the same repository, each the least of some rounds that take turns.

    Raises:
        LookupError: the repository has no such commit.
    """
    root = Path(__file__).parents[1]
    git = ["git", "-C", str(root)]
    if subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False).returncode:
        raise LookupError(f"there is no commit {commit} here to compare with, as in a shallow clone")
    with tempfile.TemporaryDirectory(prefix="rein-guard-") as directory:
        other = Path(directory) / "other"
        subprocess.run([*git, "worktree", "add", "--detach", str(other), commit], capture_output=True, check=True)
        try:
            found: dict[Path, list[dict[str, float]]] = {root: [], other: []}
            for _ in range(rounds):
                for tree, costs in found.items():
                    costs.append(measured_in(tree, seconds))
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], capture_output=True, check=True)
    here, there = ({name: min(one[name] for one in costs) for name in costs[0]} for costs in found.values())
    return here, there


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="how much slower is tolerated, as a share")
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring each")
    parser.add_argument("--against", metavar="COMMIT", help="compare with a commit instead of the baseline")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.against:
        try:
            here, there = beside(arguments.against, arguments.seconds)
        except LookupError as error:
            print(f"nothing compared: {error}")
            return 0
        slower = compare(here, there, arguments.tolerance)
        print(report(here, there, slower).replace("baseline", f"{arguments.against:>8}"))
        return 1 if slower else 0
    import torch

    torch.set_num_threads(1)
    baseline: dict[str, float] = json.loads(arguments.baseline.read_text()) if arguments.baseline.exists() else {}
    with ExitStack() as stack:
        pairs = guarded(stack)
        measured = {name: cost_ratio(pair, arguments.seconds) for name, pair in pairs.items()}
        for name in compare(measured, baseline, arguments.tolerance):
            measured[name] = min(measured[name], cost_ratio(pairs[name], 3 * arguments.seconds))
    if arguments.update:
        rounded = {name: float(f"{ratio:.4g}") for name, ratio in measured.items()}
        arguments.baseline.write_text(json.dumps(rounded, indent=1) + "\n")
    slower = [] if arguments.update else compare(measured, baseline, arguments.tolerance)
    print(report(measured, baseline, slower))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
