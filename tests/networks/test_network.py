"""The base class: checks of the input, specs, copies, singletons, hooks."""

import functools
import inspect
import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rein import nest
from rein.data_structures import StepType
from rein.networks import (
    EmbeddingPreprocessor,
    EncodingNetwork,
    LSTMEncodingNetwork,
    NaiveParallelNetwork,
    NestConcat,
    Network,
    ParallelNetwork,
    VmapParallelNetwork,
    layers,
    reset_state,
    reset_state_at_first,
)
from rein.networks.input_check import InputCheck
from rein.specs import BoundedTensorSpec, TensorSpec
from tests import tolerances

VECTOR = TensorSpec((3,))


def mlp(**kwargs) -> EncodingNetwork:
    return EncodingNetwork(VECTOR, fc_layer_params=(4,), **kwargs)


class Custom(Network):
    """A user's network: torch layers, dimensions counted from the front, a counter as its state."""

    def __init__(self, input_tensor_spec=VECTOR, size: int = 2, name: str = "Custom") -> None:
        super().__init__(input_tensor_spec, name=name)
        self.linear = nn.Linear(3, size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, inputs, state=()):
        count = state if nest.flatten(state) else torch.zeros(inputs.shape[0])
        y = self.linear(inputs.view(inputs.shape[0], -1)) * self.scale + count[:, None]
        return {"y": y}, count + 1


class Loopy(Custom):
    """One that torch.vmap cannot run."""

    def forward(self, inputs, state=()):
        bonus = 1.0 if inputs.sum().item() > 1e9 else 0.0
        return self.linear(inputs) + bonus, state


def test_wrong_shape_is_refused_with_both_shapes():
    with pytest.raises(ValueError, match=r"MyNet: the input has shape \(2, 5\).*expected shape.*\(3,\)"):
        mlp(name="MyNet")(torch.zeros(2, 5))


def test_wrong_shape_in_a_nest_is_refused_with_its_path():
    spec = {"a": VECTOR, "b": (VECTOR, TensorSpec((2,)))}
    network = EncodingNetwork(spec, preprocessing_combiner=NestConcat(), fc_layer_params=(4,))
    good = {"a": torch.zeros(2, 3), "b": (torch.zeros(2, 3), torch.zeros(2, 2))}
    network(good)
    with pytest.raises(ValueError, match=r"input 'b\.1' has shape \(2, 3\).*\(2,\)"):
        network({"a": torch.zeros(2, 3), "b": (torch.zeros(2, 3), torch.zeros(2, 3))})
    with pytest.raises(ValueError, match="not structured like input_tensor_spec"):
        network({"a": torch.zeros(2, 3)})
    with pytest.raises(ValueError, match="not structured like input_tensor_spec"):
        network(torch.zeros(2, 3))
    with pytest.raises(TypeError, match="input 'a' is a float"):
        network(good | {"a": 1.0})


def test_missing_batch_dimension_and_wrong_type_get_a_hint():
    with pytest.raises(ValueError, match="add a batch dimension"):
        mlp()(torch.zeros(3))
    with pytest.raises(ValueError, match=r"convert it with \.to\(torch\.float32\)"):
        mlp()(torch.zeros(2, 3, dtype=torch.float64))


def test_lower_precision_is_accepted_under_autocast():
    network = LSTMEncodingNetwork(VECTOR, pre_fc_layer_params=(4,), hidden_size=5)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = mlp()(torch.zeros(2, 3, dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16
    assert network(torch.zeros(2, 3))[0].dtype == torch.float32


def test_spec_must_hold_specs():
    with pytest.raises(TypeError, match="input_tensor_spec holds a int"):
        EncodingNetwork((3,), fc_layer_params=(4,))


def test_specs_of_a_users_network_are_found():
    network = Custom()
    assert network.output_spec == {"y": TensorSpec((2,))}
    assert network.state_spec == TensorSpec(())
    assert network.is_rnn
    assert not network.is_distribution_output
    assert network.get_initial_state(4).shape == (4,)


def test_given_state_spec_is_used():
    class Stateful(Network):
        def __init__(self) -> None:
            super().__init__(VECTOR, state_spec=TensorSpec((2,)))

        def forward(self, inputs, state=()):
            assert state.shape == (inputs.shape[0], 2)
            return inputs, state + 1

    assert Stateful().state_spec == TensorSpec((2,))
    assert Stateful().output_spec == VECTOR


def test_copy_takes_overrides_by_name_for_positional_arguments_too():
    network = EncodingNetwork(VECTOR, None, fc_layer_params=(4,))
    wider = network.copy(input_tensor_spec=TensorSpec((6,)), fc_layer_params=(5,))
    assert wider.output_spec == TensorSpec((5,))
    assert wider.input_tensor_spec == TensorSpec((6,))
    with pytest.raises(TypeError, match="unknown arguments"):
        network.copy(fc_layers=(5,))


def test_signature_is_that_of_the_constructor():
    names = list(inspect.signature(EncodingNetwork).parameters)
    assert names[:3] == ["input_tensor_spec", "output_tensor_spec", "input_preprocessors"]
    assert names[-1] == "name"


def test_copy_keeps_activations_and_copies_preprocessors():
    inner = mlp()
    outer = EncodingNetwork(VECTOR, input_preprocessors=inner, fc_layer_params=(4,))
    assert outer.preprocessing.preprocessors[0] is not inner
    assert outer.copy().preprocessing.preprocessors[0] is not outer.preprocessing.preprocessors[0]


def test_singleton_is_shared_by_all_copies():
    inner = mlp().singleton()
    outer = EncodingNetwork(VECTOR, input_preprocessors=inner, fc_layer_params=(4,))
    assert inner.copy() is inner
    assert outer.preprocessing.preprocessors[0] is inner
    assert outer.copy().preprocessing.preprocessors[0] is inner
    parallel = outer.make_parallel(3)
    assert any(module is inner for module in parallel.modules())
    assert parallel(torch.zeros(2, 3))[0].shape == (2, 3, 4)
    assert parallel(torch.zeros(2, 3, 3))[0].shape == (2, 3, 4)
    with pytest.raises(ValueError, match="singleton"):
        inner.copy(fc_layer_params=(5,))
    assert inner.singleton(False).copy() is not inner


def test_users_network_is_replicated_by_vmap():
    network = Custom()
    parallel = network.make_parallel(3)
    assert isinstance(parallel, VmapParallelNetwork)
    x = torch.randn(5, 3)
    output, state = parallel(x)
    output, state = parallel(x, state)
    assert output["y"].shape == (5, 3, 2)
    assert parallel.state_spec == TensorSpec((3,))
    for i in range(3):
        weight = parallel.tensors.get_parameter("linear/weight")[i]
        bias = parallel.tensors.get_parameter("linear/bias")[i]
        torch.testing.assert_close(output["y"][:, i], x @ weight.t() + bias + 1)
    output["y"].sum().backward()
    assert all(parameter.grad is not None for parameter in parallel.parameters())
    assert not torch.equal(weight, parallel.tensors.get_parameter("linear/weight")[0])
    clone = parallel.copy()
    clone.load_state_dict(parallel.state_dict())
    torch.testing.assert_close(clone(x)[0]["y"], parallel(x)[0]["y"])


def test_subclass_with_its_own_forward_is_not_trusted_to_take_more_dimensions():
    class Mine(EncodingNetwork):
        def forward(self, inputs, state=()):
            return super().forward(inputs.view(inputs.shape[0], -1), state)

    assert isinstance(Mine(VECTOR, fc_layer_params=(4,)).make_parallel(2), VmapParallelNetwork)
    assert isinstance(mlp().make_parallel(2), ParallelNetwork)


def test_what_vmap_cannot_run_is_replicated_one_by_one_with_a_warning():
    with pytest.warns(UserWarning, match="2 separate calls"):
        parallel = Loopy().make_parallel(2)
    assert isinstance(parallel, NaiveParallelNetwork)
    x = torch.randn(4, 3)
    output, _ = parallel(x)
    torch.testing.assert_close(output[:, 1], parallel.networks[1](x)[0])
    assert parallel(torch.randn(4, 2, 3))[0].shape == (4, 2, 2)


@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 2, 2, 3)])
def test_parallel_input_of_wrong_replicas_is_refused(shape):
    with pytest.raises(ValueError, match="neither"):
        mlp().make_parallel(2)(torch.zeros(shape))


@pytest.mark.parametrize("n", [0, -1, 2.0])
def test_impossible_number_of_replicas_is_refused(n):
    with pytest.raises(ValueError, match="positive int"):
        mlp().make_parallel(n)


def test_a_single_replica_has_its_own_parameters():
    network = mlp()
    parallel = ParallelNetwork([network])
    x = torch.randn(2, 3)
    torch.testing.assert_close(parallel(x)[0][:, 0], network(x)[0])
    torch.testing.assert_close(parallel.replica(0)(x)[0], network(x)[0])
    assert not {id(p) for p in parallel.parameters()} & {id(p) for p in network.parameters()}
    shared = mlp().singleton()
    outer = EncodingNetwork(VECTOR, input_preprocessors=shared, fc_layer_params=(4,))
    assert any(module is shared for module in outer.make_parallel(1).modules())


def test_networks_of_different_classes_are_not_stacked():
    with pytest.raises(TypeError, match="one class"):
        ParallelNetwork([mlp(), LSTMEncodingNetwork(VECTOR)])
    with pytest.raises(ValueError, match="at least one network"):
        ParallelNetwork([])


def test_hooks_are_called():
    network, calls = mlp(), []
    handle = network.register_forward_hook(lambda *_: calls.append("network"))
    network.layers.get_submodule("0").register_forward_pre_hook(lambda *_: calls.append("layer"))
    network(torch.zeros(2, 3))
    assert calls == ["layer", "network"]
    handle.remove()
    network(torch.zeros(2, 3))
    assert calls == ["layer", "network", "layer"]


def test_gradient_reaches_shared_and_own_inputs():
    parallel = mlp().make_parallel(2)
    for x in (torch.randn(4, 3), torch.randn(4, 2, 3)):
        x.requires_grad_()
        parallel(x)[0].square().sum().backward()
        assert x.grad is not None
        assert x.grad.abs().sum() > 0


def test_state_is_reset_at_first_steps():
    state = (torch.ones(3, 2), {"n": torch.ones(3, dtype=torch.int64)})
    step_type = torch.tensor([int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)])
    got = reset_state_at_first(state, step_type)
    assert got[0].tolist() == [[0, 0], [1, 1], [1, 1]]
    assert got[1]["n"].tolist() == [0, 1, 1]
    start = (torch.full((2,), 5.0), {"n": torch.tensor(7)})
    got = reset_state(state, torch.tensor([False, True, False]), start)
    assert got[0].tolist() == [[1, 1], [5, 5], [1, 1]]
    assert got[1]["n"].tolist() == [1, 7, 1]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_resets_equal_separate_sequences(data):
    batch, time = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    flags = data.draw(st.lists(st.booleans(), min_size=batch * time, max_size=batch * time))
    is_first = torch.tensor(flags).reshape(batch, time)
    torch.manual_seed(0)
    network = LSTMEncodingNetwork(VECTOR, hidden_size=(4, 3))
    x = torch.randn(batch, time, 3)
    got, _ = network.unroll(x, (), is_first)
    for b in range(batch):
        starts = sorted({0, *is_first[b].nonzero().flatten().tolist()})
        for begin, end in itertools.pairwise([*starts, time]):
            alone, _ = network.unroll(x[b : b + 1, begin:end])
            tolerances.assert_close(got[b : b + 1, begin:end], alone, **tolerances.sums_of(network, steps=time))


spec_leaves = st.builds(
    TensorSpec,
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from([torch.float32, torch.int64, torch.uint8]),
)
spec_nests = st.recursive(
    spec_leaves,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), children, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(spec_nests, st.integers(0, 5))
def test_input_check_accepts_exactly_what_fits(spec, which):
    check = InputCheck(spec, "net")
    good = nest.map_structure(lambda s: s.zeros((2,)), spec)
    check(good)
    leaves = nest.flatten(good)
    if leaves:
        index = which % len(leaves)
        leaves[index] = torch.cat([leaves[index].unsqueeze(-1)] * 4, -1)  # a last dimension no spec has
        path = nest.flatten_with_paths(good)[index][0]
        with pytest.raises(ValueError, match=re.escape(repr(path)) if path else "the input"):
            check(nest.pack_sequence_as(good, leaves))
    with pytest.raises(ValueError, match="not structured"):
        check((good, "extra") if not isinstance(spec, tuple) else [good])


def test_network_without_input_spec_says_how_to_get_specs():
    from rein.networks import Delay

    delay = Delay()
    assert delay(torch.ones(2, 3))[0].tolist() == [[0.0] * 3] * 2
    with pytest.raises(ValueError, match="copy\\(input_tensor_spec"):
        _ = delay.state_spec
    assert delay.copy(input_tensor_spec=VECTOR).state_spec == (VECTOR,)


def test_configured_defaults_survive_copies():
    network = functools.partial(EncodingNetwork, fc_layer_params=(4,), activation=torch.tanh)(VECTOR)
    assert network.copy().layers.get_submodule("0").activation is torch.tanh


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"fc_layer_params": (4, 0)}, "output_size must be a positive int, got 0"),
        ({"fc_layer_params": (4, 2.5)}, "output_size must be a positive int, got 2.5"),
        ({"last_layer_size": 3}, "must be given together"),
        ({"fc_layer_params": (4,), "output_tensor_spec": TensorSpec((3,))}, "do not make output_tensor_spec"),
        ({"conv_layer_params": ((4, 3, 1),)}, "must be one image"),
        ({"fc_layer_params": (4,), "use_fc_bn": True, "use_fc_ln": True}, "exclude each other"),
    ],
)
def test_layer_sizes_that_cannot_work_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        EncodingNetwork(VECTOR, **kwargs)


def test_inputs_that_need_preprocessing_are_refused_with_the_fix():
    with pytest.raises(ValueError, match="preprocessing_combiner such as NestConcat"):
        EncodingNetwork((VECTOR, VECTOR), input_preprocessors=(None, None), fc_layer_params=(4,))
    with pytest.raises(ValueError, match="EmbeddingPreprocessor"):
        EncodingNetwork(TensorSpec((3,), torch.int64), input_preprocessors=torch.abs, fc_layer_params=(4,))
    with pytest.raises(ValueError, match="conv_layer_params for an image"):
        EncodingNetwork(TensorSpec((3, 8, 8)), input_preprocessors=torch.abs, fc_layer_params=(4,))
    with pytest.raises(ValueError, match="not structured like"):
        EncodingNetwork((VECTOR, VECTOR), input_preprocessors=(None,), preprocessing_combiner=NestConcat())
    with pytest.raises(ValueError, match="has a state"):
        EncodingNetwork(VECTOR, input_preprocessors=LSTMEncodingNetwork(VECTOR))
    with pytest.raises(TypeError, match="must be a module"):
        EncodingNetwork(VECTOR, input_preprocessors=3)


def test_image_too_small_for_its_layers_is_refused():
    with pytest.raises(ValueError, match="smaller than the kernel"):
        EncodingNetwork(TensorSpec((1, 8, 8)), conv_layer_params=((4, 5, 2), (4, 5, 2)))
    with pytest.raises(ValueError, match="scale it to floats"):
        EncodingNetwork(TensorSpec((1, 8, 8), torch.uint8), conv_layer_params=((4, 5, 2),))


def test_preprocessor_may_cover_a_part_of_the_nest():
    spec = {"a": (VECTOR, VECTOR), "b": VECTOR}
    network = EncodingNetwork(
        spec,
        input_preprocessors={"a": NestConcat(), "b": layers.Detach()},
        preprocessing_combiner=NestConcat(),
        fc_layer_params=(4,),
    )
    b = torch.randn(2, 3, requires_grad=True)
    x = {"a": (torch.zeros(2, 3), torch.ones(2, 3)), "b": b}
    output, _ = network(x)
    assert output.shape == (2, 4)
    output.sum().backward()
    assert b.grad is None


@pytest.mark.parametrize(("lowest", "highest"), [(3, 5), (-5, -3), (-1, 1)])
def test_embedding_of_whole_numbers_that_do_not_start_at_zero(lowest, highest):
    spec = BoundedTensorSpec((), torch.int64, minimum=lowest, maximum=highest)
    embedding = EmbeddingPreprocessor(spec, 4)
    network = EncodingNetwork(spec, input_preprocessors=embedding, fc_layer_params=(2,))
    assert network.output_spec == TensorSpec((2,))
    rows = embedding(torch.arange(lowest, highest + 1))[0]
    assert torch.unique(rows, dim=0).shape[0] == 3
