import pytest
import torch

from rein.networks import ActorDistributionNetwork, QNetwork, has_mask, is_forbidden
from rein.networks.action_masks import FORBIDDEN, forbid
from rein.specs import BoundedTensorSpec, TensorSpec

ACTION = BoundedTensorSpec((), torch.int64, 0, 2)
SEEN = {"observation": TensorSpec((2,)), "valid_action_mask": BoundedTensorSpec((3,), torch.bool, 0, 1)}
MASK = torch.tensor([[True, False, True], [False, False, True], [False, False, False]])
INPUT = {"observation": torch.randn(3, 2), "valid_action_mask": MASK}


def test_forbidden_values_by_hand():
    values = torch.tensor([[1.0, 2.0, 3.0]])
    assert forbid(values, torch.tensor([[1, 0, 1]])).tolist() == [[1, FORBIDDEN, 3]]
    assert forbid(values, torch.zeros(1, 3)).tolist() == [[1, 2, 3]]
    quantiles = forbid(torch.zeros(1, 2, 2), torch.tensor([[True, False]]), -2)
    assert quantiles.tolist() == [[[0, 0], [FORBIDDEN, FORBIDDEN]]]
    assert is_forbidden(torch.tensor([[-5.0, FORBIDDEN / 50, 3e5]])).tolist() == [[False, True, False]]


def test_a_policy_never_samples_what_is_forbidden_and_its_gradient_is_finite():
    torch.manual_seed(0)
    network = ActorDistributionNetwork(SEEN, ACTION, fc_layer_params=(4,))
    distribution, _ = network(INPUT)
    drawn = torch.stack([distribution.sample() for _ in range(200)])
    assert set(drawn[:, 0].tolist()) == {0, 2}
    assert set(drawn[:, 1].tolist()) == {2}
    assert set(drawn[:, 2].tolist()) == {0, 1, 2}
    (distribution.entropy() + distribution.log_prob(drawn[0])).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())
    assert distribution.entropy()[1].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("quantiles", [None, 4])
def test_values_of_forbidden_actions_are_never_the_greatest(quantiles):
    twins = QNetwork(SEEN, ACTION, num_quantiles=quantiles).make_parallel(2)
    values, _ = twins(INPUT)
    values = values if quantiles is None else values.mean(-1)
    assert (values[0, :, 1] == FORBIDDEN).all()
    assert (values[1].argmax(-1) == 2).all()


def test_only_one_discrete_action_has_a_mask_and_it_must_fit():
    assert has_mask(SEEN, ACTION)
    assert not has_mask(SEEN["observation"], ACTION)
    assert not has_mask(SEEN, BoundedTensorSpec((2,), torch.int64, 0, 2))
    with pytest.raises(ValueError, match="one entry for each of the 3 values"):
        has_mask({"valid_action_mask": TensorSpec((2,), torch.bool)}, ACTION)
