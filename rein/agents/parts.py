"""The parts of an agent, made in the order in which they see the observation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rein import nest
from rein.agents.composition import AgentHelper
from rein.algorithms.model_based import LatentMbrlAlgorithm
from rein.algorithms.regularization import EntropyTargetAlgorithm, NestedEntropyTargetAlgorithm
from rein.algorithms.representation import PredictiveRepresentationLearner
from rein.framework import Algorithm, RLAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import TensorSpec

Part = Algorithm | Callable[[Nest, Nest], Algorithm]
"""An algorithm, or a function of (observation_spec, action_spec) that makes it."""


class Parts(NamedTuple):
    """What an agent is made of; None where it does without."""

    rl: RLAlgorithm
    repr: Algorithm | None
    goal_generator: Algorithm | None
    irm: Algorithm | None
    entropy_target: Algorithm | None
    rw: Algorithm | None
    observation_spec: Nest
    """Of what `rl` observes."""

    def register(self, helper: AgentHelper) -> None:
        """Gives every part the field of its name."""
        for field, part in zip(self._fields, self, strict=True):
            if isinstance(part, Algorithm):
                helper.register_algorithm(part, field)


def make_parts(
    observation_spec: Nest,
    action_spec: Nest,
    reward_spec: TensorSpec,
    config: TrainerConfig | None,
    debug_summaries: bool,
    *,
    rl: Callable[..., RLAlgorithm],
    representation: Callable[..., Algorithm] | None,
    goal_generator: Part | None,
    irm: Part | None,
    entropy_target: Callable[..., Algorithm] | None,
    reward_weights: Callable[..., Algorithm] | None,
) -> Parts:
    """Makes the parts, as `Agent` documents; each observes what those before it make of the observation."""
    common = {"reward_spec": reward_spec, "config": config, "debug_summaries": debug_summaries}
    seen: Any = observation_spec
    learner = goals = curiosity = entropy = weights = None
    if representation is not None:
        learner = representation(observation_spec=seen, action_spec=action_spec, **common)
        seen = _spec_of(learner, "output_spec", "of the representation")
    if goal_generator is not None:
        goals = _made(goal_generator, seen, action_spec)
        seen = [seen, _spec_of(goals, "action_spec", "of its goals")]
    if irm is not None:
        curiosity = _made(irm, seen, action_spec)
    algorithm = rl(observation_spec=seen, action_spec=action_spec, **common)
    if isinstance(algorithm, LatentMbrlAlgorithm):
        _check_latent(algorithm, learner)
        algorithm.set_latent_predictive_representation_module(learner)
    if entropy_target is not None:
        entropy = entropy_target(action_spec, debug_summaries=debug_summaries)
    if reward_weights is not None:
        if reward_spec.numel < 2:
            raise ValueError("reward_weight_algorithm_cls is given, but the reward is a scalar: there are no weights")
        weights = reward_weights(reward_spec=reward_spec, debug_summaries=debug_summaries)
    return Parts(algorithm, learner, goals, curiosity, entropy, weights, seen)


def entropy_target_for(action_spec: Nest) -> Callable[..., Algorithm]:
    """The entropy target that fits the action: one for each action of a nest."""
    return NestedEntropyTargetAlgorithm if nest.is_nested(action_spec) else EntropyTargetAlgorithm


def _check_latent(algorithm: LatentMbrlAlgorithm, learner: Algorithm | None) -> None:
    if not isinstance(learner, PredictiveRepresentationLearner):
        found = "there is none" if learner is None else f"it is {learner.name}"
        raise ValueError(
            f"{algorithm.name} plans with the predictions of the representation learner, but {found}: compose it with a "
            "PredictiveRepresentationLearner that has a decoder of the reward"
        )
    if learner.has_postprocessor:
        raise ValueError(
            f"{algorithm.name} plans from the latent of {learner.name}, but gets what its postprocessor makes of it: leave "
            "the postprocessor out"
        )


def _spec_of(part: Algorithm, attribute: str, what: str) -> Nest:
    if not hasattr(part, attribute):
        raise TypeError(f"{part.name} has no {attribute}: give it one, with the specs {what}, which others observe")
    return getattr(part, attribute)


def _made(part: Part, observation_spec: Nest, action_spec: Nest) -> Algorithm:
    return part if isinstance(part, Algorithm) else part(observation_spec, action_spec)
