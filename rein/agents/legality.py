"""Which parts of an agent can be used together; the others are refused with the reason, before anything is trained."""

from typing import Any

import torch

from rein import nest
from rein.agents.parts import Parts
from rein.algorithms.exploration import DIAYNAlgorithm
from rein.algorithms.on_policy.ppg import PPGAlgorithm
from rein.algorithms.regularization import LagrangianPredRewardWeightAlgorithm
from rein.data_structures import AlgStep, restart
from rein.framework import Algorithm, RLAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.networks.state import zero_state
from rein.specs import TensorSpec


def check_composition(
    name: str,
    config: TrainerConfig | None,
    parts: Parts,
    action_spec: Nest,
    reward_spec: TensorSpec,
    use_rl_state: bool,
) -> None:
    """Raises `ValueError` if parts cannot be used together.

    Args:
        name: of the agent, for messages.
        config: settings of the run, if known.
        parts: of the agent.
        action_spec: specs of the action.
        reward_spec: spec of the reward of the environment.
        use_rl_state: whether the representation learner gets the state of the RL algorithm.
    """
    rl = parts.rl
    if type(rl).observe_for_replay is not Algorithm.observe_for_replay:
        raise ValueError(f"{name}: {rl.name} chooses itself what is stored: use it as the root, not in an agent")
    if use_rl_state and parts.repr is None:
        raise ValueError(f"{name}: representation_use_rl_state is True, but there is no representation learner")
    before = parts.goal_generator if parts.repr is None else parts.repr
    if isinstance(rl, PPGAlgorithm) and before is not None:
        raise ValueError(
            f"{name}: {rl.name} learns from stored observations of the environment in its auxiliary phase, which lack what "
            f"{before.name} makes of them: leave one of them out, or use PPOAlgorithm"
        )
    if parts.irm is not None:
        _check_intrinsic_rewards(name, config, rl, reward_spec, parts.irm, parts.goal_generator)
    if parts.entropy_target is not None:
        _check_entropy_target(name, rl, parts.observation_spec, action_spec, reward_spec)
    if isinstance(parts.rw, LagrangianPredRewardWeightAlgorithm) and config is not None and not config.evaluate:
        raise ValueError(f"{name}: {parts.rw.name} tunes by evaluations: set TrainerConfig.evaluate=True")


def _check_intrinsic_rewards(
    name: str,
    config: TrainerConfig | None,
    rl: RLAlgorithm,
    reward_spec: TensorSpec,
    irm: Algorithm,
    goals: Algorithm | None,
) -> None:
    if reward_spec.numel > 1:
        raise ValueError(
            f"{name}: {irm.name} gives one reward, but that of the environment is {reward_spec}: there is no place for it "
            "in a vector; combine the rewards of the environment first"
        )
    if isinstance(irm, DIAYNAlgorithm):
        _check_skills(name, irm, goals)
    needs_sequences = not nest.is_empty(irm.train_state_spec)
    from_sequences = config is None or rl.on_policy or config.mini_batch_length != 1 or config.use_rollout_state
    if needs_sequences and not from_sequences:
        raise ValueError(
            f"{name}: {irm.name} learns from pairs of steps, but mini_batch_length is 1: make it 2 or more, or set "
            "use_rollout_state=True, which keeps what it needs of the step before"
        )


def _check_skills(name: str, irm: DIAYNAlgorithm, goals: Algorithm | None) -> None:
    if goals is None:
        raise ValueError(
            f"{name}: {irm.name} tells skills apart, but there are none: give a goal_generator, such as "
            "RandomCategoricalGoalGenerator"
        )
    spec = goals.action_spec  # type: ignore[attr-defined]
    skill = irm.skill_spec
    size = skill.num_values if skill.is_discrete else skill.numel  # type: ignore[attr-defined]
    if isinstance(spec, TensorSpec) and spec.ndim == 1 and spec.numel != size:
        raise ValueError(
            f"{name}: {goals.name} gives goals of size {spec.numel}, {irm.name} expects {size}: make them equal"
        )


def _check_entropy_target(
    name: str, rl: RLAlgorithm, observation_spec: Nest, action_spec: Nest, reward_spec: TensorSpec
) -> None:
    info = _trial_step(rl, observation_spec, action_spec, reward_spec).info
    if nest.is_empty(getattr(info, "action_distribution", ())):
        raise ValueError(
            f"{name}: {rl.name} has no action_distribution in the info of rollout_step, whose entropy could be regulated: "
            "use an algorithm such as ActorCriticAlgorithm or PPOAlgorithm, or what the algorithm has of its own, such as "
            "target_entropy of SacAlgorithm"
        )
    for part in rl.modules():
        if getattr(part, "_entropy_regularization", None) is not None:
            raise ValueError(
                f"{name}: the loss of {rl.name} has entropy_regularization, and so has the entropy target: leave out one"
            )


def _trial_step(rl: RLAlgorithm, observation_spec: Nest, action_spec: Nest, reward_spec: TensorSpec) -> AlgStep:
    """What a rollout step gives, at zeros; random numbers stay as they were."""
    observation: Any = nest.map_structure(lambda spec: spec.zeros((1,)), observation_spec)
    with torch.no_grad(), torch.random.fork_rng():
        return rl.rollout_step(restart(observation, action_spec, reward_spec), zero_state(rl.rollout_state_spec, 1))
