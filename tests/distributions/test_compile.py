"""Sampling and scoring are traced by torch.compile as one graph."""

import pytest
import torch

from rein import distributions as D

MAKERS = {
    "normal": lambda x: D.DiagNormal(x, x.abs() + 0.1),
    "squashed": lambda x: D.SquashedNormal(x, x.abs() + 0.1, -2.0, 1.0),
    "squashed_tensor_bounds": lambda x: D.SquashedNormal(x, x.abs() + 0.1, torch.zeros(4), torch.ones(4)),
    "categorical": lambda x: D.Categorical(logits=x),
    "multi_categorical": lambda x: D.MultiCategorical(x, (1, 3)),
    "clipped": lambda x: D.ClippedNormal(x, x.abs() + 0.1),
    "truncated": lambda x: D.TruncatedNormal(x, x.abs() + 0.1),
    "beta": lambda x: D.Beta(x.abs() + 0.1, x.abs() + 1.0),
    "one_hot": lambda x: D.OneHotCategoricalStraightThrough(logits=x),
}


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


@pytest.mark.parametrize("name", MAKERS)
def test_sample_and_log_prob_compile_without_graph_breaks(name):
    make = MAKERS[name]

    def step(x):
        dist = make(x)
        sample, log_prob = D.sample_action_distribution(dist, return_log_prob=True)
        return sample, log_prob, dist.log_prob(dist.sample()), D.entropy_with_fallback(dist)[1]

    x = torch.randn(8, 4)
    torch.manual_seed(0)
    expected = step(x)
    torch.manual_seed(0)
    compiled = torch.compile(step, backend="eager", fullgraph=True)(x)
    for a, b in zip(expected, compiled, strict=True):
        torch.testing.assert_close(a, b, atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("name", ["normal", "squashed", "squashed_tensor_bounds"])
def test_reparameterised_step_compiles_with_gradient(name):
    make = MAKERS[name]

    def loss(x):
        action, log_prob = D.rsample_action_distribution(make(x), return_log_prob=True)
        return (action.sum(-1) + log_prob).mean()

    x = torch.randn(8, 4, requires_grad=True)
    torch.manual_seed(0)
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.manual_seed(0)
    (compiled,) = torch.autograd.grad(torch.compile(loss, backend="eager", fullgraph=True)(x), x)
    torch.testing.assert_close(expected, compiled)


def test_compiled_log_prob_sees_an_overwritten_sample():
    def step(x):
        dist = D.SquashedNormal(x, 1.0)
        value = dist.sample()
        value[1] = 0.25
        return dist.log_prob(value), dist.log_prob(value.clone())

    torch.testing.assert_close(*torch.compile(step, backend="eager", fullgraph=True)(torch.randn(8, 4)))
