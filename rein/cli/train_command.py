"""Trains an agent and leaves everything about the run in its directory.

What to train is a conf file, a name of the zoo, or an algorithm and an environment, data, or both. Parts given by --with
make it an agent of several algorithms. Overrides `name=value` change any setting; names may be shortened as long as they are
unambiguous. The first Ctrl-C finishes the iteration and saves.

Example:
  rein train ppo_cartpole
  rein train ppo_cartpole learning_rate=3e-4 TrainerConfig.num_env_steps=50000 --seed 3 --dir runs/slow
  rein train --algorithm ppo --env Acrobot-v1
  rein train --algorithm sac --env Pendulum-v1 --with rnd --with entropy_target=-1
  rein train ppo_cartpole --callback keep_best --callback stop_at_return=475
  rein train --algorithm iql --data pendulum.data --env Pendulum-v1
  rein train --algorithm ppo --env HalfCheetah-v5 --scheme sync --collectors 4 --backend process
  rein train my_conf.py --json
  rein train --alf conf_for_alf.py
"""

import argparse
from contextlib import nullcontext
from functools import partial

from rein.cli.command import (
    Outcome,
    Session,
    add_callback_argument,
    add_machine_arguments,
    add_saving_argument,
    add_sink_argument,
    configure_watchers,
)
from rein.cli.scheme import add_scheme_arguments, configure_scheme, configured_scheme
from rein.cli.target import add_target_arguments, read_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target_arguments(parser)
    parser.add_argument("--alf", action="store_true", help="the conf was written for ALF: `import alf` gives our names")
    parser.add_argument("--seed", type=int, help="of everything random (default: that of the conf, or 0)")
    parser.add_argument("--dir", metavar="DIR", help="new directory of the run (default: runs/NAME-SEED-N)")
    add_callback_argument(parser)
    add_sink_argument(parser)
    add_saving_argument(parser)
    add_machine_arguments(parser)
    add_scheme_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Trains."""
    target = read_target(arguments)

    from rein.cli.training import supervised_outcome, train_to_end, training_outcome, use_machine
    from rein.compat.alf import alf_names
    from rein.config import fresh_configs, pre_config
    from rein.distributed import attach
    from rein.training.launch import is_supervised, numbered_directory, settle_seed, start_run, start_supervised
    from rein.training.run_directory import RunDirectory

    use_machine(arguments)
    with fresh_configs(), alf_names(target.conf.resolve().parent) if arguments.alf else nullcontext():
        if arguments.seed is not None:
            pre_config({"TrainerConfig.random_seed": arguments.seed}, place=f"--seed {arguments.seed}")
        pre_config(configure_watchers(arguments), place="--callback and --sink")
        configure_scheme(arguments)
        target.configure()
        prepare = partial(attach, scheme=configured_scheme())
        stem = f"{target.stem}-{settle_seed()}"
        directory = RunDirectory.create(arguments.dir) if arguments.dir else numbered_directory("runs", stem)
        facts = {**target.facts(), "command": session.command, **({"alf": True} if arguments.alf else {})}
        if is_supervised():
            learner = start_supervised(directory, target.name, facts=facts)
            print(f"run directory: {directory.path}", file=session.stream, flush=True)
            return supervised_outcome(
                learner, train_to_end(learner, session, fail_on_save_error=arguments.fail_on_save_error)
            )
        trainer = start_run(directory, target.name, facts=facts, prepare=prepare)
        print(f"run directory: {directory.path}", file=session.stream, flush=True)
        return training_outcome(
            trainer, train_to_end(trainer, session, fail_on_save_error=arguments.fail_on_save_error)
        )
