import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from rein.algorithms.representation import AutoEncoder, VAEInfo, VAEOutput, VariationalAutoEncoder
from rein.networks import EncodingNetwork, LSTMEncodingNetwork, NestConcat, Network
from rein.networks.layers import identity
from rein.optimizers import SGD, Adam
from rein.runtime.checkpoint import Checkpointer
from rein.specs import TensorSpec

X = TensorSpec((1,))


class Given(Network):
    """Gives what it gets."""

    def forward(self, inputs, state=()):
        return inputs, state


def transparent(**arguments):
    """Mean 2 x_0, log-variance 3 x_1 of an input of two numbers; z_dim 1."""
    vae = VariationalAutoEncoder(1, preprocess_network=Given(TensorSpec((2,))), **arguments)
    return with_weights(vae)


def with_weights(vae):
    with torch.no_grad():
        vae._z_mean.weight.copy_(torch.tensor([[2.0, 0.0]]))
        vae._z_log_variance.weight.copy_(torch.tensor([[0.0, 3.0]]))
    return vae


def test_the_code_and_its_kl_by_hand():
    vae = transparent(beta=0.5)
    x = torch.tensor([[1.0, 0.0], [0.5, 1.0], [0.0, 0.0]])
    torch.manual_seed(3)
    noise = torch.randn(3, 1)
    torch.manual_seed(3)
    step = vae.train_step(x)
    mean, log_variance = torch.tensor([[2.0], [1.0], [0.0]]), torch.tensor([[0.0], [3.0], [0.0]])
    std = (log_variance / 2).exp()
    assert isinstance(step.output, VAEOutput)
    assert isinstance(step.info, VAEInfo)
    torch.testing.assert_close(step.output.z_mode, mean)
    torch.testing.assert_close(step.output.z_std, std)
    torch.testing.assert_close(step.output.z, mean + std * noise)
    torch.testing.assert_close(step.info.z_std, std)
    # (4 + 1 - 1 - 0) / 2, (1 + e^3 - 1 - 3) / 2, and exactly 0
    assert step.info.kld.tolist() == pytest.approx([2.0, (math.exp(3) - 3) / 2, 0.0])
    torch.testing.assert_close(step.info.loss, 0.5 * step.info.kld)
    assert step.info.beta_loss == step.info.beta == step.state == ()


def test_all_steps_give_the_same():
    vae = VariationalAutoEncoder(2, TensorSpec((3,)))
    x = torch.randn(4, 3)
    steps = [vae.predict_step, vae.rollout_step, vae.train_step]
    modes = [step(x).output.z_mode for step in steps]
    assert all(torch.equal(mode, modes[0]) for mode in modes)
    assert vae.output_spec == TensorSpec((2,))


def test_with_a_prior_network_the_encoder_gives_residuals():
    prior = EncodingNetwork(TensorSpec((3,)), last_layer_size=4, last_activation=identity)
    vae = VariationalAutoEncoder(2, TensorSpec((5,)), z_prior_network=prior)
    condition, x = torch.randn(6, 3), torch.randn(6, 5)
    step = vae.train_step((condition, x))
    parameters = prior(condition)[0]
    features = vae._network((condition, x, parameters))[0]
    first = Normal(step.output.z_mode, step.output.z_std)
    second = Normal(parameters[:, :2], (parameters[:, 2:] / 2).exp())
    torch.testing.assert_close(step.output.z_mode, parameters[:, :2] + vae._z_mean(features))
    torch.testing.assert_close(step.info.kld, kl_divergence(first, second).sum(-1), rtol=1e-5, atol=1e-6)
    # The prior learns from the KL.
    (gradient,) = torch.autograd.grad(step.info.loss.sum(), [next(prior.parameters())])
    assert gradient.abs().sum() > 0


def test_the_default_network_takes_nests():
    spec = {"a": TensorSpec((2,)), "b": (TensorSpec((3,)), TensorSpec((1,)))}
    vae = VariationalAutoEncoder(4, spec)
    sizes = [tuple(p.shape) for p in vae._network.parameters() if p.ndim == 2]
    assert sizes == [(8, 6), (8, 8)]
    x = {"a": torch.zeros(7, 2), "b": (torch.zeros(7, 3), torch.zeros(7, 1))}
    assert vae.train_step(x).output.z.shape == (7, 4)


def test_beta_is_tuned_by_the_distance_to_the_target():
    vae = transparent(beta=2.0, target_kld_per_dim=1.5)
    info = vae.train_step(torch.tensor([[1.0, 0.0], [0.0, 0.0]])).info  # KL 2 and 0
    assert info.beta.tolist() == pytest.approx([2.0, 2.0])
    expected = [math.log(2) * (1.5 - 2.0), math.log(2) * 1.5]
    assert info.beta_loss.tolist() == pytest.approx(expected)
    assert info.loss.tolist() == pytest.approx([2 * 2.0 + expected[0], expected[1]])
    (gradient,) = torch.autograd.grad(info.loss.sum(), [vae._log_beta])
    assert gradient.item() == pytest.approx((1.5 - 2.0) + 1.5)


def test_the_optimizer_of_beta_has_it_alone():
    vae = VariationalAutoEncoder(2, X, beta=1.0, target_kld_per_dim=0.1, beta_optimizer=SGD(lr=0.5))
    model = AutoEncoder(vae, lambda spec: EncodingNetwork(spec, last_layer_size=1, last_activation=identity))
    (optimizer,) = vae.optimizers()
    assert [p is vae._log_beta for group in optimizer.param_groups for p in group["params"]] == [True]
    info = model.train_step(torch.full((4, 1), 100.0)).info
    assert info.extra.kld.mean() > 0.2
    model.update_with_gradient(model.calc_loss(info))
    assert vae.beta.item() > 1.0  # the KL is above its target


def test_a_fixed_beta_is_a_parameter_that_is_not_trained():
    vae = VariationalAutoEncoder(2, X, beta=0.0)
    assert isinstance(vae._log_beta, nn.Parameter)
    assert not vae._log_beta.requires_grad
    info = vae.train_step(torch.ones(3, 1)).info
    assert (info.loss == 0).all()
    assert torch.isfinite(torch.autograd.grad(info.loss.sum(), vae._z_mean.weight)[0]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(z_dim=2), "give input_tensor_spec, or a preprocess_network"),
        (dict(z_dim=0, input_tensor_spec=X), "z_dim is 0"),
        (dict(z_dim=2, input_tensor_spec=X, beta=0.0, target_kld_per_dim=1.0), "start from a small positive one"),
        (dict(z_dim=2, input_tensor_spec=X, beta=-1.0), "beta is -1.0"),
        (dict(z_dim=2, input_tensor_spec=X, target_kld_per_dim=-1.0), "must not be negative"),
        (
            dict(z_dim=2, input_tensor_spec=X, z_prior_network=EncodingNetwork(X, fc_layer_params=(3,))),
            "its last layer must have size 4",
        ),
        (dict(z_dim=2, preprocess_network=LSTMEncodingNetwork(X)), "has a state"),
        (dict(z_dim=2, preprocess_network=Given(TensorSpec((3, 4)))), "it must give one vector"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        VariationalAutoEncoder(**arguments)


def test_a_checkpoint_can_be_given(tmp_path):
    first = VariationalAutoEncoder(2, X)
    Checkpointer(tmp_path).save(1, {"vae": dict(first.state_dict())})
    second = VariationalAutoEncoder(2, X, checkpoint=f"vae@{tmp_path}/ckpt-1")
    assert torch.equal(first._z_mean.weight, second._z_mean.weight)


def linear_decoder(spec):
    return EncodingNetwork(spec, last_layer_size=1, last_activation=identity)


def test_it_learns_a_gaussian(fit):
    torch.manual_seed(0)
    model = AutoEncoder(VariationalAutoEncoder(2, X), linear_decoder, loss_weight=100.0, optimizer=Adam(lr=0.1))
    fit(model, torch.randn(10_000, 1), 100, 10)
    x = torch.randn(10, 1)
    assert (model.train_step(x).output - x).square().mean() < 0.02


def test_it_learns_a_gaussian_that_depends_on_a_condition(fit, conditional_data):
    torch.manual_seed(0)
    prior = EncodingNetwork(TensorSpec((2,)), fc_layer_params=(10, 10), last_layer_size=4, last_activation=identity)
    network = EncodingNetwork(
        (TensorSpec((2,)), X, prior.output_spec),
        preprocessing_combiner=NestConcat(),
        fc_layer_params=(10, 10),
        last_layer_size=2,
        last_activation=identity,
    )
    vae = VariationalAutoEncoder(2, preprocess_network=network, z_prior_network=prior)
    model = AutoEncoder(vae, linear_decoder, loss_weight=100.0, optimizer=Adam(lr=0.1))
    fit(model, conditional_data(10_000), 100, 10)
    condition, target = conditional_data(10)
    assert (model.train_step((condition, target)).output - target).square().mean() < 0.02


def test_the_kl_comes_to_its_target(fit):
    torch.manual_seed(0)
    vae = VariationalAutoEncoder(2, X, target_kld_per_dim=0.5, beta_optimizer=Adam(lr=0.05))
    model = AutoEncoder(vae, linear_decoder, optimizer=Adam(lr=0.01))
    data = torch.randn(4000, 1)
    fit(model, data, 200, 20)
    assert vae.train_step(data).info.kld.mean().item() == pytest.approx(1.0, rel=0.2)


def test_the_auto_encoder_by_hand():
    vae = transparent(beta=0.5)
    decoder = partial(EncodingNetwork, last_layer_size=2, last_activation=identity)
    model = AutoEncoder(vae, lambda spec: decoder(spec), loss_weight=3.0)
    x = torch.tensor([[1.0, 0.0], [0.5, 1.0]])
    torch.manual_seed(0)
    step = model.train_step(x)
    torch.manual_seed(0)
    z = vae.train_step(x)
    error = (model.decode(z.output.z) - x).square().mean(1)
    torch.testing.assert_close(step.info.extra.reconstruction, error)
    torch.testing.assert_close(step.info.loss, 3.0 * error + 0.5 * step.info.extra.kld)
    torch.testing.assert_close(model.encode(x), torch.tensor([[2.0], [1.0]]))
    torch.testing.assert_close(model.predict_step(x).output, model.decode(model.encode(x)))
    assert model.rollout_step(x).info == ()
    model.set_on_policy(True)
    assert model.rollout_step(x).info.loss.shape == (2,)
