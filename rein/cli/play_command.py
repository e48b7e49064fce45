"""Shows what a trained policy does, as a video or in a window, or what a planning policy imagines, as a picture.

Without --output or --window the video goes into the directory of the run; so does the picture of --plan, and into the
report of the run. With --human you play a board game against the policy in the terminal; an agent that searches shows how
often it has visited each move.

Example:
  rein play runs/ppo_cartpole-0-1 --output policy.mp4
  rein play runs/ppo_cartpole-0-1 --output policy.gif --every 2 --scale 2
  rein play runs/ppo_cartpole-0-1 --window --episodes 3
  rein play runs/mbrl_cem_pendulum-0-1 --plan --output plans.svg
  rein play runs/muzero_tic_tac_toe-0-1 --human --side second
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rein.cli.command import (
    BadInputError,
    Outcome,
    Session,
    add_checkpoint_argument,
    add_machine_arguments,
    add_trust_argument,
)

if TYPE_CHECKING:
    from rein.training.policy import Policy
    from rein.training.run_directory import RunDirectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run, or of a saved agent")
    parser.add_argument(
        "--output", metavar="FILE", help="file to write: .mp4 or .gif, with --plan .svg (default: in RUN)"
    )
    parser.add_argument("--window", action="store_true", help="show it in a window instead")
    parser.add_argument(
        "--plan", action="store_true", help="draw imagined trajectories of plans beside the real one of an episode"
    )
    parser.add_argument("--human", action="store_true", help="play a board game against it in the terminal")
    parser.add_argument(
        "--side", choices=("first", "second"), default="first", help="your side with --human (default: %(default)s)"
    )
    parser.add_argument("--episodes", type=int, default=1, metavar="N", help="episodes (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="chooses other held-out seeds")
    add_checkpoint_argument(parser)
    parser.add_argument("--fps", type=float, help="frames per second (default: real time)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="keep one of N frames, for small files")
    parser.add_argument("--scale", type=int, default=1, metavar="N", help="divide width and height by N")
    add_trust_argument(parser)
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Plays."""
    if arguments.window and arguments.output:
        raise BadInputError("--window and --output exclude each other: keep one")
    if arguments.episodes < 1:
        raise BadInputError(f"--episodes {arguments.episodes} is impossible: give at least 1")
    if arguments.human and (arguments.window or arguments.output or arguments.plan):
        raise BadInputError("--human is a game in the terminal: leave out --window, --output and --plan")
    if arguments.plan and arguments.window:
        raise BadInputError("--plan and --window exclude each other: plans are drawn into a file")
    if arguments.plan and arguments.output and Path(arguments.output).suffix.lower() != ".svg":
        raise BadInputError(f"--output {arguments.output}: the name of a picture of plans must end in .svg")
    if not arguments.plan and arguments.output and Path(arguments.output).suffix.lower() not in (".mp4", ".gif"):
        raise BadInputError(f"--output {arguments.output}: a video's name must end in .mp4 or .gif")

    from rein.cli.training import use_machine
    from rein.training.player import play_in_window, record_video
    from rein.training.policy import load_policy
    from rein.training.run_directory import RunDirectory

    directory = RunDirectory.open(arguments.run, arguments.trust)
    use_machine(arguments)
    policy = load_policy(directory, arguments.checkpoint)
    data = {"directory": str(directory.path), "checkpoint": policy.checkpoint}
    if arguments.human:
        return _play_by_hand(arguments, session, policy, data)
    if arguments.plan:
        return _draw_plans(arguments, directory, policy, data)
    if arguments.window:
        result = play_in_window(policy, arguments.episodes, arguments.seed)
        return Outcome({**data, **result.to_json()}, f"mean return {result.mean:.2f}")
    output = Path(arguments.output or directory.videos / f"policy-{policy.checkpoint}.mp4")
    recording = record_video(
        policy, output, arguments.episodes, arguments.seed, arguments.fps, arguments.every, arguments.scale
    )
    data = {**data, "video": str(output), "frames": recording.frames, **recording.result.to_json()}
    return Outcome(data, f"{output}: {recording.frames} frames, mean return {recording.result.mean:.2f}")


def _play_by_hand(arguments: argparse.Namespace, session: Session, policy: "Policy", data: dict[str, Any]) -> Outcome:
    from rein.training.human_play import play_by_hand
    from rein.training.matches import MatchError

    def say(text: str) -> None:
        print(text, file=session.stream, flush=True)

    def ask(question: str) -> str:
        # Not input(), which would write the question among the JSON.
        print(question, end="", file=session.stream, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            say("")
            raise EOFError
        return answer

    side = 0 if arguments.side == "first" else 1
    try:
        result = play_by_hand(policy, side, ask, say, arguments.episodes, arguments.seed)
    except MatchError as error:
        raise BadInputError(f"--human: {error}") from error
    text = f"{result.won} won, {result.drawn} drawn, {result.lost} lost"
    return Outcome({**data, **result.to_json()}, text)


def _draw_plans(
    arguments: argparse.Namespace, directory: "RunDirectory", policy: "Policy", data: dict[str, Any]
) -> Outcome:
    from rein.training.plan_picture import NoPlansError, draw_plans
    from rein.training.report import write_report

    output = Path(arguments.output or directory.plans / f"plan-{policy.checkpoint}.svg")
    try:
        episode = draw_plans(policy, output, seed=arguments.seed)
    except NoPlansError as error:
        raise BadInputError(f"--plan: {error}") from error
    if directory.report.exists():
        write_report(directory)
    data = {**data, "picture": str(output), "plans": len(episode.plans), **episode.result.to_json()}
    return Outcome(data, f"{output}: {len(episode.plans)} plans, return {episode.result.mean:.2f}")
