"""A folder for a model hub: a card for people, weights and settings for programs, and the agent. Nothing is uploaded."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from rein.config.plain_files import read_json
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.checkpoint.durable import put_in_place
from rein.training.construction import algorithm_state
from rein.training.run_directory import RunDirectory, RunDirectoryError, write_atomically
from rein.training.statistics_of_runs import (
    EVALUATION_RETURN,
    TRAINING_RETURN,
    Band,
    read_curve,
    read_series,
)
from rein.training.svg_chart import line_chart

_COMPONENTS, _OPTIONAL = ["alg"], ["data_transformer"]
_PUBLIC = ("name", "algorithm", "env", "seed", "env_steps", "iterations", "seconds", "parameters", "parts", "overrides")
_KEPT = (*_PUBLIC, "status", "rein", "python", "packages", "ml_type", "num_env_steps", "num_iterations")
"""Facts of a run that tell nothing about the machine or where its files are."""
_VIDEOS = (".mp4", ".gif")


class Card(NamedTuple):
    """What was written."""

    path: Path
    files: tuple[str, ...]


def write_card(directory: RunDirectory, path: str | os.PathLike[str], overwrite: bool = False) -> Card:
    """Writes the folder of a run's newest checkpoint.

    Args:
        directory: of the run.
        path: the folder, which must be new.
        overwrite: replace a card that is there.
    """
    target = Path(path)
    if target.exists() and not (overwrite and (target / "config.json").exists()):
        raise RunDirectoryError(f"{target} exists: give another folder, or --overwrite if it is a card")
    checkpointer = Checkpointer(directory.checkpoints)
    if not checkpointer.steps():
        raise RunDirectoryError(f"{directory.path} has no checkpoint yet: let it train longer")
    beside = target.with_name(f".{target.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        _fill(directory, checkpointer, beside)
        if target.exists():
            put_in_place(beside, target)
        else:
            beside.replace(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Card(target, tuple(sorted(str(one.relative_to(target)) for one in target.rglob("*") if one.is_file())))


def _fill(directory: RunDirectory, checkpointer: Checkpointer, folder: Path) -> None:
    record = directory.record()
    checkpoint = checkpointer.load(components=_COMPONENTS, optional=_OPTIONAL)
    tensors = _tensors(algorithm_state(checkpoint.components))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = _config(directory, record, checkpoint.step, tensors)
    write_atomically(folder / "config.json", json.dumps(config, indent=1) + "\n")
    _copy_agent(directory, record, folder / "agent", checkpoint.step, checkpoint.components)
    chart = _curve(directory, str(record.get("env") or record.get("name")))
    if chart is not None:
        write_atomically(folder / "curve.svg", chart)
    video = _newest_video(directory)
    if video is not None:
        shutil.copy(video, folder / f"replay{video.suffix}")
    write_atomically(folder / "README.md", _readme(directory, config, chart is not None, video))


def _tensors(state: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a state, each with memory of its own, as safetensors wants it."""
    return {
        name: value.detach().clone().contiguous() for name, value in state.items() if isinstance(value, torch.Tensor)
    }


def _config(directory: RunDirectory, record: dict[str, Any], step: int, tensors: dict[str, Tensor]) -> dict[str, Any]:
    values = directory.config / "values.json"
    settings = read_json(values, directory.path).get("settings", {}) if values.exists() else {}
    return {
        "library": "rein",
        "rein": record.get("rein"),
        "packages": record.get("packages", {}),
        **{key: record[key] for key in _PUBLIC if key in record},
        "checkpoint": step,
        "weights": sum(tensor.numel() for tensor in tensors.values()),
        "settings": {name.removeprefix("_CONFIG._USER."): one.get("value") for name, one in sorted(settings.items())},
    }


def _copy_agent(
    directory: RunDirectory, record: dict[str, Any], folder: Path, step: int, components: dict[str, Any]
) -> None:
    """What `rein.load` needs: configuration and weights, without buffers, optimizer states of the trainer and paths."""
    folder.mkdir()
    ignored = shutil.ignore_patterns("operative.py")  # For people, and full of paths.
    shutil.copytree(directory.config, folder / "config", ignore=ignored)
    for kept in (directory.agent, directory.specs, directory.evaluations):
        if kept.exists():
            shutil.copy(kept, folder / kept.name)
    Checkpointer(folder / "checkpoints").save(step, components)
    kept_facts = {key: record[key] for key in _KEPT if key in record}
    write_atomically(folder / "run.json", json.dumps({**kept_facts, "status": "saved"}, indent=2) + "\n")


def _curve(directory: RunDirectory, title: str) -> str | None:
    known = read_series(directory)
    for metric in (EVALUATION_RETURN, TRAINING_RETURN):
        if metric in known:
            x, y = read_curve(directory, metric)
            if len(x):
                chart = line_chart([Band(title, x, y, y, y, 1)], title, "environment steps", "return")
                return chart.replace('fill="currentColor">', 'fill="currentColor" color="#334155">', 1)
    return None


def _newest_video(directory: RunDirectory) -> Path | None:
    folder = directory.path / "videos"
    found = [one for one in folder.glob("*") if one.suffix in _VIDEOS] if folder.is_dir() else []
    return max(found, key=lambda one: one.stat().st_mtime, default=None)


# The page ------------------------------------------------------------------------------------------------------------


def _readme(directory: RunDirectory, config: dict[str, Any], has_curve: bool, video: Path | None) -> str:
    evaluations = directory.read_evaluations()
    last = evaluations[-1] if evaluations else None
    name, env = _code(config.get("name")), _code(config.get("env") or "data")
    parts = [
        _front_matter(config, last),
        f"# {name}\n\nA {_code(config.get('algorithm'))} agent for {env}, trained with "
        f"Rein {_plain(config.get('rein'))} (`pip install rein-rl`).\n",
        _results(config, last),
    ]
    if has_curve:
        parts.append("![return against environment steps](curve.svg)\n")
    if video is not None:
        parts.append(f"An episode: [replay{video.suffix}](replay{video.suffix})\n")
    parts += [_USE, _settings(config)]
    return "\n".join(parts)


_USE = """## Use

```python
import rein

agent = rein.load("agent")                # the folder beside this file
print(agent.evaluate(10).mean)
action = agent.predict(observation)       # an observation as Gymnasium gives it
```

`rein evaluate agent`, `rein play agent` and `rein export agent --format onnx` work too. Loading runs no code of this folder.

| file | what it is |
|---|---|
| `model.safetensors` | all weights and running statistics, by name |
| `config.json` | algorithm, environment, versions, settings |
| `agent/` | what `rein.load` reads |
"""


def _front_matter(config: dict[str, Any], last: dict[str, Any] | None) -> str:
    """YAML; texts are written as JSON, which is YAML too."""
    env, name = json.dumps(str(config.get("env") or "data")), json.dumps(str(config.get("name")))
    lines = ["---", "library_name: rein", "tags:", "- reinforcement-learning", "- rein"]
    lines += [f"- {json.dumps(str(config.get('algorithm')))}", f"- {env}"]
    if last is not None and "mean_return" in last:
        value = f"{last['mean_return']:.2f} +/- {last.get('std_return', 0.0):.2f}"
        lines += ["model-index:", f"- name: {name}", "  results:", "  - task:", "      type: reinforcement-learning"]
        lines += ["      name: reinforcement-learning", "    dataset:", f"      name: {env}", f"      type: {env}"]
        lines += [
            "    metrics:",
            "    - type: mean_reward",
            f"      value: {json.dumps(value)}",
            "      name: mean_reward",
        ]
        lines += ["      verified: false"]
    return "\n".join([*lines, "---", ""])


def _results(config: dict[str, Any], last: dict[str, Any] | None) -> str:
    rows = [("environment steps", f"{config.get('env_steps', 0):,}"), ("seed", config.get("seed"))]
    rows += [("parameters", f"{config['parameters']:,}")] if isinstance(config.get("parameters"), int) else []
    if last is not None and "mean_return" in last:
        seeds = "held-out seeds" if last.get("held_out") else "seeds that training did not use"
        mean = f"{last['mean_return']:.2f} +/- {last.get('std_return', 0.0):.2f}"
        rows.insert(0, (f"mean return, {last.get('episodes')} episodes on {seeds}", mean))
    table = "".join(f"| {_plain(key)} | {_plain(value)} |\n" for key, value in rows)
    return f"## Results\n\n| | |\n|---|---|\n{table}"


def _settings(config: dict[str, Any]) -> str:
    rows = "".join(
        f"| {_code('.'.join(name.split('.')[-2:]))} | {_code(_readable(value))} |\n"
        for name, value in config["settings"].items()
    )
    return f"## Settings\n\nThose that the conf gives; all others are Rein's defaults.\n\n| name | value |\n|---|---|\n{rows}"


def _readable(value: Any) -> str:
    """A saved value as one would write it in a conf; see `rein.config.data_values`."""
    if isinstance(value, list):
        return f"[{', '.join(map(_readable, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "$tuple" in value:
        return f"({', '.join(map(_readable, value['$tuple']))})"
    if "$name" in value:
        return str(value["$name"]).rpartition(":")[2]
    if "$call" in value:
        given = [*map(_readable, value.get("args", ()))]
        given += [f"{key}={_readable(one)}" for key, one in value.get("keywords", {}).items()]
        return f"{str(value['$call']).rpartition(':')[2]}({', '.join(given)})"
    return json.dumps(value)


def _plain(value: Any) -> str:
    """Text of a run for a page: nothing in it means anything to Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]()<>|#!&])", r"\\\1", " ".join(str(value).split()))


def _code(value: Any) -> str:
    """The same as code."""
    text = " ".join(str(value).split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"
