"""Writes the policy of a run into one file that needs no Rein: ONNX, or torch's .pt2.

The file holds the complete policy: normalisers, frame stacks and other data transformers, networks, recurrent states as
inputs and outputs, the choice of the action and its bounds. It is read back and compared with the original, step by step.

Example:
  rein export runs/ppo_cartpole-0-1 --format onnx
  rein export runs/sac_pendulum-0-1 --format torch --output pendulum.pt2
"""

import argparse
from pathlib import Path

from rein.cli.command import FAILURE, OK, BadInputError, Outcome, Session, add_trust_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run, or of a saved agent")
    parser.add_argument("--format", choices=("onnx", "torch"), help="of the file (default: as --output ends, or onnx)")
    parser.add_argument("--output", metavar="FILE", help="the file (default: policy.onnx or policy.pt2 in RUN)")
    parser.add_argument("--checkpoint", type=int, metavar="ITERATION", help="checkpoint to load (default: the newest)")
    parser.add_argument(
        "--steps", type=int, default=1000, help="compare for so many steps (default: %(default)s; 0: not)"
    )
    parser.add_argument(
        "--stochastic",
        action="store_true",
        help="actions drawn as in training, from noise that is an input of the file",
    )
    parser.add_argument("--env", metavar="ID", help="environment to compare in, for a run that was trained without one")
    add_trust_argument(parser)


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Exports."""
    import torch

    from rein.export import export_policy
    from rein.export.files import FORMATS, format_of, require_format
    from rein.training.policy import load_policy
    from rein.training.run_directory import RunDirectory

    if arguments.steps < 0:
        raise BadInputError(f"--steps {arguments.steps} is impossible: give 0 or more")
    torch.set_num_threads(1)
    directory = RunDirectory.open(arguments.run, arguments.trust)
    record = directory.record()
    if record.get("ml_type") == "sl":
        raise BadInputError(f"{arguments.run} was trained on labelled data: it has no policy to export")
    chosen = arguments.format or ("onnx" if arguments.output is None else format_of(Path(arguments.output)))
    output = Path(arguments.output or directory.path / f"policy{FORMATS[chosen]}")
    require_format(chosen)
    supply = {} if arguments.env is None else {"create_environment.env_name": arguments.env}
    policy = load_policy(directory, arguments.checkpoint, supply)
    export = export_policy(
        policy, output, chosen, arguments.steps, not arguments.stochastic, facts={"run": record.get("name")}
    )
    session.start_working()
    lines = [f"{output}: {output.stat().st_size / 1024:.0f} KiB"]
    lines += [f"  in   {port.describe()}" for port in export.signature.inputs]
    lines += [f"  out  {port.describe()}" for port in export.signature.outputs]
    holds = True
    if export.parity is not None:
        holds = export.parity.holds
        verdict = "the same as the original" if holds else "NOT the same as the original: do not use it"
        lines.append(f"{verdict}: {export.parity.describe()}")
    return Outcome(export.to_json(), "\n".join(lines), OK if holds else FAILURE)
