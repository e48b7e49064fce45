from functools import partial

import numpy as np
import pytest
import torch

from rein.algorithms.representation import (
    AutoEncoder,
    DiscreteVAE,
    MoNetAlgorithm,
    VariationalAutoEncoder,
    Vqvae,
)
from rein.algorithms.representation.pictures import reconstructions, slots, traversals, write_pictures
from rein.networks import EncodingNetwork, MoNetUNet, Network, SpatialBroadcastDecodingNetwork
from rein.networks.layers import Flatten, identity
from rein.specs import BoundedTensorSpec, TensorSpec

VECTOR, IMAGE = TensorSpec((4,)), TensorSpec((3, 8, 8))
LAYERS = partial(EncodingNetwork, last_activation=identity)


def vae():
    return AutoEncoder(VariationalAutoEncoder(2, VECTOR), partial(LAYERS, last_layer_size=4))


def discrete():
    encoder = DiscreteVAE(BoundedTensorSpec((5,), torch.int64, 0, 2), VECTOR, LAYERS)
    return AutoEncoder(encoder, partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=4))


def vq_vae():
    encoder = partial(LAYERS, last_layer_size=6, output_tensor_spec=TensorSpec((3, 2)))
    return Vqvae(VECTOR, 10, 2, encoder, partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=4))


def monet():
    return MoNetAlgorithm(
        3,
        4,
        IMAGE,
        partial(MoNetUNet, filters=(4, 4), nonskip_fc_layers=(8,)),
        partial(EncodingNetwork, conv_layer_params=((4, 3, 2),)),
        partial(SpatialBroadcastDecodingNetwork, conv_layer_params=((4, 3, 1), (4, 3, 1))),
    )


class Given(Network):
    def forward(self, inputs, state=()):
        return inputs, state


def test_reconstructions_stand_below_the_inputs():
    model = Vqvae(IMAGE.replace(shape=(2,)), 2, 2, Given, Given)
    with torch.no_grad():
        model.codebook.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    picture = reconstructions(model, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    # Two pixels of 24 each and a gap of 2 pixels, twice; rows of 24 and a gap, twice.
    assert picture.shape == (2 * 26 + 2, 2 * 50 + 2, 3)
    upper, lower = picture[2:26], picture[28:52]
    assert np.array_equal(upper, lower)
    assert upper[0, 2].tolist() == [0, 0, 0]
    assert upper[0, 49].tolist() == [255, 255, 255]
    assert upper[0, 52].tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    ("make", "rows", "columns"),
    [(vae, 2, 8), (discrete, 5, 3), (vq_vae, 3, 8)],
)
def test_each_part_of_a_code_has_a_row(make, rows, columns):
    picture = traversals(make(), torch.rand(1, 4))
    cell = (12 + 2, 48 + 2)
    assert picture.shape == (rows * cell[0] + 2, columns * cell[1] + 2, 3)


def test_only_one_part_changes():
    model = vae()
    seen = []
    decode = model.decode
    model.decode = lambda code: seen.append(code) or decode(code)
    x = torch.rand(1, 4)
    traversals(model, x, num_steps=3, span=1.0)
    code = model.encode(x)[0]
    first, second = seen[0].reshape(2, 3, 2)
    assert first[:, 0].tolist() == second[:, 1].tolist() == [-1, 0, 1]
    assert (first[:, 1] == code[1]).all()
    assert (second[:, 0] == code[0]).all()


def test_slots_show_masks_and_masked_images(tmp_path):
    model = monet()
    x = torch.rand(2, 3, 8, 8)
    picture = slots(model, x)
    # The image, its reconstruction, and two for each of three slots; 8 pixels of 6 each.
    assert picture.shape == (2 * 50 + 2, 8 * 50 + 2, 3)
    files = write_pictures(model, x, tmp_path)
    assert [file.name for file in files] == ["reconstructions.png", "traversals.png", "slots.png"]
    assert all(file.stat().st_size > 100 for file in files)
    files = write_pictures(vae(), torch.rand(3, 4), tmp_path / "vae")
    assert [file.name for file in files] == ["reconstructions.png", "traversals.png"]
