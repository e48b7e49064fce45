"""Reanalysis: values and policies of old experience, by the model of today (Schrittwieser et al. 2021, arXiv:2104.06294)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.search.mcts import MCTSInfo, MCTSState
from rein.algorithms.search.roots import SearchRoot
from rein.algorithms.search.targets import Span, field_path, read
from rein.config import configurable
from rein.data_structures import TimeStep
from rein.nest import Nest
from rein.networks import zero_state
from rein.replay import ReplayBuffer
from rein.runtime.run import current_run_or_none

TdSteps = Callable[[Tensor, int, float], Tensor]


@configurable
class LinearTdStepFunc:
    """Fewer steps before the bootstrap, the older a sample is (Ye et al. 2021, EfficientZero)."""

    def __init__(self, max_bootstrap_age: float, min_td_steps: int = 1) -> None:
        """Keeps the schedule.

        Args:
            max_bootstrap_age: age from which on there are `min_td_steps`.
            min_td_steps: fewest steps.
        """
        if max_bootstrap_age <= 0:
            raise ValueError(f"max_bootstrap_age is {max_bootstrap_age}: it must be positive")
        self._max_age = max_bootstrap_age
        self._min_steps = min_td_steps

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"max_bootstrap_age": self._max_age, "min_td_steps": self._min_steps}

    def __call__(self, sample_age: Tensor, max_td_steps: int, current_max_age: float) -> Tensor:
        """Steps before the bootstrap, int64.

        Args:
            sample_age: [B] in [0, 1]; 0 is the newest.
            max_td_steps: steps of the newest sample.
            current_max_age: age of the oldest sample of the run.
        """
        share = (sample_age / self._max_age).clamp(0.0, 1.0)
        steps = max_td_steps - share * (max_td_steps - self._min_steps)
        return steps.round().long().clamp(self._min_steps, max(max_td_steps, self._min_steps))


def sample_ages(buffer: ReplayBuffer, span: Span, progress: float) -> Tensor:
    """Ages of sampled sequences [B]: the share of the run that has passed since they were collected.

    Args:
        buffer: where they are stored.
        span: of the sequences.
        progress: of the run, in [0, 1]; the age of its first sample.
    """
    collected = buffer.current_pos.to(span.env_ids.device)[span.env_ids[:, 0]]
    return (1.0 - (span.positions[:, 0] + 1) / collected) * progress


class Reanalyzed(NamedTuple):
    """What reanalysis says about a span."""

    value: Tensor
    """[B, L]."""
    td_steps: Tensor
    """int64 [B], steps before the bootstrap."""
    candidate_actions: Nest
    """[B, M, ...] of the M steps that were searched, or `()`."""
    candidate_action_policy: Nest
    """[B, M, K]; `()` where what reanalyzes gives no policy."""


class Reanalysis:
    """Searches stored steps anew with a model, and asks it about the values of those that follow."""

    def __init__(
        self,
        algorithm: Any,
        model: Any,
        ratio: float,
        td_steps: int,
        td_steps_func: TdSteps | None = None,
        batch_size: int | None = None,
        searches_all: bool = False,
        enable_amp: bool = False,
    ) -> None:
        """Makes the reanalysis.

        Args:
            algorithm: what searches: its `rollout_step` gets a `SearchRoot` as observation.
            model: encodes and values observations.
            ratio: share of sequences that is reanalyzed.
            td_steps: steps before the bootstrap.
            td_steps_func: shortens them by the age of a sample; see `MuzeroRepresentationImpl`.
            batch_size: steps that are handled at once; None: all.
            searches_all: search at all steps, in place of only those that need a policy.
            enable_amp: mixed precision on accelerators.
        """
        self._algorithm, self._model = algorithm, model
        self.ratio, self.td_steps = ratio, td_steps
        self._td_steps_func = td_steps_func
        self._batch_size, self._searches_all, self._enable_amp = batch_size, searches_all, enable_amp

    def rows(self, span: Span) -> Tensor | None:
        """Which sequences to reanalyze, ascending, drawn by chance; None if none."""
        batch = len(span.env_ids)
        number = round(self.ratio * batch)
        if number == 0:
            return None
        return torch.randperm(batch, device=span.env_ids.device)[:number].sort().values

    def run(self, buffer: ReplayBuffer, span: Span, time_step: TimeStep, searched: int, path: str) -> Reanalyzed:
        """Reanalyzes a span.

        Args:
            buffer: where it is stored.
            span: [B, L].
            time_step: of the span, transformed, [B, L, ...].
            searched: M, steps that need a policy.
            path: of the algorithm whose states are stored.
        """
        batch, length = span.positions.shape
        number = length if self._searches_all else searched
        state = self._stored_state(buffer, Span(span.env_ids, span.positions[:, :number]), path)
        device = span.positions.device
        with torch.autocast(device.type, enabled=self._enable_amp and device.type == "cuda"):
            info = self._search(nest.map_structure(lambda t: t[:, :number], time_step), state, batch)
            value = info.value
            if length > number:
                rest = nest.map_structure(lambda t: t[:, number:].flatten(0, 1), time_step.observation)
                parts = _in_parts(rest, batch * (length - number), self._batch_size)
                values = torch.cat([self._model.initial_inference(part).value for part in parts])
                value = torch.cat([value, values.view(batch, -1)], 1)
        policy = (getattr(info, "candidate_actions", ()), getattr(info, "candidate_action_policy", ()))
        return Reanalyzed(value.float(), self._td_steps(buffer, span), *policy)

    def _search(self, time_step: TimeStep, state: Nest, batch: int) -> MCTSInfo:
        rows = nest.map_structure(lambda t: t.flatten(0, 1), (time_step, state))
        infos = []
        for part, before in _in_parts(rows, time_step.step_type.numel(), self._batch_size):
            latent = self._model.initial_representation(part.observation)
            root = part._replace(observation=SearchRoot.of(part.observation, latent))
            infos.append(self._algorithm.rollout_step(root, before).info)
        merged: MCTSInfo = nest.map_structure(lambda *parts: _merged(parts, batch), *infos)
        return merged

    def _td_steps(self, buffer: ReplayBuffer, span: Span) -> Tensor:
        if self._td_steps_func is None:
            return torch.full((len(span.env_ids),), self.td_steps, device=span.env_ids.device)
        run = current_run_or_none()
        progress = 1.0 if run is None else run.progress
        steps = self._td_steps_func(sample_ages(buffer, span, progress), self.td_steps, progress)
        return steps.long().clamp(0, self.td_steps)

    def _stored_state(self, buffer: ReplayBuffer, span: Span, path: str) -> Nest:
        """States of `rollout_step` of what searches, [B, M, ...]; what is not stored is zero."""
        shape = span.positions.shape
        state = zero_state(self._algorithm.rollout_state_spec, shape.numel(), span.positions.device)
        state = nest.map_structure(lambda t: t.view(*shape, *t.shape[1:]), state)
        if not isinstance(state, MCTSState):
            return state
        stored = read(buffer, field_path("state", path), span)._asdict()
        known = {
            name: part
            for name, part in stored.items()
            if not nest.is_empty(part) and not nest.is_empty(getattr(state, name))
        }
        return state._replace(**known)


def _merged(parts: tuple[Tensor, ...], batch: int) -> Tensor:
    rows = torch.cat(parts)
    return rows.view(batch, -1, *rows.shape[1:])


def _in_parts(data: Nest, size: int, part: int | None) -> list[Any]:
    """A nest of [size, ...] in pieces of at most `part` rows."""
    part = size if part is None else part
    return [nest.map_structure(lambda t, i=i: t[i : i + part], data) for i in range(0, size, part)]
