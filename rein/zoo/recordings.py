"""Data for entries that learn from recordings: which entries are trained for it, and what is recorded of them.

An entry names them in its `ENTRY`:

    "recordings": [{"run": "sac_pendulum", "seed": 0, "episodes": 20, "policy": "stochastic", "at": 0.3}]

`at` is the share of the training after which the policy is recorded; 1, the end, is the default. `{"run": "sac_hopper",
"replay": True}` is all that the run had in its replay buffer in the end. Everything is made by seeds, so that the same
recordings give the same file.
"""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rein.runtime.checkpoint import Checkpointer
from rein.training.run_directory import RunDirectory
from rein.zoo import ZooEntry, find_task
from rein.zoo.processes import command_line, one_thread
from rein.zoo.trained_settings import trained_settings


class Recording(NamedTuple):
    """Episodes of one policy, or the replay buffer of its training."""

    run: str
    """Name of the entry that is trained."""
    episodes: int = 0
    """How many are played; 0 with `replay` only."""
    seed: int = 0
    """Of training and of recording."""
    policy: str = "stochastic"
    """How it is played: see `rein record --policy`."""
    at: float = 1.0
    """Share of the training after which it is recorded: at the nearest checkpoint that is kept."""
    replay: bool = False
    """Take what the replay buffer held at the end, and play nothing."""


def recordings_of(entry: ZooEntry) -> list[Recording]:
    """What an entry learns from; empty if it learns from what it does itself."""
    wanted = [Recording(**facts) for facts in entry.facts.get("recordings", ())]
    for one in wanted:
        if one.replay is (one.episodes > 0):
            raise ValueError(
                f"{entry.name}: a recording of {one.run} has replay={one.replay} and episodes={one.episodes}: give one"
            )
    return wanted


def make_recordings(entry: ZooEntry, work: Path, say: Callable[[str], None] = print) -> Path:
    """Trains and records what an entry learns from; returns the data set. What is there already is not made again.

    Args:
        entry: names its recordings.
        work: where runs and files go.
        say: told what happens.
    """
    wanted = recordings_of(entry)
    if not wanted:
        raise ValueError(f"{entry.name} names no recordings: it learns from what it does itself")
    parts = [_record(one, work, say) for one in wanted]
    if len(parts) == 1:
        return parts[0]
    digest = hashlib.sha256(json.dumps([part.name for part in parts]).encode()).hexdigest()[:12]
    joined = work / f"{entry.name}-{digest}.data"
    if not joined.exists():
        _run("data", "join", *map(str, parts), "--out", str(joined))
    return joined


def _record(one: Recording, work: Path, say: Callable[[str], None]) -> Path:
    source = find_task(one.run)
    settings = trained_settings(source.path).hash
    path = work / f"{one.run}-{settings}-{one.seed}"
    what = "replay" if one.replay else f"{one.policy}-{one.at:g}-{one.episodes}"
    name = f"{path.name}-{what}.data"
    if (work / name).exists():
        return work / name
    if not (path / "run.json").exists():
        say(f"{one.run}: training seed {one.seed}, to be recorded")
        _run("train", one.run, "--seed", str(one.seed), "--dir", str(path), "--threads", "1")
    elif RunDirectory.open(path).record()["status"] != "finished":
        _run("resume", str(path), "--threads", "1")
    if one.replay:
        say(f"{one.run}: recording the replay buffer of seed {one.seed}")
        _run("record", str(path), "--replay", "--out", str(work / name))
        return work / name
    say(f"{one.run}: recording {one.episodes} episodes of seed {one.seed}, {one.policy}")
    options = ["--episodes", str(one.episodes), "--policy", one.policy, "--seed", str(one.seed)]
    checkpoint = ["--checkpoint", str(_checkpoint(path, one.at))]
    _run("record", str(path), *options, *checkpoint, "--out", str(work / name))
    return work / name


def _checkpoint(path: Path, share: float) -> int:
    """The iteration of the kept checkpoint that is nearest to a share of the training."""
    steps = Checkpointer(path / "checkpoints").steps()
    return min(steps, key=lambda step: abs(step - share * max(steps)))


def _run(*words: str) -> None:
    done = subprocess.run(command_line(*words), capture_output=True, env=one_thread(), check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`rein {' '.join(words)}` failed: {done.stderr.decode().strip()[-500:]}")
