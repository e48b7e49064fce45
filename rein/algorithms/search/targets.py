"""Targets of unrolled models, made from what a replay buffer holds.

A *span* is a row of consecutive stored steps, [B, L], read once; *windows* are the R + 1 steps from each of its first T
steps on, [B, T, R + 1]. A window never leaves the episode that it starts in: from its end on all entries are its last step.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein.data_structures import BatchInfo, StepType
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec

_SCAN = 16


class Span(NamedTuple):
    """Consecutive stored steps of sampled sequences."""

    env_ids: Tensor
    """int64 [B, 1]."""
    positions: Tensor
    """int64 [B, L], held at the newest stored step."""

    def of(self, rows: Tensor, length: int) -> "Span":
        """The first steps of some of the sequences."""
        return Span(self.env_ids[rows], self.positions[rows, :length])


class Windows(NamedTuple):
    """Where windows lie in their span; all [B, T, R + 1]."""

    column: Tensor
    """int64, column of the span of each entry, held at the end of the episode."""
    beyond_end: Tensor
    """bool, the entry would lie beyond the end of the episode."""
    to_end: Tensor
    """int64, steps from the entry to the last stored one of its episode."""


class Returns(NamedTuple):
    """What value targets are made of; [B, L] along a span."""

    reward: Tensor
    discount: Tensor
    """0 where the game is over, as stored."""
    value: Tensor
    """Estimates to bootstrap from."""


def read_span(buffer: ReplayBuffer, batch_info: BatchInfo, length: int) -> Span:
    """The steps of sampled sequences and what follows them.

    Args:
        buffer: where they are stored.
        batch_info: of sequences [B].
        length: L.
    """
    env_ids = batch_info.env_ids.unsqueeze(1)
    newest = (buffer.current_pos.to(env_ids.device) - 1)[env_ids]
    offsets = torch.arange(length, device=env_ids.device)
    return Span(env_ids, torch.minimum(batch_info.positions.unsqueeze(1) + offsets, newest))


def steps_to_end(
    buffer: ReplayBuffer, step_type_field: str, env_ids: Tensor, positions: Tensor, limit: int | None = None
) -> Tensor:
    """Steps from stored ones to the last stored one of their episodes, int64.

    Args:
        buffer: asked, if it knows episodes; otherwise its steps are looked through.
        step_type_field: path of the step types.
        env_ids: int64, of a shape that broadcasts with that of `positions`.
        positions: int64 [B, T].
        limit: number that stands for itself and all greater ones, where these are the same to who asks; None: no number.
    """
    if buffer.keep_episodic_info:
        return buffer.steps_to_episode_end(positions, env_ids.expand_as(positions))
    scan = _SCAN if limit is None else limit
    newest = (buffer.current_pos.to(positions.device) - 1)[env_ids.expand_as(positions)]
    distance = torch.zeros_like(positions)
    walking = torch.ones_like(positions, dtype=torch.bool)
    while bool(walking.any()):
        at = positions + distance
        ahead = at.unsqueeze(-1) + torch.arange(scan + 1, device=at.device)
        held = torch.minimum(ahead, newest.unsqueeze(-1))
        kind = buffer.get_field(step_type_field, env_ids.unsqueeze(-1).expand_as(held), held)
        is_end = (kind == StepType.LAST) | (ahead >= newest.unsqueeze(-1))
        is_end[..., :-1] |= kind[..., 1:] == StepType.FIRST
        found = is_end[..., :-1].any(-1)
        step = torch.where(found, is_end[..., :-1].long().argmax(-1), scan)
        distance = torch.where(walking, distance + step, distance)
        if limit is not None:
            break
        walking = walking & ~found
    return distance


def make_windows(to_end: Tensor, num_unroll_steps: int) -> Windows:
    """The windows that start at the first T columns of a span.

    Args:
        to_end: int64 [B, T], of `steps_to_end`.
        num_unroll_steps: R.
    """
    batch, length = to_end.shape
    ahead = torch.arange(num_unroll_steps + 1, device=to_end.device).expand(batch, length, -1)
    offset = torch.minimum(ahead, to_end.unsqueeze(-1))
    start = torch.arange(length, device=to_end.device).view(1, -1, 1)
    return Windows(start + offset, ahead > to_end.unsqueeze(-1), to_end.unsqueeze(-1) - offset)


def take(row: Tensor, index: Tensor) -> Tensor:
    """Entries [B, ..., *rest] of a span [B, L, *rest] at columns [B, ...]."""
    batch = torch.arange(len(row), device=row.device).view(-1, *(1,) * (index.ndim - 1))
    return row[batch, index]


def n_step_values(windows: Windows, data: Returns, td_steps: Tensor, gamma: float, learns_rewards: bool) -> Tensor:
    """Values of window entries by rewards and a bootstrap some steps later, [B, T, R + 1].

    With q the entry, n = min(td_steps, steps to the end of the episode) and d the stored discounts:

        sum_{i=1..n} gamma^(i-1) r_(q+i) + gamma^n d_(q+1) ... d_(q+n) v_(q+n).

    At the end of a game the value is 0. Where rewards are not learnt only the one at the end counts, and it is the value
    there.

    Args:
        windows: of the span.
        data: the span; L must reach `td_steps` beyond the windows.
        td_steps: int64 [B, 1, 1], at least 0.
        gamma: discount per step.
        learns_rewards: whether the model predicts rewards.
    """
    n = torch.minimum(td_steps, windows.to_end)
    most = int(n.max()) if n.numel() else 0
    i = torch.arange(1, most + 1, device=n.device)
    counts = i <= n.unsqueeze(-1)
    at = windows.column.unsqueeze(-1) + torch.where(counts, i, 0)
    power = torch.pow(torch.as_tensor(gamma, dtype=torch.float64, device=n.device), i - 1).to(data.reward.dtype)
    earned = counts if learns_rewards else counts & (i == windows.to_end.unsqueeze(-1))
    total = torch.where(earned, power * take(data.reward, at), 0.0).sum(-1)
    product = torch.where(counts, gamma * take(data.discount, at), 1.0).prod(-1)
    value = total + product * take(data.value, windows.column + n)
    ended = (windows.to_end == 0) & (take(data.discount, windows.column) == 0)
    last = torch.zeros_like(value) if learns_rewards else take(data.reward, windows.column)
    return torch.where(ended, last, value)


def final_values(windows: Windows, end: Returns, gamma: float, learns_rewards: bool) -> Tensor:
    """Values of window entries by what was earned at the end of the episode, [B, T, R + 1].

    Args:
        windows: of the span.
        end: [B, T], at the last stored step of the episode that each window starts in.
        gamma: discount per step.
        learns_rewards: whether the model predicts rewards.
    """
    reward, discount, value = (part.unsqueeze(-1) for part in end)
    n = windows.to_end
    power = torch.pow(torch.as_tensor(gamma, dtype=reward.dtype, device=reward.device), (n - 1).clamp_min(0))
    before = power * (reward + gamma * discount * value)
    at_end = torch.where(discount == 0, torch.zeros_like(reward) if learns_rewards else reward, value)
    return torch.where(n == 0, at_end, before)


def window_actions(
    windows: Windows, prev_action: Tensor, action_spec: BoundedTensorSpec, random_after_end: bool
) -> Tensor:
    """The actions that lead from one window entry to the next, [B, T, R, ...].

    Args:
        windows: of the span.
        prev_action: [B, L, ...], of the span.
        action_spec: bounded spec of the action.
        random_after_end: draw actions beyond the end of the episode uniformly; otherwise they repeat the last one.
    """
    action = take(prev_action, windows.column[:, :, 1:])
    if not random_after_end:
        return action
    beyond = windows.beyond_end[:, :, 1:]
    drawn = uniform_actions(action_spec, action.shape[:3], action.device).to(action.dtype)
    return torch.where(beyond.view(*beyond.shape, *(1,) * (action.ndim - 3)), drawn, action)


def uniform_actions(spec: BoundedTensorSpec, shape: torch.Size, device: torch.device) -> Tensor:
    """Actions drawn uniformly between the bounds, [*shape, ...]."""
    low, high = (
        torch.tensor(bound, device=device).double().expand(spec.shape) for bound in (spec.minimum, spec.maximum)
    )
    u = torch.rand(*shape, *spec.shape, dtype=torch.float64, device=device)
    if spec.is_discrete:
        return (low + (u * (high - low + 1)).floor()).to(spec.dtype)
    return (low + u * (high - low)).to(spec.dtype)


def field_path(*parts: str) -> str:
    """A dotted path of non-empty parts."""
    return ".".join(part for part in parts if part)


def read(buffer: ReplayBuffer, field: Nest, span: Span) -> Any:
    """Fields of the steps of a span, [B, L, ...]."""
    return buffer.get_field(field, span.env_ids.expand_as(span.positions), span.positions)
