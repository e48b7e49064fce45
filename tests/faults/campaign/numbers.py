"""Numbers that must stay what they are: parameters, resumed runs, memory."""

import math
import random
import shutil
import time
from pathlib import Path
from typing import Any

from tests.faults.campaign.processes import start, train_arguments
from tests.faults.campaign.rows import Found


def poison_gradients(number: int, work: Path, chance: random.Random) -> Found:
    """Makes gradients of every algorithm NaN, infinite or huge while its loss is finite."""
    import torch

    from rein.framework import algorithm as algorithm_module
    from rein.framework.updating import check_finite_state, gradients
    from rein.runtime import Run
    from tests.contract import discovery

    original, failed, injected = gradients.differentiate, 0, 0
    cases = discovery.cases()
    for case in cases.values():
        poisons = [False]

        def poisoned(*args: Any, poisons: list[bool] = poisons, **kwargs: Any) -> Any:
            nonlocal injected
            values = original(*args, **kwargs)
            given = [position for position, value in enumerate(values) if value is not None]
            if poisons[0] and given:
                position = chance.choice(given)
                bad = values[position].clone(memory_format=torch.contiguous_format)
                bad.view(-1)[chance.randrange(bad.numel())] = chance.choice([math.nan, math.inf, -math.inf, 1e30])
                values[position] = bad
                injected += 1
                poisons[0] = False
            return values

        gradients.differentiate = algorithm_module.differentiate = poisoned  # type: ignore[attr-defined]
        try:
            algorithm = case.build()
            with Run(seed=0):
                for _ in range(number):
                    poisons[0] = True
                    while poisons[0]:
                        algorithm.train_iter()
                    algorithm.train_iter()  # A good one in between: ten bad ones in a row would stop the run.
            try:
                check_finite_state(algorithm, algorithm.optimizers())
            except FloatingPointError:
                failed += 1
            failed += not all(bool(torch.isfinite(one).all()) for one in algorithm.parameters())
        finally:
            gradients.differentiate = algorithm_module.differentiate = original  # type: ignore[attr-defined]
    return Found(injected, failed, f"over {len(cases)} configurations of all algorithms")


RESUMED: dict[str, tuple[str, list[str]]] = {
    "a2c": ("CartPole-v1", ["TrainerConfig.mini_batch_size=2"]),
    "apex": ("CartPole-v1", []),
    "ddpg": ("Pendulum-v1", []),
    "ddqn": ("CartPole-v1", []),
    "dqn": ("CartPole-v1", []),
    "impala": ("CartPole-v1", ["TrainerConfig.mini_batch_size=2", "TrainerConfig.unroll_length=16"]),
    "mbrl_cem": ("Pendulum-v1", ["population=20", "horizon=4"]),
    "mbrl_latent": ("Pendulum-v1", ["population=20", "horizon=4"]),
    "mbrl_shooting": ("Pendulum-v1", ["population=20", "horizon=4"]),
    "mdq": ("Pendulum-v1", []),
    "merlin": ("rein/Recall-v0", ["TrainerConfig.mini_batch_size=2"]),
    "mpo": ("Pendulum-v1", []),
    "muzero": ("CartPole-v1", ["create_control_mcts.num_simulations=4"]),
    "oac": ("Pendulum-v1", []),
    "ppg": ("CartPole-v1", []),
    "ppo": ("CartPole-v1", []),
    "qrsac": ("Pendulum-v1", []),
    "r2d2": ("CartPole-v1", []),
    "sac": ("Pendulum-v1", []),
    "sarsa": ("Pendulum-v1", []),
    "taac": ("Pendulum-v1", []),
    "taacl": ("Pendulum-v1", []),
    "taacq": ("Pendulum-v1", []),
    "td3": ("Pendulum-v1", []),
    "trac": ("CartPole-v1", ["TrainerConfig.mini_batch_size=2"]),
    "bc": ("", []),
    "causal_bc": ("", []),
    "iql": ("", []),
    "hypernetwork": ("", []),
    "process": ("", ["create_environment.backend=sync"]),
}
"""Every base of the zoo, and kinds of run beside them: what it is tried on."""
SHORT = [
    "TrainerConfig.num_checkpoints=3",
    "TrainerConfig.compile=False",
    "TrainerConfig.evaluate=False",
]
IN_A_WORLD = [
    "create_environment.num_parallel_environments=2",
    "TrainerConfig.num_env_steps=480",
    "TrainerConfig.unroll_length=8",
    "TrainerConfig.mini_batch_size=8",
    "TrainerConfig.initial_collect_steps=150",
]


def _short_run(kind: str, run: Path) -> list[str]:
    world, more = RESUMED[kind]
    if world:
        replaced = {setting.partition("=")[0] for setting in more}
        usual = [setting for setting in [*IN_A_WORLD, *SHORT] if setting.partition("=")[0] not in replaced]
        return ["train", "--algorithm", kind, "--env", world, *usual, *more, "--seed", "7", "--dir", str(run)]
    length = {"hypernetwork": "TrainerConfig.num_iterations=3", "process": "TrainerConfig.num_env_steps=480"}
    settings = [length.get(kind, "TrainerConfig.num_iterations=12"), *SHORT, *more]
    return [*train_arguments(kind, run, *settings), "--seed", "7"]


def resume_exactly(number: int, work: Path, chance: random.Random) -> Found:
    """Goes on from the first checkpoint of a run; its last one must be that of the run that went on, bit for bit."""
    import optree

    from rein.runtime.checkpoint import Checkpointer
    from rein.training.run_directory import RunDirectory
    from tests.zoo.test_resume import end_of, is_equal

    bad = []
    kinds = list(RESUMED)[:number]
    for kind in kinds:
        whole, cut = work / f"{kind}-whole", work / f"{kind}-cut"
        if start(_short_run(kind, whole)).wait(300) != 0:
            bad.append(f"{kind} did not train")
            continue
        shutil.copytree(whole, cut)
        checkpoints = Checkpointer(cut / "checkpoints")
        for step in checkpoints.steps()[1:]:
            checkpoints.set_aside(step)
        RunDirectory.open(cut).update(status="stopped")
        if start(["resume", str(cut)]).wait(300) != 0:
            bad.append(f"{kind} did not resume")
            continue
        (paths, expected, tree), (_, found, other) = (
            optree.tree_flatten_with_path(end_of(run)) for run in (whole, cut)
        )
        if tree != other:
            bad.append(f"{kind} has another structure")
        else:
            pairs = zip(paths, expected, found, strict=True)
            bad += [f"{kind}: {path}" for path, a, b in pairs if not is_equal(a, b)][:1]
    return Found(len(kinds), len(bad), "; ".join(bad) or "generators of Python, numpy and torch included")


GROWTH = 1.0
"""Megabytes that a run may grow by in ten minutes."""


_WARM, _WATCHED = 60.0, 480.0
"""Seconds until imports, buffers and caches are there, and seconds that count."""
_STEPS, _ITERATIONS = "TrainerConfig.num_env_steps=10000000", "TrainerConfig.num_iterations=1000000"
_SOON_FULL = "TrainerConfig.replay_buffer_length=500"
"""What a buffer comes to hold until it is full is no leak: this one is full before the count begins."""
_ENDLESS: dict[str, list[str]] = {
    "a2c": [_STEPS],
    "ppo": [_STEPS],
    "sac": [_STEPS, _SOON_FULL],
    "dqn": [_STEPS, _SOON_FULL],
    "muzero": [_STEPS, _SOON_FULL],
    "iql": [_ITERATIONS],
    "hypernetwork": [_ITERATIONS],
    "process": [_STEPS],
}


def watch_memory(number: int, work: Path, chance: random.Random) -> Found:
    """Lets runs train side by side, and compares the least that they hold in the first and the last two minutes.

    The least, since what an allocator has not given back yet goes up and down by megabytes.
    """
    kinds = list(_ENDLESS)[:number]
    # What a compiler holds is no leak, but it comes at any time. And no more checkpoints than one in some seconds: Python
    # interns every part of every path, and its table of interned strings grows by megabytes at once when it was written
    # through, though nothing is left in it.
    usual = ["TrainerConfig.compile=False", "TrainerConfig.num_checkpoints=2000"]
    runs = {kind: start(train_arguments(kind, work / kind, *usual, *_ENDLESS[kind])) for kind in kinds}
    held: dict[str, list[float]] = {kind: [] for kind in kinds}
    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < _WARM + _WATCHED:
        time.sleep(1.0)
        if spent >= _WARM:
            for kind, process in runs.items():
                held[kind].append(_held_megabytes(process.pid))
    for process in runs.values():
        process.kill()
    grown = {}
    for kind, megabytes in held.items():
        quarter = len(megabytes) // 4
        # From the middle of the first quarter to that of the last.
        grown[kind] = 600.0 * (min(megabytes[-quarter:]) - min(megabytes[:quarter])) / (0.75 * _WATCHED)
    worst = sum(slope > GROWTH for slope in grown.values())
    return Found(len(grown), worst, "MB in ten minutes: " + ", ".join(f"{k} {v:.1f}" for k, v in grown.items()))


def _held_megabytes(pid: int) -> float:
    """Memory of a process without files that it has mapped, such as libraries and data sets: those can be let go any time."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return int(kilobytes) / 1024
