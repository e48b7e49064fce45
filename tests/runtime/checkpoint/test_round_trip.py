"""What is loaded is what was saved: the same types, bit for bit."""

import math
import random
import struct
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from rein.runtime.checkpoint import Checkpointer, restore_like, tensor_file
from rein.runtime.checkpoint import archive as archive_module
from rein.runtime.checkpoint.dtypes import NUMPY_STORAGE, TORCH_STORAGE

BITS_BACK = [name for name in TORCH_STORAGE if name != "bool"]


def bits(value: Any) -> Any:
    """A form in which two values are equal exactly when they have the same types and bits."""
    if isinstance(value, torch.Tensor):
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return ("tensor", value.dtype, tuple(value.shape), data.view(torch.uint8).numpy().tobytes())
    if isinstance(value, np.ndarray | np.generic):
        return (type(value).__name__, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, complex):
        return ("complex", bits(value.real), bits(value.imag))
    if isinstance(value, dict):
        return (type(value).__name__, [(bits(k), bits(v)) for k, v in value.items()])
    if isinstance(value, list | tuple | deque):
        return (type(value).__name__, [bits(item) for item in value], getattr(value, "maxlen", 0))
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(repr(bits(item)) for item in value))
    return (type(value).__name__, value)


@pytest.fixture
def through(tmp_path):
    checkpointer = Checkpointer(tmp_path / "checkpoints")

    def save_and_load(state: Any) -> Any:
        step = len(checkpointer.steps())
        checkpointer.save(step, {"alg": state})
        return checkpointer.load(step).components["alg"]

    return save_and_load


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        2**20000,
        0.1,
        -0.0,
        5e-324,
        math.inf,
        -math.inf,
        math.nan,
        struct.unpack(">d", bytes.fromhex("fff0000000000123"))[0],
        complex(-0.0, math.inf),
        "",
        "snow \u2603 and a lone \ud800",
        b"",
        b"\x00\xff",
        (),
        [],
        {},
        set(),
        frozenset({1, (2, "a")}),
        [1, (2, [3]), ((),)],
        {1: "int", "1": "str", None: 0, (1, 2): 3, b"b": 4, 1.5: 5},
        {True: 1, 0: 2},
        {"dict": {"tuple": [1]}, "tensor": ["a", "float32"]},
        OrderedDict([("b", 1), ("a", 2)]),
        deque([1, 2], maxlen=3),
        deque([1]),
        torch.Size([2, 3]),
        torch.bfloat16,
        np.float32(0.1),
        np.float64("nan"),
        np.bool_(True),
        np.int64(-3),
        np.uint8(200),
        np.complex64(1 + 2j),
        np.float16(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_comes_back_exactly(through, value):
    assert bits(through(value)) == bits(value)
    assert bits(through({"a": [value]})) == bits({"a": [value]})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", sorted(TORCH_STORAGE))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_tensor_of_each_type_comes_back_exactly(through, name, shape):
    dtype = getattr(torch, name)
    count = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 2 if name == "bool" else 256, (max(count, 16),), dtype=torch.uint8)
    tensor = raw[:count].view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)
    assert bits(through({"t": tensor})) == bits({"t": tensor})


@pytest.mark.parametrize("name", sorted(NUMPY_STORAGE))
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_array_of_each_type_comes_back_exactly(through, name, shape):
    array = np.asarray(np.arange(math.prod(shape)).reshape(shape) + 1).astype(name)
    loaded = through([array])[0]
    assert bits(loaded) == bits(array)
    assert loaded.flags.writeable


def test_strided_tensors_come_back_contiguous_with_the_same_values(through):
    base = torch.arange(24.0).reshape(2, 3, 4)
    state = {
        "transposed": base.transpose(0, 2),
        "sliced": base[:, ::2, 1:],
        "expanded": torch.ones(1, 3).expand(5, 3),
        "conjugated": torch.complex(base, -base).conj(),
        "negated": torch.complex(base, base).conj().imag,
    }
    loaded = through(state)
    assert bits(loaded) == bits(state)
    assert all(tensor.is_contiguous() for tensor in loaded.values())


def test_strided_arrays_come_back(through):
    base = np.arange(24.0).reshape(2, 3, 4)
    state = {"fortran": np.asfortranarray(base), "reversed": base[::-1, :, ::-2]}
    assert bits(through(state)) == bits(state)


@pytest.mark.parametrize("shape", [(1000,), (1, 1000), (7, 143), (2, 2, 300)])
def test_large_tensors_are_written_in_pieces(through, monkeypatch, shape):
    monkeypatch.setattr(tensor_file, "PIECE_BYTES", 100)
    tensor = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    state = {"t": tensor, "turned": tensor.T if tensor.ndim == 2 else tensor, "n": tensor.numpy()}
    assert bits(through(state)) == bits(state)
    assert max(len(piece) for piece in tensor_file._pieces(tensor)) <= 100


def test_large_files_are_mapped_and_writing_to_them_never_reaches_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAP_BYTES", 100)
    monkeypatch.setattr(tensor_file, "KEEP_MAPPED_BYTES", 1000)
    state = {"big": torch.arange(1000.0), "small": torch.arange(3.0), "np": np.arange(1000.0)}
    state["swapped"] = np.arange(1000, dtype=">i4")
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"replay_buffer": state})
    loaded = checkpointer.load().components["replay_buffer"]
    assert bits(loaded) == bits(state)
    loaded["big"].zero_()
    loaded["np"][:] = 0
    assert bits(checkpointer.load().components["replay_buffer"]) == bits(state)


def test_parameters_come_back_as_plain_tensors(through):
    parameter = torch.nn.Parameter(torch.ones(2))
    loaded = through({"p": parameter})["p"]
    assert type(loaded) is torch.Tensor
    assert not loaded.requires_grad


def test_shared_tensors_are_stored_once_and_come_back_shared(tmp_path):
    weight = torch.nn.Parameter(torch.randn(300, 300))
    array = np.zeros(1000)
    checkpointer = Checkpointer(tmp_path)
    state = {"a": weight, "b": weight.detach(), "turned": weight.T, "x": array, "y": array[:]}
    path = checkpointer.save(1, {"alg": state})
    assert (path / "alg.safetensors").stat().st_size < 2 * weight.nbytes + array.nbytes + 2000
    loaded = checkpointer.load().components["alg"]
    assert loaded["a"] is loaded["b"]
    assert loaded["x"] is loaded["y"]
    assert torch.equal(loaded["turned"], weight.T)


def test_tensors_with_colliding_names_stay_apart(through):
    state = {
        "a.b": torch.tensor(1),
        "a": {"b": torch.tensor(2)},
        "__metadata__": torch.tensor(3),
        0: torch.tensor(4),
        "0": torch.tensor(5),
        "x" * 1000: torch.tensor(6),
        "y" + "x" * 1000: torch.tensor(7),
        "\ud800": torch.tensor(8),
    }
    assert bits(through(state)) == bits(state)


def test_named_tuples_and_dataclasses_come_back_as_dicts_and_can_be_restored(through):
    class Pair(NamedTuple):
        first: Any
        second: Any = ()

    @dataclass
    class Point:
        x: Any
        y: Any

    state = [Pair(torch.ones(2), (Pair(1, ()), {"k": Point(1, Pair(2, 3))}))]
    loaded = through(state)
    expected = {"first": 1, "second": ()}
    assert bits(loaded[0]["second"][0]) == bits(expected)
    restored = restore_like(state, loaded)
    assert isinstance(restored[0], Pair)
    assert restored[0].second == state[0].second
    assert type(restored[0].second[1]["k"]) is Point
    with pytest.raises(ValueError, match=r"state\.0\.second\.1.*\['other'\].*\['k'\]"):
        restore_like([Pair(0, (Pair(0, ()), {"other": 0}))], loaded)
    with pytest.raises(ValueError, match=r"state\.0.*'first', 'second'.*2 items"):
        restore_like([Pair(0)], [(1, 2)])
    with pytest.raises(ValueError, match=r"2 items.*a int"):
        restore_like((0, 0), 3)
    with pytest.raises(ValueError, match=r"state\.a should be a single int.*1 items"):
        restore_like({"a": 0}, {"a": [1]})
    counts = defaultdict(list, a=0)
    assert restore_like(counts, {"a": 5}) == {"a": 5}
    assert restore_like(counts, {"a": 5})["new"] == []
    assert counts == {"a": 0}


def test_modules_optimizers_and_generators_resume_exactly(tmp_path):
    def make():
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        return net, torch.optim.Adam(net.parameters(), lr=0.1, amsgrad=True)

    def learn(net, optimizer, generator, rng, rand):
        x = torch.randn(8, 3, generator=generator) * float(rng.normal()) + rand.random()
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()

    def state_of(net, optimizer, generator, rng, rand):
        return {
            "alg": {"net": net.state_dict(), "optimizer": optimizer.state_dict()},
            "trainer": [generator.get_state(), rng.bit_generator.state, rand.getstate()],
        }

    first = (*make(), torch.Generator().manual_seed(1), np.random.default_rng(2), random.Random(3))
    learn(*first)
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, state_of(*first))
    learn(*first)

    second = (*make(), torch.Generator(), np.random.default_rng(), random.Random())
    loaded = checkpointer.load().components
    second[0].load_state_dict(loaded["alg"]["net"])
    second[1].load_state_dict(loaded["alg"]["optimizer"])
    second[2].set_state(loaded["trainer"][0])
    second[3].bit_generator.state = loaded["trainer"][1]
    second[4].setstate(loaded["trainer"][2])
    learn(*second)
    assert bits(state_of(*second)) == bits(state_of(*first))
    metadata = loaded["alg"]["net"]._metadata
    assert metadata == second[0].state_dict()._metadata


def test_old_numpy_generator_state_comes_back(through):
    state = np.random.RandomState(1).get_state()
    assert bits(through(state)) == bits(state)


def test_files_are_read_by_the_safetensors_library(tmp_path):
    tensors = {
        "weight": torch.randn(2, 3),
        "half": torch.randn(3).bfloat16(),
        "flag": torch.tensor(True),
        "none": torch.empty(0, 4),
        "wide": torch.arange(3, dtype=torch.float64),
    }
    path = Checkpointer(tmp_path).save(1, {"alg": tensors})
    assert bits(dict(sorted(safetensors.torch.load_file(path / "alg.safetensors").items()))) == (
        bits(dict(sorted(tensors.items())))
    )


def test_files_of_the_safetensors_library_are_read():
    tensors = {"a": torch.randn(2, 3), "b": torch.tensor([True]), "c": torch.arange(3)}
    file = tensor_file.TensorFile(bytearray(safetensors.torch.save(tensors)), "a file")
    assert bits(file.tensor("a", "float32")) == bits(tensors["a"])
    assert bits(file.tensor("b", "bool")) == bits(tensors["b"])
    assert bits(file.tensor("c", "int64")) == bits(tensors["c"])


def recursive() -> Any:
    state: dict[str, Any] = {"a": []}
    state["a"].append(state)
    return state


def deep() -> Any:
    state: Any = 1
    for _ in range(101):
        state = [state]
    return state


class Color(IntEnum):
    RED = 1


class Odd(dict):
    pass


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), TypeError, r"alg\.a\.1 is a builtins\.object.*state_dict"),
        (print, TypeError, r"alg\.a\.1.*leave code out"),
        (torch.nn.Linear, TypeError, r"alg\.a\.1.*leave code out"),
        (Color.RED, TypeError, r"alg\.a\.1.*Color.*`int\(\.\.\.\)`"),
        (Odd(), TypeError, r"alg\.a\.1.*Odd.*`dict\(\.\.\.\)`"),
        (torch.ones(2).to_sparse(), TypeError, r"alg\.a\.1.*sparse.*to_dense"),
        (torch.ones(2, device="meta"), TypeError, r"alg\.a\.1.*on meta"),
        (torch.nn.UninitializedParameter(), TypeError, r"alg\.a\.1.*UninitializedParameter"),
        (np.array(["a"]), TypeError, r"alg\.a\.1.*<U1"),
        (np.array([object()], dtype=object), TypeError, r"alg\.a\.1.*dtype\('O'\)"),
        (np.longdouble(1), TypeError, r"alg\.a\.1.*longdouble"),
        (np.ma.masked_array([1]), TypeError, r"alg\.a\.1.*MaskedArray"),
        ({torch.ones(1): 1}, TypeError, r"alg\.a\.1\.key.*use its position"),
        ({(1, object()): 1}, TypeError, r"alg\.a\.1\.key \(1, <object"),
        (recursive(), ValueError, r"alg\.a\.1\.a\.0 contains itself"),
        (deep(), ValueError, "deeper than 100 levels"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_what_cannot_be_held_is_refused_with_its_path_before_anything_is_written(tmp_path, value, error, message):
    directory = tmp_path / "checkpoints"
    with pytest.raises(error, match=message):
        Checkpointer(directory).save(1, {"first": torch.ones(2), "alg": {"a": [0, value]}})
    assert not directory.exists()


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "manifest", "Manifest", ".a", 3, "a" * 101])
def test_component_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot name a component"):
        Checkpointer(tmp_path).save(1, {name: 1})
    with pytest.raises(ValueError, match="differ in more than case"):
        Checkpointer(tmp_path).save(1, {"Alg": 1, "alg": 1})
    assert not list(tmp_path.iterdir())


def test_depth_of_one_hundred_is_saved_and_loaded(through):
    state: Any = torch.ones(1)
    for level in range(98):
        state = ([state], (state,), {1: state}, OrderedDict([((1,), state)]))[level % 4]
    assert bits(through(state)) == bits(state)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**200), max_value=2**200)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.complex_numbers()
)
arrays = st_numpy.arrays(
    dtype=st_numpy.integer_dtypes(endianness="?")
    | st_numpy.floating_dtypes(sizes=(16, 32, 64), endianness="?")
    | st_numpy.boolean_dtypes()
    | st_numpy.complex_number_dtypes(sizes=(64, 128), endianness="?"),
    shape=st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@st.composite
def tensors(draw):
    dtype = getattr(torch, draw(st.sampled_from(BITS_BACK)))
    shape = draw(st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4))
    count = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    raw = draw(st.binary(min_size=count, max_size=count))
    tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8).clone().view(dtype).reshape(shape)
    if draw(st.booleans()) and tensor.ndim > 1:
        tensor = tensor.transpose(0, 1)
    return tensor


keys = st.text(max_size=5) | st.integers() | st.tuples(st.integers(), st.text(max_size=2))
states = st.recursive(
    scalars | arrays | tensors(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.lists(inner, max_size=3).map(lambda items: deque(items, maxlen=7))
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(state=states)
def test_any_state_comes_back_exactly(tmp_path_factory, state):
    checkpointer = Checkpointer(tmp_path_factory.mktemp("any"))
    checkpointer.save(0, {"alg": state, "copy": [state, state]})
    loaded = checkpointer.load().components
    assert bits(loaded["alg"]) == bits(state)
    assert bits(loaded["copy"]) == bits([state, state])
