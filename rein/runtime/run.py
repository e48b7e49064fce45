"""The run: what belongs to one training, evaluation or play, and to nothing else in the process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from rein.runtime import seeding
from rein.runtime.active import ACTIVE, Activation
from rein.runtime.device import get_default_device, resolve_device
from rein.runtime.timers import Timers
from rein.runtime.writers import SummaryWriter

if TYPE_CHECKING:
    from rein.runtime.watching import Watcher

ProgressType = Literal["percent", "iterations", "env_steps", "global_counter"]
PROGRESS_TYPES: tuple[ProgressType, ...] = ("percent", "iterations", "env_steps", "global_counter")
_OPTIONAL = ("trials",)  # Not in the checkpoints of all versions.


class Run:
    """Counters, progress, summary writer, random generators, timers and device of one run.

    `with run:` makes it the current run of this thread; module-level functions such as `rein.summary.scalar` and all
    schedulers find it there. Runs nest, and a run may be entered by several threads. A new thread starts without a
    current run: enter it again inside the thread.
    """

    def __init__(
        self,
        root_dir: str | Path | None = None,
        *,
        seed: int | None = None,
        device: torch.device | str | None = None,
        writer: SummaryWriter | None = None,
        enable_timers: bool = False,
        name: str = "run",
    ):
        """Creates a run that has not begun; nothing global changes until it is entered.

        Args:
            root_dir: directory of what the run leaves behind; None if it leaves nothing.
            seed: from which all its random numbers derive; None draws one, see `seed`.
            device: where its tensors live; the default device if None.
            writer: receives its summaries; None records none.
            enable_timers: whether `rein.runtime.timer` counts.
            name: for messages.
        """
        self.root_dir = None if root_dir is None else Path(root_dir)
        self.seed = seeding.draw_seed() if seed is None else seeding.check_seed(seed)
        self.device = get_default_device() if device is None else resolve_device(device)
        self.writer = writer
        self.watcher: Watcher | None = None
        self.timers = Timers(enable_timers)
        self.name = name
        self.global_counter = 0
        self.env_steps = 0
        self.iterations = 0
        self.skipped_updates = 0
        self.trials: dict[str, bool] = {}
        self._progress = 0.0
        self._generators: dict[str, np.random.Generator | torch.Generator] = {}

    @property
    def progress(self) -> float:
        """Share of the training that is done, in [0, 1]; set by the trainer."""
        return self._progress

    @progress.setter
    def progress(self, value: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"progress is a share in [0, 1], got {value}")
        self._progress = float(value)

    def get_progress(self, progress_type: ProgressType) -> float:
        """Returns how far the run is, measured as asked.

        Args:
            progress_type: "percent" for the share in [0, 1], or the name of a counter.
        """
        if progress_type == "percent":
            return self._progress
        if progress_type not in PROGRESS_TYPES:
            raise ValueError(f"unknown progress type {progress_type!r}; choose from {', '.join(PROGRESS_TYPES)}")
        return float(getattr(self, progress_type))

    def increment_global_counter(self, steps: int = 1) -> int:
        """Adds to the global counter, under which summaries are recorded, and returns it.

        Args:
            steps: how much to add, usually one gradient update or one iteration.
        """
        self.global_counter += steps
        return self.global_counter

    def seed_everything(self, deterministic: bool = False) -> None:
        """Seeds the global generators of torch, numpy and Python from the run's seed.

        Args:
            deterministic: also make torch refuse algorithms whose results vary from run to run.
        """
        seeding.seed_everything(self.seed, deterministic)

    def spawn_seeds(self, count: int, purpose: str) -> list[int]:
        """Returns distinct seeds for environments or workers.

        Args:
            count: how many.
            purpose: names the stream, for example "train_env"; each purpose has other seeds.
        """
        return seeding.spawn_seeds(self.seed, count, purpose)

    def generator(self, name: str) -> np.random.Generator:
        """Returns the numpy generator of this name, which the run creates, keeps and saves.

        Args:
            name: of the stream; its numbers depend on the name and the run's seed only.
        """
        found = self._generators.get(name)
        if found is None:
            found = self._generators[name] = seeding.make_generator(self.seed, name)
        if not isinstance(found, np.random.Generator):
            raise TypeError(f"the generator {name!r} is torch's; ask for torch_generator({name!r})")
        return found

    def torch_generator(self, name: str, device: torch.device | str | None = None) -> torch.Generator:
        """Returns the torch generator of this name, which the run creates, keeps and saves.

        Args:
            name: of the stream; its numbers depend on the name and the run's seed only.
            device: where it generates, when it is created; the run's device if None.
        """
        found = self._generators.get(name)
        if found is None:
            where = self.device if device is None else device
            found = self._generators[name] = seeding.make_torch_generator(self.seed, name, where)
        if not isinstance(found, torch.Generator):
            raise TypeError(f"the generator {name!r} is numpy's; ask for generator({name!r})")
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns counters, seed and the state of all generators, the global ones included, for a checkpoint."""
        return {
            "seed": self.seed,
            "global_counter": self.global_counter,
            "env_steps": self.env_steps,
            "iterations": self.iterations,
            "progress": self._progress,
            "generators": {name: seeding.get_generator_state(one) for name, one in self._generators.items()},
            "global_generators": seeding.get_rng_state(),
            "trials": dict(self.trials),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, so that the same random numbers follow.

        Args:
            state: of the run to continue.
        """
        missing = [key for key in self.state_dict() if key not in state and key not in _OPTIONAL]
        if missing:
            raise ValueError(f"the state of run {self.name!r} lacks {missing}; it has {list(state)}")
        self.seed = seeding.check_seed(int(state["seed"]))
        self.global_counter = int(state["global_counter"])
        self.env_steps = int(state["env_steps"])
        self.iterations = int(state["iterations"])
        self.progress = float(state["progress"])
        self.trials = dict(state.get("trials", {}))
        for name, saved in state["generators"].items():
            one = self.torch_generator(name) if saved["kind"] == "torch" else self.generator(name)
            seeding.set_generator_state(one, saved)
        seeding.set_rng_state(state["global_generators"])

    def close(self) -> None:
        """Writes out and closes the summaries; the run's counters stay readable."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def __enter__(self) -> Self:
        # Torch's default-device mode slows every operation down, so a CPU run installs it only inside of a GPU run.
        context = None if torch.get_default_device() == self.device else torch.device(self.device)
        if context is not None:
            context.__enter__()
        ACTIVE.set(Activation(self, parent=ACTIVE.get(), device_context=context))
        return self

    def __exit__(self, *exception: object) -> None:
        activation = ACTIVE.get()
        if activation is None or activation.run is not self:
            current = "none" if activation is None else repr(activation.run.name)
            raise RuntimeError(f"run {self.name!r} is left, but the current run is {current}; leave runs in reverse")
        ACTIVE.set(activation.parent)
        if activation.device_context is not None:
            activation.device_context.__exit__(None, None, None)

    def activate(self) -> Self:
        """Returns the run itself, for `with run.activate():`."""
        return self

    def __repr__(self) -> str:
        return f"Run({self.name!r}, seed={self.seed}, device={str(self.device)!r}, counter={self.global_counter})"


class NoRunError(RuntimeError):
    """Something that only a run knows was asked for outside of one."""


def current_run() -> Run:
    """Returns the run that this thread is in; `NoRunError` if there is none."""
    activation = ACTIVE.get()
    if activation is None:
        raise NoRunError(
            "there is no current run: wrap the code in `with rein.runtime.Run(): ...` (each thread enters by itself)"
        )
    return activation.run


def current_run_or_none() -> Run | None:
    """Returns the run that this thread is in, or None."""
    activation = ACTIVE.get()
    return None if activation is None else activation.run
