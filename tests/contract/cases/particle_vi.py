"""Particle inference: parts that learn from batches, with an energy or labelled examples."""

from typing import Any

import torch
from torch import Tensor

from rein.algorithms.particle_vi import (
    CriticAlgorithm,
    FuncParVIAlgorithm,
    Generator,
    HyperNetwork,
    InverseMVPAlgorithm,
    MIEstimator,
    ParVIAlgorithm,
)
from rein.data_structures import LossInfo
from rein.specs import TensorSpec
from tests.contract.world import Part, adam

X = torch.linspace(-1, 1, 24).reshape(8, 3)
Y = X @ torch.tensor([1.0, -2.0, 0.5])


def energy(x: Tensor) -> Tensor:
    return 0.5 * x.square().sum(-1)


def estimate(algorithm: MIEstimator) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step((X, Y[:, None])).info)


def particles(algorithm: ParVIAlgorithm) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step(energy).info)


def generate(algorithm: Generator) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step(None, energy, batch_size=8).info)


def regress(algorithm: Any) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step((X, Y)).info)


def functional() -> FuncParVIAlgorithm:
    return FuncParVIAlgorithm(
        input_tensor_spec=TensorSpec((3,)),
        output_dim=1,
        last_use_bias=False,
        loss_type="regression",
        num_particles=4,
        optimizer=adam(),
    )


def hypernetwork() -> HyperNetwork:
    return HyperNetwork(
        input_tensor_spec=TensorSpec((3,)),
        output_dim=1,
        last_use_bias=False,
        loss_type="regression",
        num_particles=8,
        noise_dim=3,
        hidden_layers=(8,),
        optimizer=adam(),
    )


PARTS = {
    "mi_estimator": Part(
        lambda: MIEstimator(TensorSpec((3,)), TensorSpec((1,)), fc_layers=(8,), sampler="shift", optimizer=adam()),
        estimate,
    ),
    "par_vi": Part(lambda: ParVIAlgorithm(2, 4, optimizer=adam()), particles),
    "generator": Part(
        lambda: Generator(2, 3, hidden_layers=(8,), par_vi="svgd3", entropy_regularization=1.0, optimizer=adam()),
        generate,
    ),
    "func_par_vi": Part(functional, regress),
    "hypernetwork": Part(hypernetwork, regress),
}

NOT_BUILT = {
    CriticAlgorithm: "trained by the algorithm that asks it for directions; tested in tests/algorithms/particle_vi",
    InverseMVPAlgorithm: "trained by the generator that asks it for products; tested in tests/algorithms/particle_vi",
}
