"""Measures the deterministic policy of a run over whole episodes on seeds that training never used.

Prints the mean return with a bootstrap confidence interval. Of a run on labelled data it prints accuracy, calibration and,
where there are outliers, how well uncertainty finds them, and draws both into the directory of the run.

An agent of a board game is measured with --against: it plays so many games against each opponent, half of them as the
first, and all players are rated; a player who moves by chance has rating 0.

Example:
  rein evaluate runs/ppo_cartpole-0-1 --episodes 100
  rein evaluate runs/ppo_cartpole-0-1 --json
  rein evaluate runs/muzero_tic_tac_toe-0-1 --against random --against minimax_erring --against runs/older@500
"""

import argparse
from typing import TYPE_CHECKING

from rein.cli.command import Outcome, Session, add_checkpoint_argument, add_machine_arguments, add_trust_argument

if TYPE_CHECKING:
    from rein.training.policy import Policy
    from rein.training.run_directory import RunDirectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run, or of a saved agent")
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="episodes (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="chooses other held-out seeds")
    add_checkpoint_argument(parser)
    parser.add_argument("--env", metavar="ID", help="environment, for a run that was trained without one")
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="OPPONENT",
        help="play games against random, one_move_ahead, minimax, minimax_erring, RUN or RUN@ITERATION; repeatable",
    )
    parser.add_argument("--level", type=float, default=0.95, help="of the confidence interval (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="add the result to the evaluations and report of the run")
    add_trust_argument(parser)
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Evaluates."""
    from rein.cli.command import BadInputError
    from rein.cli.training import use_machine
    from rein.training.policy import load_policy
    from rein.training.report import write_report
    from rein.training.run_directory import RunDirectory

    if arguments.episodes < 1:
        raise BadInputError(f"--episodes {arguments.episodes} is impossible: give at least 1")
    if not 0.0 < arguments.level < 1.0:
        raise BadInputError(f"--level {arguments.level} is impossible: give a number between 0 and 1, such as 0.95")
    directory = RunDirectory.open(arguments.run, arguments.trust)
    use_machine(arguments)
    if directory.record().get("ml_type") == "sl":
        return _evaluate_supervised(arguments, session, directory)
    supply = {} if arguments.env is None else {"create_environment.env_name": arguments.env}
    policy = load_policy(directory, arguments.checkpoint, supply)
    policy.require_environment()
    if arguments.against:
        return _play_matches(arguments, session, directory, policy)
    session.start_working()
    result = policy.evaluate(arguments.episodes, arguments.seed)
    low, high = result.confidence_interval(arguments.level)
    data = {
        "directory": str(directory.path),
        "checkpoint": policy.checkpoint,
        **result.to_json(),
        "level": arguments.level,
        "interval": [low, high],
    }
    if arguments.record:
        directory.add_evaluation({**result.to_json(), **_position(directory), "held_out": True})
        write_report(directory)
    text = (
        f"mean return {result.mean:.2f} ({arguments.level:.0%} {low:.2f} to {high:.2f}), deviation {result.std:.2f}, "
        f"{len(result.lengths)} episodes of {result.lengths.mean():.0f} steps on held-out seeds"
    )
    if result.successes is not None:
        text += f", {result.successes.mean():.0%} of them successful"
    return Outcome(data, text)


def _play_matches(
    arguments: argparse.Namespace, session: Session, directory: "RunDirectory", policy: "Policy"
) -> Outcome:
    import json

    from rein.cli.command import BadInputError
    from rein.training.matches import AGENT, MatchError, find_opponents, play_matches
    from rein.training.report import write_report
    from rein.training.run_directory import write_atomically

    try:
        opponents = find_opponents(arguments.against, policy.seed, arguments.trust)
        data = play_matches(policy, opponents, arguments.episodes, arguments.seed)
    except MatchError as error:
        raise BadInputError(str(error)) from error
    data = {"directory": str(directory.path), "checkpoint": policy.checkpoint, **data}
    if arguments.record:
        write_atomically(directory.matches, json.dumps(data, indent=1))
        write_report(directory)
    lines = [f"agent: Elo {data['elo'][AGENT]}"]
    for name, one in data["against"].items():
        lines.append(
            f"{name}: Elo {data['elo'][name]}; {one['games']} games: {one['wins']} won, {one['draws']} drawn, "
            f"{one['losses']} lost"
        )
    return Outcome(data, "\n".join(lines))


def _evaluate_supervised(arguments: argparse.Namespace, session: Session, directory: "RunDirectory") -> Outcome:
    from rein.config import fresh_configs
    from rein.runtime.seeding import seed_everything
    from rein.training.report import write_report
    from rein.training.supervised import measure
    from rein.training.supervised_report import evaluation_charts, evaluation_text
    from rein.training.supervised_runs import load_supervised

    with fresh_configs():
        algorithm, checkpoint = load_supervised(directory, arguments.checkpoint)
    session.start_working()
    seed_everything(0 if arguments.seed is None else arguments.seed)
    result = measure(algorithm, with_uncertainty=algorithm.has_outliers)
    charts = evaluation_charts(algorithm)
    for number, chart in enumerate(charts, 1):
        (directory.path / f"evaluation-{number}.svg").write_text(chart)
    if arguments.record:
        record = {"iterations": checkpoint, "held_out": True}
        directory.add_evaluation({**record, **result.to_json()})
    write_report(directory)
    data = {"directory": str(directory.path), "checkpoint": checkpoint, **result.numbers}
    drawn = f"\ncharts: {directory.report}" if charts else ""
    return Outcome(data, evaluation_text(result) + drawn)


def _position(directory: object) -> dict[str, int]:
    record = directory.record()  # type: ignore[attr-defined]
    return {key: record[key] for key in ("iterations", "env_steps") if key in record}
