"""HyperNetwork: sampling, data, weights of the entropy, batch normalization, and posteriors of linear regressions."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.particle_vi import HyperNetwork
from rein.optimizers import Adam
from rein.specs import TensorSpec


def relative_error(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def linear(size: int = 3, **settings: Any) -> HyperNetwork:
    arguments: dict[str, Any] = dict(
        input_tensor_spec=TensorSpec((size,)),
        output_dim=1,
        last_use_bias=False,
        hidden_layers=None,
        noise_dim=3,
        loss_type="regression",
        num_particles=16,
        optimizer=Adam(lr=1e-2),
    )
    return HyperNetwork(**{**arguments, **settings})


def test_networks_are_made_from_noise() -> None:
    torch.manual_seed(0)
    algorithm = linear()
    assert algorithm.num_particles == 16
    assert algorithm.sample_parameters().shape == (16, 3)
    assert algorithm.sample_parameters(num_particles=4).shape == (4, 3)
    noise = torch.randn(5, 3)
    params = algorithm.sample_parameters(noise)
    assert params.shape == (5, 3)
    x = torch.randn(7, 3)
    outputs = algorithm.predict_step(x, params).output
    torch.testing.assert_close(outputs.squeeze(-1), x @ params.t())
    assert algorithm.predict_step(x, num_particles=2).output.shape == (7, 2, 1)
    algorithm.set_num_particles(9)
    assert algorithm.predict_step(x).output.shape == (7, 9, 1)
    with pytest.raises(ValueError, match="at least 1"):
        algorithm.set_num_particles(0)


def test_the_weight_of_the_entropy_is_the_batchs_share_unless_given(regression: Any) -> None:
    task = regression()
    algorithm = linear(entropy_regularization=None)
    with pytest.raises(ValueError, match="needs training data"):
        algorithm.train_step((task.inputs, task.targets))
    algorithm.set_data_loader(task.loader(10))
    assert algorithm._entropy_regularization == pytest.approx(0.2)
    algorithm.set_data_loader(task.loader(10), entropy_regularization=0.7)
    assert algorithm._entropy_regularization == 0.7
    given = linear(entropy_regularization=0.4)
    given.set_data_loader(task.loader(25))
    assert given._entropy_regularization == 0.4


@pytest.mark.parametrize("weight", [0.0, 0.2])
@pytest.mark.parametrize("method", ["svgd", "svgd2", "gfsf", "minmax"])
def test_every_method_makes_a_pass(regression: Any, method: str, weight: float) -> None:
    torch.manual_seed(0)
    algorithm = linear(par_vi=method, critic_hidden_layers=(4,))
    algorithm.set_data_loader(regression().loader(10), entropy_regularization=weight)
    before = {name: p.detach().clone() for name, p in algorithm._generator._net.named_parameters()}
    assert algorithm.train_iter() == 5
    assert all(not torch.equal(p, before[name]) for name, p in algorithm._generator._net.named_parameters())
    assert len(algorithm.optimizers()) == 1


@pytest.mark.parametrize("method", ["svgd", "svgd2", "gfsf"])
def test_inference_on_outputs_makes_a_pass(regression: Any, method: str) -> None:
    algorithm = linear(par_vi=method, function_vi=True, function_bs=10)
    algorithm.set_data_loader(regression().loader(10), entropy_regularization=0.2)
    assert algorithm.train_iter(num_particles=8) == 5


def test_unfit_settings_are_refused() -> None:
    for settings in ({"par_vi": "minmax"}, {"par_vi": None}, {"functional_gradient": True}):
        with pytest.raises(ValueError, match="function_vi does not work with"):
            linear(function_vi=True, function_bs=10, **settings)
    with pytest.raises(ValueError, match="num_particles is 7, make it even"):
        linear(par_vi="svgd2", num_particles=7)
    with pytest.raises(ValueError, match="set generator_use_fc_bn=False"):
        linear(functional_gradient=True, generator_use_fc_bn=True)
    with pytest.raises(ValueError, match="lower noise_dim to 3 or less"):
        linear(functional_gradient=True, noise_dim=4)


def test_a_classifier_trains_and_is_evaluated_with_batch_normalization(blobs: Any) -> None:
    torch.manual_seed(0)
    algorithm = HyperNetwork(
        lambda: blobs(),
        lambda: blobs(shift=6.0),
        output_dim=3,
        fc_layer_params=(8,),
        noise_dim=4,
        hidden_layers=(16,),
        generator_use_fc_bn=True,
        entropy_regularization=None,
        optimizer=Adam(lr=1e-2),
    )
    for _ in range(25):
        algorithm.train_iter()
    algorithm._generator.train()
    numbers = algorithm.evaluate(num_particles=20)
    assert algorithm._generator.training
    assert numbers["test_acc"] > 0.9
    assert all(0 <= area <= 1 for area in algorithm.eval_uncertainty())
    bare = HyperNetwork(lambda: blobs(), output_dim=3)
    with pytest.raises(ValueError, match="there is no outlier data"):
        bare.eval_uncertainty()


def test_a_saved_hypernetwork_with_gpvi_goes_on_exactly(regression: Any) -> None:
    def build() -> HyperNetwork:
        algorithm = linear(
            5, functional_gradient=True, init_lambda=0.5, lambda_trainable=True, inverse_mvp_hidden_size=8
        )
        loader = regression(20, 5).loader(10)
        loader.sampler.generator = torch.Generator().manual_seed(3)  # type: ignore[attr-defined]
        algorithm.set_data_loader(loader, entropy_regularization=0.5)
        return algorithm

    torch.manual_seed(0)
    first, second = build(), build()
    first.train_iter()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for algorithm in (first, second):
        torch.manual_seed(1)
        algorithm.train_iter()
    for (name, one), (_, two) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        assert torch.equal(one, two), name


def moments(algorithm: HyperNetwork) -> tuple[Tensor, Tensor]:
    """Mean and covariance of what a linear generator makes."""
    generator = algorithm._generator
    net = generator._net
    layer = net.last if hasattr(net, "last") else net.layers._modules["0"]  # type: ignore[union-attr]
    weight, bias = layer.weight.detach(), layer.bias.detach()  # type: ignore[union-attr]
    if generator._adds_noise:
        padding = torch.zeros(weight.shape[0], weight.shape[0] - weight.shape[1])
        weight = torch.cat([weight, padding], 1) + generator._lambda().detach() * torch.eye(weight.shape[0])
    return bias, weight @ weight.t()


def test_a_linear_generator_follows_the_posterior(regression: Any) -> None:
    torch.manual_seed(0)
    task = regression()
    algorithm = linear(num_particles=32, optimizer=Adam(lr=5e-2))
    algorithm.set_data_loader(task.loader(10), entropy_regularization=0.2)
    for _ in range(100):
        algorithm.train_iter()
    bias, covariance = moments(algorithm)
    assert relative_error(bias, task.mean) < 0.05
    assert relative_error(covariance, task.covariance) < 0.6
