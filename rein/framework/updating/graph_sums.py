"""Sums over a few numbers in a recorded graph, such as the log-probability of six actions.

Inductor writes such a sum out, term by term, and with it everything that its terms are computed from: logarithms and
exponentials of numbers one at a time. Terms that are stored first are computed sixteen at a time.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from rein.framework.updating.graph_operations import teach_inductor

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

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
    return teach_inductor("stored", "Tensor x", torch.clone, lambda: _store)


def _store(x: Any) -> Any:
    x.realize()
    return x
