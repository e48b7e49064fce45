"""Representation learners that no agent takes as they are."""

import torch

from rein.algorithms.representation import DecodingAlgorithm
from rein.data_structures import LossInfo
from rein.networks import EncodingNetwork
from rein.networks.layers import identity
from rein.specs import TensorSpec
from tests.contract.world import Part, adam


def decoding() -> DecodingAlgorithm:
    sizes = {"fc_layer_params": (8,), "last_layer_size": 2, "last_activation": identity}
    algorithm = DecodingAlgorithm(EncodingNetwork(TensorSpec((3,)), **sizes))
    algorithm.add_optimizer(adam(), [algorithm._decoder])
    return algorithm


def decoding_losses(algorithm: DecodingAlgorithm) -> LossInfo:
    inputs = torch.linspace(-1, 1, 12).reshape(4, 3)
    return algorithm.calc_loss(algorithm.train_step((inputs, inputs[:, :2] ** 2)).info)


PARTS = {"decoding": Part(decoding, decoding_losses)}
