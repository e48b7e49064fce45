"""Runs written by hand, some as somebody hostile would."""

import json
from pathlib import Path
from typing import Any

from rein.runtime.writers import JsonlWriter
from rein.training.run_directory import RunDirectory

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>${alert(3)}javascript:alert(4)'
MADE = "hostile 'name' <b>&amp;"


def write_run(path: Path, seed: int = 0, offset: float = 0.0, points: int = 20, **facts: Any) -> RunDirectory:
    """A run as training leaves it."""
    directory = RunDirectory.create(path)
    directory.start(**{"name": "task", "seed": seed, "algorithm": "PPOAlgorithm", "env": "CartPole-v1", **facts})
    directory.update(status="finished", env_steps=100 * points, seconds=12.5)
    writer = JsonlWriter(directory.summaries, max_queue=100_000, flush_seconds=1e9)
    for step in range(points):
        writer.scalar("Metrics/EnvironmentSteps", 100.0 * (step + 1), step)
        writer.scalar("Metrics/AverageReturn", step + offset, step)
    writer.close()
    directory.add_evaluation(
        {
            "iterations": points,
            "env_steps": 100 * points,
            "episodes": 3,
            "mean_return": 10.0 + offset,
            "std_return": 1.0,
            "ci95": [9.0, 11.0],
            "mean_length": 5.0,
            "returns": [9.0, 10.0, 11.0],
        }
    )
    directory.config.mkdir()
    (directory.config / "operative.py").write_text(
        f"define_config('learning_rate', {0.001 * (seed + 1)})\nconfig(\n    {{\n        'a.b.Loss.gamma': 0.99,  # x.py:1\n"
        "        'a.b.Loss.layers': (64,\n            64),\n    }\n)\n"
    )
    directory.timing.write_text(
        json.dumps({"seconds": 10.0, "sections": {"learn": {"seconds": 6.0, "own_seconds": 6.0, "calls": 2}}})
    )
    directory.unlock()
    return directory


def write_hostile_run(path: Path) -> RunDirectory:
    """A run in which every text is an attempt to run a script in the page."""
    node = {"name": HOSTILE, "type": HOSTILE, "kind": HOSTILE, "inputs": {HOSTILE: HOSTILE}, "outputs": {}, "state": {}}
    tree = {"root": {**node, "parameters": 3, "trained": 3, "optimizers": [1], "children": []}, "optimizers": []}
    tree["optimizers"] = [{"number": 1, "name": HOSTILE, "learning_rate": HOSTILE, "settings": {HOSTILE: HOSTILE}}]
    directory = write_run(path, name=HOSTILE, command=HOSTILE, overrides=[HOSTILE], error=HOSTILE, device=HOSTILE)
    directory.update(algorithm=HOSTILE, env=HOSTILE, started=HOSTILE, status=HOSTILE, packages={HOSTILE: HOSTILE})
    directory.agent.write_text(json.dumps(tree))
    directory.log.write_text(f"2026-01-01T00:00:00 WARNING {HOSTILE}\n{HOSTILE}\n")
    directory.timing.write_text(json.dumps({"seconds": 1.0, "sections": {HOSTILE: {"seconds": 1.0}}}))
    (directory.config / "operative.py").write_text(f"config({{{HOSTILE!r}: {HOSTILE!r}}})\n")
    writer = JsonlWriter(directory.summaries)
    writer.scalar(HOSTILE, 1.0, 3)
    writer.close()
    directory.videos.mkdir()
    (directory.videos / (HOSTILE.replace("/", "_") + ".gif")).write_bytes(b"GIF89a")
    picture = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(5)</script></svg>'
    directory.plans.mkdir()
    (directory.plans / "plan-1.svg").write_text(picture)
    return directory
