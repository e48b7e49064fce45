"""The state of a single world as plain data, from which it goes on exactly.

A saved state holds only dicts with text keys, lists, arrays, text, numbers and None: loading it runs no code. Each layer
of wrappers gives its attributes; random generators, MuJoCo, the Arcade Learning Environment and MiniGrid have their own
forms. What has no plain form (Box2D bodies, for instance) makes the world `NotResumableError`; its episode is then cut when a
run is resumed.
"""

import enum
import functools
import random
import types
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np

from rein.envs import state_native as native

__all__ = ["NotResumableError", "capture", "decode_generator", "encode_generator", "restore"]

_STRUCTURE = frozenset(
    {"env", "spec", "metadata", "render_mode", "_cached_spec", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs"}
)
"""Attributes that say how a world was made, not where it stands."""
_PRESENTATION = ("pygame", "glfw", "OpenGL", "gymnasium.envs.mujoco.mujoco_rendering", "mujoco.renderer", "imageio")
"""Modules whose objects only show the world."""
_CONSTANT = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    functools.partial,
    gym.envs.registration.EnvSpec,
)
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")

NotResumableError = native.NotResumableError
KIND = "kind"


def capture(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """The state of `env`, which must have been reset; raises `NotResumableError` if it has no plain form."""
    writer = _Writer()
    for layer in _layers(env):
        _require_plain_class(layer, "the world")
    layers = [{"class": _class_name(layer), "attributes": writer.attributes(layer, "")} for layer in _layers(env)]
    return {"version": 1, "layers": layers}


def restore(env: gym.Env[Any, Any], state: dict[str, Any]) -> None:
    """Brings `env`, made in the same way and reset once, into a saved state.

    Raises `NotResumableError` if it is another kind of world than the one that was saved.
    """
    if state.get("version") != 1:
        raise NotResumableError(f"the saved state has version {state.get('version')!r}; this is version 1")
    layers = _layers(env)
    saved = state["layers"]
    names = [_class_name(layer) for layer in layers]
    if names != [layer["class"] for layer in saved]:
        raise NotResumableError(
            f"the saved world was made of {[layer['class'] for layer in saved]}, this one of {names}"
        )
    reader = _Reader()
    for layer, layer_state in zip(layers, saved, strict=True):
        reader.attributes(layer, layer_state["attributes"], "")


def _layers(env: Any) -> list[Any]:
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _class_name(value: Any) -> str:
    return f"{native.module_of(value)}.{type(value).__qualname__}"


def _is_skipped(name: str, value: Any) -> bool:
    return name in _STRUCTURE or isinstance(value, _CONSTANT) or native.module_of(value).startswith(_PRESENTATION)


class _Writer:
    """Turns values into plain data; remembers shared objects so that they stay shared."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._keep: list[Any] = []  # Objects must live as long as their ids are used as keys.

    def attributes(self, owner: Any, path: str) -> dict[str, Any]:
        """The attributes of an object that make up its state."""
        return {
            name: self.encode(value, f"{path}.{name}" if path else name, owner)
            for name, value in vars(owner).items()
            if not _is_skipped(name, value)
        }

    def encode(self, value: Any, path: str, owner: Any = None) -> Any:
        """The plain form of `value`."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.generic):
            return {
                KIND: "scalar",
                "dtype": value.dtype.str,
                "value": value.item() if value.dtype.kind != "S" else str(value),
            }
        if type(value) in (list, tuple, set, frozenset, deque, dict):
            return self._container(value, path)
        if isinstance(value, enum.Enum):
            return {KIND: "enum", "name": value.name}
        if isinstance(value, _CONSTANT):
            return {KIND: "constant"}
        return self._object(value, path, owner)

    def _container(self, value: Any, path: str) -> dict[str, Any]:
        kind = type(value).__name__
        if isinstance(value, dict):
            items = [[self.encode(k, path), self.encode(v, f"{path}[{k!r}]")] for k, v in value.items()]
            return {KIND: kind, "items": items}
        items = [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
        extra = {"maxlen": value.maxlen} if isinstance(value, deque) else {}
        return {KIND: kind, "items": items, **extra}

    def _object(self, value: Any, path: str, owner: Any) -> dict[str, Any]:
        number = self._numbers.get(id(value))
        if number is not None:
            return {KIND: "shared", "number": number}
        number = len(self._keep)
        self._numbers[id(value)] = number
        self._keep.append(value)
        return {"number": number, **self._new_object(value, path, owner)}

    def _new_object(self, value: Any, path: str, owner: Any) -> dict[str, Any]:
        if isinstance(value, np.ndarray):
            return _encode_array(value, path)
        if isinstance(value, np.random.Generator):
            return {KIND: "generator", "state": self.encode(value.bit_generator.state, path)}
        if isinstance(value, np.random.RandomState):
            return {KIND: "random_state", "state": self.encode(value.get_state(legacy=False), path)}
        if isinstance(value, random.Random):
            return {KIND: "random", "state": self.encode(value.getstate(), path)}
        if isinstance(value, gym.Space):
            return {KIND: "space", "generators": [self.encode(g, path) for g in _space_generators(value)]}
        if isinstance(value, gym.Env):
            return {KIND: "constant"}
        special = native.encode(value, owner, self.encode, path)
        if special is not None:
            return special
        if callable(value) and not hasattr(value, "__dict__"):
            return {KIND: "constant"}  # A function or method of a native module.
        _require_plain_class(value, path)
        return {KIND: "object", "class": _class_name(value), "attributes": self.attributes(value, path)}


class _Reader:
    """Turns plain data back into values, into the objects of a live world where it has them."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def attributes(self, owner: Any, saved: dict[str, Any], path: str) -> None:
        """Sets the attributes of a live object."""
        live = vars(owner)
        for name, data in saved.items():
            where = f"{path}.{name}" if path else name
            live[name] = self.decode(data, live.get(name), where, owner)

    def decode(self, data: Any, live: Any, path: str, owner: Any = None) -> Any:
        """The value of plain data; `live` is what the world has in its place."""
        if not isinstance(data, dict):
            return data
        kind = data[KIND]
        if kind == "shared":
            return self._objects[data["number"]]
        if kind == "constant":
            return live
        if kind == "scalar":
            return np.array(data["value"], dtype=data["dtype"])[()]
        if kind == "enum":
            if not isinstance(live, enum.Enum):
                raise NotResumableError(f"{path} was an enum member, but is {live!r} now")
            return type(live)[data["name"]]
        if "number" not in data:
            return self._container(data, live, path)
        value = self._object(kind, data, live, path, owner)
        self._objects[data["number"]] = value
        return value

    def _container(self, data: dict[str, Any], live: Any, path: str) -> Any:
        kind, items = data[KIND], data["items"]
        if kind == "dict":
            found = live if isinstance(live, dict) else {}
            pairs = [(self.decode(k, None, path), v) for k, v in items]
            return {k: self.decode(v, found.get(k), f"{path}[{k!r}]") for k, v in pairs}
        old = list(live) if isinstance(live, list | tuple | deque) and len(live) == len(items) else [None] * len(items)
        values = [self.decode(item, old[i], f"{path}[{i}]") for i, item in enumerate(items)]
        if kind == "deque":
            return deque(values, data["maxlen"])
        return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](values)

    def _object(self, kind: str, data: dict[str, Any], live: Any, path: str, owner: Any) -> Any:
        if kind == "array":
            return np.array(data["values"])
        if kind == "text_array":
            return np.array(data["values"], dtype=data["dtype"]).reshape(data["shape"])
        if kind == "generator":
            return _make_generator(self.decode(data["state"], None, path))
        if kind == "random_state":
            random_state = np.random.RandomState()
            random_state.set_state(self.decode(data["state"], None, path))
            return random_state
        if kind == "random":
            generator = random.Random()
            generator.setstate(self.decode(data["state"], None, path))
            return generator
        if kind == "space":
            return self._space(data, live, path)
        if kind == "object":
            if live is None or _class_name(live) != data["class"]:
                raise NotResumableError(f"{path} was a {data['class']}, but is {_class_name(live)} now")
            self._objects[data["number"]] = live
            self.attributes(live, data["attributes"], path)
            return live
        return native.decode(kind, data, live, owner, self.decode, path)

    def _space(self, data: dict[str, Any], live: Any, path: str) -> Any:
        if not isinstance(live, gym.Space):
            raise NotResumableError(f"{path} was a space, but is {live!r} now")
        parts = list(_spaces_in(live))
        generators = [self.decode(saved, None, path) for saved in data["generators"]]
        if len(parts) != len(generators):
            raise NotResumableError(f"{path} has {len(parts)} parts; {len(generators)} were saved")
        for part, generator in zip(parts, generators, strict=True):
            part._np_random = generator
        return live


class _Plain:
    pass


def _require_plain_class(value: Any, path: str) -> None:
    """Refuses objects that keep anything outside their attributes, such as files, containers and native objects.

    Instances of classes written in Python are all of one size, since their attributes live in a dict.
    """
    if not hasattr(value, "__dict__") or type(value).__basicsize__ != _Plain.__basicsize__:
        raise NotResumableError(f"{path} is a {_class_name(value)}, which has no plain form")


def _encode_array(value: Any, path: str) -> dict[str, Any]:
    if value.dtype.kind in "SU":
        flat = value.ravel().tolist()
        text = [item.decode("latin1") if isinstance(item, bytes) else item for item in flat]
        return {KIND: "text_array", "values": text, "dtype": value.dtype.str, "shape": list(value.shape)}
    if value.dtype.kind not in "biuf":
        raise NotResumableError(f"{path} is an array of {value.dtype}, which has no plain form")
    return {KIND: "array", "values": value.copy()}


def encode_generator(generator: np.random.Generator) -> Any:
    """The state of a numpy generator as plain data."""
    return _Writer().encode(generator.bit_generator.state, "generator")


def decode_generator(saved: Any) -> np.random.Generator:
    """A numpy generator in a saved state."""
    return _make_generator(_Reader().decode(saved, None, "generator"))


def _make_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise NotResumableError(f"the saved random generator is a {name!r}; known are {_BIT_GENERATORS}")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


def _spaces_in(space: Any) -> Any:
    yield space
    parts = getattr(space, "spaces", ())
    for part in parts.values() if hasattr(parts, "values") else parts:
        yield from _spaces_in(part)


def _space_generators(space: Any) -> list[np.random.Generator | None]:
    return [part._np_random for part in _spaces_in(space)]
