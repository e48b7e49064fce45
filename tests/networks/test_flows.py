"""Flows are invertible, know how they stretch, and make policies whose densities integrate to one."""

import math

import pytest
import torch

from rein.networks import LatentActorDistributionNetwork, RealNVPNetwork
from rein.networks.actor_distribution_networks import ActorDistributionNetwork
from rein.specs import BoundedTensorSpec, TensorSpec


def moved(network: torch.nn.Module, far: float = 0.3) -> None:
    """Weights away from those of the identity."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(far * torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize("mask_mode", ["contiguous", "distributed"])
@pytest.mark.parametrize("condition", [None, 2])
def test_a_flow_is_undone_and_its_determinant_is_that_of_the_jacobian(mask_mode: str, condition: int | None) -> None:
    torch.manual_seed(0)
    given = None if condition is None else TensorSpec((condition,))
    flow = RealNVPNetwork(TensorSpec((3,)), given, fc_layer_params=(8,), activation=torch.tanh, mask_mode=mask_mode)
    flow = flow.double()
    moved(flow)
    z = torch.randn(5, 3, dtype=torch.float64)
    context = None if condition is None else torch.randn(5, condition, dtype=torch.float64)
    x, stretch = flow.transform(z, context)
    back, same = flow.inverse(x, context)
    torch.testing.assert_close(back, z)
    torch.testing.assert_close(same, stretch)
    for row in range(5):
        part = None if context is None else context[row]
        jacobian = torch.autograd.functional.jacobian(lambda one, part=part: flow.transform(one, part)[0], z[row])
        assert torch.linalg.slogdet(jacobian)[1].item() == pytest.approx(stretch[row].item(), rel=1e-9, abs=1e-9)
    plain = flow.float()
    output, _ = plain(z.float() if context is None else (z.float(), context.float()))
    torch.testing.assert_close(output.double(), x, atol=1e-4, rtol=1e-4)


def test_the_density_of_a_squashed_policy_integrates_to_one() -> None:
    torch.manual_seed(0)
    action = BoundedTensorSpec((1,), minimum=-2.0, maximum=2.0)
    network = LatentActorDistributionNetwork(TensorSpec((2,)), action)
    moved(network, 0.05)
    distribution, _ = network(torch.tensor([[0.3, -0.5]]))
    points = torch.linspace(-2.0, 2.0, 40_001)[1:-1]
    density = distribution.log_prob(points[:, None, None]).exp()
    assert torch.trapezoid(density[:, 0], points).item() == pytest.approx(1.0, abs=5e-3)


def test_samples_have_the_density_that_they_are_given() -> None:
    torch.manual_seed(0)
    action = BoundedTensorSpec((2,), minimum=-1.0, maximum=3.0)
    network = LatentActorDistributionNetwork(TensorSpec((2,)), action)
    moved(network, 0.05)  # Actions on their bounds in float32 have no latent action any more.
    distribution, _ = network(torch.randn(64, 2))
    value, log_prob = distribution.rsample_with_log_prob()
    assert value.requires_grad
    assert ((value >= -1.0) & (value <= 3.0)).all()
    torch.testing.assert_close(distribution.log_prob(value.detach()), log_prob, atol=2e-3, rtol=2e-3)
    rebuilt = distribution.recipe.build(distribution.params)
    torch.testing.assert_close(rebuilt.log_prob(value.detach()), distribution.log_prob(value.detach()))
    assert distribution[3:5].mode.shape == (2, 2)


def test_an_untrained_flow_is_nearly_its_prior() -> None:
    torch.manual_seed(0)
    action = BoundedTensorSpec((2,), minimum=-1.0, maximum=1.0)
    network = LatentActorDistributionNetwork(TensorSpec((2,)), action, conditional_flow=False, scale_distribution=False)
    distribution, _ = network(torch.zeros(1, 2))
    at_zero = distribution.log_prob(torch.zeros(1, 2)).item()
    assert at_zero == pytest.approx(-math.log(2 * math.pi), abs=0.2)


def test_a_prior_of_ones_own() -> None:
    action = BoundedTensorSpec((2,), minimum=-1.0, maximum=1.0)
    network = LatentActorDistributionNetwork(
        TensorSpec((2,)),
        action,
        prior_actor_distribution_network_ctor=lambda input_tensor_spec, action_spec: ActorDistributionNetwork(
            input_tensor_spec, BoundedTensorSpec(action_spec.shape, minimum=-5.0, maximum=5.0), fc_layer_params=(4,)
        ),
    )
    assert network(torch.zeros(3, 2))[0].sample().shape == (3, 2)


def test_what_cannot_flow_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be split"):
        RealNVPNetwork(TensorSpec((1,)))
    with pytest.raises(ValueError, match="mask_mode"):
        RealNVPNetwork(TensorSpec((2,)), mask_mode="odd")
    with pytest.raises(ValueError, match="one bounded vector"):
        LatentActorDistributionNetwork(TensorSpec((2,)), BoundedTensorSpec((), torch.int64, 0, 1))
