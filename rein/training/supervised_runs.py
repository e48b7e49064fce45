"""Runs on labelled data: started in a new directory, resumed, and loaded to predict; see `launch` for other runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rein.config import install_name_resolver, load_saved_config, save_config
from rein.framework import TrainerConfig
from rein.runtime.run import Run
from rein.training.agent_tree import describe_agent
from rein.training.checkpoints import find_checkpoint, load_parameters
from rein.training.run_directory import RunDirectory, write_atomically
from rein.training.supervised import SupervisedObserver, SupervisedTrainer, build_supervised


def start_supervised_run(
    directory: RunDirectory,
    name: str,
    seed: int,
    observers: Sequence[SupervisedObserver] = (),
    facts: Mapping[str, Any] | None = None,
) -> SupervisedTrainer:
    """A trainer for the configuration in force, in a new run directory; see `launch.start_run`.

    Args:
        directory: made by `RunDirectory.create`.
        name: what to call the run, without the seed.
        seed: of the run, from `launch.settle_seed`.
        observers: displays.
        facts: more for run.json, such as the command.
    """
    settings = TrainerConfig(root_dir=str(directory.path))
    trainer = SupervisedTrainer(settings, directory, observers)
    save_config(directory.config)
    write_atomically(directory.agent, json.dumps(describe_agent(trainer.algorithm)) + "\n")
    directory.start(
        name=name,
        seed=seed,
        ml_type="sl",
        device=str(trainer.run.device),
        algorithm=type(trainer.algorithm).__name__,
        num_iterations=settings.num_iterations,
        parameters=sum(parameter.numel() for parameter in trainer.algorithm.parameters()),
        **(facts or {}),
    )
    return trainer


def resume_supervised_run(
    directory: RunDirectory,
    num_iterations: int | None = None,
    supply: Mapping[str, Any] | None = None,
) -> SupervisedTrainer:
    """A trainer that goes on where the newest checkpoint of a run was saved, or at the beginning if there is none.

    Args:
        directory: made by `RunDirectory.open`.
        num_iterations: passes in all, from now on; None: as before.
        supply: values that could not be saved with the run, by name.
    """
    directory.lock()
    record = directory.record()
    install_name_resolver()
    load_saved_config(directory.config, supply, directory.is_trusted)
    trainer = SupervisedTrainer(TrainerConfig(root_dir=str(directory.path)), directory)
    total = num_iterations or record.get("extended_to")
    if num_iterations is not None and num_iterations <= trainer.run.iterations:
        trainer.close()
        raise ValueError(f"the run has already made {trainer.run.iterations} passes: ask for more than that")
    if total:
        trainer.extend(total)
        directory.update(extended_to=total)
    directory.mark_running()
    return trainer


def load_supervised(
    directory: RunDirectory, step: int | str | None = None, supply: Mapping[str, Any] | None = None
) -> tuple[Any, int]:
    """The algorithm of a run as saved in its newest checkpoint, with its data, and the pass after which it was saved.

    Call it with the configuration of the run in force to be: `with fresh_configs(): ...`.

    Args:
        directory: of the run.
        step: the checkpoint after that pass instead of the newest one, or a name such as "best".
        supply: values that could not be saved with the run, by name.
    """
    find_checkpoint(directory, step)
    install_name_resolver()
    load_saved_config(directory.config, supply, directory.is_trusted)
    settings = TrainerConfig(root_dir=str(directory.path))
    with Run(directory.path, seed=int(directory.record().get("seed") or 0)):
        algorithm = build_supervised(settings)
        checkpoint = load_parameters(directory, step)
        algorithm.load_state_dict(checkpoint.components["alg"])
    return algorithm, checkpoint.step
