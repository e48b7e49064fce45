"""Small worlds with known best returns, for tests, examples and debugging.

Importing this package registers them with Gymnasium under the namespace `rein/`; the classes load only
when a world is made. `rein.envs.suites.load` imports it by itself.
"""

import gymnasium as gym

TOY_ENTRY_POINTS: dict[str, str] = {
    "rein/Identity-v0": "rein.envs.toy.bandits:IdentityEnv",
    "rein/IdentityContinuous-v0": "rein.envs.toy.bandits:IdentityContinuousEnv",
    "rein/ContextualBandit-v0": "rein.envs.toy.bandits:ContextualBanditEnv",
    "rein/Chain-v0": "rein.envs.toy.chain:ChainEnv",
    "rein/Recall-v0": "rein.envs.toy.recall:RecallEnv",
    "rein/Balance-v0": "rein.envs.toy.balance:BalanceEnv",
    "rein/CartPoleContinuous-v0": "rein.envs.toy.cart_pole:CartPoleContinuousEnv",
    "rein/CartPoleNoVelocity-v1": "rein.envs.toy.partial:cart_pole_no_velocity",
    "rein/Reach-v0": "rein.envs.toy.goals:ReachEnv",
    "rein/BitFlip-v0": "rein.envs.toy.goals:BitFlipEnv",
    "rein/SparseRoom-v0": "rein.envs.toy.room:SparseRoomEnv",
    "rein/Moving-v0": "rein.envs.toy.moving:MovingEnv",
    "rein/DeepSeaTreasure-v0": "rein.envs.toy.objectives:DeepSeaTreasureEnv",
    "rein/TwoRewards-v0": "rein.envs.toy.objectives:TwoRewardsEnv",
    "rein/BouncingSquares-v0": "rein.envs.toy.squares:BouncingSquaresEnv",
    "rein/Catch-v0": "rein.envs.toy.catch:CatchEnv",
    "rein/RandomSpaces-v0": "rein.envs.toy.random_spaces:RandomSpacesEnv",
}

# Worlds that do not end their episodes themselves, in steps.
_TIME_LIMITS = {"rein/CartPoleNoVelocity-v1": 500}


def register() -> None:
    """Makes the toy worlds known to Gymnasium; calling it again changes nothing."""
    for env_id, entry_point in TOY_ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(env_id, entry_point, max_episode_steps=_TIME_LIMITS.get(env_id))


register()

__all__ = ["TOY_ENTRY_POINTS", "register"]
