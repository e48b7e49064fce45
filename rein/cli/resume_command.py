"""Goes on with a run exactly where its newest checkpoint was saved.

A run that has finished can be trained longer with --env-steps, one that learns from a data set alone with --updates, one on
labelled data with --epochs.

Example:
  rein resume runs/ppo_cartpole-0-1
  rein resume runs/ppo_cartpole-0-1 --env-steps 200000
"""

import argparse

from rein.cli.command import (
    Outcome,
    Session,
    add_callback_argument,
    add_machine_arguments,
    add_saving_argument,
    add_sink_argument,
    add_trust_argument,
    configure_watchers,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run")
    parser.add_argument("--env-steps", type=int, metavar="N", help="train to so many environment steps in all")
    parser.add_argument("--updates", type=int, metavar="N", help="train to so many updates from a data set in all")
    parser.add_argument("--epochs", type=int, metavar="N", help="train to so many passes over labelled data in all")
    add_callback_argument(parser)
    add_sink_argument(parser)
    add_trust_argument(parser)
    add_saving_argument(parser)
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Resumes."""
    from rein.cli.training import supervised_outcome, train_to_end, training_outcome, use_machine
    from rein.config import fresh_configs
    from rein.distributed import attach
    from rein.training.launch import extend, resume_run
    from rein.training.run_directory import RunDirectory, RunDirectoryError
    from rein.training.supervised_runs import resume_supervised_run

    directory = RunDirectory.open(arguments.run, arguments.trust)
    record = directory.record()
    is_supervised = record.get("ml_type") == "sl"
    longer = arguments.epochs if is_supervised else arguments.env_steps or arguments.updates
    option = "--epochs" if is_supervised else "--env-steps, or --updates if it learns from a data set,"
    if record.get("status") == "finished" and longer is None:
        raise RunDirectoryError(f"{directory.path} has finished: give {option} to train it longer")
    if arguments.device is None:
        arguments.device = record.get("device")
    supply = configure_watchers(arguments)
    use_machine(arguments)
    with fresh_configs():
        if is_supervised:
            learner = resume_supervised_run(directory, arguments.epochs, supply)
            print(f"resuming after {learner.run.iterations:,} passes", file=session.stream, flush=True)
            return supervised_outcome(
                learner, train_to_end(learner, session, fail_on_save_error=arguments.fail_on_save_error)
            )
        trainer = resume_run(directory, supply=supply, prepare=attach)
        try:
            if arguments.env_steps is not None or arguments.updates is not None:
                extend(trainer, arguments.env_steps, arguments.updates)
        except ValueError:
            trainer.close()
            directory.update(status=record.get("status", "stopped"))
            raise
        done = f"{trainer.run.env_steps:,} environment steps"
        if trainer.env is None:
            done = f"{trainer.num_updates:,} updates"
        print(f"resuming at {done}", file=session.stream, flush=True)
        return training_outcome(
            trainer, train_to_end(trainer, session, fail_on_save_error=arguments.fail_on_save_error)
        )
