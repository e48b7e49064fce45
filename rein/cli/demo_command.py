"""Trains PPO on CartPole-v1, evaluates it over 100 held-out episodes, and leaves a curve, a video and a report.

Example:
  rein demo
"""

import argparse
from pathlib import Path

from rein.cli.command import OK, Outcome, Session

_TASK = "ppo_cartpole"
_EPISODES = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--dir", default="demo", help="folder for the run directory (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: %(default)s)")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Runs the demonstration."""
    from rein.cli.training import train_to_end
    from rein.config import fresh_configs, pre_config
    from rein.runtime import set_torch_threads
    from rein.training.launch import configure, numbered_directory, start_run
    from rein.training.player import record_video
    from rein.training.plots import write_plot
    from rein.training.policy import load_policy
    from rein.training.report import write_report
    from rein.training.statistics_of_runs import TRAINING_RETURN, group_bands
    from rein.zoo import find_task

    set_torch_threads(1)
    entry = find_task(_TASK)
    with fresh_configs():
        pre_config({"TrainerConfig.random_seed": arguments.seed}, place=f"--seed {arguments.seed}")
        configure(entry.path)
        directory = numbered_directory(arguments.dir, f"{_TASK}-{arguments.seed}")
        trainer = start_run(directory, _TASK, facts={"conf": str(entry.path), "command": session.command})
        print(f"{entry.summary} {entry.facts['env_steps']:,} environment steps.", file=session.stream, flush=True)
        training = train_to_end(trainer, session)
    if training.stopped_by is not None:
        return Outcome({"stopped_by": training.stopped_by}, f"stopped; go on with: rein resume {directory.path}", OK)
    policy = load_policy(directory)
    result = policy.evaluate(_EPISODES)
    directory.add_evaluation({**result.to_json(), "env_steps": training.progress.env_steps, "held_out": True})
    curve = write_plot(
        directory.path / "curve.png", group_bands([directory]), TRAINING_RETURN, title="PPO on CartPole-v1"
    )
    video = record_video(policy, directory.videos / "policy.mp4").path
    report = write_report(directory)
    low, high = result.confidence_interval()
    data = {
        "directory": str(directory.path),
        "seconds": round(training.progress.seconds, 3),
        "evaluation": result.to_json(),
        "curve": str(curve),
        "video": str(video),
        "report": str(report),
    }
    return Outcome(data, "\n".join(_lines(result.mean, low, high, training.progress.seconds, (curve, video, report))))


def _lines(mean: float, low: float, high: float, seconds: float, files: tuple[Path, ...]) -> list[str]:
    return [
        "",
        f"mean return {mean:.1f} of at most 500 (95% {low:.1f} to {high:.1f}) over {_EPISODES} held-out episodes, "
        f"after {seconds:.0f} s of training",
        *(f"  {path.stem:<8}{path}" for path in files),
    ]
