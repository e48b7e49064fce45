"""Adam's step as operations on tensors: the numbers of the paper, and those of the optimizer it stands for."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from rein.ops.adam import adam_step
from rein.optimizers import SGD, Adam, AdamW
from rein.optimizers.adam_in_graph import AdamInGraph
from rein.runtime import LinearScheduler, Run


def test_a_step_by_hand() -> None:
    one = torch.tensor([1.0, -2.0])
    moved, mean, square = adam_step(
        one, torch.tensor([0.5, 2.0]), torch.zeros(2), torch.zeros(2), 0.1 / 0.1, math.sqrt(0.01), (0.9, 0.99), 0.0
    )
    torch.testing.assert_close(mean, torch.tensor([0.05, 0.2]))
    torch.testing.assert_close(square, torch.tensor([0.0025, 0.04]))
    # At the first step the corrected averages are the gradient and its square: all move by the learning rate.
    torch.testing.assert_close(moved, torch.tensor([0.9, -2.1]))
    assert one.tolist() == [1.0, -2.0]
    decayed, *_ = adam_step(one, torch.zeros(2), torch.zeros(2), torch.zeros(2), 1.0, 0.1, (0.9, 0.99), 0.0, 0.5)
    torch.testing.assert_close(decayed, torch.tensor([0.9, -1.9]))  # The gradient is half the parameter.


def _parameters() -> list[Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (4,), (2, 3))]


def _gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1 + step)
    return [torch.randn(shape, generator=generator) for shape in ((3, 4), (4,), (2, 3))]


def _step(graph: AdamInGraph, gradients: list[Tensor]) -> None:
    rates = graph.rates()
    assert rates is not None
    kept = graph.kept()
    with torch.no_grad():
        squares = [gradient.square().sum() for gradient in gradients]
        stepped = graph.step(graph.parameters, gradients, squares, kept, rates)
        for old, new in zip((*graph.parameters, *kept), (*stepped.parameters, *stepped.kept), strict=True):
            old.copy_(new)
    graph.made(stepped.norm)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
        {"gradient_clipping": 0.5, "clip_by_global_norm": True},
        {"gradient_clipping": 100.0, "clip_by_global_norm": True},
        {"gradient_clipping": 0.5},
        {"gradient_clipping": 0.5, "clip_by_value": True},
        {"lr": LinearScheduler("percent", ((0.0, 1e-2), (1.0, 0.0)))},
    ],
)
def test_steps_in_a_graph_and_by_the_optimizer_are_the_same_and_mix(settings: dict[str, Any]) -> None:
    mixed, plain = _parameters(), _parameters()
    optimizers = [Adam(**{"lr": 1e-2, **settings}) for _ in range(2)]
    for optimizer, parameters in zip(optimizers, (mixed, plain), strict=True):
        optimizer.add_param_group({"params": parameters[:2]})
        optimizer.add_param_group({"params": parameters[2:], "betas": (0.8, 0.9)})
    graph = AdamInGraph(optimizers[0])
    with Run(seed=0) as run:
        for step in range(6):
            run.progress = step / 10
            for optimizer, parameters in zip(optimizers, (mixed, plain), strict=True):
                for parameter, gradient in zip(parameters, _gradients(step), strict=True):
                    parameter.grad = gradient
                if optimizer is optimizers[0] and step not in (2, 4):
                    _step(graph, _gradients(step))
                else:
                    optimizer.step()
            for one, other in zip(mixed, plain, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    torch.testing.assert_close(states[0], states[1], rtol=1e-5, atol=1e-6)
    norms = [optimizer.grad_norm for optimizer in optimizers]
    assert (norms[0] is None) == (norms[1] is None)
    if norms[0] is not None and settings.get("clip_by_global_norm"):
        torch.testing.assert_close(norms[0], norms[1])


def test_a_state_that_was_loaded_is_gone_on_with() -> None:
    parameters = _parameters()
    optimizer = Adam(lr=1e-2)
    optimizer.add_param_group({"params": parameters})
    graph = AdamInGraph(optimizer)
    _step(graph, _gradients(0))
    saved, before = optimizer.state_dict(), [parameter.detach().clone() for parameter in parameters]
    saved = {**saved, "state": {k: {n: v.clone() for n, v in one.items()} for k, one in saved["state"].items()}}
    _step(graph, _gradients(1))
    expected = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old)
    optimizer.load_state_dict(saved)
    _step(graph, _gradients(1))
    assert all(torch.equal(one, other) for one, other in zip(parameters, expected, strict=True))


def test_parameters_that_were_not_in_step_are_left_to_the_optimizer() -> None:
    parameters = _parameters()
    optimizer = Adam(lr=1e-2)
    optimizer.add_param_group({"params": parameters})
    graph = AdamInGraph(optimizer)
    _step(graph, _gradients(0))
    for parameter, gradient in zip(parameters[:2], _gradients(1), strict=False):
        parameter.grad = gradient
    optimizer.step()
    assert graph.rates() is None


def test_other_optimizers_and_those_with_hooks_step_by_themselves() -> None:
    def bound(optimizer: Any, parameters: list[Parameter]) -> Any:
        optimizer.add_param_group({"params": parameters})
        return optimizer

    class Mine(Adam):
        """Whatever somebody may add."""

    assert AdamInGraph.is_possible(bound(Adam(), _parameters()))
    others = [AdamW(), SGD(), Mine(), Adam(amsgrad=True), Adam(fused=False, foreach=True)]
    assert not any(AdamInGraph.is_possible(bound(one, _parameters())) for one in others)
    assert not AdamInGraph.is_possible(bound(Adam(), [Parameter(torch.zeros(2, dtype=torch.float64))]))
    hooked = bound(Adam(), _parameters())
    hooked.register_step_pre_hook(lambda *_: None)
    assert not AdamInGraph.is_possible(hooked)
