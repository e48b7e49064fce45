"""Calls the hooks of the callbacks of a run, and keeps their state."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rein import nest
from rein.data_structures import LossInfo, TimeStep
from rein.training.callbacks.callback import Callback, CallbackError
from rein.training.callbacks.training import Host, Training
from rein.training.progress import Progress


class CallbackRunner:
    """The callbacks of a run; with none, nothing is done."""

    def __init__(self, host: Host, callbacks: Sequence[Callback] = ()) -> None:
        """Attaches the callbacks that the settings give.

        Args:
            host: the trainer.
            callbacks: in the order in which they are called.
        """
        self._host = host
        self._callbacks: list[Callback] = []
        self._saved: dict[str, Any] = {}
        self.training = Training(host, Progress(0, 0, 0.0, 0.0, {}))
        self.add(callbacks)

    def add(self, callbacks: Sequence[Callback]) -> None:
        """Attaches callbacks; they get the state that a checkpoint has for callbacks of their names.

        Args:
            callbacks: objects of `Callback`, none of them attached already.
        """
        for callback in callbacks:
            if not isinstance(callback, Callback):
                hint = ": make it, with brackets" if isinstance(callback, type) else ""
                raise CallbackError(f"{callback!r} is no rein.training.callbacks.Callback{hint}")
            if any(one is callback for one in self._callbacks):
                raise CallbackError(f"the callback {callback!r} is given twice: a run calls it once")
        self._callbacks += callbacks
        self._restore()

    def remove(self, callbacks: Sequence[Callback]) -> None:
        """Detaches callbacks."""
        self._callbacks = [one for one in self._callbacks if not any(one is other for other in callbacks)]

    @property
    def stop_reason(self) -> str | None:
        """Why a callback wants the run to end; None if none does."""
        return self.training.stop_reason

    # State.

    def _named(self) -> dict[str, Callback]:
        """Callbacks by what their state is saved under: the names of their classes, numbered where they repeat."""
        named: dict[str, Callback] = {}
        for callback in self._callbacks:
            name, number = type(callback).__name__, 1
            while (key := name if number == 1 else f"{name}_{number}") in named:
                number += 1
            named[key] = callback
        return named

    def state_dict(self) -> dict[str, Any]:
        """The states of all callbacks that have one, by name; also of those that are not attached in this process."""
        states = {name: dict(one.state_dict()) for name, one in self._named().items()}
        return {**self._saved, **{name: state for name, state in states.items() if state}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what `state_dict` gave, also for callbacks that are attached later."""
        self._saved = dict(state)
        self._restore()

    def _restore(self) -> None:
        for name, callback in self._named().items():
            if name in self._saved:
                callback.load_state_dict(self._saved.pop(name))

    # Hooks.

    def _listeners(self, hook: str) -> list[Callback]:
        return [one for one in self._callbacks if getattr(type(one), hook) is not getattr(Callback, hook)]

    def start(self, progress: Progress) -> None:
        """Begins a training."""
        self.training.progress = self.training.evaluated_at = progress
        self.training.stop_reason = None
        watcher = _Watcher(self.training, self._listeners("on_rollout"), self._listeners("on_update"))
        self._host.run.watcher = watcher if watcher.is_needed else None
        for callback in self._listeners("on_start"):
            callback.on_start(self.training)

    def iteration(self, progress: Progress) -> None:
        """An iteration has ended."""
        self.training.progress = progress
        for callback in self._listeners("on_iteration"):
            callback.on_iteration(self.training)

    def policy_to_evaluate(self) -> dict[str, Any] | None:
        """A copy of the policy that is about to be evaluated, if a callback may want to save it."""
        return self.training.copy_policy() if any(one.keeps_policy for one in self._callbacks) else None

    def evaluation(self, at: Progress, result: Any, policy: dict[str, Any] | None) -> None:
        """A policy was evaluated.

        Args:
            at: where the run stood then.
            result: of the evaluation.
            policy: from `policy_to_evaluate`.
        """
        self.training.show_evaluated(at, policy)
        for callback in self._listeners("on_evaluation"):
            callback.on_evaluation(self.training, result)
        self.training.show_evaluated(at, None)

    def checkpoint(self, path: Path) -> None:
        """A checkpoint was saved."""
        for callback in self._listeners("on_checkpoint"):
            callback.on_checkpoint(self.training, path)

    def end(self) -> None:
        """Training has ended."""
        self._host.run.watcher = None
        for callback in self._listeners("on_end"):
            callback.on_end(self.training)


class _Watcher:
    """Hands on what happens inside iterations."""

    def __init__(self, training: Training, for_steps: Sequence[Callback], for_updates: Sequence[Callback]) -> None:
        self._training, self._for_steps, self._for_updates = training, for_steps, for_updates
        self._seen: list[TimeStep] = []

    @property
    def is_needed(self) -> bool:
        return bool(self._for_steps or self._for_updates)

    def saw_steps(self, time_steps: TimeStep) -> None:
        if self._for_steps:
            self._seen.append(nest.map_structure(torch.clone, time_steps._replace(untransformed=())))

    def collected(self) -> None:
        if not self._seen:
            return
        steps = nest.map_structure(lambda *parts: torch.cat(parts), *self._seen)
        self._seen = []
        for callback in self._for_steps:
            self._training.inside_iteration(callback.on_rollout, steps)

    def updated(self, name: str, loss_info: LossInfo) -> None:
        for callback in self._for_updates:
            self._training.inside_iteration(callback.on_update, name, loss_info)
