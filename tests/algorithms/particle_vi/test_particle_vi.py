"""Particles: their gradients against the formulas, and where they settle."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rein import ops
from rein.algorithms.particle_vi import CriticAlgorithm, InverseMVPAlgorithm, ParVIAlgorithm
from rein.data_structures import LossInfo
from rein.networks import ReluMLP
from rein.optimizers import SGD, Adam, AdamTF
from rein.specs import TensorSpec

VARIANCES = torch.tensor([1.0, 4.0])


def energy(x: Tensor) -> Tensor:
    return 0.5 * (x.square() / VARIANCES).sum(-1)


def gradient_of(algorithm: ParVIAlgorithm, **arguments: object) -> Tensor:
    """The direction that a step gives, from the gradient of its loss."""
    info = algorithm.train_step(energy, **arguments).info  # type: ignore[arg-type]
    (gradient,) = torch.autograd.grad(info.loss.sum(), algorithm.particles)
    return gradient


def test_directions_are_those_of_the_formulas() -> None:
    torch.manual_seed(0)
    svgd, gfsf, plain = (ParVIAlgorithm(2, 12, 0.7, method) for method in ("svgd", "gfsf", None))
    x = svgd.particles.detach()
    torch.testing.assert_close(gradient_of(svgd), ops.svgd_direction(x, x / VARIANCES, 0.7))
    x = gfsf.particles.detach()
    torch.testing.assert_close(gradient_of(gfsf), ops.gfsf_direction(x, x / VARIANCES, 0.7, ridge=1e-4))
    torch.testing.assert_close(gradient_of(plain), plain.particles.detach() / VARIANCES)
    x = svgd.particles.detach()
    expected = ops.svgd_direction(x, x / VARIANCES, 0.2)
    torch.testing.assert_close(gradient_of(svgd, entropy_regularization=0.2), expected)


def test_a_mask_stops_particles_and_the_users_loss_is_kept() -> None:
    class Loss(NamedTuple):
        loss: Tensor
        extra: Tensor

    torch.manual_seed(0)
    algorithm = ParVIAlgorithm(2, 4, par_vi="svgd")
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    gradient = gradient_of(algorithm, loss_mask=mask)
    assert (gradient[mask == 0] == 0).all()
    assert (gradient[mask == 1] != 0).any()
    step = algorithm.train_step(lambda x: Loss(energy(x), torch.tensor(3.0)))
    torch.testing.assert_close(step.info.extra.loss, energy(algorithm.particles.detach()))
    assert step.info.extra.extra.item() == 3.0
    assert step.output is algorithm.particles
    assert algorithm.predict_step().output is algorithm.particles


@pytest.mark.parametrize("method", ["svgd", "gfsf", None])
def test_with_a_transform_the_direction_is_that_of_the_outputs(method: str | None) -> None:
    torch.manual_seed(0)
    algorithm = ParVIAlgorithm(2, 6, 0.5, method)
    matrix, extra_matrix = torch.randn(2, 2), torch.randn(2, 3)
    gradient = gradient_of(algorithm, transform_func=lambda x: (x @ matrix, x @ extra_matrix))
    outputs = algorithm.particles.detach() @ matrix
    points = torch.cat([outputs, algorithm.particles.detach() @ extra_matrix], 1)
    slope = outputs / VARIANCES
    if method == "svgd":
        kernel, repulsion = ops.rbf_kernel_and_gradient(points, points)
        on_outputs, on_points = kernel.t() @ slope / 6, -0.5 * repulsion / 6
    else:
        on_outputs = slope
        on_points = 0.5 * ops.smoothed_score(points, ridge=1e-4) if method else torch.zeros_like(points)
    expected = on_outputs @ matrix.t() + on_points @ torch.cat([matrix, extra_matrix], 1).t()
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3)


def test_each_particle_moves_by_its_share_of_the_direction() -> None:
    torch.manual_seed(0)
    algorithm = ParVIAlgorithm(2, 4, par_vi=None, optimizer=SGD(lr=0.1))
    before = algorithm.particles.detach().clone()
    algorithm.update_with_gradient(algorithm.train_step(energy).info)
    torch.testing.assert_close(algorithm.particles.detach(), before - 0.1 * before / VARIANCES / 4)


def test_no_gradient_reaches_the_loss_and_the_critic_keeps_its_own_optimizer() -> None:
    torch.manual_seed(0)
    weight = torch.ones(2, requires_grad=True)
    algorithm = ParVIAlgorithm(2, 8, par_vi="minmax", critic_hidden_layers=(4,), optimizer=Adam(lr=1e-2))
    assert [p.shape for o in algorithm.optimizers() for p in o.param_groups[0]["params"]] == [(8, 2)]
    assert algorithm._critic is not None
    before = {name: p.detach().clone() for name, p in algorithm._critic.named_parameters()}
    algorithm.update_with_gradient(algorithm.train_step(lambda x: (weight * x).sum(-1)).info)
    assert weight.grad is None
    assert all(not torch.equal(p, before[name]) for name, p in algorithm._critic.named_parameters() if "bias" in name)
    state = algorithm.state_dict()
    assert any(key.startswith("_critic._optimizers") for key in state)
    other = ParVIAlgorithm(2, 8, par_vi="minmax", critic_hidden_layers=(4,), optimizer=Adam(lr=1e-2))
    other.load_state_dict(state)
    torch.testing.assert_close(other.particles, algorithm.particles)


def test_one_particle_and_equal_particles_stay_finite() -> None:
    for count in (1, 3):
        for method in ("svgd", "gfsf"):
            algorithm = ParVIAlgorithm(2, count, par_vi=method)
            with torch.no_grad():
                algorithm.particles.fill_(1.0)
            torch.testing.assert_close(gradient_of(algorithm), (1.0 / VARIANCES).expand(count, 2))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="par_vi is 'svgd2': choose one of"):
        ParVIAlgorithm(2, par_vi="svgd2")
    with pytest.raises(ValueError, match="num_particles is 0"):
        ParVIAlgorithm(2, 0)
    algorithm = ParVIAlgorithm(2, 4, par_vi="minmax")
    with pytest.raises(ValueError, match="choose svgd or gfsf for a transform"):
        algorithm.train_step(energy, transform_func=lambda x: (x, x))
    with pytest.raises(ValueError, match="does not depend on its argument"):
        ParVIAlgorithm(2, 4, par_vi=None).train_step(lambda x: energy(x.detach()))
    with pytest.raises(TypeError, match="return a tensor"):
        ParVIAlgorithm(2, 4, par_vi=None).train_step(lambda x: {"a": energy(x)})


def test_the_critic_gives_exact_diagonals_and_can_be_drawn_anew() -> None:
    torch.manual_seed(0)
    critic = CriticAlgorithm(TensorSpec((3,)), hidden_layers=(5, 4), use_relu_mlp=True)
    x = torch.randn(6, 3)
    _, diagonal = critic.predict_step(x, requires_jac_diag=True).output

    def output(row: Tensor) -> Tensor:
        return critic.predict_step(row.unsqueeze(0)).output[0]  # type: ignore[no-any-return]

    jacobian = torch.stack([torch.autograd.functional.jacobian(output, row) for row in x])
    torch.testing.assert_close(diagonal, jacobian.diagonal(dim1=1, dim2=2))
    for one in (critic, CriticAlgorithm(TensorSpec((3,)), output_dim=2)):
        before = one.predict_step(x).output.detach().clone()
        one.reset_net_parameters()
        assert not torch.equal(one.predict_step(x).output, before)
    with pytest.raises(ValueError, match="set use_relu_mlp=True"):
        CriticAlgorithm(TensorSpec((3,))).predict_step(x, requires_jac_diag=True)


def test_the_helper_repeats_noise_for_many_vectors_and_cuts_it() -> None:
    torch.manual_seed(0)
    helper = InverseMVPAlgorithm(2, 3, hidden_size=5)
    z, vectors = torch.randn(4, 3), torch.randn(4, 6, 3)
    product, rows = helper.predict_step((z, vectors)).output
    assert product.shape == (24, 3)
    torch.testing.assert_close(rows.reshape(4, 6, 2), z[:, None, :2].expand(4, 6, 2))
    one, _ = helper.predict_step((z, vectors[:, 2])).output
    torch.testing.assert_close(product.reshape(4, 6, 3)[:, 2], one)
    torch.testing.assert_close(helper.predict_step((z, -vectors)).output[0], -product)
    with pytest.raises(ValueError, match="more than output_dim"):
        InverseMVPAlgorithm(4, 3)


def test_the_helper_learns_products_with_an_inverse_jacobian() -> None:
    torch.manual_seed(0)
    net = ReluMLP(TensorSpec((2,)), 2, (3,))
    helper = InverseMVPAlgorithm(2, 2, hidden_size=32, optimizer=Adam(lr=5e-3))
    z, vectors = torch.randn(5, 2), torch.randn(5, 2)
    jacobian = (net.compute_jac(z) + 1.5 * torch.eye(2)).detach()
    for _ in range(400):
        product, _ = helper.predict_step((z, vectors)).output
        error = torch.einsum("bi,bij->bj", product, jacobian) - vectors
        helper.update_with_gradient(LossInfo(scalar_loss=error.square().mean()))
    expected = torch.einsum("bi,bij->bj", vectors, torch.linalg.inv(jacobian))
    torch.testing.assert_close(helper.predict_step((z, vectors)).output[0], expected, atol=0.02, rtol=0)


def settle(method: str, count: int, steps: int, rate: float) -> Tensor:
    torch.manual_seed(0)
    algorithm = ParVIAlgorithm(
        2,
        count,
        par_vi=method,
        critic_hidden_layers=(20,),
        critic_optimizer=Adam(lr=1e-3),
        optimizer=AdamTF(lr=rate),
    )
    for _ in range(steps):
        algorithm.update_with_gradient(algorithm.train_step(energy).info)
    return algorithm.particles.detach()


@pytest.mark.parametrize("method", ["svgd", "gfsf"])
def test_particles_settle_on_a_gaussian(method: str) -> None:
    particles = settle(method, 64, 300, 5e-2)
    torch.testing.assert_close(particles.mean(0), torch.zeros(2), atol=0.1, rtol=0)
    torch.testing.assert_close(torch.cov(particles.t()), torch.diag(VARIANCES), atol=0.6, rtol=0)
