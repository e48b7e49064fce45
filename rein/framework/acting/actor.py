"""The one place that acts: transform what is seen, reset states where episodes begin, ask the policy, clip the action.

Rollouts, asynchronous unrolls, evaluation and `predict` all act through an `Actor`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from rein.data_structures import AlgStep, TimeStep
from rein.framework.acting.action_bounds import ActionBounds
from rein.framework.updating.gradients import in_mixed_precision
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state
from rein.statistics import frozen_statistics

if TYPE_CHECKING:
    from rein.framework.rl_algorithm import RLAlgorithm

Purpose = Literal["rollout", "predict"]
"""Which step of the algorithm acts: `rollout_step` to collect, `predict_step` for evaluation."""


class Acted(NamedTuple):
    """What came of one step."""

    time_step: TimeStep
    """What the policy saw, [B, ...]."""
    step: AlgStep
    """What it returned, [B, ...]."""
    state: Nest
    """Its recurrent state before the step, [B, ...]."""
    action: Nest
    """The action for the environment, [B, ...]: detached, within its bounds."""


class Actor:
    """A policy with where it stands in a batch of episodes.

    Attributes:
        policy_state: recurrent state after the last step, [B, ...].
        transform_state: what the data transformer carries from step to step, [B, ...].
    """

    def __init__(self, algorithm: "RLAlgorithm", action_spec: Nest, batch_size: int, purpose: Purpose) -> None:
        """Begins with zero states.

        Args:
            algorithm: the policy.
            action_spec: specs of the action, whose bounds the environment insists on.
            batch_size: episodes side by side, B.
            purpose: to collect or for evaluation.
        """
        # A plain list keeps the algorithm from becoming a submodule of anything that holds the actor.
        self._algorithm = [algorithm]
        self._purpose = purpose
        spec = algorithm.rollout_state_spec if purpose == "rollout" else algorithm.predict_state_spec
        self.initial_state: Nest = zero_state(spec, batch_size)
        self.policy_state: Nest = self.initial_state
        self.transform_state: Nest = algorithm.initial_transform_state(batch_size)
        self.bounds = ActionBounds(action_spec)

    def see(self, raw: TimeStep, keep: bool = True) -> TimeStep:
        """What the policy sees of a step: transformed, [B, ...].

        Args:
            raw: what the environments show, [B, ...].
            keep: whether the transformer's state goes on from here, and its statistics take the step in.
        """
        # Running statistics must not count a step twice.
        with nullcontext() if keep else frozen_statistics():
            time_step, state = self._algorithm[0].transform_timestep(raw, self.transform_state)
        if keep:
            self.transform_state = state
        return time_step

    def act(self, raw: TimeStep, with_grad: bool = False, keep: bool = True) -> Acted:
        """One step of the policy.

        Args:
            raw: what the environments show, [B, ...].
            with_grad: whether what it returns shall have gradients.
            keep: whether states go on from here; without it the step will be seen again, and nothing remembers it.
        """
        algorithm = self._algorithm[0]
        step_of = algorithm.rollout_step if self._purpose == "rollout" else algorithm.predict_step
        time_step = self.see(raw, keep)
        with nullcontext() if keep else frozen_statistics():
            state = reset_state(self.policy_state, raw.is_first(), self.initial_state)
            with torch.set_grad_enabled(with_grad):
                if with_grad:
                    step = in_mixed_precision(algorithm.learning.settings, lambda: step_of(time_step, state))
                else:
                    step = step_of(time_step, state)
        if keep:
            self.policy_state = step.state
        return Acted(time_step, step, state, self.bounds.clip(step.output))


@contextmanager
def without_learning(algorithm: "RLAlgorithm") -> Iterator[None]:
    """A block in which `algorithm` only acts: no gradients, and its statistics, and those of its transformer, stand still."""
    was_training = algorithm.training
    algorithm.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        algorithm.train(was_training)
