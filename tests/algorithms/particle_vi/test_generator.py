"""Generators: directions against the formulas, GPVI's solutions, what is refused, and what they learn."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rein import ops
from rein.algorithms.particle_vi import Generator, GeneratorLossInfo
from rein.algorithms.particle_vi.amortized import GeneratedBatch, KernelWidth, PairedStein, ResampledStein, SplitStein
from rein.algorithms.particle_vi.generator import METHODS
from rein.networks import Network, ReluMLP
from rein.optimizers import Adam, AdamTF
from rein.specs import TensorSpec

VARIANCES = torch.tensor([1.0, 4.0])
START = torch.tensor([[1.0, 2.0], [-1.0, 1.0], [1.0, 1.0]]).t()


def energy(x: Tensor) -> Tensor:
    return 0.5 * (x.square() / VARIANCES).sum(-1)


class Linear(Network):
    """X = W z."""

    def __init__(self) -> None:
        super().__init__(TensorSpec((3,)), name="Linear")
        self.weight = nn.Parameter(START.clone())

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Tensor, Any]:
        return inputs @ self.weight.t(), state


class Conditional(Network):
    """X = U y + W z for inputs y of two numbers."""

    def __init__(self) -> None:
        super().__init__([TensorSpec((3,)), TensorSpec((2,))], name="Conditional")
        self.weight = nn.Parameter(START.clone())
        self.mean = nn.Parameter(torch.zeros(2, 2))

    def forward(self, inputs: Any, state: Any = ()) -> tuple[Tensor, Any]:
        noise, y = inputs
        return noise @ self.weight.t() + y @ self.mean, state


def batch_of(outputs: Tensor, other: Tensor, weight: float) -> GeneratedBatch:
    return GeneratedBatch(outputs, outputs, None, energy, None, weight, lambda: (other, other))


def direction(moved_loss: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(moved_loss.sum(), x)
    return gradient


def test_svgd_pairs_each_output_with_one_other() -> None:
    torch.manual_seed(0)
    x, other = torch.randn(8, 2, requires_grad=True), torch.randn(8, 2)
    moved = PairedStein(KernelWidth(False))(batch_of(x, other, 0.5))
    squared = (x.detach() - other).square().sum(1)
    width = squared.median() / torch.log(torch.tensor(8.0))
    kernel = torch.exp(-squared / width).unsqueeze(1)
    repulsion = -2 / width * kernel * (other - x.detach())
    torch.testing.assert_close(direction(moved.loss, x), kernel * other / VARIANCES - 0.5 * repulsion)
    torch.testing.assert_close(moved.user_loss, energy(other))


def test_svgd2_moves_the_first_half_by_the_second_and_svgd3_by_another_batch() -> None:
    torch.manual_seed(0)
    x, other = torch.randn(8, 2, requires_grad=True), torch.randn(8, 2)
    first, second = x.detach().chunk(2)
    squared = ops.pairwise_squared_distance(second, first)
    expected = ops.svgd_direction(first, second / VARIANCES, 0.5, ops.median_bandwidth(squared, 16), second)
    moved = SplitStein(KernelWidth(False))(batch_of(x, other, 0.5))
    assert moved.loss.shape == (4,)
    gradient = direction(moved.loss, x)
    torch.testing.assert_close(gradient[:4], expected)
    assert (gradient[4:] == 0).all()
    squared = ops.pairwise_squared_distance(other, x.detach())
    expected = ops.svgd_direction(x.detach(), other / VARIANCES, 0.5, ops.median_bandwidth(squared, 64), other)
    torch.testing.assert_close(direction(ResampledStein(KernelWidth(False))(batch_of(x, other, 0.5)).loss, x), expected)


def test_the_width_is_averaged_if_asked_for() -> None:
    width = KernelWidth(True)
    first, second = torch.full((4, 4), 3.0), torch.full((4, 4), 9.0)
    log = float(torch.log(torch.tensor(16.0)))
    assert width(first, 16).item() == pytest.approx(3 / log)
    assert 3 / log < width(second, 16).item() < 9 / log


@pytest.mark.parametrize("par_vi", [None, *METHODS])
def test_steps_give_losses_and_keep_the_users_loss(par_vi: str | None) -> None:
    class Loss(NamedTuple):
        loss: Tensor
        extra: Tensor

    torch.manual_seed(0)
    generator = Generator(
        2,
        3,
        net=Linear(),
        par_vi=par_vi,
        entropy_regularization=0.0 if par_vi is None else 1.0,
        optimizer=Adam(lr=1e-2),
    )
    step = generator.train_step(None, lambda x: Loss(energy(x), torch.tensor(1.0)), batch_size=6)
    assert step.output.shape == (6, 2)
    assert step.info.loss.shape == ((3,) if par_vi == "svgd2" else (6,))
    assert isinstance(step.info.extra, GeneratorLossInfo)
    assert step.info.extra.generator.extra.item() == 1.0
    assert step.info.extra.mi_estimator == step.info.extra.inverse_mvp == ()
    before = generator._net.weight.detach().clone()  # type: ignore[union-attr, operator]
    generator.update_with_gradient(step.info)
    assert not torch.equal(generator._net.weight, before)


def test_the_weight_of_a_call_replaces_the_constructors() -> None:
    torch.manual_seed(0)
    generator = Generator(2, 3, net=Linear(), par_vi="svgd3", entropy_regularization=1.0)
    gradients = []
    for weight in (None, 0.0, 2.0):
        torch.manual_seed(1)
        info = generator.train_step(None, energy, 6, entropy_regularization=weight).info
        gradients.append(direction(info.loss, generator._net.weight))  # type: ignore[arg-type]
    assert not torch.equal(gradients[0], gradients[2])
    torch.manual_seed(1)
    noise = torch.randn(6, 3)
    plain = (noise @ START.t() / VARIANCES).t() @ noise
    torch.testing.assert_close(gradients[1], plain)


def test_a_moving_average_of_the_net_predicts() -> None:
    torch.manual_seed(0)
    generator = Generator(2, 3, net=Linear(), net_moving_average_rate=0.25, optimizer=Adam(lr=0.1))
    noise = torch.randn(5, 3)
    step = generator.train_step(None, energy, batch_size=8)
    generator.update_with_gradient(step.info)
    torch.testing.assert_close(generator.predict_step(noise=noise).output, noise @ START.t())
    generator.after_update(step.info)
    net = generator._net.weight.detach()  # type: ignore[union-attr, operator]
    average = START + 0.25 * (net - START)
    torch.testing.assert_close(generator.predict_step(noise=noise).output, noise @ average.t())
    torch.testing.assert_close(generator.predict_step(noise=noise, training=True).output, noise @ net.t())


def test_mutual_information_keeps_outputs_apart_and_shares_the_optimizer() -> None:
    torch.manual_seed(0)
    generator = Generator(2, 3, net=Linear(), mi_weight=1.0, optimizer=AdamTF(lr=5e-3))
    assert len(generator.optimizers()) == 1
    assert not generator.get_unoptimized_parameter_info()
    for _ in range(150):
        generator.update_with_gradient(generator.train_step(None, energy, batch_size=64).info)
    weight = generator._net.weight.detach()  # type: ignore[union-attr, operator]
    assert (weight @ weight.t()).abs().sum() > 0.5


@pytest.mark.parametrize("par_vi", ["svgd2", "svgd3"])
def test_information_and_particles_work_together(par_vi: str) -> None:
    generator = Generator(2, 3, net=Linear(), mi_weight=0.5, par_vi=par_vi, entropy_regularization=1.0)
    step = generator.train_step(None, energy, batch_size=8)
    assert step.info.extra.mi_estimator.shape == step.info.loss.shape


def gpvi(noise_dim: int, output_dim: int, hidden: tuple[int, ...], **settings: Any) -> Generator:
    net = ReluMLP(TensorSpec((noise_dim,)), output_dim, hidden)
    return Generator(output_dim, noise_dim, net=net, functional_gradient=True, entropy_regularization=1.0, **settings)


@pytest.mark.parametrize(("noise_dim", "hidden"), [(4, (6, 5)), (7, ())])
def test_gpvi_by_blocks_equals_the_full_inverse(noise_dim: int, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    full = gpvi(noise_dim, 7, hidden, init_lambda=0.8, direct_jac_inverse=True)
    blocks = gpvi(noise_dim, 7, hidden, init_lambda=0.8, direct_jac_inverse=True, block_inverse_mvp=True)
    blocks._net.load_state_dict(full._net.state_dict())
    z, vectors = torch.randn(5, 7), torch.randn(5, 6, 7)
    solved, _ = full._method.solve(z, vectors)  # type: ignore[union-attr]
    by_blocks, _ = blocks._method.solve(z, vectors)  # type: ignore[union-attr]
    torch.testing.assert_close(by_blocks, solved, rtol=1e-5, atol=1e-5)

    def output(row: Tensor) -> Tensor:
        return full.predict_step(noise=row.unsqueeze(0)).output[0]  # type: ignore[no-any-return]

    jacobian = torch.stack([torch.autograd.functional.jacobian(output, row) for row in z])
    torch.testing.assert_close(solved, vectors @ torch.linalg.inv(jacobian), rtol=1e-3, atol=1e-4)


def test_gpvi_moves_by_the_functional_gradient() -> None:
    torch.manual_seed(0)
    generator = gpvi(2, 2, (), direct_jac_inverse=True)
    z, other_z = torch.randn(6, 2), torch.randn(6, 2)
    x, other = (generator.predict_step(noise=noise).output.detach() for noise in (z, other_z))
    x.requires_grad_()
    batch = GeneratedBatch(x, z, None, energy, None, 0.5, lambda: (other, other_z))
    squared = ops.pairwise_squared_distance(other_z, z)
    width = ops.median_bandwidth(squared, 36)
    inverse = torch.linalg.inv(generator._net.last.weight.detach())  # type: ignore[union-attr]
    kernel, repulsion = ops.rbf_kernel_and_gradient(other_z, z, width)
    expected = kernel.t() @ (other / VARIANCES) / 6 - 0.5 * repulsion @ inverse / 6
    assert generator._method is not None
    torch.testing.assert_close(direction(generator._method(batch).loss, x), expected)


@pytest.mark.parametrize("settings", [{}, {"block_inverse_mvp": True}])
def test_the_helper_of_gpvi_learns_what_solving_gives(settings: dict[str, bool]) -> None:
    torch.manual_seed(0)
    generator = gpvi(
        2,
        3,
        (4,),
        inverse_mvp_solve_iters=400,
        inverse_mvp_hidden_size=32,
        inverse_mvp_optimizer=Adam(lr=3e-3),
        **settings,
    )
    method = generator._method
    z, vectors = torch.randn(3, 3), torch.randn(3, 2, 3)
    solved, loss = method.solve(z, vectors)  # type: ignore[union-attr]
    jacobian = method._jacobian(z[:, :2])  # type: ignore[union-attr]
    torch.testing.assert_close(solved @ jacobian, vectors, atol=0.05, rtol=0)
    assert loss.ndim == 0


def test_gpvi_gives_lambda_gradient_through_the_outputs_only_and_trains_all_parts() -> None:
    torch.manual_seed(0)
    generator = gpvi(2, 3, (4,), init_lambda=0.5, lambda_trainable=True, optimizer=Adam(lr=1e-2))
    assert generator._log_lambda is not None
    assert generator._inverse_mvp is not None
    names = {id(p): o for o in generator.optimizers() for g in o.param_groups for p in g["params"]}
    assert id(generator._log_lambda) in names
    assert not any(id(p) in names for p in generator._inverse_mvp.parameters())
    step = generator.train_step(None, lambda x: x.square().sum(-1), batch_size=6)
    assert step.output.shape == (6, 3)
    assert step.info.extra.inverse_mvp.ndim == 0
    before = generator._log_lambda.item()
    generator.update_with_gradient(step.info)
    assert generator._log_lambda.item() != before
    assert all(p.requires_grad for p in generator._net.parameters())
    noise = torch.randn(4, 3)
    expected = generator._net(noise[:, :2])[0] + generator._log_lambda.exp() * noise
    torch.testing.assert_close(generator.predict_step(noise=noise).output, expected)


@pytest.mark.parametrize("settings", [{"mi_weight": 1.0}, {"net_moving_average_rate": 0.5}, {"par_vi": "svgd3"}])
def test_gpvi_works_without_entropy_and_with_the_other_parts(settings: dict[str, Any]) -> None:
    generator = gpvi(2, 3, (4,), direct_jac_inverse=True, optimizer=Adam(lr=1e-2), **settings)
    for weight in (0.0, 1.0):
        step = generator.train_step(None, lambda x: x.square().sum(-1), 6, entropy_regularization=weight)
        assert step.output.shape == (6, 3)
        generator.update_with_gradient(step.info)
        generator.after_update(step.info)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Generator(2, par_vi="stein"), "par_vi is 'stein': choose one of"),
        (lambda: Generator(2, entropy_regularization=1.0), "needs par_vi"),
        (lambda: gpvi(5, 3, ()), "lower noise_dim to 3 or less"),
        (lambda: Generator(2, 3, net=Linear(), functional_gradient=True), "above output_dim 2"),
        (lambda: Generator(3, 3, net=Linear(), functional_gradient=True), "needs a ReluMLP"),
        (lambda: gpvi(2, 3, (), init_lambda=0.0), "must be positive"),
        (lambda: Generator(2, par_vi="gfsf", input_tensor_spec=TensorSpec((2,))), "par_vi='svgd'"),
        (lambda: Generator(2).predict_step(), "batch_size is needed"),
        (lambda: Generator(2).predict_step(torch.zeros(3, 2)), "inputs were given"),
        (lambda: Generator(2).train_step(None, energy, 4, entropy_regularization=1.0), "par_vi must be one of"),
    ],
)
def test_bad_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_odd_batches_and_transforms_are_refused_where_they_cannot_work() -> None:
    with pytest.raises(ValueError, match="7 samples are odd"):
        Generator(2, par_vi="svgd2", entropy_regularization=1.0).train_step(None, energy, 7)
    for generator in (Generator(2, par_vi="svgd", entropy_regularization=1.0), gpvi(2, 3, ())):
        with pytest.raises(ValueError, match="takes no transform_func"):
            generator.train_step(None, energy, 6, transform_func=lambda x: (x, x, x))


def test_a_default_conditional_net_takes_nested_inputs() -> None:
    spec = {"a": TensorSpec((2,)), "b": TensorSpec((1,))}
    generator = Generator(2, 3, input_tensor_spec=spec, hidden_layers=(8,), par_vi="svgd", entropy_regularization=1.0)
    inputs = {"a": torch.randn(6, 2), "b": torch.randn(6, 1)}
    step = generator.train_step(inputs, lambda pair: energy(pair[0] - pair[1]["a"]))
    assert step.info.loss.shape == (6,)


def train_linear(steps: int, **settings: Any) -> Tensor:
    torch.manual_seed(0)
    net = settings.pop("net", None) or Linear()
    generator = Generator(
        2, net.input_tensor_spec.numel, net=net, optimizer=AdamTF(lr=settings.pop("lr", 2e-3)), **settings
    )
    for _ in range(steps):
        generator.update_with_gradient(generator.train_step(None, energy, batch_size=64).info)
    weight = (net.last if isinstance(net, ReluMLP) else net).weight.detach()
    return weight @ weight.t()


def test_a_generator_learns_a_gaussian() -> None:
    covariance = train_linear(300, par_vi="svgd3", entropy_regularization=1.0, lr=2e-2)
    torch.testing.assert_close(covariance, torch.diag(VARIANCES), atol=0.45, rtol=0)


def test_without_entropy_a_generator_collapses() -> None:
    assert train_linear(300, lr=2e-2).abs().max() < 0.2


@pytest.mark.learning
def test_a_conditional_generator_without_entropy_learns_the_mean() -> None:
    torch.manual_seed(0)
    net, truth = Conditional(), torch.tensor([[-0.3, 1.0], [1.0, 2.0]])
    generator = Generator(
        2,
        3,
        TensorSpec((2,)),
        net=net,
        par_vi="svgd",
        use_kernel_averager=True,
        optimizer=Adam(lr=2e-3),
    )
    for _ in range(2000):
        y = torch.randn(128, 2)
        info = generator.train_step(y, lambda pair: energy(pair[0] - pair[1] @ truth)).info
        generator.update_with_gradient(info)
    torch.testing.assert_close(net.mean.detach(), truth, atol=0.2, rtol=0)
    covariance = net.weight.detach() @ net.weight.detach().t()
    torch.testing.assert_close(covariance, torch.zeros(2, 2), atol=0.2, rtol=0)
