"""Where searches start: what an observation tells beside the latent, and what can be wrong with it."""

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein.algorithms.search.model_structures import ModelOutput
from rein.algorithms.search.rules import SearchRules
from rein.data_structures import TimeStep
from rein.nest import Nest
from rein.ops import halving_visits
from rein.specs import BoundedTensorSpec


class SearchRoot(NamedTuple):
    """An observation that was encoded already, with what the search needs beside it."""

    latent: Nest
    """For `initial_predict` of the model."""
    valid_action_mask: Any = ()
    """bool [B, K]."""
    steps: Any = ()
    """[B], moves since the start of the game."""
    to_play: Any = ()
    """[B], 0 or 1."""

    @staticmethod
    def of(observation: Nest, latent: Nest | None = None) -> "SearchRoot":
        """The root for an observation, with those of its fields that the search uses.

        Args:
            observation: any nest; a dictionary may have the fields; a `SearchRoot` is returned.
            latent: for the model; None is the observation itself.
        """
        if isinstance(observation, SearchRoot):
            return observation
        fields = observation if isinstance(observation, dict) else {}
        beside = (fields.get(name, ()) for name in SearchRoot._fields[1:])
        return SearchRoot(observation if latent is None else latent, *beside)


def is_given(field: Nest) -> bool:
    """Whether an optional field holds a tensor."""
    return isinstance(field, Tensor)


def check_made_for(model: Any, action_spec: Nest) -> None:
    """Refuses a model that was made for another action, if it says which; of others the first search shows it."""
    made_for = getattr(model, "action_spec", None)
    if made_for is not None and made_for != action_spec:
        raise ValueError(
            f"the model was made for the action {made_for}, but the action is {action_spec}: build it for that"
        )


def check_fits(output: ModelOutput, action_spec: BoundedTensorSpec) -> None:
    """Refuses what a model says about roots if it does not fit the action."""
    branches = output.action_probs.shape[-1]
    if is_given(output.actions):
        shape = tuple(output.actions.shape[1:])
        if shape != (branches, *action_spec.shape):
            raise ValueError(
                f"the model gives candidates of shape {shape} for {branches} probabilities, but an action has shape "
                f"{action_spec.shape}: build it for {action_spec}"
            )
    elif not action_spec.is_discrete or action_spec.ndim != 0:
        raise ValueError(
            f"the model gives probabilities without actions, but the action is {action_spec}: let it sample candidates, "
            "e.g. by num_sampled_actions"
        )
    elif branches != action_spec.num_values:
        raise ValueError(
            f"the model gives probabilities of {branches} actions, but there are {action_spec.num_values}: build it for "
            f"{action_spec}"
        )
    if not bool(torch.isfinite(output.action_probs).all()):
        raise ValueError("the model gives probabilities that are not finite: its weights have diverged")


def checked_mask(root: SearchRoot, output: ModelOutput, steps: Tensor, time_step: TimeStep) -> Tensor:
    """The mask of legal actions, bool [B, K], each row with one at least."""
    if is_given(output.actions):
        raise ValueError(
            "valid_action_mask speaks about all actions, but the model samples candidates: leave out num_sampled_actions, "
            "or the mask"
        )
    mask: Tensor = root.valid_action_mask.bool()
    stuck = ~mask.any(-1)
    if bool(stuck.any()):
        row = int(stuck.nonzero()[0])
        env = int(time_step.env_id[row]) if isinstance(time_step.env_id, Tensor) else row
        raise ValueError(
            f"environment {env} allows no action at step {int(steps[row])}: its valid_action_mask is False everywhere. End "
            "the game there, or allow a pass"
        )
    return mask


def halving(prior: Tensor, noise: Tensor, rules: SearchRules) -> tuple[Tensor, Tensor]:
    """What a Gumbel root search adds to a `Root`: `gumbel` and `considered`.

    Args:
        prior: [B, K].
        noise: [B, K], standard Gumbel noise, or zeros.
        rules: with `gumbel_actions`.

    Returns:
        The noise, minus infinity for actions that are not considered; and their visits by simulation, [B, S].
    """
    assert rules.gumbel_actions is not None
    score = (prior.log() + noise).masked_fill(prior <= 0, -torch.inf)
    legal = (prior > 0).sum(-1).clamp_max(rules.gumbel_actions)
    rank = score.sort(stable=True, dim=-1, descending=True).indices.argsort(-1)
    considered = halving_table(rules, prior.shape[-1]).to(prior.device)[legal - 1]
    return noise.masked_fill(rank >= legal.unsqueeze(-1), -torch.inf), considered


def halving_table(rules: SearchRules, branches: int) -> Tensor:
    """`halving_visits` of 1 to as many actions as a Gumbel root search can consider, int64 [n, S]."""
    assert rules.gumbel_actions is not None
    return _halving_table(min(rules.gumbel_actions, branches), rules.num_simulations)


@functools.lru_cache(maxsize=16)
def _halving_table(most: int, num_simulations: int) -> Tensor:
    """`halving_visits` of 1 to `most` actions, [most, S]."""
    return torch.tensor([halving_visits(m, num_simulations) for m in range(1, most + 1)])
