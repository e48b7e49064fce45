"""State of a tree of algorithms: parameters, buffers and optimizers, each once.

Modules may share parameters and form cycles (an agent's parts may know each other). Each object is saved under the first
path that leads to it. Optimizer state is saved with the algorithm that owns the optimizer, under
``_optimizers.<number>``, so that what `state_dict` returns is all that training needs to go on exactly.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import nn

OPTIMIZERS = "_optimizers"


_PRELOADS = ContextVar("algorithms load the checkpoint that they are constructed with", default=True)


@contextmanager
def without_preloading() -> Iterator[None]:
    """A block in which algorithms that are constructed load no checkpoint of their own: their state comes later."""
    token = _PRELOADS.set(False)
    try:
        yield
    finally:
        _PRELOADS.reset(token)


def preloads() -> bool:
    """Whether algorithms load the checkpoint that they are constructed with."""
    return _PRELOADS.get()


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def collect(
    module: nn.Module, destination: "OrderedDict[str, Any]", prefix: str, visited: set[int]
) -> "OrderedDict[str, Any]":
    """Adds the state below `module` to `destination`, each tensor and optimizer once."""
    if id(module) in visited:
        return destination
    visited.add(id(module))
    for name, tensor in _own_tensors(module):
        if id(tensor) not in visited:
            visited.add(id(tensor))
            destination[prefix + name] = tensor.detach()
    for name, child in module._modules.items():
        if child is not None and name not in _not_saved(module):
            collect(child, destination, f"{prefix}{name}.", visited)
    for number, optimizer in enumerate(_own_optimizers(module)):
        if id(optimizer) not in visited:
            visited.add(id(optimizer))
            destination[f"{prefix}{OPTIMIZERS}.{number}"] = optimizer.state_dict()
    extra = _extra_state(module)
    if extra is not None:
        destination[f"{prefix}_extra_state"] = extra
    return destination


def restore(
    module: nn.Module, state: dict[str, Any], strict: bool = True, skip_preloaded: bool = True
) -> IncompatibleKeys:
    """Copies `state` into the tensors and optimizers below `module`.

    Args:
        module: the module that `collect` was called with, or one built alike.
        state: what `collect` returned.
        strict: raise if a key is missing or unexpected.
        skip_preloaded: leave algorithms alone that loaded a checkpoint of their own.
    """
    ignored = _ignored_prefixes(module)
    unused = {key: value for key, value in state.items() if not key.startswith(ignored)}
    missing: list[str] = []
    errors: list[str] = []
    _restore(module, unused, missing, errors, "", set(), skip_preloaded)
    missing = [key for key in missing if not key.startswith(ignored)]
    unexpected = list(unused)
    if errors:
        raise ValueError(f"cannot load the state of {type(module).__name__}: " + "; ".join(errors))
    if strict and (missing or unexpected):
        raise ValueError(
            f"the state does not fit {type(module).__name__}: missing {missing[:8]}, unexpected {unexpected[:8]} "
            f"({len(missing)} and {len(unexpected)} in all); build it with the configuration it was saved with, or "
            "load with strict=False"
        )
    return IncompatibleKeys(missing, unexpected)


def _restore(
    module: nn.Module,
    unused: dict[str, Any],
    missing: list[str],
    errors: list[str],
    prefix: str,
    visited: set[int],
    skip_preloaded: bool,
) -> None:
    if id(module) in visited:
        return
    visited.add(id(module))
    if skip_preloaded and getattr(module, "pre_loaded", False):
        for key in [key for key in unused if key.startswith(prefix)]:
            del unused[key]
        return
    for name, tensor in _own_tensors(module):
        if id(tensor) not in visited:
            visited.add(id(tensor))
            _copy(tensor, prefix + name, unused, missing, errors)
    for name, child in module._modules.items():
        if child is not None and name not in _not_saved(module):
            _restore(child, unused, missing, errors, f"{prefix}{name}.", visited, skip_preloaded)
    for number, optimizer in enumerate(_own_optimizers(module)):
        if id(optimizer) not in visited:
            visited.add(id(optimizer))
            key = f"{prefix}{OPTIMIZERS}.{number}"
            if key in unused:
                optimizer.load_state_dict(unused.pop(key))
            else:
                missing.append(key)
    key = f"{prefix}_extra_state"
    if key in unused:
        module.set_extra_state(unused.pop(key))


def _copy(tensor: torch.Tensor, key: str, unused: dict[str, Any], missing: list[str], errors: list[str]) -> None:
    if key not in unused:
        missing.append(key)
        return
    value = unused.pop(key)
    if value.shape != tensor.shape:
        errors.append(f"{key} has shape {tuple(value.shape)} in the state, {tuple(tensor.shape)} here")
        return
    with torch.no_grad():
        tensor.copy_(value)


def _own_tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    named: list[tuple[str, torch.Tensor]] = [
        (name, param) for name, param in module._parameters.items() if param is not None
    ]
    transient = module._non_persistent_buffers_set
    named += [(n, b) for n, b in module._buffers.items() if b is not None and n not in transient]
    return named


def _own_optimizers(module: nn.Module) -> list[Any]:
    binding = getattr(module, "optimizer_binding", None)
    return binding.own_optimizers() if binding is not None and binding.is_bound else []


def _not_saved(module: nn.Module) -> set[str]:
    attributes = getattr(module, "_attributes_not_saved", None)
    return set(attributes()) if attributes is not None else set()


def _extra_state(module: nn.Module) -> Any:
    overridden = type(module).get_extra_state is not nn.Module.get_extra_state
    return module.get_extra_state() if overridden else None


def _ignored_prefixes(module: nn.Module) -> tuple[str, ...]:
    """Prefixes of state that a deployed algorithm does not need; `()` if it needs all."""
    prefixes: list[str] = []
    for name, child in module.named_modules():
        ignored = getattr(child, "_state_prefixes_to_ignore", None)
        if ignored is not None:
            prefixes += [f"{name}.{p}" if name else p for p in ignored()]
    return tuple(prefixes)


def without_optimizers(state: dict[str, Any]) -> dict[str, Any]:
    """`state` without the entries of optimizers."""
    return {key: value for key, value in state.items() if f"{OPTIMIZERS}." not in f".{key}"}
