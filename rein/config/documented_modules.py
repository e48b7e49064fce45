"""Module names of the documented interface, which a name may carry in front though its class lives elsewhere here."""

__all__ = ["without_documented_module"]

_MODULES = frozenset(
    [
        "actor_critic_algorithm",
        "actor_critic_loss",
        "agent",
        "agent_helpers",
        "algorithm",
        "algorithm_interface",
        "async_unroller",
        "bc_algorithm",
        "causal_bc_algorithm",
        "config",
        "containers",
        "data_transformer",
        "ddpg_algorithm",
        "decoding_algorithm",
        "diayn_algorithm",
        "dqn_algorithm",
        "dynamic_action_repeat_agent",
        "dynamics_learning_algorithm",
        "encoding_algorithm",
        "entropy_target_algorithm",
        "functional_particle_vi_algorithm",
        "generator",
        "goal_generator",
        "handcrafted_algorithm",
        "hypernetwork_algorithm",
        "icm_algorithm",
        "iql_algorithm",
        "lagrangian_reward_weight_algorithm",
        "mbrl_algorithm",
        "mcts_algorithm",
        "mcts_models",
        "mdq_algorithm",
        "merlin_algorithm",
        "mi_estimator",
        "monet_algorithm",
        "muzero_algorithm",
        "muzero_representation_learner",
        "oac_algorithm",
        "off_policy_algorithm",
        "on_policy_algorithm",
        "one_step_loss",
        "particle_vi_algorithm",
        "planning_algorithm",
        "ppg_algorithm",
        "ppo_algorithm",
        "ppo_loss",
        "predictive_representation_learner",
        "prior_actor",
        "qrsac_algorithm",
        "replay_buffer",
        "reward_learning_algorithm",
        "rl_algorithm",
        "rnd_algorithm",
        "sac_algorithm",
        "sarsa_algorithm",
        "segment_tree",
        "taac_algorithm",
        "td_loss",
        "trac_algorithm",
        "vae",
        "vq_vae",
    ]
)


def without_documented_module(name: str) -> str | None:
    """`name` without the documented module in front: "RewardNormalizer" for "data_transformer.RewardNormalizer".

    Returns:
        None if no documented module stands in front.
    """
    module, _, rest = name.partition(".")
    return rest if rest and module in _MODULES else None
