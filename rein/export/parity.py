"""Whether an exported policy does what `predict` does, step by step."""

from collections.abc import Generator
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.config import use_configs
from rein.envs.action_forms import action_form
from rein.export.exported import ExportedPolicy
from rein.export.noise import NoiseFrom
from rein.framework.acting.actor import Purpose
from rein.nest import Nest
from rein.runtime import get_rng_state, set_rng_state
from rein.runtime.run import Run
from rein.specs import TensorSpec
from rein.training.offline import has_environment
from rein.training.policy import Policy
from rein.training.prediction import Predictor

TOLERANCE = 1e-5
"""Of single precision: what one step may differ by, where values are around 1."""
_WORLDS = 2
_EPISODE = 100  # Steps of an imagined episode, where there is no environment.


class Parity(NamedTuple):
    """How an exported policy compares with the original on the same observations."""

    steps: int
    """Actions compared, all worlds together."""
    largest_difference: float
    """Between real numbers of actions, absolute."""
    differing_choices: int
    """Discrete actions that differ."""
    largest_value: float
    """Among the real numbers of actions, absolute."""

    @property
    def holds(self) -> bool:
        """Whether the policies are the same up to rounding."""
        return not self.differing_choices and self.largest_difference <= TOLERANCE * max(1.0, self.largest_value)

    def describe(self) -> str:
        """The comparison in words."""
        choices = "" if not self.differing_choices else f", {self.differing_choices} discrete actions differ"
        return f"largest difference {self.largest_difference:.2g} over {self.steps} steps{choices}"


def compare(policy: Policy, exported: ExportedPolicy, num_steps: int, purpose: Purpose = "predict") -> Parity:
    """Lets both act on what the original sees in its environment, or on random observations if it has none.

    Args:
        policy: the original, which chooses the way.
        exported: its export.
        num_steps: of each of two worlds.
        purpose: what the export was traced for; with random numbers, both get the same.
    """
    random_state = get_rng_state()
    try:
        with use_configs(policy.configs), Run(seed=policy.seed):
            return _compare(policy, exported, num_steps, purpose)
    finally:
        set_rng_state(random_state)


def _compare(policy: Policy, exported: ExportedPolicy, num_steps: int, purpose: Purpose) -> Parity:
    algorithm = policy.algorithm
    predictor = Predictor(algorithm, policy.observation_spec, algorithm.action_spec, purpose=purpose)
    form = None if policy.fitted_from is None else action_form(*policy.fitted_from)
    exported.forget()
    steps, difference, choices, largest = 0, 0.0, 0, 0.0
    walk = _walk(policy)
    observation, first = next(walk)
    for _ in range(num_steps):
        with NoiseFrom() as noise:
            action = predictor.act(observation, episode_start=first)
        drawn = [noise.draws[int(port.path)][1].numpy() for port in exported.signature.inputs_of("noise")]
        leaves = [leaf.numpy() for leaf in nest.flatten(observation)]
        ours = exported.step(leaves, first, drawn)
        expected = action if form is None else form.decode(action)
        for original, copy in zip(nest.flatten(expected), ours, strict=True):
            if original.dtype.kind == "f":
                difference = max(difference, float(np.abs(original - copy).max()))
                largest = max(largest, float(np.abs(original).max()))
            else:
                choices += int((original != copy).sum())
        steps += len(first)
        observation, first = walk.send(action)
    walk.close()
    return Parity(steps, difference, choices, largest)


Seen = tuple[Nest, NDArray[np.bool_]]
"""Observations, a nest of tensors [B, ...], and where episodes begin, [B]."""


def _walk(policy: Policy) -> Generator[Seen, Nest, None]:
    """What is seen, from step to step; actions, arrays [B, ...], are sent in."""
    with use_configs(policy.configs):
        if not has_environment():
            yield from _imagined(policy.observation_spec)
            return
    with policy.make_environment(_WORLDS, policy.held_out_seed(), backend="sync") as env:
        time_step = env.reset()
        while True:
            action = yield time_step.observation, time_step.is_first().numpy()
            time_step = env.step(nest.map_structure(torch.from_numpy, action))


def _imagined(observation_spec: Nest) -> Generator[Seen, Nest, None]:
    """Random observations, for a policy that was trained from data."""
    for step in count():
        first = np.full(_WORLDS, step % _EPISODE == 0)
        yield nest.map_structure(_random, observation_spec), first


def _random(spec: TensorSpec) -> Tensor:
    return spec.sample((_WORLDS,)) if spec.is_bounded or spec.is_discrete else spec.randn((_WORLDS,))
