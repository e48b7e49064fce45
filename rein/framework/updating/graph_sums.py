"""Sums over a few numbers in a recorded graph, such as the log-probability of six actions.

Inductor writes such a sum out, term by term, and with it everything that its terms are computed from: logarithms and
exponentials of numbers one at a time. Terms that are stored first are computed sixteen at a time.
"""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

logger = logging.getLogger(__name__)

_FEW = 8
"""Terms that inductor writes out (`unroll_reductions_threshold`)."""


def store_terms(graph: "GraphModule") -> None:
    """Stores what is summed over a last dimension of few numbers.

    Args:
        graph: of a recorded update, to be compiled by inductor.
    """
    operation = stored_operation()
    if operation is None:
        return
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.sum.dim_IntList and _has_few_terms(node):
            terms: Any = node.args[0]
            with graph.graph.inserting_before(node):
                stored = graph.graph.call_function(operation, (terms,))
            stored.meta["val"] = terms.meta["val"]
            node.args = (stored, *node.args[1:])
    graph.recompile()


def _has_few_terms(node: "Node") -> bool:
    given: Any = node.args
    value, dims = given[0].meta["val"], given[1]
    return [dim % value.ndim for dim in dims] == [value.ndim - 1] and 1 < value.shape[-1] <= _FEW


@cache
def stored_operation() -> Any:
    """`rein::stored(x)`, a copy that inductor makes by storing `x`; None if inductor cannot be taught."""
    try:
        from torch._inductor.lowering import register_lowering
    except Exception as error:  # Inductor's ways are not promised to stay as they are.
        logger.info("terms of small sums are not stored: %s: %s", type(error).__name__, error)
        return None
    make_library: Any = torch.library.Library
    library = make_library("rein", "FRAGMENT")
    library.define("stored(Tensor x) -> Tensor")
    library.impl("stored", torch.clone, "CompositeExplicitAutograd")
    torch.library.register_fake("rein::stored", torch.clone, lib=library)
    _LIBRARIES.append(library)

    def lower(x: Any) -> Any:
        x.realize()
        return x

    register_lowering(torch.ops.rein.stored.default, type_promotion_kind=None)(lower)
    return torch.ops.rein.stored.default


_LIBRARIES: list[Any] = []
"""A library that is forgotten takes its operations along."""
