"""Parts that act on uncertainty, by name; see `built_in_parts`."""

from collections.abc import Sequence
from typing import Any

from rein.agents.part_networks import is_continuous, make_encoder
from rein.algorithms.particle_vi.ensemble_uncertainty import EnsembleUncertaintyAlgorithm
from rein.config import configurable
from rein.framework import Algorithm
from rein.nest import Nest
from rein.optimizers import Adam


@configurable
def ensemble_uncertainty(
    coef: float = 0.1,
    num_networks: int = 8,
    hidden_layers: Sequence[int] = (64,),
    feature_size: int = 32,
    entropy_weight: float = 1e-3,
    learning_rate: float = 1e-3,
) -> dict[str, Any]:
    """Rewards observations about which an ensemble of networks disagrees.

    Args:
        coef: factor of the reward, which has mean 0 and deviation 1.
        num_networks: networks of the ensemble.
        hidden_layers: sizes of their hidden layers.
        feature_size: numbers that a fixed random encoder makes of an observation.
        entropy_weight: weight of the repulsion that keeps them apart.
        learning_rate: of the ensemble.
    """

    def make(observation_spec: Nest, action_spec: Nest) -> Algorithm:
        return EnsembleUncertaintyAlgorithm(
            make_encoder(observation_spec, (), feature_size),
            observation_spec if is_continuous(observation_spec) else None,
            num_networks=num_networks,
            hidden_layers=hidden_layers,
            entropy_regularization=entropy_weight,
            optimizer=Adam(lr=learning_rate),
        )

    return {"intrinsic_reward_module": make, "intrinsic_reward_coef": coef}
