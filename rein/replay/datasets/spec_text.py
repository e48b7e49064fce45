"""Nests of specs as plain values for JSON, and back."""

import math
from typing import Any

import numpy as np
import torch

from rein.nest import Nest
from rein.runtime.checkpoint.dtypes import NUMPY_STORAGE
from rein.specs import BoundedTensorSpec, TensorSpec, numpy_dtype, torch_dtype

_INFINITE = {math.inf: "inf", -math.inf: "-inf"}


def spec_to_json(spec: Nest) -> Any:
    """A nest of specs of dicts and tuples in plain values.

    A leaf is `{"shape": [...], "dtype": "<f4"}`, with "minimum" and "maximum" if it is bounded; a dict is
    `{"dict": {...}}` and a tuple `{"tuple": [...]}`.
    """
    if isinstance(spec, dict):
        return {"dict": {key: spec_to_json(part) for key, part in spec.items()}}
    if type(spec) in (tuple, list):
        return {"tuple": [spec_to_json(part) for part in spec]}
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"a data set holds dicts and tuples of tensors, not {type(spec).__name__}")
    code = numpy_dtype(spec.dtype).str
    if code not in NUMPY_STORAGE:
        raise TypeError(f"a data set cannot hold {spec.dtype}")
    leaf: dict[str, Any] = {"shape": list(spec.shape), "dtype": code}
    if isinstance(spec, BoundedTensorSpec):
        leaf |= {"minimum": _bound_to_json(spec.minimum), "maximum": _bound_to_json(spec.maximum)}
    return leaf


def spec_from_json(value: Any) -> Nest:
    """What `spec_to_json` was called with.

    Raises:
        ValueError: it was not.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.100} describes no spec")
    if value.keys() == {"dict"}:
        return {str(key): spec_from_json(part) for key, part in value["dict"].items()}
    if value.keys() == {"tuple"}:
        return tuple(spec_from_json(part) for part in value["tuple"])
    try:
        shape, dtype = tuple(value["shape"]), _dtype(value["dtype"])
        if value.keys() == {"shape", "dtype"}:
            return TensorSpec(shape, dtype)
        bounds = (_bound_from_json(value[name], dtype) for name in ("minimum", "maximum"))
        return BoundedTensorSpec(shape, dtype, *bounds)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{value!r:.200} describes no spec: {error}") from error


def _dtype(code: Any) -> torch.dtype:
    if code not in NUMPY_STORAGE:
        raise ValueError(f"unknown dtype {code!r:.50}")
    return torch_dtype(np.dtype(code))


def _bound_to_json(bound: np.ndarray) -> Any:
    """One number if all are equal, else nested lists; infinity is a word."""
    if bound.size and np.all(bound == bound.flat[0]):
        bound = bound.flat[0]

    def plain(value: Any) -> Any:
        return [plain(one) for one in value] if isinstance(value, list) else _INFINITE.get(value, value)

    return plain(bound.tolist())


def _bound_from_json(value: Any, dtype: torch.dtype) -> np.ndarray:
    def number(one: Any) -> Any:
        if isinstance(one, list):
            return [number(part) for part in one]
        if isinstance(one, str) and one not in _INFINITE.values():
            raise ValueError(f"{one!r:.50} is no bound")
        return float(one) if isinstance(one, str) else one

    return np.array(number(value), dtype=numpy_dtype(dtype))
