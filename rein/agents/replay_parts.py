"""Parts that change what is replayed; they work beside an agent and not in it."""

from functools import partial
from typing import Any

from rein.config import configurable, get_config_value, is_given
from rein.envs.goal_rewards import WorldReward
from rein.transforms import HindsightExperienceTransformer

TRANSFORMER = "data_transformer_ctor"
"""Under this name such a part returns its data transformer."""


@configurable
def hindsight(proportion: float = 0.8) -> dict[str, Any]:
    """Replays what was reached as if it had been the goal (hindsight experience replay).

    Args:
        proportion: share of the sampled sequences that get such a goal.
    """
    if not 0.0 <= proportion <= 1.0:
        raise ValueError(f"proportion is {proportion}: give a share from 0 to 1")
    if all(
        get_config_value(f"TrainerConfig.{name}") for name in ("whole_replay_buffer_training", "clear_replay_buffer")
    ):
        raise ValueError(
            "the algorithm learns from its rollouts and replays nothing: use dqn, ddpg, td3, sac or another that does"
        )
    rule: dict[str, Any] = {} if is_given("HindsightExperienceTransformer.reward_fn") else {"reward_fn": WorldReward()}
    return {TRANSFORMER: partial(HindsightExperienceTransformer, her_proportion=proportion, **rule)}
