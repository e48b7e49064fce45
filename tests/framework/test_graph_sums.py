"""What a sum over a few numbers is made of is stored first, and nothing else changes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from rein.framework.updating import graph_sums
from rein.framework.updating.graph_sums import store_terms, stored_operation
from rein.runtime import microkernel

needs_inductor = pytest.mark.skipif(stored_operation() is None, reason="inductor cannot be taught here")


def recorded(function: Any, *inputs: Tensor) -> Any:
    return make_fx(function, tracing_mode="fake")(*inputs)


def num_stored(graph: Any) -> int:
    return sum(str(node.target) == "rein.stored.default" for node in graph.graph.nodes)


@needs_inductor
@pytest.mark.parametrize(
    ("shape", "dim", "expected"),
    [((32, 6), -1, 1), ((4, 32, 6), 2, 1), ((32, 6), 0, 0), ((32, 9), -1, 0), ((32, 1), -1, 0), ((3, 6), (0, 1), 0)],
)
def test_terms_of_few_are_stored(shape: tuple[int, ...], dim: Any, expected: int) -> None:
    x = torch.rand(shape)
    graph = recorded(lambda x: x.log().sum(dim), x)
    store_terms(graph)
    assert num_stored(graph) == expected
    torch.testing.assert_close(graph(x), x.log().sum(dim))


def test_nothing_changes_where_inductor_cannot_be_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_sums, "stored_operation", lambda: None)
    graph = recorded(lambda x: x.log().sum(-1), torch.rand(4, 2))
    store_terms(graph)
    assert num_stored(graph) == 0


@pytest.mark.slow
@needs_inductor
@pytest.mark.skipif(not microkernel._is_there(), reason="no C++ compiler")
def test_compiled_it_gives_the_same() -> None:
    from torch._inductor import compile as compile_graph

    x, std = torch.randn(64, 6), torch.rand(6) + 0.1

    def log_probability(x: Tensor, std: Tensor) -> list[Tensor]:
        terms = -0.5 * (x / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)
        return [terms.sum(-1), terms.exp()]

    graph = recorded(log_probability, x, std)
    store_terms(graph)
    assert num_stored(graph) == 1
    run = compile_graph(graph, [x, std])
    for found, expected in zip(run(x, std), log_probability(x, std), strict=True):
        torch.testing.assert_close(found, expected)
