import math
from types import SimpleNamespace

import pytest
import torch

from rein.algorithms.losses import PPGAuxPhaseLoss
from rein.algorithms.on_policy.ppg import DisjointPolicyValueNetwork, PPGState
from rein.distributions import Categorical
from rein.networks import EncodingNetwork
from rein.ops import element_wise_squared_loss
from rein.specs import BoundedTensorSpec, TensorSpec


def info() -> SimpleNamespace:
    logits = torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[[0.25, 0.75]]]).log()
    return SimpleNamespace(
        returns=torch.tensor([[2.0]]),
        value=torch.tensor([[1.0]]),
        aux_value=torch.tensor([[4.0]]),
        old_distribution=Categorical(logits=logits[0]),
        action_distribution=Categorical(logits=logits[1]),
    )


def test_by_hand() -> None:
    divergence = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert PPGAuxPhaseLoss()(info()).loss.item() == pytest.approx(0.5 + 2.0 + divergence, rel=1e-5)
    loss = PPGAuxPhaseLoss(td_error_loss_fn=element_wise_squared_loss, policy_kl_loss_weight=10.0).calc_loss(info())
    assert loss.loss.item() == pytest.approx(1.0 + 4.0 + 10.0 * divergence, rel=1e-5)
    assert loss.extra["clone"].item() == pytest.approx(divergence, rel=1e-5)


@pytest.mark.parametrize("is_sharing", [False, True])
def test_a_shared_encoder_is_not_changed_by_the_loss_of_the_value(is_sharing: bool) -> None:
    observation, action = TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 1)
    network = DisjointPolicyValueNetwork(
        observation,
        action,
        lambda input_tensor_spec: EncodingNetwork(input_tensor_spec, fc_layer_params=(4,)),
        is_sharing_encoder=is_sharing,
    )
    assert (network.value_encoder is network.policy_encoder) is is_sharing
    value, _ = network.value(torch.ones(2, 3), PPGState())
    value.sum().backward()
    assert all(one.grad is not None for one in network.value_head.parameters())
    assert all((one.grad is None) is is_sharing for one in network.value_encoder.parameters())
