"""Rewards for disagreement: their formula, the direction of learning, and that data makes them vanish."""

import pytest
import torch
from torch import Tensor

from rein import ops
from rein.algorithms.particle_vi import EnsembleUncertaintyAlgorithm
from rein.algorithms.particle_vi.ensemble_uncertainty import EnsembleUncertaintyInfo
from rein.data_structures import TimeStep, transition
from rein.networks import EncodingNetwork
from rein.networks.layers import identity
from rein.optimizers import Adam
from rein.specs import TensorSpec

SPEC = TensorSpec((2,))


def make(**settings: object) -> EnsembleUncertaintyAlgorithm:
    encoder = EncodingNetwork(SPEC, last_layer_size=6, last_activation=identity)
    algorithm = EnsembleUncertaintyAlgorithm(
        encoder,
        SPEC,
        num_networks=4,
        hidden_layers=(16,),
        output_dim=3,
        **settings,  # type: ignore[arg-type]
    )
    algorithm.set_on_policy(True)
    return algorithm


def seen(observation: Tensor) -> TimeStep:
    return transition(observation, torch.zeros(len(observation), 1), torch.zeros(len(observation)))


def test_the_reward_is_the_variance_of_the_predictions() -> None:
    torch.manual_seed(0)
    algorithm, feature = make(), torch.randn(5, 6)
    predictions = torch.stack(
        [algorithm._predict(row.unsqueeze(0), feature).squeeze(1) for row in algorithm._particles.detach()], 1
    )
    torch.testing.assert_close(algorithm.uncertainty(feature), predictions.var(1).sum(-1))
    step = algorithm.rollout_step(seen(torch.randn(5, 2)))
    assert step.output.shape == (5,)
    assert not step.output.requires_grad
    assert step.info.feature.shape == (5, 6)
    assert algorithm.predict_step(seen(torch.randn(5, 2))).output == ()


def test_learning_follows_stein_variational_gradient_descent() -> None:
    torch.manual_seed(0)
    algorithm, feature = make(entropy_regularization=0.1), torch.randn(2, 3, 6)
    loss = algorithm.calc_loss(EnsembleUncertaintyInfo(feature))
    (gradient,) = torch.autograd.grad(loss.scalar_loss, algorithm._particles)
    flat = feature.flatten(0, 1)
    point = algorithm._particles.detach().clone().requires_grad_()
    error = algorithm._predict(point, flat) - algorithm._target_net(flat)[0].unsqueeze(1)
    (slope,) = torch.autograd.grad(0.5 * error.square().sum(-1).mean(0).sum(), point)
    torch.testing.assert_close(gradient, ops.svgd_direction(point.detach(), slope, 0.1) / 4)


def test_disagreement_vanishes_where_there_is_data_and_stays_elsewhere() -> None:
    torch.manual_seed(0)
    algorithm = make(optimizer=Adam(lr=1e-2), entropy_regularization=1e-4)
    known, strange = torch.randn(64, 6), 6.0 * torch.randn(64, 6)
    before = algorithm.uncertainty(known).mean()
    for _ in range(300):
        algorithm.update_with_gradient(algorithm.calc_loss(EnsembleUncertaintyInfo(known.unsqueeze(0))))
    after = algorithm.uncertainty(known).mean()
    assert after < 0.2 * before
    assert algorithm.uncertainty(strange).mean() > 5 * after


def test_only_the_ensemble_is_trained_and_one_network_is_refused() -> None:
    algorithm = make(optimizer=Adam(lr=1e-2))
    trained = [p for o in algorithm.optimizers() for g in o.param_groups for p in g["params"]]
    assert len(trained) == 1
    assert trained[0] is algorithm._particles
    encoder = EncodingNetwork(SPEC, last_layer_size=6, last_activation=identity)
    with pytest.raises(ValueError, match="at least two"):
        EnsembleUncertaintyAlgorithm(encoder, num_networks=1)
