"""Acting from Gymnasium observations: numpy in, numpy out, with the recurrent state kept in between."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rein import nest
from rein.data_structures import StepType, TimeStep
from rein.envs.action_forms import action_form
from rein.framework import RLAlgorithm
from rein.framework.acting.actor import Actor, Purpose, without_learning
from rein.nest import Nest
from rein.networks import MASK_KEY
from rein.networks.state import reset_state
from rein.specs import TensorSpec


class Predictor:
    """Chooses actions, for one world or a batch of them."""

    def __init__(
        self,
        algorithm: RLAlgorithm,
        observation_spec: Nest,
        action_spec: Nest,
        fitted_from: tuple[Any, str] | None = None,
        purpose: Purpose = "predict",
    ) -> None:
        """Makes a predictor that has not acted yet.

        Args:
            algorithm: the policy.
            observation_spec: specs of the observation as the environment gives it.
            action_spec: specs of the action.
            fitted_from: the action space of the worlds and the form that the algorithm takes it in, if another.
            purpose: "predict" for the best action, "rollout" to explore as in training.
        """
        self._algorithm = algorithm
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._purpose: Purpose = purpose
        self._form = None if fitted_from is None else action_form(*fitted_from)
        self._actor: Actor | None = None
        self._prev_action: Nest = None
        self._batch_size = 0

    @property
    def state(self) -> Nest:
        """Recurrent state after the last action, [B, ...]; `()` for a memoryless policy; None before the first action."""
        return None if self._actor is None else self._actor.policy_state

    def act(
        self,
        observation: Any,
        state: Nest = None,
        episode_start: ArrayLike | None = None,
        action_mask: ArrayLike | None = None,
    ) -> Any:
        """The action for an observation, or a batch of actions for a batch.

        Args:
            observation: as the environment gives it, or with a batch dimension in front of every array.
            state: recurrent state to act from; None is that after the last action.
            episode_start: whether an episode begins here, a bool or an array [B]; None is False, except for the first
                action and wherever the batch size changes.
            action_mask: valid actions, [n] or [B, n], of a policy that was trained with masks.

        Returns:
            An action as the environment takes it, or with a batch dimension.
        """
        observation = _with_mask(self._observation_spec, observation, action_mask)
        tensors = _to_tensors(self._observation_spec, observation, "observation")
        is_batch = _is_batch(self._observation_spec, tensors)
        if not is_batch:
            tensors = nest.map_structure(lambda tensor: tensor[None], tensors)
        size = nest.flatten(tensors)[0].shape[0]
        first = self._begin(size, episode_start)
        with without_learning(self._algorithm):
            action = self._predict(tensors, first, state)
        arrays = nest.map_structure(lambda tensor: tensor.cpu().numpy().copy(), action)
        if not is_batch:
            arrays = nest.map_structure(lambda array: array[0], arrays)
        return arrays if self._form is None else self._form.decode(arrays)

    def forget(self) -> None:
        """The next action begins an episode."""
        self._batch_size = 0

    def _begin(self, size: int, episode_start: ArrayLike | None) -> NDArray[np.bool_]:
        if size != self._batch_size:
            self._batch_size = size
            self._actor = Actor(self._algorithm, self._action_spec, size, self._purpose)
            self._prev_action = nest.map_structure(lambda spec: spec.zeros((size,)), self._action_spec)
            episode_start = True if episode_start is None else episode_start
        started = np.asarray(False if episode_start is None else episode_start, dtype=bool)
        if started.shape not in ((), (size,)):
            raise ValueError(f"episode_start has shape {started.shape}: give a bool, or an array of shape ({size},)")
        return np.broadcast_to(started, (size,)).copy()

    def _predict(self, observation: Nest, first: NDArray[np.bool_], state: Nest) -> Nest:
        time_step = time_step_to_predict(
            self._algorithm, observation, torch.from_numpy(first), self._prev_action, self._action_spec
        )
        assert self._actor is not None
        if state is not None:
            self._actor.policy_state = state
        self._prev_action = self._actor.act(time_step).action
        return self._prev_action


def time_step_to_predict(
    algorithm: RLAlgorithm, observation: Nest, is_first: Tensor, prev_action: Nest, action_spec: Nest
) -> TimeStep:
    """What a policy is shown that is asked for an action outside of any environment.

    Args:
        algorithm: the policy.
        observation: nest of [B, ...].
        is_first: bool [B], where an episode begins.
        prev_action: the actions before, [B, ...]; replaced by zeros where an episode begins.
        action_spec: specs of the action.
    """
    size = is_first.shape[0]
    no_action = nest.map_structure(lambda spec: spec.zeros((size,)), action_spec)
    return TimeStep(
        step_type=torch.where(is_first, int(StepType.FIRST), int(StepType.MID)).to(torch.int32),
        reward=algorithm.reward_spec.zeros((size,)),
        discount=torch.ones(size),
        observation=observation,
        prev_action=reset_state(prev_action, is_first, no_action),
        env_id=torch.arange(size),
    )


def _with_mask(spec: Nest, observation: Any, action_mask: ArrayLike | None) -> Any:
    """The observation that a policy with masks was trained on, from the world's own and a mask."""
    if not isinstance(spec, dict) or MASK_KEY not in spec:
        if action_mask is not None:
            raise ValueError("action_mask was given, but this policy was trained without: leave it out")
        return observation
    parts = observation if isinstance(observation, dict) else {"observation": observation}
    mask = action_mask if action_mask is not None else parts.get(MASK_KEY, parts.get("action_mask"))
    if mask is None:
        raise ValueError('the policy was trained with masks of valid actions: add action_mask=info["action_mask"]')
    return {**{key: part for key, part in parts.items() if key in spec}, MASK_KEY: np.asarray(mask).astype(bool)}


def _to_tensors(spec: Nest, value: Any, path: str) -> Nest:
    """`value` as tensors in the structure of `spec`, copied."""
    if isinstance(spec, dict):
        missing = [key for key in spec if not hasattr(value, "keys") or key not in value]
        if missing:
            raise ValueError(f"{path} lacks {missing[0]!r}: it must be a dict with the keys {list(spec)}")
        return {key: _to_tensors(part, value[key], f"{path}.{key}") for key, part in spec.items()}
    if isinstance(spec, tuple):
        if not isinstance(value, tuple | list) or len(value) != len(spec):
            raise ValueError(f"{path} must be a tuple of {len(spec)} parts, not {type(value).__name__}")
        return tuple(
            _to_tensors(part, one, f"{path}.{i}") for i, (part, one) in enumerate(zip(spec, value, strict=True))
        )
    tensor = value.detach().clone() if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    shape = tuple(tensor.shape)
    if shape != tuple(spec.shape) and shape[1:] != tuple(spec.shape):
        raise ValueError(f"{path} has shape {shape}: give {tuple(spec.shape)}, or (batch, *{tuple(spec.shape)})")
    if tensor.is_floating_point() and bool(tensor.isnan().any()):
        where = tuple(tensor.isnan().nonzero()[0].tolist())
        raise ValueError(f"{path} is NaN at {where}: no action answers that; see what the environment has computed")
    return tensor.to(spec.dtype)


def _is_batch(spec: Nest, tensors: Nest) -> bool:
    specs: list[TensorSpec] = nest.flatten(spec)
    leaves: list[Tensor] = nest.flatten(tensors)
    extra = {leaf.ndim - one.ndim for one, leaf in zip(specs, leaves, strict=True)}
    sizes = {leaf.shape[0] for leaf in leaves} if extra == {1} else set()
    if len(extra) > 1 or len(sizes) > 1:
        shapes = [tuple(leaf.shape) for leaf in leaves]
        raise ValueError(f"the parts of the observation, of shapes {shapes}, must have the same batch size, or none")
    return extra == {1}
