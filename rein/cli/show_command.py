"""Shows what a run or a conf is made of: the agent as a tree of components with shapes, parameter counts and optimizers.

Example:
  rein show runs/ppo_cartpole-0-1
  rein show ppo_cartpole learning_rate=3e-4
  rein show --algorithm sac --env Pendulum-v1 --with rnd
  rein show ppo_cartpole --config
  rein show runs/sac_squares+vae-0-1 --pictures
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rein.cli.command import BadInputError, Outcome, Session, add_trust_argument
from rein.cli.target import add_target_arguments, read_target

if TYPE_CHECKING:
    from rein.framework import RLAlgorithm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target_arguments(parser)
    add_trust_argument(parser)
    parser.add_argument("--layers", action="store_true", help="also every layer, with the shapes of its parameters")
    parser.add_argument("--config", action="store_true", help="every setting, as a conf, instead of the tree")
    parser.add_argument("--svg", metavar="FILE", help="also draw the tree into an SVG file")
    parser.add_argument(
        "--pictures",
        nargs="?",
        const="",
        metavar="DIR",
        help="instead of the tree: PNG files of reconstructions, of what codes mean and of slots, for a run with a part such "
        "as vae or monet (default: RUN/pictures, where its report finds them)",
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Shows."""
    if arguments.pictures is not None:
        return _draw_pictures(arguments)
    from rein.config import fresh_configs, get_inoperative_configs, operative_config_str
    from rein.training.agent_svg import draw_svg
    from rein.training.agent_text import draw_text
    from rein.training.agent_tree import describe_agent

    with fresh_configs():
        algorithm = _build(arguments)
        saved = _saved_operative(arguments)
        text = saved if saved is not None else operative_config_str()
        unused = [name for name, _ in get_inoperative_configs()] if saved is None else []
    tree = describe_agent(algorithm)
    data = {**describe(algorithm), "tree": tree, "config": text, "inoperative": unused}
    if arguments.svg:
        Path(arguments.svg).write_text(draw_svg(tree) + "\n", encoding="utf-8")
    if arguments.config:
        return Outcome(data, text)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    parts = [draw_text(tree, width), *([_layers(data)] if arguments.layers else [])]
    if data["not_optimized"]:
        parts.append(f"no optimizer, though trainable: {', '.join(data['not_optimized'])}")
    if unused:
        parts.append(f"settings without effect: {', '.join(unused)}")
    return Outcome(data, "\n\n".join(parts))


def _build(arguments: argparse.Namespace) -> "RLAlgorithm":
    """The algorithm of a run or conf, for acting only; the configuration in force becomes its."""
    from rein.config import install_name_resolver, load_saved_config
    from rein.envs import create_environment
    from rein.framework import TrainerConfig
    from rein.runtime.run import Run
    from rein.training.construction import build_algorithm
    from rein.training.run_directory import RunDirectory

    run_directory = _run_directory(arguments)
    if run_directory is not None:
        install_name_resolver()
        load_saved_config(RunDirectory.open(run_directory).config, trust=arguments.trust)
    else:
        read_target(arguments).configure()
    settings = TrainerConfig(root_dir="")
    with Run(seed=0), create_environment(seed=0) as env:
        settings.check_batches(env.batch_size)
        return build_algorithm(settings, env, for_training=False)


def _draw_pictures(arguments: argparse.Namespace) -> Outcome:
    from rein.training.pictures import draw_run
    from rein.training.report import write_report
    from rein.training.run_directory import RunDirectory

    path = _run_directory(arguments)
    if path is None:
        raise BadInputError("--pictures shows what a trained agent has learnt: give the directory of a run")
    directory = RunDirectory.open(path, arguments.trust)
    folder = Path(arguments.pictures) if arguments.pictures else directory.pictures
    files = [str(file) for file in draw_run(directory, folder)]
    if not arguments.pictures:
        write_report(directory)
    return Outcome({"directory": str(path), "pictures": files}, "\n".join(files))


def _run_directory(arguments: argparse.Namespace) -> Path | None:
    words = arguments.target
    return Path(words[0]) if len(words) == 1 and Path(words[0]).is_dir() else None


def _saved_operative(arguments: argparse.Namespace) -> str | None:
    directory = _run_directory(arguments)
    path = None if directory is None else directory / "config" / "operative.py"
    return path.read_text() if path is not None and path.exists() else None


def describe(algorithm: "RLAlgorithm") -> dict[str, Any]:
    """Layers, optimizers and parameter counts of an algorithm, in plain values."""
    layers = [
        {
            "name": name,
            "type": type(module).__name__,
            "shapes": {key: list(parameter.shape) for key, parameter in module.named_parameters(recurse=False)},
            "parameters": sum(parameter.numel() for parameter in module.parameters(recurse=False)),
        }
        for name, module in algorithm.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]
    names = json.loads(algorithm.get_optimizer_info())
    optimizers = [
        {**optimizer.get_optimizer_info(), "parameters": [algorithm.get_param_name(p) for p in optimizer.parameters()]}
        for optimizer in algorithm.optimizers()
    ]
    unhandled = [entry["parameters"] for entry in names if entry["optimizer"] == "None"]
    return {
        "algorithm": type(algorithm).__name__,
        "parameters": sum(parameter.numel() for parameter in algorithm.parameters()),
        "layers": layers,
        "optimizers": optimizers,
        "not_optimized": unhandled[0] if unhandled else [],
    }


def _layers(data: dict[str, Any]) -> str:
    lines = ["layers:"]
    for layer in data["layers"]:
        shapes = " ".join(f"{key}{shape}" for key, shape in layer["shapes"].items())
        lines.append(f"  {layer['name']:<52} {layer['type']:<14} {layer['parameters']:>9,}  {shapes}")
    return "\n".join(lines)
