"""From sampled sequences to the targets of a model, stored ones or reanalyzed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.search import targets
from rein.algorithms.search.model_structures import ModelTarget
from rein.algorithms.search.modes import in_eval_mode
from rein.algorithms.search.reanalysis import Reanalysis
from rein.algorithms.search.targets import Returns, Span, Windows, field_path, take
from rein.data_structures import BatchInfo, Experience, TimeStep
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec
from rein.statistics import frozen_statistics
from rein.transforms import DataTransformer

Policy = tuple[Nest, Nest]
"""Candidates [B, L, K, ...] or `()`, and their probabilities [B, L, K] or `()`."""


class TargetSettings(NamedTuple):
    """What targets are to be made of; the names are those of `MuzeroRepresentationImpl`."""

    action_spec: BoundedTensorSpec
    num_unroll_steps: int
    td_steps: int
    discount: float
    learns_rewards: bool
    learns_policy: bool
    learns_repr: bool
    random_after_end: bool
    reward_transformer: Any


class TargetMaker:
    """Makes the targets of sampled sequences; changes nothing."""

    def __init__(
        self,
        settings: TargetSettings,
        transformer: Callable[[], DataTransformer | None],
        reanalysis: Reanalysis | None,
    ) -> None:
        """Makes the maker.

        Args:
            settings: what is to be made.
            transformer: gives what transforms stored steps for the model.
            reanalysis: None: all targets are made of what was stored.
        """
        self._settings = settings
        self._transformer = transformer
        self._reanalysis = reanalysis

    @torch.no_grad()
    def make(self, length: int, batch_info: BatchInfo, path: str) -> tuple[Tensor, ModelTarget]:
        """The actions [B, T, R, ...] to unroll along, and the targets [B, T, R + 1, ...].

        Args:
            length: T.
            batch_info: where the sequences were sampled.
            path: of the algorithm whose infos and states are stored.
        """
        settings, buffer = self._settings, batch_info.replay_buffer
        searched = length + settings.num_unroll_steps
        span = targets.read_span(buffer, batch_info, searched + self._steps_ahead())
        to_end = targets.steps_to_end(
            buffer, "time_step.step_type", span.env_ids, span.positions[:, :length], self._farthest_end()
        )
        windows = targets.make_windows(to_end, settings.num_unroll_steps)
        fields = ["time_step.reward", "time_step.discount", "time_step.prev_action"]
        reward, discount, prev_action = targets.read(buffer, fields, span)
        data = Returns(self._transformed_reward(reward), discount, reward)
        value, policy = self._values_and_policy(buffer, span, windows, data, to_end, searched, path)
        target = ModelTarget(
            is_partial_trajectory=take(discount, windows.column[:, :, -1]) != 0,
            beyond_episode_end=windows.beyond_end,
            reward=take(data.reward, windows.column).masked_fill(windows.beyond_end, 0.0),
            action=nest.map_structure(lambda t: take(t, windows.column), policy[0]),
            action_policy=nest.map_structure(lambda t: take(t, windows.column), policy[1]),
            game_over=(windows.to_end == 0) & (take(discount, windows.column) == 0),
            value=value,
            observation=self._future_observations(buffer, span, windows) if settings.learns_repr else (),
        )
        return targets.window_actions(windows, prev_action, settings.action_spec, settings.random_after_end), target

    def _steps_ahead(self) -> int:
        """Steps beyond the windows that value targets look at."""
        stored = max(self._settings.td_steps, 0)
        if self._reanalysis is None:
            return stored
        return max(self._reanalysis.td_steps, stored if self._reanalysis.ratio < 1.0 else 0)

    def _farthest_end(self) -> int | None:
        """Steps to the end of an episode from which on more make no difference; None: they always do."""
        if self._settings.td_steps < 0:
            return None
        return self._settings.num_unroll_steps + self._steps_ahead() + 1

    def _transformed_reward(self, reward: Tensor) -> Tensor:
        transformer = self._settings.reward_transformer
        if transformer is None:
            return reward
        with in_eval_mode(transformer):
            transformed: Tensor = transformer(reward)
            return transformed

    def _values_and_policy(
        self,
        buffer: ReplayBuffer,
        span: Span,
        windows: Windows,
        data: Returns,
        to_end: Tensor,
        searched: int,
        path: str,
    ) -> tuple[Tensor, Policy]:
        """Values [B, T, R + 1], and the policy along the span."""
        ratio = 0.0 if self._reanalysis is None else self._reanalysis.ratio
        value = torch.zeros_like(windows.column, dtype=data.reward.dtype)
        policy: Policy = ((), ())
        if ratio < 1.0:
            value = self._stored_values(buffer, span, windows, data, to_end, path)
            if self._settings.learns_policy:
                policy = self._stored_policy(buffer, span, searched, path)
        rows = None if self._reanalysis is None else self._reanalysis.rows(span)
        if self._reanalysis is None or rows is None:
            return value, policy
        part = span.of(rows, searched + self._reanalysis.td_steps)
        time_step = self._read_time_steps(buffer, part)
        new = self._reanalysis.run(buffer, part, time_step, searched, path)
        fresh = targets.n_step_values(
            Windows(*(field[rows] for field in windows)),
            Returns(data.reward[rows], data.discount[rows], new.value),
            new.td_steps.view(-1, 1, 1),
            self._settings.discount,
            self._settings.learns_rewards,
        )
        if not self._settings.learns_policy:
            return value.index_copy(0, rows, fresh), ((), ())
        found = (new.candidate_actions, new.candidate_action_policy)
        if len(rows) == len(value):
            return fresh, found
        mixed = nest.map_structure(lambda old, one: old.index_copy(0, rows, one.to(old.dtype)), policy, found)
        return value.index_copy(0, rows, fresh), mixed

    def _stored_values(
        self, buffer: ReplayBuffer, span: Span, windows: Windows, data: Returns, to_end: Tensor, path: str
    ) -> Tensor:
        """Value targets [B, T, R + 1] by the values that were stored."""
        settings, field = self._settings, field_path("rollout_info", path, "value")
        if settings.td_steps >= 0:
            data = data._replace(value=targets.read(buffer, field, span))
            td_steps = torch.full((len(data.value), 1, 1), settings.td_steps, device=data.value.device)
            return targets.n_step_values(windows, data, td_steps, settings.discount, settings.learns_rewards)
        last = Span(span.env_ids, span.positions[:, : to_end.shape[1]] + to_end)
        reward, discount, value = targets.read(buffer, ["time_step.reward", "time_step.discount", field], last)
        end = Returns(self._transformed_reward(reward), discount, value)
        return targets.final_values(windows, end, settings.discount, settings.learns_rewards)

    def _stored_policy(self, buffer: ReplayBuffer, span: Span, length: int, path: str) -> Policy:
        """The policy that was stored at the first `length` steps."""
        first = Span(span.env_ids, span.positions[:, :length])
        info = targets.read(buffer, field_path("rollout_info", path), first)
        if not hasattr(info, "candidate_action_policy"):
            raise ValueError(
                f"a policy is to be learnt, but what was stored is {type(info).__name__} without one: set "
                "train_policy=False, or reanalyze_ratio=1.0 with a search"
            )
        return info.candidate_actions, info.candidate_action_policy

    def _read_time_steps(self, buffer: ReplayBuffer, span: Span) -> TimeStep:
        """Time steps of a span [B, L, ...], transformed as when acting."""
        shape = span.positions.shape
        env_ids, positions = span.env_ids.expand(shape).reshape(-1), span.positions.reshape(-1)
        # Each step is a sequence of its own, for transformers that look back from where a sequence starts.
        time_step = targets.read(buffer, "time_step", Span(env_ids.unsqueeze(1), positions.unsqueeze(1)))
        transformer = self._transformer()
        if transformer is not None:
            info = BatchInfo(env_ids=env_ids, positions=positions, replay_buffer=buffer)
            experience = Experience(time_step, batch_info=info, replay_buffer=buffer)
            with frozen_statistics():
                time_step = transformer.transform_experience(experience).time_step
        return nest.map_structure(lambda t: t.reshape(*shape, *t.shape[2:]), time_step)

    def _future_observations(self, buffer: ReplayBuffer, span: Span, windows: Windows) -> Nest:
        """Observations at window entries, [B, T, R + 1, ...]."""
        positions = take(span.positions, windows.column)
        observation = self._read_time_steps(buffer, Span(span.env_ids, positions.flatten(1))).observation
        return nest.map_structure(lambda t: t.view(*positions.shape, *t.shape[2:]), observation)
