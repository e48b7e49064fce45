"""How a network remembers its constructor call, so that it can be built again with fresh parameters."""

import inspect
from typing import Any, NamedTuple

from torch import nn

from rein.networks.layers.layer import reinitialized_copy


class ConstructorCall(NamedTuple):
    """The arguments that an object was built with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def with_overrides(self, cls: type, overrides: dict[str, Any]) -> "ConstructorCall":
        """The same call with some arguments replaced by name, also those given by position."""
        if not overrides:
            return self
        parameters = list(inspect.signature(cls).parameters.values())
        positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        accepts_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        known = {p.name for p in parameters}
        unknown = [name for name in overrides if name not in known and not accepts_any]
        if unknown:
            raise TypeError(f"{cls.__name__}.copy() got unknown arguments {unknown}; it takes {sorted(known)}")
        args = list(self.args)
        kwargs = dict(self.kwargs)
        for name, value in overrides.items():
            if name in positional and positional.index(name) < len(args):
                args[positional.index(name)] = value
            else:
                kwargs[name] = value
        return ConstructorCall(tuple(args), kwargs)


class RecordsConstructorCall(type):
    """Metaclass that tells each instance by `remember_construction` how it was built."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Builds the instance and records the call."""
        instance = super().__call__(*args, **kwargs)
        instance.remember_construction(ConstructorCall(args, kwargs))
        return instance

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor: `inspect` would otherwise show the one above."""
        init: Any = getattr(cls, "__init__")  # noqa: B009 - typed access is unsound for __init__
        signature = inspect.signature(init)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def copy_module(module: nn.Module) -> nn.Module:
    """A copy of a network or other module with fresh parameters; singletons are returned as they are."""
    own_copy = getattr(module, "copy", None)
    return own_copy() if callable(own_copy) else reinitialized_copy(module)


def copy_modules_in(value: Any) -> Any:
    """`value` with every module in its tuples, lists and dicts replaced by a fresh copy."""
    if isinstance(value, nn.Module):
        return copy_module(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(copy_modules_in(part) for part in value))
    if type(value) in (tuple, list):
        return type(value)(copy_modules_in(part) for part in value)
    if type(value) is dict:
        return {key: copy_modules_in(part) for key, part in value.items()}
    return value
