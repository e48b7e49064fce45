"""How large the matrix products of an update are, which says who makes them; see `rein.runtime.products`."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rein.framework.updating.settings import UpdateSettings
from rein.runtime.products import onednn_is_faster, pays

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from rein.framework.updating.gradients import Batch

_FACTORS = {
    torch.ops.aten.mm.default: (0, 1),
    torch.ops.aten.addmm.default: (1, 2),
    torch.ops.aten.bmm.default: (0, 1),
    torch.ops.aten.baddbmm.default: (1, 2),
}
"""Where operations have the factors of a product among their arguments."""


def weight_sizes(parameters: Iterable[Tensor]) -> list[int]:
    """Elements of each matrix of weights, or of a stack of them, on the host; empty where nothing could be gained."""
    if not onednn_is_faster():
        return []
    return [p.numel() for p in parameters if p.ndim in (2, 3) and p.is_cpu and p.dtype == torch.float32]


def update_pays(sizes: Sequence[int], batches: Sequence["Batch"], settings: UpdateSettings) -> bool:
    """Whether oneDNN makes the products of an update sooner.

    Args:
        sizes: elements of the matrices of weights.
        batches: [B, T, ...]; every row, or every sequence where steps come one after the other, meets every weight.
        settings: how the update is made.
    """
    if not sizes:
        return False
    dims = 2 if settings.temporally_independent_train_step else 1
    rows = sum(math.prod(batch.experience.step_type.shape[:dims]) for batch in batches)
    return pays(2.0 * rows * size for size in sizes)


def graph_pays(graph: "GraphModule") -> bool:
    """Whether oneDNN makes the products of a recorded graph sooner."""
    return onednn_is_faster() and pays(_flops(graph))


def _flops(graph: "GraphModule") -> list[float]:
    """Floating-point operations of each product of single-precision numbers on the host."""
    found = []
    for node in graph.graph.nodes:
        places = _FACTORS.get(node.target)
        if places is None:
            continue
        left, right = (node.args[place].meta["val"] for place in places)
        if left.dtype == torch.float32 and left.device.type == "cpu":
            found.append(2.0 * left.numel() * right.shape[-1])
    return found
