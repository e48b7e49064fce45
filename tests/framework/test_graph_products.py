"""Small products of a recorded graph become an operation of ours, and all else stays."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from rein.framework.updating import graph_products
from rein.framework.updating.graph_products import give_to_microkernel, leave_out_columns, product_operation
from rein.runtime import microkernel

needs_inductor = pytest.mark.skipif(product_operation() is None, reason="inductor cannot be taught here")


def recorded(function: Callable[..., Any], *inputs: Tensor) -> Any:
    return make_fx(function, tracing_mode="fake")(*inputs)


def targets(graph: Any) -> Counter[str]:
    return Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_function")


def shapes_of_products(graph: Any) -> list[tuple[int, ...]]:
    return [tuple(node.meta["val"].shape) for node in graph.graph.nodes if "mm" in str(node.target)]


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


@needs_inductor
def test_products_with_one_turned_factor_share_its_copy() -> None:
    x, y, w = torch.randn(32, 8), torch.randn(16, 8), torch.randn(4, 8)

    def function(x: Tensor, y: Tensor, w: Tensor) -> list[Tensor]:
        return [x @ w.detach().t(), y @ w.t(), x @ y.t()]

    graph = recorded(function, x, y, w)
    give_to_microkernel(graph)
    assert targets(graph)["aten.clone.default"] == 1
    shared = [node.args[1] for node in graph.graph.nodes if str(node.target) == "rein.product.default"]
    assert shared[0] is shared[1]
    assert shared[0].meta["val"].is_contiguous()
    for found, expected in zip(graph(x, y, w), function(x, y, w), strict=True):
        torch.testing.assert_close(found, expected)


@needs_inductor
def test_thin_products_of_one_factor_are_made_together() -> None:
    x, y = torch.randn(32, 8), torch.randn(32, 8)
    weights = [torch.randn(size, 8) for size in (6, 6, 5, 16)]

    def function(x: Tensor, y: Tensor, *weights: Tensor) -> list[Tensor]:
        means, deviations, others, wide = (weight.t() for weight in weights)
        return [x @ means, x @ deviations, (y @ means).exp(), y @ deviations, (x + y) @ others, (x + y) @ wide]

    graph = recorded(function, x, y, *weights)
    give_to_microkernel(graph)
    products = [node for node in graph.graph.nodes if str(node.target) == "rein.product.default"]
    assert [node.meta["val"].shape[-1] for node in products] == [12, 12, 5, 16]
    assert products[0].args[1] is products[1].args[1]
    for found, expected in zip(graph(x, y, *weights), function(x, y, *weights), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("lead", [(), (2,)])
def test_columns_that_nobody_takes_are_not_computed(lead: tuple[int, ...]) -> None:
    x, w = torch.randn(*lead, 32, 8), torch.randn(*lead, 8, 16)
    multiply = torch.bmm if lead else torch.mm
    graph = recorded(lambda x, w: multiply(x, w)[..., 10:] * 2.0, x, w)
    leave_out_columns(graph)
    assert shapes_of_products(graph) == [(*lead, 32, 6)]
    torch.testing.assert_close(graph(x, w), (x @ w)[..., 10:] * 2.0)


def test_what_differentiation_splits_off_for_nobody_is_not_computed() -> None:
    x, y, w = torch.randn(32, 5), torch.randn(32, 3), torch.randn(8, 16)

    def gradient_of_y(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        return torch.autograd.grad((torch.cat([x, y], -1) @ w).square().sum(), [x, y])[1]

    graph = recorded(gradient_of_y, x, y, w)
    leave_out_columns(graph)
    assert shapes_of_products(graph) == [(32, 16), (32, 3)]
    torch.testing.assert_close(graph(x, y, w), gradient_of_y(x, y, w))


@pytest.mark.parametrize(
    "take",
    [lambda p: (p[:, :3], p[:, 3:]), lambda p: p[10:], lambda p: p * 2.0, lambda p: (p, p[:, :3])],
    ids=["two parts", "rows", "all", "all and a part"],
)
def test_products_of_which_more_is_taken_stay(take: Callable[[Tensor], Any]) -> None:
    graph = recorded(lambda x, w: take(x @ w), torch.randn(32, 8), torch.randn(8, 16))
    before = targets(graph)
    leave_out_columns(graph)
    assert targets(graph) == before
    assert shapes_of_products(graph) == [(32, 16)]


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
