"""What a learner gets: batches by documented keys, and the rows that its losses are computed on.

A batch is a dict. `Reward`, `Done` and `NextDone` are float [B, 1]; a discrete action is a float [B, 1] too; an observation
may be a dict of tensors. `Done` belongs to the observation: the environment restarted there, so recurrent states are cleared.
`NextDone` should hold 1 - discount, so that values are bootstrapped through a time limit.

For a recurrent actor the rows are whole sequences one after the other, and there is one row of recurrent state for each
sequence. The first part of every sequence only warms up the states; losses are computed on the rest.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

OBS = "Observation"
RHS = "RecurrentHiddenStates"
DONE = "Done"
ACT = "Action"
REW = "Reward"
OBS2 = "NextObservation"
RHS2 = "NextRecurrentHiddenStates"
DONE2 = "NextDone"
N_STEP, PER_WEIGHTS = "n_step", "per_weights"

_KEYS = (OBS, RHS, DONE, ACT, REW, OBS2, RHS2, DONE2)


class View(NamedTuple):
    """What an actor is asked about."""

    observation: Any
    rhs: dict[str, Tensor]
    done: Tensor


class Rows(NamedTuple):
    """A batch as losses see it."""

    now: View
    action: Tensor
    reward: Tensor
    """[B, 1]"""
    next: View
    weights: Any
    """[B, 1] importance weights, or a number."""


def read_rows(batch: Mapping[str, Any], actor: Any, per_weights: Any, device: torch.device) -> Rows:
    """The rows of a batch, which is left as it is; recurrent states are warmed up.

    Args:
        batch: has all documented keys; tensors or arrays.
        actor: whose states are warmed up, if it is recurrent.
        per_weights: [B, 1] or a number.
        device: where the rows go.

    Raises:
        ValueError: a key is missing.
    """
    missing = [key for key in _KEYS if key not in batch]
    if missing:
        raise ValueError(f"the batch has no {', '.join(missing)}: it has {sorted(batch)}")

    def tensors(value: Any) -> Any:
        return each(lambda leaf: torch.as_tensor(leaf, device=device), value)

    weights = tensors(per_weights) if not isinstance(per_weights, int | float) else per_weights
    rows = Rows(
        View(tensors(batch[OBS]), dict(tensors(batch[RHS])), tensors(batch[DONE])),
        tensors(batch[ACT]),
        tensors(batch[REW]),
        View(tensors(batch[OBS2]), dict(tensors(batch[RHS2])), tensors(batch[DONE2])),
        weights.reshape(-1, 1) if isinstance(weights, Tensor) and weights.ndim else weights,
    )
    return _warmed_up(rows, actor) if actor.is_recurrent else rows


def _warmed_up(rows: Rows, actor: Any) -> Rows:
    """Runs the first share of each sequence without gradient, and cuts it off."""
    share = float(getattr(actor, "sequence_overlap", 0.5))
    sequences = len(next(iter(rows.now.rhs.values())))
    length, rest = divmod(len(rows.reward), sequences)
    warm = int(length * share)
    if rest or warm >= length:
        raise ValueError(
            f"{len(rows.reward)} rows in {sequences} sequences, of which a share of {share} warms up recurrent states: "
            "sequences must be equally long, and something must be left to learn from"
        )
    if warm == 0:
        return rows

    def part(value: Any, steps: slice) -> Any:
        def cut(tensor: Tensor) -> Tensor:
            return tensor.reshape(sequences, length, *tensor.shape[1:])[:, steps].flatten(0, 1)

        return each(cut, value)

    first, last = slice(0, warm), slice(warm, length)

    def view(view: View) -> View:
        begin = View(part(view.observation, first), view.rhs, part(view.done, first))
        states = after(actor, begin, part(rows.action, first))
        return View(part(view.observation, last), states, part(view.done, last))

    weights = part(rows.weights, last) if isinstance(rows.weights, Tensor) and rows.weights.ndim else rows.weights
    return Rows(view(rows.now), part(rows.action, last), part(rows.reward, last), view(rows.next), weights)


@torch.no_grad()
def after(actor: Any, view: View, action: Tensor) -> dict[str, Tensor]:
    """Recurrent states of policy and critics after some rows."""
    states = dict(view.rhs)
    if getattr(actor, "policy_net", None) is not None:
        states.update(actor.get_action(*view, deterministic=True)[3])
    actions = () if hasattr(actor.action_space, "n") else (action,)
    states.update(actor.get_q_scores(view.observation, states, view.done, *actions)["rhs"])
    return states


def each(function: Any, value: Any) -> Any:
    """`function` of every leaf of a nest of dicts and tuples."""
    if isinstance(value, Mapping):
        return {key: each(function, one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(each(function, one) for one in value)
    return function(value)
