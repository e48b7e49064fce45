"""Which element types a checkpoint holds, and as what they stand in a safetensors file."""

from typing import NamedTuple

import numpy as np
import torch


class Storage(NamedTuple):
    """How an element type is written.

    A complex number is written as a pair of reals in one more dimension of size 2, because older
    safetensors readers know no complex types.
    """

    code: str
    is_complex: bool = False


CODE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
"""Bytes of one element for each safetensors code that is used."""

_TORCH_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16",
    "uint32": "U32", "int32": "I32", "uint64": "U64", "int64": "I64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    # Not in every safetensors release, so written as bytes.
    "float8_e4m3fnuz": "U8", "float8_e5m2fnuz": "U8", "float8_e8m0fnu": "U8",
}  # fmt: skip
_TORCH_COMPLEX = {"complex32": "F16", "complex64": "F32", "complex128": "F64"}
_NUMPY_CODES = {
    "b1": "BOOL", "u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "u4": "U32", "i4": "I32",
    "u8": "U64", "i8": "I64", "f2": "F16", "f4": "F32", "f8": "F64",
}  # fmt: skip
_NUMPY_COMPLEX = {"c8": "F32", "c16": "F64"}

TORCH_STORAGE: dict[str, Storage] = {
    name: Storage(code) for name, code in _TORCH_CODES.items() if isinstance(getattr(torch, name, None), torch.dtype)
} | {name: Storage(code, True) for name, code in _TORCH_COMPLEX.items()}
"""By the name of the torch type, such as "bfloat16"."""

NUMPY_STORAGE: dict[str, Storage] = {
    order + kind: Storage(code, kind in _NUMPY_COMPLEX)
    for kind, code in (_NUMPY_CODES | _NUMPY_COMPLEX).items()
    for order in (("|",) if kind[1:] == "1" else ("<", ">"))
}
"""By the numpy type string with its byte order, such as "<f4"; bytes are written little-endian."""


def torch_name(dtype: torch.dtype) -> str:
    """The name of `dtype` without its module."""
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """The torch type that `torch_name` gave `name`; the caller has checked the name."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def numpy_dtype(name: str) -> np.dtype:
    """The numpy type of a key of `NUMPY_STORAGE`."""
    if name not in NUMPY_STORAGE:
        raise ValueError(f"{name!r} is not a numpy type that checkpoints hold")
    return np.dtype(name)
