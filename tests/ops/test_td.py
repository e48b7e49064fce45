"""Temporal-difference targets against the papers' sums."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import ops


def _rows(seed, steps):
    rng = np.random.default_rng(seed)
    reward, value, next_value, log_ratio = rng.normal(size=(4, steps))
    ends = rng.random(steps) < 0.25
    discount = np.where(ends & (rng.random(steps) < 0.5), 0.0, 0.9)
    return reward, discount, value, next_value, log_ratio, ends


def _tensor(x):
    return torch.from_numpy(np.asarray(x)).unsqueeze(1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_vtrace_equals_its_defining_sum(seed, steps):
    reward, discount, value, next_value, log_ratio, ends = _rows(seed, steps)
    ratio = np.exp(log_ratio)
    rho, trace = np.minimum(ratio, 1.5), np.minimum(ratio, 1.1)
    target = value.copy()
    for t in range(steps):
        weight = 1.0
        for s in range(t, steps):
            if s > t:
                weight *= discount[s - 1] * trace[s - 1]
            target[t] += weight * rho[s] * (reward[s] + discount[s] * next_value[s] - value[s])
            if ends[s]:
                break
    after = [next_value[t] if t == steps - 1 or ends[t] else target[t + 1] for t in range(steps)]
    advantage = rho * (reward + discount * np.array(after) - value)
    actual = ops.vtrace(
        *map(_tensor, (reward, discount, value, next_value, log_ratio)),
        rho_clip=1.5,
        trace_clip=1.1,
        cut=_tensor(ends),
    )
    np.testing.assert_allclose(actual.target.squeeze(1).numpy(), target, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(actual.advantage.squeeze(1).numpy(), advantage, rtol=1e-9, atol=1e-9)


def test_vtrace_on_policy_is_the_monte_carlo_return():
    torch.manual_seed(0)
    reward, discount, values = torch.randn(5, 3), torch.full((5, 3), 0.9), torch.randn(6, 3)
    actual = ops.vtrace(reward, discount, values[:-1], values[1:], torch.zeros(5, 3))
    torch.testing.assert_close(actual.target, ops.lambda_return(reward, discount, values[1:], 1.0))
