import numpy as np
import pytest
import torch

from rein.networks import (
    ActorDistributionNetwork,
    CriticNetwork,
    EncodingNetwork,
    LSTMEncodingNetwork,
    QNetwork,
    ValueNetwork,
    encoder_for,
    encoding_choices,
)
from rein.networks.layers.codes import Bits, OneHotCodes
from rein.networks.spec_encoders import shared_image_encoders
from rein.specs import BoundedTensorSpec, TensorSpec

CODES = np.broadcast_to(np.array([10, 5, 3]).reshape(3, 1, 1), (3, 7, 7))


def whole(shape, low, high, dtype=torch.int64):
    return BoundedTensorSpec(shape, dtype, low, high)


def image(*shape):
    return whole(shape, 0, 255, torch.uint8)


def encoded(spec, value):
    return encoder_for(spec)(torch.as_tensor(value, dtype=spec.dtype)[None])[0].tolist()


def test_float_vectors_are_left_alone():
    assert encoder_for(TensorSpec((3,))) is None
    assert encoder_for(BoundedTensorSpec((3,), torch.float32, 0, 255)) is None


def test_a_network_of_float_vectors_has_no_layers_more_than_it_was_given():
    network = ValueNetwork(TensorSpec((3,)), fc_layer_params=(4,))
    assert network.trunk.preprocessing is None
    assert [tuple(p.shape) for p in network.parameters()] == [(4, 3), (4,), (1, 4), (1,)]


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (TensorSpec(()), 0.5, [0.5]),
        (TensorSpec((2, 2)), [[1, 2], [3, 4]], [1, 2, 3, 4]),
        (whole((), 0, 2), 1, [0, 1, 0]),
        (whole((), -1, 1), -1, [1, 0, 0]),
        (whole((2,), 0, [1, 2]), [1, 2], [0, 1, 0, 0, 1]),
        (whole((2, 2), 0, [[0, 1], [2, 0]]), [[0, 1], [2, 0]], [1, 0, 1, 0, 0, 1, 1]),
        (whole((3,), 0, 1, torch.int8), [1, 0, 1], [1, 0, 1]),
        (BoundedTensorSpec((2,), torch.bool, 0, 1), [True, False], [1, 0]),
        (whole((2,), -4000, 4000, torch.int32), [2000, -4000], [0.5, -1]),
        (whole((2,), 0, 255, torch.uint8), [255, 51], [1, 0.2]),
        (TensorSpec((2,), torch.int64), [0, 1], [0, np.log(2)]),
        (whole((1,), -(2**31), 2**31 - 1, torch.int32), [-(2**31)], [-np.log1p(2.0**31)]),
    ],
)
def test_small_inputs_become_what_the_table_says(spec, value, expected):
    assert encoded(spec, value) == pytest.approx(expected)


def test_many_values_are_embedded():
    encoder = encoder_for(whole((), 10, 5009))
    assert encoder.choice == "embedding of 5000 values in 64"
    assert encoder(torch.tensor([10, 5009])).shape == (2, 64)


@pytest.mark.parametrize(
    ("spec", "choice"),
    [
        (image(3, 84, 84), "image 3 x 84 x 84, Nature CNN"),
        (image(84, 84, 4), "image 4 x 84 x 84, Nature CNN"),
        (image(84, 84), "image 1 x 84 x 84, Nature CNN"),
        (image(4, 36, 36, 3), "image 12 x 36 x 36, Nature CNN"),
        (image(16, 20, 3), "image 3 x 16 x 20, IMPALA CNN"),
        (TensorSpec((1, 12, 12)), "image 1 x 12 x 12, IMPALA CNN"),
        (image(7, 7, 3), "bits of 3 x 7 x 7 bytes"),
        (BoundedTensorSpec((3, 7, 7), torch.uint8, 0, CODES), "one-hot 21 x 7 x 7"),
        (BoundedTensorSpec((16, 16, 2), torch.uint8, 0, 4), "one-hot 10 x 16 x 16, IMPALA CNN"),
    ],
)
def test_images_of_any_layout_get_layers_of_their_size(spec, choice):
    encoder = encoder_for(spec)
    assert encoder.choice == choice
    inputs = spec.sample((2, 3))
    outputs = encoder(inputs)
    assert outputs.dtype == torch.float32
    assert outputs.shape[:2] == (2, 3)
    assert outputs.ndim == 3
    assert torch.allclose(outputs[1, 2], encoder(inputs[1:2, 2])[0], atol=1e-5)


def test_the_layout_of_an_image_does_not_matter():
    torch.manual_seed(0)
    first = encoder_for(image(3, 40, 44))
    torch.manual_seed(0)
    last = encoder_for(image(40, 44, 3))
    pixels = image(3, 40, 44).sample((2,))
    assert torch.allclose(first(pixels), last(pixels.permute(0, 2, 3, 1)), atol=1e-6)


def test_codes_of_grids_are_told_apart_however_they_are_declared():
    for spec in (image(7, 7, 3), BoundedTensorSpec((7, 7, 3), torch.uint8, 0, 10)):
        one, other = torch.full((1, 7, 7, 3), 4, dtype=torch.uint8), torch.full((1, 7, 7, 3), 5, dtype=torch.uint8)
        assert (encoder_for(spec)(one) - encoder_for(spec)(other)).abs().max() == 1


def test_bits_and_codes_by_hand():
    assert Bits()(torch.tensor([5], dtype=torch.uint8)).tolist() == [1, 0, 1, 0, 0, 0, 0, 0]
    codes = OneHotCodes([0, 1], [1, 3])
    assert codes.size == 5
    assert codes(torch.tensor([[1, 3], [0, 1]])).tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    with pytest.raises(ValueError, match="not limits"):
        OneHotCodes([2], [1])


def test_parts_of_a_nest_are_encoded_and_concatenated():
    spec = {"b": TensorSpec((2,)), "a": whole((), 0, 3)}
    network = EncodingNetwork(spec, fc_layer_params=(5,))
    assert network.preprocessing.output_spec == TensorSpec((6,))
    mixed = {"b": torch.tensor([[1.0, 2.0]]), "a": torch.tensor([2])}
    assert network.preprocessing(mixed).tolist() == [[0, 0, 1, 0, 1, 2]]
    assert encoding_choices(network) == {"a": "one-hot 4"}


def test_what_is_configured_keeps_its_meaning():
    with pytest.raises(ValueError, match="preprocessing_combiner such as NestConcat"):
        EncodingNetwork((TensorSpec((2,)), TensorSpec((2,))), input_preprocessors=(None, None), fc_layer_params=(4,))
    pixels = TensorSpec((3, 12, 12))
    own = EncodingNetwork(pixels, conv_layer_params=((4, 3, 2),), fc_layer_params=(4,))
    assert own.preprocessing is None
    assert encoding_choices(own) == {}
    assert EncodingNetwork(pixels).output_spec == pixels


@pytest.mark.parametrize(
    "spec",
    [
        whole((), 0, 4),
        whole((), 0, 2000),
        image(40, 40, 3),
        image(12, 12, 3),
        {"x": image(7, 7, 3), "y": TensorSpec(())},
    ],
    ids=str,
)
def test_all_kinds_of_networks_take_it_with_replicas_and_sequences(spec):
    from rein import nest

    action = BoundedTensorSpec((), torch.int64, 0, 2)
    batch = nest.map_structure(lambda one: one.sample((2,)), spec)
    for network in (
        ActorDistributionNetwork(spec, action, fc_layer_params=(4,)),
        QNetwork(spec, action),
        LSTMEncodingNetwork(spec, hidden_size=4),
    ):
        network(batch)
    critic = CriticNetwork((spec, whole((2,), 0, [1, 2])), joint_fc_layer_params=(4,))
    twins = critic.make_parallel(2)
    assert type(twins).__name__ == "ParallelNetwork"
    assert twins((batch, torch.tensor([[0, 1], [1, 2]])))[0].shape == (2, 2)


def test_images_are_encoded_once_for_several_networks():
    spec = {"image": image(3, 16, 16), "number": whole((), 0, 4), "vector": TensorSpec((2,))}
    networks = [ValueNetwork(spec, fc_layer_params=(4,)) for _ in range(2)]
    shared = shared_image_encoders(spec, networks)
    assert shared.output_spec == {**spec, "image": TensorSpec((256,))}
    assert encoding_choices(shared) == {"image": "image 3 x 16 x 16, IMPALA CNN"}
    assert shared_image_encoders({"number": spec["number"]}, [ValueNetwork(spec["vector"])]) is None
    floats = TensorSpec((3, 16, 16))
    told = ValueNetwork(floats, conv_layer_params=((4, 3, 1),), fc_layer_params=(4,))
    assert shared_image_encoders(floats, [told, ValueNetwork(floats, fc_layer_params=(4,))]) is None
