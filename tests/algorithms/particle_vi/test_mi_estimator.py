"""Estimates of mutual information: samplers, starting points, gradients, and Gaussian pairs."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from rein.algorithms.particle_vi import MIEstimator
from rein.algorithms.particle_vi.marginal_samplers import SAMPLERS, MarginalSampler, SampleBuffer
from rein.distributions import DiagNormal
from rein.networks import Network
from rein.optimizers import AdamTF
from rein.specs import TensorSpec

SPEC = TensorSpec((2,))


def pairs(count: int, correlation: float, size: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, size)
    return x, correlation * x + math.sqrt(1 - correlation**2) * torch.randn(count, size)


def in_parts(x: Tensor, first: int) -> list[Tensor]:
    return [x[..., :first], x[..., first:]]


class Product(Network):
    """T(x, y) = w sum x y."""

    def __init__(self, weight: float = 0.5) -> None:
        super().__init__([SPEC, SPEC], name="Product")
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs, state=()):  # type: ignore[no-untyped-def]
        return self.weight * (inputs[0] * inputs[1]).sum(-1, keepdim=True), state


def test_the_buffer_keeps_the_newest_examples() -> None:
    buffer = SampleBuffer([TensorSpec(()), TensorSpec((1,), torch.int64)], 4)
    for first in (0, 3):
        rows = torch.arange(first, first + 3)
        buffer.add([rows.float(), rows.unsqueeze(1)])
    assert buffer.size == 4
    number, index = buffer.draw(200)
    assert sorted(number.unique().tolist()) == [2.0, 3.0, 4.0, 5.0]
    assert torch.equal(number.long(), index.squeeze(1))
    buffer.add([torch.arange(10.0), torch.arange(10).unsqueeze(1)])
    assert sorted(buffer.draw(200)[0].unique().tolist()) == [6.0, 7.0, 8.0, 9.0]


def test_shift_pairs_with_the_row_before_and_shuffle_permutes_whole_nests() -> None:
    torch.manual_seed(0)
    y = {"a": torch.arange(6.0).unsqueeze(1), "b": torch.arange(6.0).unsqueeze(1) + 10}
    specs = {"a": TensorSpec((1,)), "b": TensorSpec((1,))}
    x = torch.zeros(6, 2)
    shifted = MarginalSampler("shift", SPEC, specs, 1)(x, y)[1]
    assert shifted["a"].flatten().tolist() == [5.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    shuffled = MarginalSampler("shuffle", SPEC, specs, 1)(x, y)[1]
    assert sorted(shuffled["a"].flatten().tolist()) == list(range(6))
    assert torch.equal(shuffled["b"], shuffled["a"] + 10)


def test_the_buffer_draws_before_it_adds_once_it_holds_a_batch() -> None:
    sampler = MarginalSampler("buffer", SPEC, TensorSpec(()), 100)
    x = torch.zeros(8, 2)
    assert set(sampler(x, torch.zeros(8))[1].tolist()) == {0.0}  # it had nothing else
    assert set(sampler(x, torch.ones(8))[1].tolist()) == {0.0}  # the ones came after drawing
    drawn_x, _ = MarginalSampler("double_buffer", SPEC, TensorSpec(()), 100)(torch.arange(16.0).reshape(8, 2), x[:, 0])
    assert drawn_x.shape == (8, 2)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_gradient_reaches_y_through_the_marginals_with_shift_and_shuffle_only(sampler: str) -> None:
    torch.manual_seed(0)
    estimator = MIEstimator(SPEC, SPEC, model=Product(), sampler=sampler, estimator_type="KLD")
    x, y = pairs(8, 0.5, 2)
    x1, y1 = estimator._sampler(x, y.requires_grad_())  # type: ignore[misc]
    assert y1.requires_grad == (sampler in ("shift", "shuffle"))
    assert (x1 is x) == (sampler != "double_buffer")


def test_the_bound_of_dv_by_hand() -> None:
    estimator = MIEstimator(SPEC, SPEC, model=Product(0.5), sampler="shift")
    x, y = torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    step = estimator.train_step((x, y))
    joint = torch.tensor([1.0, 2.0])  # y is the same everywhere, so P is Q
    mean = joint.exp().mean()
    torch.testing.assert_close(step.output.mean(), 1.5 - mean.log())
    torch.testing.assert_close(step.info.loss, joint.exp() / mean - joint)  # the first average is the batch's
    torch.testing.assert_close(estimator.calc_pmi(x, y), joint - mean.log())
    assert estimator._averager is not None
    torch.testing.assert_close(estimator._averager.get(), mean.detach())


def test_maximum_likelihood_starts_at_exactly_zero_and_needs_the_distribution() -> None:
    torch.manual_seed(0)
    estimator = MIEstimator([SPEC, TensorSpec((3,))], SPEC, estimator_type="ML", fc_layers=(16, 16))
    x, y = [torch.randn(8, 2), torch.randn(8, 3)], torch.randn(8, 2)
    marginal = DiagNormal(torch.full((8, 2), 0.3), torch.full((8, 2), 2.0))
    step = estimator.train_step((x, y), y_distribution=marginal)
    torch.testing.assert_close(step.output, torch.zeros(8), atol=1e-6, rtol=0)
    torch.testing.assert_close(step.info.loss, -step.output)
    with pytest.raises(ValueError, match="needs y_distribution"):
        estimator.train_step((x, y))
    with pytest.raises(ValueError, match="one vector of floats"):
        MIEstimator(SPEC, [SPEC, SPEC], estimator_type="ML")


@pytest.mark.parametrize("kind", ["DV", "KLD", "JSD", "ML"])
def test_outer_dimensions_are_restored(kind: str) -> None:
    torch.manual_seed(0)
    estimator = MIEstimator(SPEC, SPEC, fc_layers=8, estimator_type=kind)
    x, y = torch.randn(3, 5, 2), torch.randn(3, 5, 2)
    marginal = DiagNormal(torch.zeros(3, 5, 2), torch.ones(3, 5, 2))
    step = estimator.train_step((x, y), marginal if kind == "ML" else None)
    assert step.output.shape == step.info.loss.shape == (3, 5)
    assert estimator.calc_pmi(x, y, marginal).shape == (3, 5)
    flat = estimator.calc_pmi(x.flatten(0, 1), y.flatten(0, 1), DiagNormal(torch.zeros(15, 2), torch.ones(15, 2)))
    torch.testing.assert_close(flat, estimator.calc_pmi(x, y, marginal).flatten())


def test_a_given_distribution_replaces_the_sampler() -> None:
    torch.manual_seed(0)
    estimator = MIEstimator(SPEC, SPEC, model=Product(), estimator_type="KLD")
    x, y = pairs(8, 0.5, 2)
    estimator.train_step((x, y), y_distribution=DiagNormal(torch.zeros(8, 2), torch.ones(8, 2)))
    assert estimator._sampler is not None
    assert estimator._sampler._y_buffer is not None
    assert estimator._sampler._y_buffer.size == 0


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="estimator_type is 'MINE': choose one of DV"):
        MIEstimator(SPEC, SPEC, estimator_type="MINE")
    with pytest.raises(ValueError, match="sampler is 'ring': choose one of buffer"):
        MIEstimator(SPEC, SPEC, sampler="ring")


def test_a_saved_estimator_goes_on_with_its_buffer_and_average() -> None:
    def train(estimator: MIEstimator, seed: int) -> None:
        torch.manual_seed(seed)
        for _ in range(3):
            estimator.update_with_gradient(estimator.train_step(pairs(8, 0.5, 2)).info)

    def build() -> MIEstimator:
        return MIEstimator(SPEC, SPEC, fc_layers=8, buffer_size=20, optimizer=AdamTF(lr=1e-2))

    first, second = build(), build()
    train(first, 0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(first, 1)
    train(second, 1)
    states = first.state_dict(), second.state_dict()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0] if "_optimizers" not in key)


def estimate(kind: str, sampler: str, correlation: float, updates: int, size: int, width: int, rate: float) -> float:
    torch.manual_seed(0)
    specs = [TensorSpec((3,)), TensorSpec((size - 3,))]
    estimator = MIEstimator(
        specs, specs, fc_layers=(width,), sampler=sampler, estimator_type=kind, optimizer=AdamTF(lr=rate)
    )
    for _ in range(updates):
        x, y = pairs(256, correlation, size)
        estimator.update_with_gradient(estimator.train_step((in_parts(x, 3), in_parts(y, 3))).info)
    x, y = pairs(16384, correlation, size)
    with torch.no_grad():
        return float(estimator.calc_pmi(in_parts(x, 3), in_parts(y, 3)).mean())


@pytest.mark.parametrize(("kind", "sampler"), [("DV", "buffer"), ("KLD", "shift"), ("JSD", "double_buffer")])
def test_information_of_correlated_gaussians_is_found(kind: str, sampler: str) -> None:
    truth = -2.5 * math.log(1 - 0.7**2)
    assert estimate(kind, sampler, 0.7, 300, 5, 64, 5e-3) == pytest.approx(truth, abs=0.45)


def test_maximum_likelihood_finds_the_information_of_gaussians() -> None:
    torch.manual_seed(0)
    estimator = MIEstimator(SPEC, SPEC, fc_layers=(32,), estimator_type="ML", optimizer=AdamTF(lr=1e-2))
    for _ in range(300):
        x, y = pairs(128, 0.8, 2)
        marginal = DiagNormal(torch.zeros_like(y), torch.ones_like(y))
        estimator.update_with_gradient(estimator.train_step((x, y), marginal).info)
    x, y = pairs(16384, 0.8, 2)
    pmi = estimator.calc_pmi(x, y, DiagNormal(torch.zeros_like(y), torch.ones_like(y)))
    assert pmi.mean().item() == pytest.approx(-math.log(1 - 0.64), abs=0.06)
