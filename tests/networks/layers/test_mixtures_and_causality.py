"""Layers that confs ask for: outer products, mixtures of layers, convolutions that see the past only."""

import pytest
import torch

from rein.networks import NetworkWrapper
from rein.networks.layers import CausalConv1D, CompositionalFC, NestOuterProduct, TransformerBlock, identity
from rein.specs import TensorSpec


def test_outer_product_by_hand() -> None:
    one, other = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0, 7.0]])
    assert NestOuterProduct()((one, other)).tolist() == [[3.0, 5.0, 7.0, 6.0, 10.0, 14.0]]
    padded = NestOuterProduct(padding=True)({"a": one, "b": other[:, :1]})
    assert padded.tolist() == [[3.0, 1.0, 6.0, 2.0, 3.0, 1.0]]
    assert NestOuterProduct(activation=torch.neg)(one).tolist() == [[-1.0, -2.0]]


def test_mixture_of_layers_by_hand() -> None:
    layer = CompositionalFC(2, 1, n=2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[1.0, 2.0]], [[10.0, 20.0]]]))
        assert layer.bias is not None
        layer.bias.copy_(torch.tensor([[0.5], [1.0]]))
    x, shares = torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    y, same = layer((x, shares))
    torch.testing.assert_close(y, torch.tensor([[3.5], [0.5 * 2.5 + 0.5 * 21.0]]))
    assert same is shares
    alone = CompositionalFC(2, 1, n=2, output_comp_weight=False)
    alone.load_state_dict(layer.state_dict())
    torch.testing.assert_close(alone(x), torch.tensor([[3.5 + 31.0], [2.5 + 21.0]]))


def test_causal_convolution_by_hand() -> None:
    layer = CausalConv1D(1, 1, kernel_size=2, activation=identity)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[10.0, 1.0]]]))
    x = torch.tensor([[[1.0, 2.0, 3.0]]])
    assert layer(x).tolist() == [[[1.0, 12.0, 23.0]]]
    hidden = CausalConv1D(1, 1, kernel_size=2, activation=identity, hide_current=True)
    hidden.load_state_dict(layer.state_dict())
    assert hidden(x).tolist() == [[[0.0, 1.0, 12.0]]]
    wide = CausalConv1D(1, 1, kernel_size=2, activation=identity, dilation=2)
    wide.load_state_dict(layer.state_dict())
    assert wide(x[0]).tolist() == [[1.0, 2.0, 13.0]]


@pytest.mark.parametrize("hide_current", [False, True])
def test_causal_convolution_never_sees_the_future(hide_current: bool) -> None:
    torch.manual_seed(0)
    layer = CausalConv1D(2, 3, kernel_size=3, dilation=2, hide_current=hide_current)
    x = torch.randn(4, 2, 9, requires_grad=True)
    layer(x)[:, :, 5].sum().backward()
    assert x.grad is not None
    seen = x.grad.abs().sum((0, 1)) > 0
    assert not seen[6:].any()
    assert bool(seen[5]) is not hide_current


def test_a_module_becomes_a_network() -> None:
    network = NetworkWrapper(torch.nn.Linear(3, 2), TensorSpec((3,)))
    assert network.output_spec == TensorSpec((2,))
    assert network.state_spec == ()
    output, state = network(torch.zeros(5, 3))
    assert (output.shape, state) == ((5, 2), ())


def test_the_hidden_layer_of_a_transformer_block_has_the_activation_that_was_asked_for() -> None:
    torch.manual_seed(0)
    block = TransformerBlock(4, 2, memory_size=3, activation=torch.tanh)
    memory = torch.randn(2, 3, 4)
    plain = TransformerBlock(4, 2, memory_size=3)
    plain.load_state_dict(block.state_dict())
    assert not torch.allclose(block(memory), plain(memory))
