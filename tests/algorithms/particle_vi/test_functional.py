"""Ensembles of networks: losses, outputs as particles, evaluation, and the posterior of a linear regression."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from rein import ops
from rein.algorithms.particle_vi import FuncParVIAlgorithm
from rein.algorithms.particle_vi.data_sources import digits
from rein.algorithms.particle_vi.function_ensemble import FunctionSpace
from rein.algorithms.particle_vi.likelihoods import classification_loss, regression_loss
from rein.networks import ParamNetwork
from rein.optimizers import Adam
from rein.runtime import summary
from rein.runtime.run import Run
from rein.runtime.writers import create_summary_writer
from rein.specs import TensorSpec


def relative_error(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def linear(**settings: Any) -> FuncParVIAlgorithm:
    arguments: dict[str, Any] = dict(
        input_tensor_spec=TensorSpec((3,)), output_dim=1, last_use_bias=False, loss_type="regression", num_particles=4
    )
    return FuncParVIAlgorithm(**{**arguments, **settings})


def test_likelihoods_by_hand() -> None:
    outputs = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]])
    info = regression_loss(outputs, torch.tensor([0.0, 4.0]))
    torch.testing.assert_close(info.loss, torch.tensor([0.5 * (1 + 1), 0.5 * (4 + 1)]))
    logits = torch.log(torch.tensor([[[0.25, 0.75]], [[0.5, 0.5]]]))
    info = classification_loss(logits, torch.tensor([1, 0]))  # one network
    torch.testing.assert_close(info.loss, torch.tensor([-math.log(0.75) - math.log(0.5)]))
    assert info.extra.item() in (0.5, 1.0)
    with pytest.raises(ValueError, match="labels go from 1 to 2 and there are 2 outputs"):
        classification_loss(logits, torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="do not fit outputs"):
        regression_loss(outputs, torch.zeros(2, 3))


def test_cross_entropies_of_many_networks_and_their_gradients() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 5, 4).transpose(0, 1).requires_grad_()  # [B=5, N=3, C=4], as networks give them
    labels = torch.tensor([3, 0, 1, 1, 2])
    loss = classification_loss(logits, labels).loss
    (found,) = torch.autograd.grad((loss * torch.tensor([1.0, 2.0, 3.0])).sum(), logits)
    is_right = torch.nn.functional.one_hot(labels, 4).unsqueeze(1)
    weights = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1)
    torch.testing.assert_close(found, weights * (logits.softmax(-1) - is_right))
    for member in range(3):
        alone = torch.nn.functional.cross_entropy(logits[:, member], labels, reduction="sum")
        torch.testing.assert_close(loss[member], alone)


def test_networks_start_as_independent_draws() -> None:
    torch.manual_seed(0)
    algorithm = FuncParVIAlgorithm(
        input_tensor_spec=TensorSpec((4,)), output_dim=2, fc_layer_params=(300,), num_particles=20
    )
    first_layer = algorithm.particles.detach()[:, :1200]
    reference = ParamNetwork(TensorSpec((4,)), fc_layer_params=(300,), last_layer_size=2)._params[:, :1200]
    assert first_layer.std().item() == pytest.approx(reference.std().item(), rel=0.1)
    assert not torch.equal(first_layer[0], first_layer[1])
    assert algorithm.predict_step(torch.randn(5, 4)).output.shape == (5, 20, 2)


def test_parameters_as_particles_follow_the_formula() -> None:
    torch.manual_seed(0)
    algorithm = linear(par_vi="svgd", entropy_regularization=0.2)
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    (gradient,) = torch.autograd.grad(algorithm.train_step((x, y)).info.loss.sum(), algorithm.particles)
    particles = algorithm.particles.detach()
    slope = (particles @ x.t() - y.t()) @ x
    torch.testing.assert_close(gradient, ops.svgd_direction(particles, slope, 0.2), rtol=1e-4, atol=1e-4)
    masked = algorithm.train_step((x, y), loss_mask=torch.tensor([1.0, 0.0, 0.0, 0.0])).info.loss
    assert (masked[1:] == 0).all()


def test_outputs_as_particles_follow_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    algorithm = linear(par_vi="svgd", entropy_regularization=0.2, function_vi=True, function_bs=6)
    assert algorithm._function_space == FunctionSpace(6, 0.1, "uniform", 1.0)
    assert algorithm._function_space.extra_points == 1  # ceil(0.6)
    x, y, noise = torch.randn(6, 3), torch.randn(6, 1), torch.rand(1, 3)
    monkeypatch.setattr(torch, "rand_like", lambda rows: noise)
    (gradient,) = torch.autograd.grad(algorithm.train_step((x, y)).info.loss.sum(), algorithm.particles)
    particles = algorithm.particles.detach()
    points = torch.cat([x, x[-1:] + noise])
    outputs = particles @ points.t()
    kernel, repulsion = ops.rbf_kernel_and_gradient(outputs, outputs)
    expected = kernel.t() @ (outputs[:, :6] - y.t()) @ x / 4 - 0.2 * repulsion @ points / 4
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4)


def test_normal_noise_has_the_given_deviation() -> None:
    torch.manual_seed(0)
    space = FunctionSpace(400, 1.0, "normal", 0.5)
    assert space.draw(torch.zeros(500, 3)).std().item() == pytest.approx(0.5, rel=0.1)
    assert space.draw(torch.zeros(10, 3)).shape == (10, 3)


def test_a_pass_trains_and_evaluation_returns_numbers_and_summaries(blobs: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    algorithm = FuncParVIAlgorithm(
        lambda: blobs(),
        lambda: blobs(shift=6.0),
        fc_layer_params=(16,),
        output_dim=3,
        entropy_regularization=None,
        optimizer=Adam(lr=3e-2),
    )
    assert algorithm._entropy_regularization == pytest.approx(16 / 48)
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        assert [algorithm.train_iter() for _ in range(15)] == [3] * 15
        numbers = algorithm.evaluate()
        areas = algorithm.eval_uncertainty()
        writer.flush()
    assert numbers["test_acc"] > 0.95
    assert numbers["member_acc"] > 0.9
    assert 0 <= numbers["calibration_error"] < 0.3
    assert all(0.0 <= area <= 1.0 for area in areas)
    text = "".join(file.read_text() for file in tmp_path.glob("**/*.jsonl"))
    for name in ("train_epoch/neglogprob", "train_epoch/avg_acc", "eval/test_acc", "eval/auroc_variance"):
        assert json.dumps(name) in text
    assert not algorithm.particles.grad_fn


def test_evaluation_of_a_regression_is_that_of_the_mean_prediction(regression: Any) -> None:
    task = regression()
    algorithm = linear(par_vi=None)
    algorithm.set_data_loader(task.loader(10), DataLoader(TensorDataset(task.inputs, task.targets), 7))
    mean = algorithm.predict_step(task.inputs).output.mean(1)
    expected = 0.5 * (mean - task.targets).square().sum().item()
    assert algorithm.evaluate()["test_loss"] == pytest.approx(expected, rel=1e-5)


def test_the_output_size_is_the_given_one_then_that_of_the_data(blobs: Any) -> None:
    assert FuncParVIAlgorithm(lambda: blobs(), num_train_classes=5)._param_net.output_dim == 5
    train, test = blobs()
    train.dataset.classes = ["a", "b", "c"]
    algorithm = FuncParVIAlgorithm(lambda: (train, test), num_train_classes=5)
    assert algorithm._param_net.output_dim == 3
    assert algorithm._param_net.input_tensor_spec == TensorSpec((2,))
    assert FuncParVIAlgorithm(lambda: (train, test), output_dim=1)._param_net.output_dim == 1


def test_data_that_is_missing_or_unfit_is_refused_with_the_fix(blobs: Any) -> None:
    algorithm = linear()
    with pytest.raises(ValueError, match=r"there is no training data: give data_creator, or call set_data_loader\(\)"):
        algorithm.train_iter()
    with pytest.raises(ValueError, match="without labels"):
        algorithm.set_data_loader(DataLoader(TensorDataset(torch.zeros(4, 3)), 2))
    unlabelled = DataLoader(TensorDataset(torch.zeros(4, 3)), 2)
    with pytest.raises(ValueError, match="outlier_data_loaders gives tuple without labels"):
        algorithm.set_data_loader(*blobs(), (unlabelled, unlabelled))
    with pytest.raises(ValueError, match="give data_creator, or input_tensor_spec and output_dim"):
        FuncParVIAlgorithm()
    classifier = FuncParVIAlgorithm(lambda: blobs(), output_dim=3)
    with pytest.raises(ValueError, match="there is no outlier data: give data_creator_outlier"):
        classifier.eval_uncertainty()
    single = FuncParVIAlgorithm(lambda: blobs(), lambda: blobs(3.0), output_dim=3, num_particles=1)
    single.train_iter()
    with pytest.raises(ValueError, match="num_particles > 1"):
        single.eval_uncertainty()


@pytest.mark.parametrize("method", ["minmax", None])
def test_function_space_is_refused_for_methods_that_cannot_do_it(method: str | None) -> None:
    with pytest.raises(ValueError, match="choose one of"):
        linear(par_vi=method, function_vi=True, function_bs=10)
    with pytest.raises(ValueError, match="give function_bs"):
        linear(par_vi="svgd", function_vi=True)
    with pytest.raises(ValueError, match="function_extra_bs_sampler is 'beta'"):
        linear(par_vi="svgd", function_vi=True, function_bs=4, function_extra_bs_sampler="beta")
    with pytest.raises(ValueError, match="loss_type is 'ranking'"):
        linear(loss_type="ranking")
    with pytest.raises(ValueError, match="voting is 'loud'"):
        linear(voting="loud")


def test_images_pass_through_convolutions() -> None:
    torch.manual_seed(0)

    def data() -> Any:
        images, labels = torch.rand(16, 1, 12, 12), torch.randint(0, 3, (16,))
        return (DataLoader(TensorDataset(images, labels), 8),) * 2

    algorithm = FuncParVIAlgorithm(
        data,
        data,
        output_dim=3,
        conv_layer_params=((4, 3, 1, 0, 2), (6, 3, 1)),
        fc_layer_params=(8,),
        num_particles=3,
        optimizer=Adam(lr=1e-3),
    )
    assert algorithm.train_iter() == 2
    assert set(algorithm.evaluate()) == {"test_loss", "test_acc", "member_acc", "test_nll", "calibration_error"}
    assert all(0 <= area <= 1 for area in algorithm.eval_uncertainty())


def fit(task: Any, steps: int, **settings: Any) -> FuncParVIAlgorithm:
    torch.manual_seed(0)
    algorithm = linear(num_particles=32, function_bs=10, **settings)
    algorithm.set_data_loader(task.loader(10), entropy_regularization=10 / 50)
    for _ in range(steps // 5):
        algorithm.train_iter()
    return algorithm


def test_the_ensemble_follows_the_posterior_of_a_regression(regression: Any) -> None:
    task = regression()
    particles = fit(task, 600, par_vi="svgd", optimizer=Adam(lr=5e-2)).particles.detach()
    assert relative_error(particles.mean(0), task.mean) < 0.02
    assert relative_error(torch.cov(particles.t()), task.covariance) < 0.6


def test_a_validation_split_of_the_digits_leaves_the_test_images_alone() -> None:
    pytest.importorskip("sklearn")
    train, test = digits(as_images=False)
    smaller, held_back = digits(as_images=False, validation_split=100)
    _, others = digits(as_images=False, validation_split=101)

    def rows(loader: Any) -> list[tuple[float, ...]]:
        return [tuple(row) for row in loader.dataset.tensors[0].tolist()]

    assert len(held_back.dataset) == len(test.dataset) == 359  # type: ignore[arg-type]
    assert sorted(rows(smaller) + rows(held_back)) == sorted(rows(train))
    assert sorted(rows(held_back)) != sorted(rows(others))
