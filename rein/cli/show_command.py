"""Shows what a run or a conf is made of: networks, optimizers, parameter counts, and every setting.

Example:
  rein show runs/ppo_cartpole-0-1
  rein show ppo_cartpole learning_rate=3e-4
  rein show --algorithm ppo --env Pendulum-v1 --config
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rein.cli.command import Outcome, Session
from rein.cli.target import add_target_arguments, read_target

if TYPE_CHECKING:
    from rein.framework import RLAlgorithm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target_arguments(parser)
    parser.add_argument("--config", action="store_true", help="the settings only, as a conf")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Shows."""
    from rein.config import fresh_configs, get_inoperative_configs, operative_config_str

    with fresh_configs():
        algorithm = _build(arguments)
        saved = _saved_operative(arguments)
        text = saved if saved is not None else operative_config_str()
        unused = [name for name, _ in get_inoperative_configs()] if saved is None else []
    data = {**describe(algorithm), "config": text, "inoperative": unused}
    if arguments.config:
        return Outcome(data, text)
    return Outcome(data, "\n\n".join([*_tables(data), text]))


def _build(arguments: argparse.Namespace) -> "RLAlgorithm":
    """The algorithm of a run or conf, for acting only; the configuration in force becomes its."""
    from rein.config import load_saved_config
    from rein.envs import create_environment
    from rein.framework import TrainerConfig
    from rein.runtime.run import Run
    from rein.training.configurable_names import install_name_resolver
    from rein.training.construction import build_algorithm
    from rein.training.run_directory import RunDirectory

    run_directory = _run_directory(arguments)
    if run_directory is not None:
        install_name_resolver()
        load_saved_config(RunDirectory.open(run_directory).config)
    else:
        read_target(arguments).configure()
    settings = TrainerConfig(root_dir="")
    with Run(seed=0), create_environment(seed=0) as env:
        settings.check_batches(env.batch_size)
        return build_algorithm(settings, env, for_training=False)


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


def _tables(data: dict[str, Any]) -> list[str]:
    layers = [f"{data['algorithm']}: {data['parameters']:,} parameters", ""]
    for layer in data["layers"]:
        shapes = " ".join(f"{key}{shape}" for key, shape in layer["shapes"].items())
        layers.append(f"  {layer['name']:<52} {layer['type']:<14} {layer['parameters']:>9,}  {shapes}")
    optimizers = ["optimizers:"]
    for optimizer in data["optimizers"]:
        hypers = ", ".join(f"{key}={value}" for key, value in optimizer["hypers"].items() if value is not None)
        count = f"{optimizer['num_parameters']} tensors, {optimizer['num_elements']:,} numbers"
        optimizers.append(f"  {optimizer['optimizer']} ({count}): {hypers}")
    if data["not_optimized"]:
        optimizers.append(f"  none: {', '.join(data['not_optimized'])}")
    return ["\n".join(layers), "\n".join(optimizers)]
