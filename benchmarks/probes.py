"""Small measurements of `benchmarks/run.py`, each in a process of its own.

They are, by their first argument:

    python benchmarks/probes.py ceiling [--seconds 1]    # GFLOP/s of the products of a SAC update, without anything else
    python benchmarks/probes.py import rein              # seconds to import a module in a fresh process
    python benchmarks/probes.py help                     # seconds of `rein --help`
    python benchmarks/probes.py memory rein|sb3          # peak of a SAC run whose buffer of a million steps is full

Each prints a result line.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from measuring import calls_per_second, emit

SAC_UPDATE_FLOP = 581e6
"""Of one SAC update: batch 256, 17 observations, 6 actions, networks of 256x256, two critics."""
BUFFER_STEPS = 1_000_000


def ceiling(seconds: float) -> None:
    """Updates per second if a SAC update were nothing but its matrix products, in the fastest form by whatever is fastest."""
    import torch

    from rein.runtime.microkernel import Form, is_faster, multiply
    from rein.runtime.products import by_onednn, onednn_is_faster

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    batch, twins = torch.randn(256, 256), torch.randn(2, 256, 256)
    weight, bias = torch.randn(256, 256), torch.randn(256)
    out, twin_out = torch.empty(256, 256), torch.empty(2, 256, 256)
    shared = batch.expand(2, 256, 256)
    flop = 2 * 256**3
    forms = {
        "mm": (flop, lambda: torch.mm(batch, weight, out=out)),
        "linear": (flop, lambda: torch.nn.functional.linear(batch, weight, bias)),
        "weight gradient": (flop, lambda: torch.mm(batch.t(), out)),
        "bmm of two": (2 * flop, lambda: torch.bmm(shared, twins, out=twin_out)),
    }
    by_microkernel = Form.of((256, 256), (256, 1), (256, 256), (256, 1))
    makers = {"": (False, forms)} | ({" by oneDNN": (True, forms)} if onednn_is_faster() else {})
    if is_faster():
        microkernel = {"mm": (flop, lambda: multiply(batch, weight, form=by_microkernel, out=out))}
        makers[" by the microkernel"] = (False, microkernel)
    rates = {}
    for maker, (is_onednn, made) in makers.items():
        with torch.no_grad(), by_onednn(is_onednn):
            for form, (work, call) in made.items():
                rate = calls_per_second(call, seconds / len(forms), 20).result()["value"]
                rates[form + maker] = work * rate / 1e9
    best = max(rates.values())
    emit("update/sac", "updates/s", value=best * 1e9 / SAC_UPDATE_FLOP, gflops=best, forms=rates)


def seconds_of(command: list[str], repeats: int = 3) -> list[float]:
    """How long a command takes; the first time, which may read from disk, does not count."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return times[1:]


def startup(metric: str, command: list[str]) -> None:
    times = seconds_of(command)
    emit(metric, "s", value=statistics.median(times), lo=min(times), hi=max(times))


def rein_memory() -> None:
    """Trains a little, fills the buffer with copies of a step, and trains a little more."""
    from measuring import Window
    from workload import WORKLOADS, make_trainer, train_until_closed

    from rein.config import fresh_configs

    with tempfile.TemporaryDirectory(prefix="rein-benchmark-") as directory, fresh_configs():
        trainer = make_trainer(WORKLOADS["sac/HalfCheetah-v5"](), directory, "auto", compile=False)
        train_until_closed(trainer, Window(550, 0.01, 1))
        with trainer.run:
            step = trainer.algorithm.rollout.peek()
            for _ in range(BUFFER_STEPS):
                trainer.algorithm.observe_for_replay(step)
        train_until_closed(trainer, Window(600, 0.01, 1))
        emit_memory(full=trainer.algorithm.replay_buffer.total_size)
        trainer.close()


def sb3_memory() -> None:
    import gymnasium as gym
    import numpy as np
    import torch
    from stable_baselines3 import SAC

    torch.set_num_threads(1)
    model: Any = SAC(
        "MlpPolicy",
        gym.make("HalfCheetah-v5"),
        buffer_size=BUFFER_STEPS,
        learning_starts=500,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )
    model.learn(550)
    buffer = model.replay_buffer
    observation, action = np.zeros((1, *buffer.obs_shape)), np.zeros((1, buffer.action_dim), np.float32)
    reward, done = np.ones(1), np.zeros(1, bool)
    infos: list[dict[str, Any]] = [{}]
    for _ in range(BUFFER_STEPS):
        buffer.add(observation, observation, action, reward, done, infos)
    model.learn(50, reset_num_timesteps=False)
    emit_memory(full=buffer.size())


def emit_memory(full: int) -> None:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    emit("memory", "MB", value=peak, steps_in_buffer=full)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ceiling", "import", "help", "memory"])
    parser.add_argument("name", nargs="?", default="rein", help="module to import, or library")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing")
    arguments = parser.parse_args()
    if arguments.what == "ceiling":
        ceiling(arguments.seconds)
    elif arguments.what == "import":
        startup("import", [sys.executable, "-c", f"import {arguments.name}"])
    elif arguments.what == "help":
        startup("help", [os.path.join(os.path.dirname(sys.executable), "rein"), "--help"])
    else:
        {"rein": rein_memory, "sb3": sb3_memory}[arguments.name]()


if __name__ == "__main__":
    main()
