"""Gradients whose layout in memory is not that of their parameter, as compiled graphs and other machines give them."""

import pytest
import torch

from rein.optimizers import SGD, Adam, AdamW


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("cls", [Adam, AdamW, SGD])
def test_the_layout_of_a_gradient_makes_no_difference(cls, fused):
    weight = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    matrix = torch.randn(3, 5)
    gradients = [torch.randn(4, 3, 2, 2), torch.randn(5, 3).t()]
    results = []
    for change in (lambda g, p: torch.empty_like(p).copy_(g), lambda g, p: g.clone()):
        parameters = [torch.nn.Parameter(weight.clone()), torch.nn.Parameter(matrix.clone())]
        optimizer = cls(lr=0.1, fused=fused)
        optimizer.add_param_group({"params": parameters})
        for _ in range(2):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = change(gradient, parameter.detach())
            optimizer.advance()
        results.append([p.detach() for p in parameters])
    for expected, given in zip(*results, strict=True):
        torch.testing.assert_close(given, expected)
