"""Which library makes the matrix products of single-precision numbers on the host.

Torch gives them to MKL, which takes its kernels for AVX2 on processors of other makers than Intel, also where AVX-512 would
be twice as fast; oneDNN, which torch has as well, takes what the processor has. Torch calls it where products "may be made in
bfloat16". It does so only on processors that have units for matrices of bfloat16; on others the products are made in single
precision all the same. So this is allowed where there are no such units, the results have been seen to be as exact as
without, and a product took much less time; and only within `by_onednn`, since each call of oneDNN costs some microseconds
more, which small products do not bring in.

A run tries once (`rein.runtime.trials`); `REIN_ONEDNN_PRODUCTS` in the environment decides instead: 0 for never, 1 wherever
products are exact, fast or not.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from rein.runtime.trials import kept, processor_time_ratio

VARIABLE = "REIN_ONEDNN_PRODUCTS"
BREAK_EVEN_FLOP = 2e6
"""Floating-point operations of a product from which on it brings in what the call costs."""
_MUCH_FASTER = 1.3
_TOLERANCE = 1e-5
"""Relative; products in bfloat16 would be off by some thousandths."""


def pays(flops: Iterable[float]) -> bool:
    """Whether products are made sooner by oneDNN.

    Args:
        flops: floating-point operations of each of them.
    """
    return sum(flop - BREAK_EVEN_FLOP for flop in flops) > 0.0 and onednn_is_faster()


@contextmanager
def by_onednn(wanted: bool = True) -> Iterator[None]:
    """Within it oneDNN makes the products, if `wanted`; call it only where `pays` or `onednn_is_faster` says so."""
    if not wanted:
        yield
        return
    setting = _setting()
    before = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before


def _setting() -> Any:
    """Torch's settings of products by oneDNN; None in versions without them."""
    return getattr(torch.backends.mkldnn, "matmul", None)


def onednn_is_faster() -> bool:
    """Whether oneDNN makes large products as exactly as MKL, and much faster; what a run has found once, it keeps."""
    return kept("products_by_onednn", VARIABLE, _found)


@cache
def _found(wish: str) -> bool:
    """The outcome of a trial, which takes some milliseconds."""
    if wish == "0" or not _may_be_exact() or not _is_exact():
        return False
    return wish == "1" or _ratio() > _MUCH_FASTER


def _may_be_exact() -> bool:
    """Whether this is a processor on which oneDNN has no products of bfloat16 to replace others by."""
    if not torch.backends.mkldnn.is_available() or not hasattr(_setting(), "fp32_precision"):  # type: ignore[no-untyped-call]
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and not torch.cpu._is_amx_tile_supported()


def _forms() -> list[tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...]]]:
    """Kinds of products, and the shape of both factors."""

    def transposed(a: Tensor, b: Tensor) -> Tensor:
        return a.t() @ b

    def with_bias(a: Tensor, b: Tensor) -> Tensor:
        return torch.addmm(a[0], a, b.t())

    return [(torch.mm, (256, 256)), (transposed, (64, 64)), (with_bias, (128, 128)), (torch.bmm, (2, 32, 32))]


def _is_exact() -> bool:
    generator = torch.Generator().manual_seed(0)
    for product, shape in _forms():
        a, b = (torch.rand(shape, generator=generator, device="cpu") for _ in range(2))
        with torch.no_grad(), by_onednn():
            found = product(a, b)
        if not torch.allclose(found.double(), product(a.double(), b.double()), rtol=_TOLERANCE, atol=0.0):
            return False
    return True


def _ratio() -> float:
    """Processor time of a product by MKL, in that by oneDNN."""
    a, out = torch.ones(256, 256, device="cpu"), torch.empty(256, 256, device="cpu")

    def product(wanted: bool) -> None:
        with torch.no_grad(), by_onednn(wanted):
            torch.mm(a, a, out=out)

    return processor_time_ratio([partial(product, False), partial(product, True)])
