"""Records a data set from a run: episodes that its policy plays, or all that its replay buffer holds.

The file holds observations, actions, rewards and where episodes end; `rein data show` tells what is in it, and `rein train
--algorithm bc --data FILE` learns from it. Several files are learnt from together, or joined by `rein data join`.

Example:
  rein record runs/ppo_cartpole-0-1 --episodes 20 --policy deterministic --out expert.data
  rein record runs/sac_pendulum-0-1 --episodes 50 --policy noise=0.3 --checkpoint 2000 --out half_trained.data
  rein record runs/sac_pendulum-0-1 --replay --out everything.data
"""

import argparse

from rein.cli.command import (
    BadInputError,
    Outcome,
    Session,
    add_checkpoint_argument,
    add_machine_arguments,
    add_trust_argument,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run, or of a saved agent")
    parser.add_argument("--out", required=True, metavar="FILE", help="the file to write")
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes to play")
    parser.add_argument("--replay", action="store_true", help="take what the replay buffer holds, and play nothing")
    parser.add_argument(
        "--policy",
        default="stochastic",
        metavar="HOW",
        help="stochastic (as it collects), deterministic (as it is evaluated), random, noise=SHARE (deterministic with "
        "noise, as a share of half the range of the action, or the chance of a random choice), or lasting_noise=SHARE "
        "(each draw lasts for two steps); default: %(default)s",
    )
    parser.add_argument("--seed", type=int, default=0, help="of episodes and actions (default: %(default)s)")
    add_checkpoint_argument(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    add_trust_argument(parser)
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Records."""
    from rein.cli.training import use_machine
    from rein.training.policy import load_policy
    from rein.training.recording import Manner, record_episodes, record_replay
    from rein.training.run_directory import RunDirectory

    if (arguments.episodes is None) is not arguments.replay:
        raise BadInputError("give either --episodes N to play, or --replay to take what the replay buffer holds")
    manner = Manner.parse(arguments.policy)
    directory = RunDirectory.open(arguments.run, arguments.trust)
    use_machine(arguments)
    policy = load_policy(directory, arguments.checkpoint)
    if arguments.replay:
        recorded = record_replay(policy, directory, arguments.out, arguments.overwrite)
    else:
        name = directory.path.resolve().name
        recorded = record_episodes(
            policy, arguments.out, arguments.episodes, manner, arguments.seed, arguments.overwrite, name
        )
    returns = recorded.returns if recorded.returns.ndim == 1 else recorded.returns.sum(1)
    data = {
        "path": str(recorded.path),
        "episodes": recorded.episodes,
        "transitions": recorded.transitions,
        "mean_return": float(returns.mean()),
        "returns": recorded.returns.tolist(),
    }
    text = (
        f"{recorded.path}: {recorded.episodes} episodes, {recorded.transitions:,} transitions, mean return "
        f"{returns.mean():.2f}\nnext: rein data show {recorded.path}; rein train --algorithm bc --data {recorded.path}"
    )
    return Outcome(data, text)
