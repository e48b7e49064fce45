"""Priors, by hand and against scipy."""

import math

import pytest
import torch
from scipy import stats

from rein.algorithms.regularization import SameActionPriorActor, UniformPriorActor
from rein.algorithms.regularization.prior_actor import TruncatedNormal
from rein.data_structures import restart, transition
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((2,), torch.float32, [-1.0, 0.0], [1.0, 4.0])
STEP = torch.int64


def step(previous: torch.Tensor):
    return transition(torch.zeros(1, 1), previous, torch.zeros(1))


def flat_density(x: float, low: float, high: float) -> float:
    middle, width = 0.5 * (low + high), high - low
    return stats.truncnorm.pdf(x, (low - middle) / width, (high - middle) / width, middle, width)


def sharp_density(x: float, previous: float, low: float, high: float, noise: float) -> float:
    scale = noise * (high - low)
    return stats.truncnorm.pdf(x, (low - previous) / scale, (high - previous) / scale, previous, scale)


def test_the_first_action_is_flat() -> None:
    prior = SameActionPriorActor(OBSERVATION, ACTION)
    distribution = prior.train_step(restart(torch.zeros(1, 1), ACTION), ()).output
    value = torch.tensor([[0.5, 3.0]])
    expected = math.log(flat_density(0.5, -1, 1)) + math.log(flat_density(3.0, 0, 4))
    assert distribution.log_prob(value).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("noise", "prob"), [(0.1, 0.9), (0.3, 0.5)])
def test_later_actions_are_a_mixture_around_the_previous_one(noise: float, prob: float) -> None:
    prior = SameActionPriorActor(OBSERVATION, ACTION, same_action_noise=noise, same_action_prob=prob)
    distribution = prior.rollout_step(step(torch.tensor([[0.2, 1.0]])), ()).output
    expected = 0.0
    for x, previous, low, high in ((0.1, 0.2, -1, 1), (2.0, 1.0, 0, 4)):
        density = (1 - prob) * flat_density(x, low, high) + prob * sharp_density(x, previous, low, high, noise)
        expected += math.log(density)
    assert distribution.log_prob(torch.tensor([[0.1, 2.0]])).item() == pytest.approx(expected, abs=1e-4)


def test_samples_of_the_same_action_prior_are_in_range_and_near_the_previous_action() -> None:
    torch.manual_seed(0)
    prior = SameActionPriorActor(OBSERVATION, ACTION, same_action_noise=0.01)
    distribution = prior.predict_step(step(torch.tensor([[0.9, 0.1]])), ()).output
    samples = distribution.sample((500,))
    assert samples.shape == (500, 1, 2)
    assert ((samples >= torch.tensor([-1.0, 0.0])) & (samples <= torch.tensor([1.0, 4.0]))).all()
    near = (samples - torch.tensor([0.9, 0.1])).abs() < torch.tensor([0.1, 0.2])
    assert 0.85 < near.float().mean() < 1.0
    assert torch.allclose(distribution.mode, torch.tensor([[0.9, 0.1]]))


def test_the_uniform_prior_has_the_same_density_everywhere() -> None:
    prior = UniformPriorActor(OBSERVATION, (BoundedTensorSpec((), STEP, 0, 3), ACTION))
    discrete, continuous = prior.train_step(restart(torch.zeros(3, 1), ACTION), ()).output
    actions = torch.tensor([[-1.0, 0.0], [0.3, 1.0], [1.0, 4.0]])
    assert torch.allclose(continuous.log_prob(actions), torch.full((3,), -math.log(8.0)), atol=1e-5)
    assert torch.allclose(discrete.log_prob(torch.tensor([0, 1, 3])), torch.full((3,), -math.log(4.0)))


def test_priors_have_nothing_to_learn() -> None:
    assert not list(SameActionPriorActor(OBSERVATION, ACTION).parameters())
    assert not list(UniformPriorActor(OBSERVATION, ACTION).parameters())


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="discrete"):
        SameActionPriorActor(OBSERVATION, BoundedTensorSpec((), STEP, 0, 3))
    with pytest.raises(ValueError, match="same_action_prob is 1"):
        SameActionPriorActor(OBSERVATION, ACTION, same_action_prob=1.5)
    with pytest.raises(ValueError, match="same_action_noise is 0"):
        SameActionPriorActor(OBSERVATION, ACTION, same_action_noise=0.0)
    with pytest.raises(ValueError, match="BoundedTensorSpec"):
        UniformPriorActor(OBSERVATION, TensorSpec((2,)))


def test_truncated_normal_counts_elements_by_themselves_and_checks_if_asked() -> None:
    distribution = TruncatedNormal(torch.zeros(2), torch.ones(2), torch.tensor(-1.0), torch.tensor(1.0))
    expected = stats.truncnorm.logpdf(0.5, -1, 1)
    assert torch.allclose(distribution.log_prob(torch.tensor([0.5, 0.5])), torch.full((2,), float(expected)))
    with pytest.raises(ValueError, match="scale"):
        TruncatedNormal(torch.zeros(1), -torch.ones(1), torch.tensor(-1.0), torch.tensor(1.0), validate_args=True)
    with pytest.raises(ValueError, match="low"):
        TruncatedNormal(torch.zeros(1), torch.ones(1), torch.tensor(1.0), torch.tensor(-1.0), validate_args=True)
