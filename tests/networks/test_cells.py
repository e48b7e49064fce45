"""Recurrent networks take any cell: what they remember is that cell's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.networks import (
    ActorDistributionRNNNetwork,
    ActorRNNNetwork,
    CriticRNNNetwork,
    GRUCell,
    LSTMEncodingNetwork,
    Network,
    QRNNNetwork,
    ResidualCell,
    TransformerCell,
    ValueRNNNetwork,
    layers,
)
from rein.specs import BoundedTensorSpec, TensorSpec

VECTOR = TensorSpec((3,))
ACTION = BoundedTensorSpec((2,), minimum=-1, maximum=1)
CHOICE = BoundedTensorSpec((), torch.int64, 0, 2)
NETWORKS: dict[str, Callable[..., Network]] = {
    "actor": partial(ActorRNNNetwork, VECTOR, ACTION),
    "policy": partial(ActorDistributionRNNNetwork, VECTOR, ACTION),
    "critic": partial(CriticRNNNetwork, (VECTOR, ACTION)),
    "value": partial(ValueRNNNetwork, VECTOR),
    "q": partial(QRNNNetwork, VECTOR, CHOICE),
}


def shapes(network: Network) -> Any:
    return nest.map_structure(lambda spec: tuple(spec.shape), network.state_spec)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_state_is_that_of_the_cells(name: str) -> None:
    make = partial(NETWORKS[name], lstm_hidden_size=(4, 6))
    assert shapes(make()) == (((4,), (4,)), ((6,), (6,)))
    assert shapes(make(cell=layers.LSTMLayer)) == shapes(make())
    assert shapes(make(cell=layers.GRULayer)) == (((4,),), ((6,),))
    assert shapes(make(cell=GRUCell)) == (((4,),), ((6,),))
    assert shapes(make(cell=ResidualCell)) == ((4,), (6,))
    attention = shapes(make(cell=partial(TransformerCell, num_attention_heads=2, memory_size=3)))
    assert [(state.memory, state.length) for state in attention] == [((1, 3, 4), ()), ((1, 3, 6), ())]


def test_a_layer_and_the_network_of_it_are_the_same_cell() -> None:
    networks = []
    for cell in (layers.GRULayer, GRUCell):
        torch.manual_seed(0)
        networks.append(ValueRNNNetwork(VECTOR, lstm_hidden_size=5, cell=cell))
    x = torch.randn(2, 4, 3)
    is_first = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1]]).bool()
    first, second = (network.unroll(x, (), is_first)[0] for network in networks)
    assert torch.equal(first, second)


def test_a_residual_cell_adds_a_function_of_output_and_input_to_the_output() -> None:
    cell = ResidualCell(1, 2, layer_size=1, activation=torch.relu)
    with torch.no_grad():
        cell.layer.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
        cell.change.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    assert cell(torch.tensor([[1.0]]))[0].tolist() == [[3.0, -3.0]]  # from zeros: relu(3 x) is added
    output, state = cell(torch.tensor([[1.0]]), torch.tensor([[1.0, 0.5]]))
    assert output.tolist() == [[1.0 + 5.0, 0.5 - 5.0]]  # relu(1 + 2 * 0.5 + 3)
    assert torch.equal(output, state)
    outputs, _ = cell.unroll(torch.tensor([[[1.0], [-9.0]]]))
    assert outputs.tolist() == [[[3.0, -3.0], [3.0, -3.0]]]  # relu(3 - 6 - 27) adds nothing


def test_the_default_draws_what_an_encoding_with_lstm_draws() -> None:
    torch.manual_seed(0)
    value = ValueRNNNetwork(VECTOR, fc_layer_params=(4,), lstm_hidden_size=5, value_fc_layer_params=(6,))
    torch.manual_seed(0)
    encoding = LSTMEncodingNetwork(VECTOR, pre_fc_layer_params=(4,), hidden_size=5, post_fc_layer_params=(6,))
    drawn = dict(encoding.named_parameters())
    assert drawn
    for name, parameter in drawn.items():
        assert torch.equal(parameter, value.trunk.get_parameter(name)), name


def test_attention_sees_as_many_steps_as_its_memory_holds() -> None:
    torch.manual_seed(0)
    cell = TransformerCell(3, 4, num_attention_heads=2, memory_size=2)
    x = torch.randn(1, 5, 3)
    outputs, _ = cell.unroll(x)
    for changed, sees in ((0, False), (1, False), (2, True), (3, True), (4, True)):
        other = x.clone()
        other[:, changed] += 1.0
        assert torch.equal(cell.unroll(other)[0][:, 4], outputs[:, 4]) is not sees, changed


def test_attention_says_which_sizes_do_not_fit() -> None:
    with pytest.raises(ValueError, match="hidden_size 5 is not a multiple of num_attention_heads 4"):
        ValueRNNNetwork(VECTOR, lstm_hidden_size=5, cell=TransformerCell)
