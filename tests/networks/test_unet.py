import pytest
import torch

from rein.networks import MoNetUNet
from rein.specs import TensorSpec


@pytest.mark.parametrize("side", [16, 32, 64])
def test_the_output_has_the_size_of_the_image(side):
    network = MoNetUNet(TensorSpec((3, side, side)), (4, 6, 8), (12, 10), 5)
    assert network.output_spec == TensorSpec((5, side, side))
    x = torch.randn(2, 3, side, side)
    embedding, skips = network.encode(x)
    assert network.encoding_dim == 10
    assert embedding.shape == (2, 10)
    assert [tuple(skip.shape[1:]) for skip in skips] == [
        (4, side, side),
        (6, side // 2, side // 2),
        (8, side // 4, side // 4),
    ]
    assert torch.equal(network.decode(embedding, skips), network(x)[0])


def test_sides_may_differ_and_one_filter_keeps_the_size():
    assert MoNetUNet(TensorSpec((1, 8, 12)), (2, 2, 2), (4,), 2).output_spec == TensorSpec((2, 8, 12))
    assert MoNetUNet(TensorSpec((1, 5, 7)), (2,), (4,), 2).output_spec == TensorSpec((2, 5, 7))


def test_every_parameter_matters():
    network = MoNetUNet(TensorSpec((3, 8, 8)), (4, 6), (12,), 2)
    network(torch.randn(2, 3, 8, 8))[0].square().sum().backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not silent
    assert all(block.conv.bias is None for block in [*network.down, *network.up])


def test_images_are_normalized_one_by_one():
    network = MoNetUNet(TensorSpec((3, 8, 8)), (4, 6), (12,), 2)
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(network(x)[0][:1], network(x[:1])[0])


@pytest.mark.parametrize(
    ("shape", "filters", "layers", "message"),
    [
        ((3, 18, 16), (4, 4, 4), (8,), "multiples of 4"),
        ((3, 16, 18), (4, 4, 4), (8,), "multiples of 4"),
        ((3, 16, 16), (), (8,), "give both"),
        ((3, 16, 16), (4,), (), "give both"),
        ((3, 4, 4), (4, 4, 4), (8,), "leave one pixel"),
        ((16, 16), (4,), (8,), "one image"),
    ],
)
def test_bad_sizes_are_refused(shape, filters, layers, message):
    with pytest.raises(ValueError, match=message):
        MoNetUNet(TensorSpec(shape), filters, layers, 2)
