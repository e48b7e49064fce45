"""The small products of a recorded graph, given to oneDNN's microkernel; see `rein.runtime.microkernel`.

In the graph a product becomes an operation of our own, `rein::product`, and inductor is told how to lower it: as it lowers
`mm`, to a call outside of its kernels that writes into memory which inductor has planned.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rein.runtime.microkernel import Form, multiply

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

logger = logging.getLogger(__name__)

_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
_NAME = "rein_product_1"
"""Graphs in inductor's cache call it; another number where its arguments change."""


def give_to_microkernel(graph: "GraphModule") -> None:
    """Replaces the products that the microkernel is made for.

    Args:
        graph: of a recorded update, to be compiled by inductor.
    """
    operation = product_operation()
    if operation is None:
        return
    for node in graph.graph.nodes:
        if node.target in _PRODUCTS and _is_for_microkernel(node):
            node.target = operation
    graph.recompile()


def _is_for_microkernel(node: "Node") -> bool:
    a, b = _values(node.args[:2])
    if any(one.dtype != torch.float32 or one.device.type != "cpu" for one in (a, b)):
        return False
    return Form.of(tuple(a.shape), a.stride(), tuple(b.shape), b.stride()).is_small


def _values(factors: Any) -> list[Tensor]:
    return [factor.meta["val"] for factor in factors]


@cache
def product_operation() -> Any:
    """`rein::product(a, b)`, of two matrices or two stacks of them, which inductor knows from here on; None if it cannot."""
    try:
        lowering = _lowering()
    except Exception as error:  # Inductor's ways are not promised to stay as they are.
        logger.info("small products are left to torch: %s: %s", type(error).__name__, error)
        return None
    make_library: Any = torch.library.Library
    library = make_library("rein", "DEF")
    library.define("product(Tensor a, Tensor b) -> Tensor")
    library.impl("product", torch.matmul, "CompositeExplicitAutograd")
    torch.library.register_fake("rein::product", torch.matmul, lib=library)
    _LIBRARIES.append(library)
    lowering(torch.ops.rein.product.default)
    return torch.ops.rein.product.default


_LIBRARIES: list[Any] = []
"""A library that is forgotten takes its operations along."""


def _lowering() -> Callable[[Any], object]:
    """What tells inductor how an operation that is a product is lowered."""
    from torch._inductor import lowering
    from torch._inductor.kernel import mm_common
    from torch._inductor.select_algorithm import ExternKernelChoice

    common: Any = mm_common
    choice: Any = ExternKernelChoice(multiply, name=_NAME)

    def lower(a: Any, b: Any) -> Any:
        *_, layout, a, b = common.mm_args(a, b)
        for one in (a, b):
            one.freeze_layout()
        form = Form.of(*(tuple(map(int, numbers)) for one in (a, b) for numbers in (one.get_size(), one.get_stride())))
        return choice.bind((a, b), layout, form=tuple(form)).output_node()

    return lambda operation: lowering.register_lowering(operation, type_promotion_kind=None)(lower)
