"""What ensembles of critics share."""

from typing import NamedTuple

import pytest
import torch

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import (
    Critics,
    action_gradient_loss,
    pessimistic,
    replicas_td_loss,
    sequence_priority,
    weighted_sum,
)
from rein.networks import CriticNetwork
from rein.specs import BoundedTensorSpec, TensorSpec


class Info(NamedTuple):
    reward: torch.Tensor
    step_type: torch.Tensor
    discount: torch.Tensor


def test_replicas_of_vector_rewards_have_a_dimension_of_their_own() -> None:
    specs = (TensorSpec((3,)), BoundedTensorSpec((2,), minimum=-1, maximum=1))
    critics = Critics(CriticNetwork(specs, joint_fc_layer_params=(8,)), 2, TensorSpec((4,)))
    values, state = critics((torch.randn(5, 3), torch.randn(5, 2)))
    assert values.shape == (5, 2, 4)
    assert state == ()
    clone = critics.copy()
    assert {n: p.shape for n, p in clone.named_parameters()} == {n: p.shape for n, p in critics.named_parameters()}


def test_a_dimension_with_negative_weight_is_pessimistic_the_other_way() -> None:
    values = torch.tensor([[[1.0, 1.0], [2.0, 3.0]]])
    assert pessimistic(values, torch.tensor([1.0, -1.0])).tolist() == [[1.0, 3.0]]
    assert pessimistic(values[..., 0], None).tolist() == [1.0]
    assert pessimistic(values[:, :1], torch.tensor([1.0, -1.0])).tolist() == [[1.0, 1.0]]


SPECS = (TensorSpec((3,)), BoundedTensorSpec((2,), minimum=-1, maximum=1))


def test_a_policy_maximises_the_weighted_sum_whatever_the_number_of_rewards() -> None:
    network = CriticNetwork(SPECS, joint_fc_layer_params=(8,))
    one, several, scalar = (Critics(network, 2, TensorSpec(shape)) for shape in ((1,), (2,), ()))
    assert several.weighted(torch.tensor([[1.0, 3.0]]), torch.tensor([2.0, -1.0])).tolist() == [-1.0]
    assert several.weighted(torch.tensor([[1.0, 3.0]]), None).tolist() == [4.0]
    assert one.weighted(torch.tensor([[1.0], [3.0]]), None).tolist() == [1.0, 3.0]
    assert scalar.weighted(torch.tensor([1.0, 3.0]), None).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("size", [1, 4])
def test_networks_may_give_a_value_for_each_reward_themselves(size: int) -> None:
    spec = TensorSpec((size,))
    network = CriticNetwork(SPECS, output_tensor_spec=spec, joint_fc_layer_params=(8,))
    critics = Critics(network, 2, spec)
    inputs = (torch.randn(5, 3), torch.randn(5, 2))
    assert torch.equal(critics(inputs)[0], critics.networks(inputs)[0])
    assert critics(inputs)[0].shape == critics.copy()(inputs)[0].shape == (5, 2, size)
    with pytest.raises(ValueError, match="as many values as rewards"):
        Critics(network, 2, TensorSpec((7,)))


def test_several_values_stand_before_or_behind_the_rewards() -> None:
    network = CriticNetwork(SPECS, output_tensor_spec=TensorSpec((6,)), joint_fc_layer_params=(8,))
    inputs = (torch.randn(5, 3), torch.randn(5, 2))
    behind = Critics(network, 2, TensorSpec((4,)), num_value_dims=1, is_reward_last=False)
    assert behind(inputs)[0].shape == (5, 2, 4, 6)
    before = Critics(network, 2, TensorSpec((4,)), num_value_dims=1)
    assert before(inputs)[0].shape == (5, 2, 6, 4)
    plain = before.networks(inputs)[0]
    assert torch.equal(before(inputs)[0][:, 1, :, 2], plain[:, 1 * 4 + 2])


@pytest.mark.parametrize(("clipping", "expected"), [(None, -3.0), (0.0, -3.0), (1.5, -1.5)])
def test_the_gradient_of_the_action_loss_is_minus_dq_da(clipping: float | None, expected: float) -> None:
    weight = torch.tensor(1.0, requires_grad=True)
    slope = torch.tensor(3.0, requires_grad=True)
    action = {"a": (weight * torch.ones(2, 1))}
    loss = action_gradient_loss((slope * action["a"]).squeeze(1), action, clipping)
    assert loss.tolist() == [-3.0, -3.0]
    loss.sum().backward()
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(2 * expected)
    assert slope.grad is None


def test_losses_of_replicas_add_up_as_if_computed_one_by_one() -> None:
    torch.manual_seed(0)
    info = Info(torch.randn(3, 4), torch.tensor([[0, 1, 1, 2]] * 3), torch.ones(3, 4))
    values, target = torch.randn(3, 4, 2), torch.randn(3, 4)
    loss = OneStepTDLoss()
    separate = sum(loss(info, values[:, :, i], target).loss for i in range(2))
    assert torch.allclose(replicas_td_loss(loss, info, values, target), separate)


def test_losses_of_replicas_of_vector_rewards() -> None:
    torch.manual_seed(0)
    info = Info(torch.randn(3, 4, 2), torch.ones(3, 4, dtype=torch.int32), torch.ones(3, 4))
    values, target = torch.randn(3, 4, 5, 2), torch.randn(3, 4, 2)
    loss = OneStepTDLoss(gamma=[0.9, 0.5])
    separate = sum(loss(info, values[:, :, i], target).loss for i in range(5))
    assert torch.allclose(replicas_td_loss(loss, info, values, target), separate)


def test_priority_is_the_root_of_the_mean_over_steps_that_act() -> None:
    loss = torch.tensor([[4.0, 9.0], [12.0, 100.0]])
    step_type = torch.tensor([[1, 1], [1, 2]])
    assert torch.allclose(sequence_priority(loss, step_type), torch.tensor([8.0, 9.0]).sqrt())


def test_at_least_one_critic_is_needed() -> None:
    specs = (TensorSpec((3,)), BoundedTensorSpec((2,), minimum=-1, maximum=1))
    with pytest.raises(ValueError, match="num_critic_replicas is 0"):
        Critics(CriticNetwork(specs), 0, TensorSpec(()))
    with pytest.raises(ValueError, match="scalars or vectors"):
        Critics(CriticNetwork(specs), 1, TensorSpec((2, 2)))


def test_pessimistic_takes_the_lowest_and_of_costs_the_highest() -> None:
    values = torch.tensor([[[1.0, 1.0], [2.0, 3.0]]])
    torch.testing.assert_close(pessimistic(values[..., 0], None), torch.tensor([1.0]))
    torch.testing.assert_close(pessimistic(values, torch.tensor([1.0, -0.5])), torch.tensor([[1.0, 3.0]]))
    torch.testing.assert_close(
        weighted_sum(torch.tensor([[1.0, 3.0]]), torch.tensor([1.0, -0.5])), torch.tensor([-0.5])
    )
