"""The products of a recorded graph: what nobody uses of them is left out, small ones are made by oneDNN's microkernel.

In the graph a small product becomes an operation of our own, `rein::product`, and inductor is told how to lower it: as it
lowers `mm`, to a call outside of its kernels that writes into memory which inductor has planned. See
`rein.runtime.microkernel`.
"""

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rein.framework.updating.graph_operations import teach_inductor
from rein.runtime.microkernel import Form, multiply

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
_TURNS = (torch.ops.aten.t.default, torch.ops.aten.transpose.int)
_SLICE = torch.ops.aten.slice.Tensor
_LANES = 16
"""Columns that a processor with AVX-512 multiplies at once."""
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
    _join_thin_ones(graph)
    products = [node for node in graph.graph.nodes if node.target in _PRODUCTS and _is_for_microkernel(node)]
    for node in products:
        node.target = operation
    _turn_once(graph, products)
    graph.recompile()


def leave_out_columns(graph: "GraphModule") -> None:
    """Makes only those columns of a product that are used, such as the gradient of the actions in what a critic sees.

    Args:
        graph: of a recorded update.
    """
    for node in list(graph.graph.nodes):
        if node.target not in _PRODUCTS:
            continue
        # What differentiation splits and nobody takes is still there.
        users = [user for user in node.users if user.users]
        ranges = {user.args[1:] for user in users if user.target is _SLICE}
        if len(ranges) != 1 or any(user.target is not _SLICE for user in node.users):
            continue
        (taken,) = ranges
        if taken[0] != node.meta["val"].ndim - 1:
            continue
        left, right = node.args
        with graph.graph.inserting_before(node):
            columns = _call(graph, _SLICE, right, *taken)
            narrow = _call(graph, node.target, left, columns)
        for user in users:
            user.replace_all_uses_with(narrow)
        for user in [*node.users, node]:
            graph.graph.erase_node(user)
    graph.recompile()


def _join_thin_ones(graph: "GraphModule") -> None:
    """Makes products of one left factor with a few columns each, such as means and deviations of actions, together."""
    groups: dict[Any, list[Any]] = {}
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.mm.default and _is_for_microkernel(node):
            left, right = _factors(node)
            if right.target in _TURNS and _source(right.args[0]).op == "placeholder":
                groups.setdefault(left, []).append(node)
    factors: dict[Any, Node] = {}
    for left, group in groups.items():
        sizes = [node.meta["val"].shape[-1] for node in group]
        if len(group) == 1 or sum(sizes) > _LANES:
            continue
        sources = tuple(_source(node.args[1].args[0]) for node in group)
        with graph.graph.inserting_before(group[0]):
            if sources not in factors:
                turned = [_call(graph, torch.ops.aten.t.default, source) for source in sources]
                factors[sources] = graph.graph.call_function(torch.ops.aten.cat.default, (turned, 1))
                factors[sources].meta["val"] = torch.cat([one.meta["val"] for one in turned], 1)
            product = _call(graph, torch.ops.aten.mm.default, left, factors[sources])
            ends = list(accumulate(sizes))
            parts = [_call(graph, _SLICE, product, 1, end - size, end) for size, end in zip(sizes, ends, strict=True)]
        for node, part in zip(group, parts, strict=True):
            node.replace_all_uses_with(part)
            graph.graph.erase_node(node)


def _turn_once(graph: "GraphModule", products: "list[Node]") -> None:
    """Lets products that share a right factor which lies the other way have one copy of it."""
    turned: dict[Any, list[Node]] = {}
    for node in products:
        right: Any = node.args[1]
        value = right.meta["val"]
        if right.target in _TURNS and value.stride(-1) != 1 and min(value.shape[-2:]) > 1:
            turned.setdefault((_source(right.args[0]), right.target, right.args[1:]), []).append(node)
    for sharing in turned.values():
        if len(sharing) > 1:
            first: Any = sharing[0].args[1]
            with graph.graph.inserting_after(first):
                copy = graph.graph.call_function(
                    torch.ops.aten.clone.default, (first,), {"memory_format": torch.contiguous_format}
                )
            copy.meta["val"] = first.meta["val"].contiguous()
            for node in sharing:
                node.args = (node.args[0], copy)


def _source(node: Any) -> Any:
    while node.target is torch.ops.aten.detach.default:
        node = node.args[0]
    return node


def _call(graph: "GraphModule", target: Any, *args: Any) -> "Node":
    """A new node, with its value without data."""
    node = graph.graph.call_function(target, args)
    node.meta["val"] = target(*(arg.meta["val"] if hasattr(arg, "meta") else arg for arg in args))
    return node


def _is_for_microkernel(node: "Node") -> bool:
    a, b = _values(node.args[:2])
    if any(one.dtype != torch.float32 or one.device.type != "cpu" for one in (a, b)):
        return False
    return Form.of(tuple(a.shape), a.stride(), tuple(b.shape), b.stride()).is_small


def _factors(node: "Node") -> tuple[Any, Any]:
    left, right = node.args
    return left, right


def _values(factors: Any) -> list[Tensor]:
    return [factor.meta["val"] for factor in factors]


@cache
def product_operation() -> Any:
    """`rein::product(a, b)`, of two matrices or two stacks of them, which inductor knows from here on; None if it cannot."""
    return teach_inductor("product", "Tensor a, Tensor b", torch.matmul, _lowering)


def _lowering() -> Callable[..., Any]:
    """How inductor lowers an operation that is a product."""
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

    return lower
