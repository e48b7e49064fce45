"""Containers against the same thing written by hand."""

import pytest
import torch

from rein.networks import Branch, Delay, Echo, LSTMCell, NestConcat, Parallel, Sequential, layers
from rein.specs import TensorSpec

VECTOR = TensorSpec((3,))


def test_sequential_runs_elements_in_order():
    network = Sequential(layers.Scale(2.0), lambda x: x + 1, torch.relu, input_tensor_spec=VECTOR)
    assert network(torch.tensor([[1.0, -2.0, 0.0]]))[0].tolist() == [[3.0, 0.0, 1.0]]
    assert network.state_spec == ()
    assert network.output_spec == VECTOR


def test_sequential_with_names_as_in_the_documented_example():
    network = Sequential(
        predicted=layers.Scale(10.0),
        delayed=Delay(VECTOR),
        error=(("delayed", "input"), lambda xy: (xy[0] - xy[1]) ** 2),
        output={"error": "error", "prediction": "predicted"},
        input_tensor_spec=VECTOR,
    )
    output, state = network(torch.ones(1, 3))
    assert output["error"].tolist() == [[1.0] * 3]
    output, state = network(2 * torch.ones(1, 3), state)
    assert output["error"].tolist() == [[64.0] * 3]  # predicted 10, saw 2
    assert output["prediction"].tolist() == [[20.0] * 3]


def test_sequential_reads_fields_of_results():
    network = Sequential(
        both=Branch(a=layers.Scale(1.0), b=layers.Scale(2.0), input_tensor_spec=VECTOR),
        last=("both.b", layers.Scale(5.0)),
    )
    assert network(torch.ones(1, 3))[0].tolist() == [[10.0] * 3]
    assert network.input_tensor_spec == VECTOR


def test_states_are_kept_by_element():
    network = Sequential(layers.Scale(1.0), LSTMCell(3, 2), LSTMCell(2, 4), input_tensor_spec=VECTOR)
    assert network.state_spec[0] == ()
    assert network.state_spec[2] == (TensorSpec((4,)), TensorSpec((4,)))


def test_parallel_applies_each_to_its_part():
    network = Parallel({"a": layers.Scale(2.0), "b": NestConcat()}, {"a": VECTOR, "b": (VECTOR, VECTOR)})
    x = torch.ones(2, 3)
    output, _ = network({"a": x, "b": (x, 3 * x)})
    assert output["a"].sum().item() == 12.0
    assert output["b"].shape == (2, 6)


def test_echo_gives_back_part_of_the_output():
    spec = {"input": VECTOR, "echo": VECTOR}
    total = Sequential(layers.NestSum(), input_tensor_spec=spec)
    network = Echo(Branch(output=total, echo=total.copy(), input_tensor_spec=spec))
    state = ()
    for expected in (1.0, 2.0, 3.0):
        output, state = network(torch.ones(1, 3), state)
        assert output.tolist() == [[expected] * 3]
    assert network.state_spec[1] == VECTOR


def test_container_of_functions_is_unrolled_and_replicated():
    network = Sequential(lambda x: x.view(x.shape[0], -1) * 2, layers.FC(3, 2), input_tensor_spec=VECTOR)
    output, _ = network.unroll(torch.ones(2, 5, 3))
    assert output.shape == (2, 5, 2)
    assert network.make_parallel(2)(torch.ones(4, 3))[0].shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sequential(), "at least one element"),
        (lambda: Sequential(torch.relu), "give input_tensor_spec"),
        (lambda: Sequential(a=("b", torch.relu), input_tensor_spec=VECTOR), "asks for 'b'"),
        (lambda: Sequential(torch.relu, output="c", input_tensor_spec=VECTOR), "asks for 'c'"),
        (lambda: Sequential(input=torch.relu, input_tensor_spec=VECTOR), "may be called 'input'"),
        (lambda: Branch(torch.relu, b=torch.relu, input_tensor_spec=VECTOR), "all with or all without"),
        (lambda: Echo(LSTMCell(3, 3)), "'input' and 'echo'"),
        (
            lambda: Echo(Sequential(NestConcat(), input_tensor_spec={"input": VECTOR, "echo": VECTOR})),
            "must return a dict",
        ),
    ],
)
def test_impossible_containers_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_element_of_wrong_type_is_refused():
    with pytest.raises(TypeError, match="an element must be"):
        Sequential(3, input_tensor_spec=VECTOR)
