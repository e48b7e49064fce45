import math
from functools import partial

import pytest
import torch

from rein.algorithms.representation import AutoEncoder, DiscreteVAE, VariationalAutoEncoder
from rein.networks import EncodingNetwork, NestConcat, Network
from rein.networks.layers import identity
from rein.optimizers import Adam
from rein.runtime.schedules import ConstantScheduler
from rein.specs import BoundedTensorSpec, TensorSpec

X = TensorSpec((1,))


def variables(number, categories):
    return BoundedTensorSpec((number,), torch.int64, 0, categories - 1)


class Given(Network):
    """Gives what it gets as logits, that of a triple the second."""

    def __init__(self, input_tensor_spec, last_layer_size, last_activation):
        super().__init__(input_tensor_spec, name="given")

    def forward(self, inputs, state=()):
        return inputs[1] if isinstance(inputs, tuple) else inputs, state


def transparent(number=2, categories=3, **arguments):
    """Its logits are its inputs."""
    spec = TensorSpec((number * categories,))
    return DiscreteVAE(variables(number, categories), spec, z_network_cls=Given, **arguments)


def test_the_code_is_one_hot_with_the_gradient_of_the_probabilities():
    vae = transparent()
    logits = torch.randn(5, 6, requires_grad=True)
    step = vae.train_step(logits)
    probabilities = logits.reshape(5, 2, 3).softmax(-1)
    for code in (step.output.z, step.output.z_mode):
        assert code.shape == (5, 2, 3)
        assert set(code.unique().tolist()) == {0.0, 1.0}
        assert (code.sum(-1) == 1).all()
        weight = torch.randn(5, 2, 3)
        (given,) = torch.autograd.grad((code * weight).sum(), logits, retain_graph=True)
        (expected,) = torch.autograd.grad((probabilities * weight).sum(), logits, retain_graph=True)
        torch.testing.assert_close(given, expected)
    assert torch.equal(step.output.z_mode.argmax(-1), probabilities.argmax(-1))
    assert step.output.z_std == step.info.z_std == ()
    assert isinstance(vae, VariationalAutoEncoder)


@pytest.mark.parametrize("mode", ["st", "st-gumbel"])
def test_samples_have_the_probabilities_of_the_logits(mode):
    torch.manual_seed(0)
    logits = torch.tensor([0.2, 0.3, 0.5]).log().repeat(2).expand(20_000, 6)
    code = transparent(mode=mode).train_step(logits).output.z
    torch.testing.assert_close(code.mean(0), torch.tensor([[0.2, 0.3, 0.5]] * 2), rtol=0, atol=0.02)


def test_kl_without_a_prior_goes_from_zero_to_the_whole_entropy():
    info = transparent(beta=0.5).train_step(torch.tensor([[0.0] * 6, [60.0, 0.0, 0.0, 0.0, 0.0, 60.0]])).info
    assert info.kld.tolist() == pytest.approx([0.0, 2 * math.log(3)], abs=1e-6)
    torch.testing.assert_close(info.loss, 0.5 * info.kld)


def test_with_a_prior_logits_are_residuals():
    prior = partial(Given)
    vae = transparent(prior_input_tensor_spec=TensorSpec((6,)), prior_z_network_cls=prior)
    condition, logits = torch.randn(4, 6), torch.randn(4, 6)
    kept = condition.clone()
    step = vae.train_step((condition, logits))
    assert torch.equal(condition, kept)
    total = (condition + logits).reshape(4, 2, 3)
    assert torch.equal(step.output.z_mode.argmax(-1), total.argmax(-1))
    posterior, before = total.log_softmax(-1), condition.reshape(4, 2, 3).log_softmax(-1)
    expected = (posterior.exp() * (posterior - before)).sum((1, 2))
    torch.testing.assert_close(step.info.kld, expected)
    assert vae.train_step((condition, torch.zeros(4, 6))).info.kld.abs().max() < 1e-6


class Falling(ConstantScheduler):
    """Another temperature at each call."""

    values = iter([1.0, 0.01])

    def __call__(self):
        return next(self.values)


def test_the_temperature_is_asked_for_at_each_call():
    vae = transparent(mode="st-gumbel", gumbel_temp_scheduler=Falling(1.0))
    logits = torch.zeros(50, 6, requires_grad=True)
    norms = []
    for _ in range(2):
        torch.manual_seed(0)
        code = vae.train_step(logits).output.z
        assert set(code.unique().tolist()) == {0.0, 1.0}
        (gradient,) = torch.autograd.grad(code[..., 0].sum(), logits)
        norms.append((gradient != 0).float().mean().item())
    assert norms[1] < norms[0]  # nearly one-hot, so that most gradients vanish


def test_beta_is_tuned_by_the_kl_of_all_variables():
    vae = transparent(beta=1.0, target_kld_per_categorical=0.25)
    info = vae.train_step(torch.zeros(3, 6)).info
    (gradient,) = torch.autograd.grad(info.loss.sum(), vae._log_beta)
    assert gradient.item() == pytest.approx(3 * 2 * 0.25)


def test_the_spec_of_the_code():
    vae = DiscreteVAE(variables(20, 2), X, partial(EncodingNetwork, fc_layer_params=(4,)))
    assert vae.output_spec == BoundedTensorSpec((20, 2), torch.float32, 0, 1)
    assert vae.train_step(torch.zeros(3, 1)).output.z.shape == (3, 20, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(z_spec=BoundedTensorSpec((), torch.int64, 0, 3)), "bounded vector of an integer type"),
        (dict(z_spec=BoundedTensorSpec((2,), torch.float32, 0, 3)), "bounded vector of an integer type"),
        (dict(z_spec=BoundedTensorSpec((2,), torch.int64, 1, 3)), "minimum 0"),
        (dict(z_spec=BoundedTensorSpec((2,), torch.int64, 0, [3, 4])), "the same maximum"),
        (dict(input_tensor_spec=None), "give input_tensor_spec"),
        (dict(mode="gumbel"), "one of st, st-gumbel"),
        (dict(gumbel_temp_scheduler=0.0), "it must be positive"),
        (dict(prior_z_network_cls=EncodingNetwork), "go together"),
        (dict(beta=0.0, target_kld_per_categorical=1.0), "start from a small positive one"),
        (dict(z_network_cls=lambda input_tensor_spec, **_: EncodingNetwork(X, fc_layer_params=(5,))), "gives 5 logits"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DiscreteVAE(**{"z_spec": variables(2, 3), "input_tensor_spec": X, **arguments})


FRESH = 10_000  # examples to test on: of a hundred, the few far from 0 decide


def layers(**arguments):
    return partial(EncodingNetwork, fc_layer_params=(256, 256, 256), activation=torch.tanh, **arguments)


def decoder(spec):
    return layers(input_preprocessors=lambda code: code.flatten(-2), last_layer_size=1, last_activation=identity)(spec)


@pytest.mark.learning
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "categories", "mode"),
    [(20, 2, "st"), (10, 4, "st"), (8, 20, "st"), (10, 3, "st"), (10, 3, "st-gumbel")],
)
def test_it_learns_a_gaussian(fit, number, categories, mode):
    torch.manual_seed(0)
    # A high temperature keeps the choices from becoming certain before the decoder can tell them apart.
    vae = DiscreteVAE(variables(number, categories), X, layers(), mode=mode, gumbel_temp_scheduler=2.0, beta=0.001)
    model = AutoEncoder(vae, decoder, optimizer=Adam(lr=1e-3))
    fit(model, torch.randn(40_000, 1), 200, 10)
    x = torch.randn(FRESH, 1)
    error = (model.predict_step(x).output - x).square().mean().item()
    sampled = (model.train_step(x).output - x).square().mean().item()
    print(f"{number} variables of {categories}, {mode}: {error:.4f} of the mode, {sampled:.4f} of a sample")
    assert sampled < 0.02


@pytest.mark.learning
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["st", "st-gumbel"])
def test_it_learns_a_gaussian_that_depends_on_a_condition(fit, conditional_data, mode):
    torch.manual_seed(0)
    vae = DiscreteVAE(
        variables(20, 2),
        X,
        layers(preprocessing_combiner=NestConcat()),
        prior_input_tensor_spec=TensorSpec((2,)),
        prior_z_network_cls=layers(),
        mode=mode,
        gumbel_temp_scheduler=2.0,
        beta=0.0001,
    )
    model = AutoEncoder(vae, decoder, optimizer=Adam(lr=1e-3))
    fit(model, conditional_data(40_000), 200, 20)
    condition, target = conditional_data(FRESH)
    error = (model.predict_step((condition, target)).output - target).square().mean().item()
    sampled = (model.train_step((condition, target)).output - target).square().mean().item()
    print(f"conditional, {mode}: {error:.4f} of the mode, {sampled:.4f} of a sample")
    assert sampled < 0.05
