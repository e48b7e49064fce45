"""What models of tree search take, give and learn from."""

from typing import Any, NamedTuple

from rein.nest import Nest


class ModelState(NamedTuple):
    """State of a model after some imagined steps; tensors [B, ...]."""

    state: Nest = ()
    """Latent representation."""
    pred_state: Nest = ()
    """State of the prediction network."""
    step: Nest = ()
    """int64, imagined steps since the root; 0 there."""
    prev_reward_sum: Nest = ()
    """Sum of the rewards that were predicted since the root, where sums are predicted."""


class ModelOutput(NamedTuple):
    """What a model says about states; tensors [B, ...], `()` where it says nothing."""

    value: Nest = ()
    """[B], as player 0 sees it."""
    reward: Nest = ()
    """[B], earned on the way into the state, as player 0 sees it."""
    game_over: Nest = ()
    """[B] bool."""
    actions: Nest = ()
    """[B, K, ...] candidates; `()`: all actions of a discrete scalar."""
    action_probs: Nest = ()
    """[B, K], prior probabilities of the candidates."""
    state: Any = ()
    """A `ModelState`, or any nest of tensors [B, ...], from which `recurrent_inference` goes on."""
    action_distribution: Nest = ()
    """The policy."""
    game_over_logit: Nest = ()
    """[B]."""
    value_pred: Nest = ()
    """Output of the value head, which the value loss interprets; only while training."""
    reward_pred: Nest = ()
    """Output of the reward head, which the reward loss interprets; only while training."""


class ModelTarget(NamedTuple):
    """What a model learns at the steps of an unroll; tensors [B, R + 1, ...]."""

    is_partial_trajectory: Nest = ()
    """[B] bool, the window does not end in a true terminal."""
    beyond_episode_end: Nest = ()
    """[B, R + 1] bool, the step lies beyond the last one of its episode."""
    reward: Nest = ()
    """[B, R + 1], earned on the way into each step."""
    action: Nest = ()
    """[B, R + 1, K, ...], candidates of the search; `()`: all actions."""
    action_policy: Nest = ()
    """[B, R + 1, K], probabilities that the search gave to the candidates."""
    game_over: Nest = ()
    """[B, R + 1] bool."""
    value: Nest = ()
    """[B, R + 1]."""
    observation: Nest = ()
    """[B, R + 1, ...], where representations are predicted."""
