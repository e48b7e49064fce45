"""Values of settings as JSON, and back without running anything that the text brings along.

Numbers, texts and containers stand for themselves. Classes and functions stand there by name, and objects of Rein as the
call that makes them. Reading a text imports and calls only what Rein itself or torch offers for agents and worlds, or
what the process has imported before and declares to be configurable; `NotDataError` names the rest.
"""

import base64
import dataclasses
import enum
import functools
import importlib.util
import inspect
import math
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from rein.config.errors import SavedConfigError
from rein.config.names import CONF_MODULES

_MAX_DEPTH = 40
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_IMPORTING_TEXT = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):(?!\d+$)[\w./-]+")
"""`module:Id`, by which Gymnasium and others import a module."""

_CLASSES_FROM = (
    "rein.agents",
    "rein.algorithms",
    "rein.data_structures",
    "rein.distributions",
    "rein.envs.boards",
    "rein.envs.loaders",
    "rein.envs.suites",
    "rein.envs.toy",
    "rein.envs.wrappers",
    "rein.framework",
    "rein.learners",
    "rein.networks",
    "rein.ops",
    "rein.optimizers",
    "rein.replay",
    "rein.runtime.schedules",
    "rein.runtime.sinks",
    "rein.specs",
    "rein.statistics",
    "rein.training.callbacks",
    "rein.transforms",
    "torch.nn.modules",
)
"""Whose classes and configurables a file may name: what they make is an agent, a world, or a part of them."""
_FUNCTIONS_FROM = ("rein.ops", "rein.networks", "rein.envs.loaders", "rein.distributions", "rein.statistics")
_TORCH_FUNCTIONS = {
    "torch": "abs cos erf exp log log1p log2 neg relu sigmoid sign sin softmax sqrt square tanh",
    "torch.nn.functional": "celu elu gelu glu hardsigmoid hardswish hardtanh huber_loss leaky_relu l1_loss log_softmax "
    "logsigmoid mish mse_loss relu relu6 selu sigmoid silu smooth_l1_loss softmax softplus softsign tanh tanhshrink "
    "cross_entropy binary_cross_entropy_with_logits",
    "torch.nn.init": "constant_ eye_ kaiming_normal_ kaiming_uniform_ normal_ ones_ orthogonal_ trunc_normal_ uniform_ "
    "xavier_normal_ xavier_uniform_ zeros_",
}
_BUILTINS = "abs bool bytes complex dict float frozenset int list max min round set str sum tuple"


class NotDataError(ValueError):
    """A value that cannot be had from data alone.

    Attributes:
        module: what would have to be imported for it; None if that is no module.
    """

    def __init__(self, message: str, module: str | None = None) -> None:
        super().__init__(message)
        self.module = module


# Writing.


class Encoder:
    """Turns values into what JSON can hold; an object that several values share stays one."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # An id is only good as long as its object lives.

    def encode(self, value: Any) -> Any:
        """`value` as lists, dicts, texts and numbers.

        Raises:
            NotDataError: it is code, such as a lambda, or an object that does not tell how it was made.
        """
        return self._encode(value, 0)

    def _encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if depth > _MAX_DEPTH:
            raise NotDataError(f"{kind.__name__} nested more than {_MAX_DEPTH} deep")
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        inner = functools.partial(self._encode, depth=depth + 1)
        if kind is list:
            return [inner(one) for one in value]
        if kind is tuple:
            return {"$tuple": [inner(one) for one in value]}
        if kind in (set, frozenset):
            return {f"${kind.__name__}": [inner(one) for one in sorted(value, key=repr)]}
        if kind is dict:
            return {"$dict": [[inner(key), inner(one)] for key, one in value.items()]}
        if kind is bytes:
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, enum.Enum):
            return {"$enum": object_name(kind), "member": value.name}
        if kind is functools.partial:
            return self._call("$partial", object_name(value.func), value.args, value.keywords, inner)
        if (kind.__module__, kind.__name__) == ("torch", "dtype"):
            return {"$dtype": str(value).removeprefix("torch.")}
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return {"$name": object_name(value)}
        return self._object(value, inner)

    def _object(self, value: Any, inner: Callable[[Any], Any]) -> Any:
        number = self._numbers.get(id(value))
        if number is not None:
            return {"$same": number}
        args, keywords = _making_of(value)
        encoded = self._call("$call", object_name(type(value)), args, keywords, inner)
        self._kept.append(value)
        self._numbers[id(value)] = encoded["number"] = len(self._numbers)
        return encoded

    @staticmethod
    def _call(
        how: str, name: str, args: Iterable[Any], keywords: Mapping[str, Any], inner: Callable[[Any], Any]
    ) -> dict[str, Any]:
        return {how: name, "args": [inner(one) for one in args], "keywords": {k: inner(v) for k, v in keywords.items()}}


def _making_of(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that an object was made with, if it knows them."""
    call = getattr(value, "_constructor_call", None)
    if call is not None:
        return tuple(call.args), dict(call.kwargs)
    if hasattr(value, "_asdict"):
        return (), dict(value._asdict())
    if dataclasses.is_dataclass(value):
        return (), {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
    settings = getattr(value, "settings", None)
    if isinstance(settings, Mapping):
        return (), dict(settings)
    raise NotDataError(f"an object of {type(value).__module__}.{type(value).__qualname__}")


def object_name(value: Any) -> str:
    """`module:qualified.name` of a class or function that its module holds.

    Raises:
        NotDataError: there is none: a lambda, or something that a conf or the main script defines.
    """
    known = _torch_functions().get(value) if isinstance(value, BuiltinFunctionType | FunctionType) else None
    if known is not None:
        return known
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    shown = f"{module}.{name}"
    if not isinstance(module, str) or not isinstance(name, str) or module not in sys.modules:
        raise NotDataError(shown)
    if module == "__main__" or module.startswith(CONF_MODULES) or not _NAME.fullmatch(name):
        raise NotDataError(shown.replace(CONF_MODULES, "conf ", 1))
    if _look_up(module, name) is not value:
        raise NotDataError(shown)
    return f"{module}:{name}"


# Reading.


class Decoder:
    """Turns what `Encoder` gave back into values; one for all values of a file, in their order."""

    def __init__(self, trust: bool = False) -> None:
        """Makes a decoder; with `trust`, it imports and calls what the file names."""
        self._made: dict[int, Any] = {}
        self._named = trusted_object if trust else named_object
        self._trusts = trust

    def decode(self, data: Any) -> Any:
        """The value.

        Raises:
            NotDataError: it names something that only whoever trusts the file should import or call.
            ValueError: this is not what `Encoder` gives.
        """
        return self._decode(data, 0)

    def _decode(self, data: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"values are nested more than {_MAX_DEPTH} deep")
        if isinstance(data, str):
            if not self._trusts:
                check_text(data)
            return data
        if data is None or isinstance(data, bool | int | float):
            return data
        inner = functools.partial(self._decode, depth=depth + 1)
        if isinstance(data, list):
            return [inner(one) for one in data]
        if not isinstance(data, dict) or not data:
            raise ValueError(f"{str(data)[:80]!r} stands for no value")
        return self._decode_marked(data, inner)

    def _decode_marked(self, data: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
        mark, content = next(iter(data.items()))
        simple: dict[str, Callable[[Any], Any]] = {
            "$float": float,
            "$tuple": lambda items: tuple(inner(one) for one in items),
            "$set": lambda items: {inner(one) for one in items},
            "$frozenset": lambda items: frozenset(inner(one) for one in items),
            "$dict": lambda pairs: {inner(key): inner(one) for key, one in pairs},
            "$bytes": lambda text: base64.b64decode(text, validate=True),
            "$name": self._named,
            "$dtype": _dtype,
            "$same": lambda number: self._made[number],
            "$enum": lambda name: _member(self._named(name), data["member"]),
        }
        try:
            if mark in simple:
                return simple[mark](content)
            if mark == "$code":
                raise NotDataError(str(content))
            if mark in ("$call", "$partial"):
                return self._make(mark, data, inner)
        except (KeyError, TypeError, AttributeError, ImportError) as error:
            raise ValueError(f"{str(data)[:80]!r} stands for no value: {error!r}") from error
        raise ValueError(f"{mark!r} stands for no value")

    def _make(self, mark: str, data: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
        target = self._named(data[mark])
        args = [inner(one) for one in data["args"]]
        keywords = {str(key): inner(one) for key, one in data["keywords"].items()}
        if mark == "$partial":
            return functools.partial(target, *args, **keywords)
        if not isinstance(target, type):
            raise ValueError(f"{data[mark]} is no class")
        made = target(*args, **keywords)
        self._made[int(data["number"])] = made
        return made


def check_text(text: str) -> None:
    """Raises `NotDataError` for a `module:Id`, by which a world is found, whose module is not imported yet."""
    match = _IMPORTING_TEXT.fullmatch(text)
    if match is None or match[1] in sys.modules:
        return
    try:
        exists = importlib.util.find_spec(match[1].partition(".")[0]) is not None
    except (ImportError, ValueError):
        exists = True
    if exists:
        raise NotDataError(f"the world {text!r}", match[1])


def check_data(value: Any) -> None:
    """Raises `NotDataError` if texts in a value, at any depth, would import a module that is not imported yet."""
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, Mapping):
        for pair in value.items():
            check_data(pair)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            check_data(one)


def named_object(name: Any) -> Any:
    """The class or function that a file names as `module:qualified.name`.

    Raises:
        NotDataError: it is none that a file may name.
        ValueError: there is none of that name.
    """
    module, qualified = _split_name(name)
    if f"{module}:{qualified}" in _torch_functions().values():
        return _look_up(module, qualified)
    if module == "builtins" and qualified in _BUILTINS.split():
        return _look_up(module, qualified)
    if module == "math":
        return _look_up(module, qualified)
    if _is_from(module, _CLASSES_FROM):
        import_module(module)
    elif module not in sys.modules:
        raise NotDataError(f"{module}.{qualified}", module)
    found = _look_up(module, qualified)
    if getattr(found, "__module__", None) != module or getattr(found, "__qualname__", None) != qualified:
        raise ValueError(f"{module} has no {qualified} of its own")
    check_object(found)
    return found


def trusted_object(name: Any) -> Any:
    """What `named_object` gives, importing its module if need be: only for names from those who are trusted."""
    module, qualified = _split_name(name)
    try:
        import_module(module)
    except ImportError as error:
        raise SavedConfigError(
            f"{module}.{qualified} cannot be imported ({error}): put the module where Python finds it, or give the value by "
            "supply={name: value}"
        ) from error
    found = _look_up(module, qualified)
    if found is None:
        raise ValueError(f"{module} has no {qualified}")
    return found


def _split_name(name: Any) -> tuple[str, str]:
    module, colon, qualified = str(name).partition(":")
    if not colon or not _NAME.fullmatch(module) or not _NAME.fullmatch(qualified) or "__" in qualified:
        raise ValueError(f"{str(name)[:80]!r} is no name of an object")
    return module, qualified


def check_object(found: Any) -> None:
    """Raises `NotDataError` unless a file may name a class or function."""
    module, name = str(getattr(found, "__module__", "")), str(getattr(found, "__qualname__", found))
    is_class = isinstance(found, type)
    owner = getattr(getattr(found, "__init__", None) if is_class else found, "__configurable__", None)
    if _is_from(module, _CLASSES_FROM):
        if is_class or owner is not None or (_is_from(module, _FUNCTIONS_FROM) and "." not in name):
            return
    elif not _is_from(module, ("rein",)) and (owner is not None or (is_class and _is_part(found)) or _is_own(module)):
        return
    raise NotDataError(f"{module}.{name}", module)


def _is_part(cls: type) -> bool:
    """Whether a class is that of a world, a network or a number."""
    bases = (("gymnasium", "Env"), ("torch.nn", "Module"), ("numpy", "generic"))
    known = [getattr(sys.modules.get(module), name, None) for module, name in bases]
    return any(base is not None and issubclass(cls, base) for base in known)


def _is_own(module: str) -> bool:
    """Whether an imported module is the user's: neither of Python nor of an installed package, which anybody could name."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str) or module == "__main__":
        return False
    path = os.path.realpath(file)
    places = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    if {"site-packages", "dist-packages"} & set(Path(path).parts):
        return False
    return not any(path.startswith(place + os.sep) for place in places)


def _is_from(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _look_up(module: str, qualified: str) -> Any:
    found: Any = sys.modules[module]
    for part in qualified.split("."):
        found = inspect.getattr_static(found, part, None)
    return found


def _dtype(name: Any) -> Any:
    import torch

    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch has no dtype {name!r}")
    return found


def _member(cls: Any, name: Any) -> Any:
    if not isinstance(cls, type) or not issubclass(cls, enum.Enum):
        raise ValueError(f"{cls} is no enumeration")
    return cls[str(name)]


@functools.cache
def _torch_functions() -> dict[Any, str]:
    """Functions of torch that are plain mathematics, with their names."""
    known: dict[Any, str] = {}
    for module, names in _TORCH_FUNCTIONS.items():
        holder = import_module(module)
        known.update({getattr(holder, name): f"{module}:{name}" for name in names.split()})
    return known
