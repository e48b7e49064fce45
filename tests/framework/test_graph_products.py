"""Small products of a recorded graph become an operation of ours, and all else stays."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from rein.framework.updating import graph_products
from rein.framework.updating.graph_products import give_to_microkernel, product_operation
from rein.runtime import microkernel

needs_inductor = pytest.mark.skipif(product_operation() is None, reason="inductor cannot be taught here")


def recorded(function: Callable[..., Any], *inputs: Tensor) -> Any:
    return make_fx(function, tracing_mode="fake")(*inputs)


def targets(graph: Any) -> Counter[str]:
    return Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_function")


@needs_inductor
def test_small_products_are_replaced_and_give_the_same() -> None:
    x, w, twins = torch.randn(32, 8), torch.randn(8, 16), torch.randn(2, 16, 4)

    def function(x: Tensor, w: Tensor, twins: Tensor) -> Tensor:
        return torch.bmm(torch.relu(torch.mm(x, w)).expand(2, 32, 16), twins)

    graph = recorded(function, x, w, twins)
    give_to_microkernel(graph)
    assert targets(graph)["rein.product.default"] == 2
    assert not {"aten.mm.default", "aten.bmm.default"} & set(targets(graph))
    assert torch.equal(graph(x, w, twins), function(x, w, twins))


@needs_inductor
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.empty(8, 512), torch.empty(512, 512)),
        (torch.empty(8, 8, dtype=torch.bfloat16), torch.empty(8, 8, dtype=torch.bfloat16)),
        (torch.empty(8, 8, dtype=torch.float64), torch.empty(8, 8, dtype=torch.float64)),
    ],
)
def test_large_ones_and_other_types_are_left(left: Tensor, right: Tensor) -> None:
    graph = recorded(torch.mm, left, right)
    give_to_microkernel(graph)
    assert targets(graph) == {"aten.mm.default": 1}


def test_nothing_changes_where_inductor_cannot_be_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("another inductor")

    monkeypatch.setattr(graph_products, "_lowering", fail)
    monkeypatch.setattr(graph_products, "product_operation", graph_products.product_operation.__wrapped__)
    graph = recorded(torch.mm, torch.empty(8, 8), torch.empty(8, 8))
    give_to_microkernel(graph)
    assert targets(graph) == {"aten.mm.default": 1}


@pytest.mark.slow
@needs_inductor
@pytest.mark.skipif(not microkernel._is_there(), reason="no C++ compiler, or a torch without the kernel")
def test_inductor_calls_the_microkernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import compile as compile_graph

    x, w, twins = torch.randn(32, 8), torch.randn(16, 8), torch.randn(2, 32, 4)

    def function(x: Tensor, w: Tensor, twins: Tensor) -> list[Tensor]:
        hidden = torch.relu(x @ w.t() + 1.0)
        return [hidden.t() @ (hidden * 2.0), torch.bmm(twins.mT, hidden.expand(2, 32, 16)).sum(0)]

    graph = recorded(function, x, w, twins)
    give_to_microkernel(graph)
    assert targets(graph)["rein.product.default"] == 3
    run = compile_graph(graph, [x, w, twins])
    for found, expected in zip(run(x, w, twins), function(x, w, twins), strict=True):
        torch.testing.assert_close(found, expected)
