"""Goes on with a run exactly where its newest checkpoint was saved.

A run that has finished can be trained longer with --env-steps.

Example:
  rein resume runs/ppo_cartpole-0-1
  rein resume runs/ppo_cartpole-0-1 --env-steps 200000
"""

import argparse

from rein.cli.command import Outcome, Session, add_machine_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run")
    parser.add_argument("--env-steps", type=int, metavar="N", help="train to so many environment steps in all")
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Resumes."""
    from rein.cli.training import train_to_end, training_outcome, use_machine
    from rein.config import fresh_configs
    from rein.training.launch import extend_run, resume_run
    from rein.training.run_directory import RunDirectory, RunDirectoryError

    directory = RunDirectory.open(arguments.run)
    record = directory.record()
    if record.get("status") == "finished" and arguments.env_steps is None:
        raise RunDirectoryError(f"{directory.path} has finished: give --env-steps to train it longer")
    if arguments.device is None:
        arguments.device = record.get("device")
    use_machine(arguments)
    with fresh_configs():
        trainer = resume_run(directory)
        try:
            if arguments.env_steps is not None:
                extend_run(trainer, arguments.env_steps)
        except ValueError:
            trainer.close()
            directory.update(status=record.get("status", "stopped"))
            raise
        print(f"resuming at {trainer.run.env_steps:,} environment steps", file=session.stream, flush=True)
        return training_outcome(trainer, train_to_end(trainer, session))
