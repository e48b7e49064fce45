from functools import partial

import torch

from rein import nest
from rein.algorithms.on_policy import PPOAlgorithm
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.specs import BoundedTensorSpec, TensorSpec


def test_states_of_each_step_are_zeros_of_its_spec() -> None:
    algorithm = PPOAlgorithm(
        TensorSpec((3,)),
        BoundedTensorSpec((), torch.int64, 0, 1),
        actor_network_ctor=partial(ActorDistributionRNNNetwork, lstm_hidden_size=4),
        value_network_ctor=partial(ValueRNNNetwork, lstm_hidden_size=5),
    )
    for purpose in ("train", "rollout", "predict"):
        state = getattr(algorithm, f"get_initial_{purpose}_state")(7)
        nest.assert_same_structure(state, getattr(algorithm, f"{purpose}_state_spec"))
        assert all(leaf.shape[0] == 7 and not leaf.any() for leaf in nest.flatten(state))
    assert {leaf.shape[1] for leaf in nest.flatten(algorithm.get_initial_train_state(1))} == {4, 5}
    assert algorithm.get_initial_transform_state(2) == ()
