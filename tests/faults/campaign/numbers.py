"""Numbers that must stay what they are: parameters, and all that a resumed run has."""

import math
import random
import shutil
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
