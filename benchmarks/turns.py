"""Updates of two commits and of Stable-Baselines3 in turns, by processor time, for machines that are never quiet.

    python benchmarks/turns.py update/sac --against ../before --sb3 PYTHON [--compile] [--rounds 12]
    python benchmarks/turns.py sac/Pendulum-v1 --part rollout --against ../before [--environments 16 --unroll-length 4]
    python benchmarks/turns.py ppo/HalfCheetah-v5 --part iteration [--normalized]

Each contender is a process of one thread that makes some updates (or rollouts, or whole iterations) when it is asked to, and
tells how much processor time they took. They are asked in turns, so that a slow phase of the machine hits all of them; the
least of all windows counts, and the median of the ratios within a turn says how far it can be trusted. Against
Stable-Baselines3 there are updates only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
WARM = 20
"""Updates before the first window."""


def serve(update: Callable[[], object], calls: int) -> None:
    """Makes `calls` updates for each line of input, and prints milliseconds of processor time for one."""
    for _ in range(WARM):
        update()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(calls):
            update()
        print((time.process_time() - start) / calls * 1e3, flush=True)


def serve_rein(arguments: argparse.Namespace) -> None:
    from measuring import Window
    from workload import WORKLOADS, make_trainer, train_until_closed

    from rein.config import fresh_configs
    from rein.runtime import summary
    from rein.transforms import ObservationNormalizer

    settings = {
        "TrainerConfig.num_threads": 1,
        "create_environment.num_parallel_environments": arguments.environments,
        "TrainerConfig.unroll_length": arguments.unroll_length,
        "TrainerConfig.data_transformer_ctor": ObservationNormalizer if arguments.normalized else None,
    }
    workload = WORKLOADS[arguments.name]()
    chosen = {key: value for key, value in settings.items() if value is not None}
    workload = workload._replace(settings={**workload.settings, **chosen})
    with tempfile.TemporaryDirectory(prefix="rein-benchmark-") as directory, fresh_configs():
        trainer = make_trainer(workload, directory, "auto", arguments.compile)
        steps = workload.settings.get("TrainerConfig.initial_collect_steps", workload.warm)
        train_until_closed(trainer, Window(steps, 0.01, 1))
        algorithm, length = trainer.algorithm, int(trainer.config.unroll_length)
        parts: dict[str, Callable[[], object]] = {
            "update": algorithm.train_from_replay_buffer,
            "rollout": lambda: algorithm.unroll(length),
            "iteration": algorithm.train_iter,
        }
        with trainer.run, summary.record_if(lambda: False):
            serve(parts[arguments.part], arguments.calls)
        trainer.close()


def serve_sb3(name: str, calls: int) -> None:
    import stable_baselines3
    import torch
    from workload import ResidentData

    torch.set_num_threads(1)
    kind = name.split("/")[1] if name.startswith("update/") else name.split("/")[0]
    is_dqn = kind == "dqn"
    batch = 128 if is_dqn else 256
    model = getattr(stable_baselines3, kind.upper())(
        "MlpPolicy",
        "CartPole-v1" if is_dqn else ResidentData(),
        learning_starts=10**9,
        batch_size=batch,
        buffer_size=10_000 if is_dqn else 1_000_000,
        policy_kwargs={"net_arch": [120, 84] if is_dqn else [256, 256]},
        device="cpu",
    )
    model.learn(5000)
    serve(lambda: model.train(gradient_steps=1, batch_size=batch), calls)


def start(label: str, python: str, tree: str, options: list[str]) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": tree}
    command = [python, os.path.join(HERE, "turns.py"), *options]
    process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            return process
    raise SystemExit(f"{label} ended before it was ready")


def ask(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(arguments: argparse.Namespace) -> None:
    """Starts the contenders, asks them in turns, and prints what it came to."""
    options = [
        arguments.name,
        "--calls",
        str(arguments.calls),
        "--part",
        arguments.part,
        *(["--compile"] if arguments.compile else []),
        *(["--environments", str(arguments.environments)] if arguments.environments else []),
        *(["--unroll-length", str(arguments.unroll_length)] if arguments.unroll_length else []),
        "--serve",
    ]
    here, normalized = os.path.dirname(HERE), ["--normalized"] if arguments.normalized else []
    contenders = [("here", sys.executable, here, ["rein", *normalized])]
    if arguments.normalized:
        contenders.append(("not normalized", sys.executable, here, ["rein"]))
    if arguments.against:
        contenders.append(("against", sys.executable, os.path.abspath(arguments.against), ["rein", *normalized]))
    if arguments.sb3:
        contenders.append(("sb3", arguments.sb3, "", ["sb3"]))
    processes = {label: start(label, python, tree, [*options, *more]) for label, python, tree, more in contenders}
    times: dict[str, list[float]] = {label: [] for label in processes}
    for turn in range(arguments.rounds):
        for label in list(processes)[:: 1 if turn % 2 == 0 else -1]:
            times[label].append(ask(processes[label]))
    for label, found in times.items():
        ratio = statistics.median(other / mine for mine, other in zip(times["here"], found, strict=True))
        least = min(found)
        print(f"{label:14} {least:8.3f} ms, here is {least / min(times['here']):.3f} x as fast ({ratio:.3f} by turns)")
    for process in processes.values():
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "name", help="a workload that learns from a replay buffer, such as update/sac, update/td3, dqn/CartPole-v1"
    )
    parser.add_argument("--against", help="directory of another commit")
    parser.add_argument("--sb3", metavar="PYTHON", help="interpreter that has Stable-Baselines3")
    parser.add_argument("--compile", action="store_true", help="set TrainerConfig.compile")
    parser.add_argument("--part", choices=["update", "rollout", "iteration"], default="update", help="what is timed")
    parser.add_argument("--environments", type=int, help="in place of the workload's number")
    parser.add_argument("--unroll-length", type=int, help="in place of the workload's")
    parser.add_argument("--normalized", action="store_true", help="normalize observations, beside the same without")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--calls", type=int, default=40, help="updates, rollouts or iterations in a window")
    parser.add_argument("--serve", choices=["rein", "sb3"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve == "rein":
        serve_rein(arguments)
    elif arguments.serve == "sb3":
        serve_sb3(arguments.name, arguments.calls)
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
