"""Returns against hand-computed numbers and against naive Python sums."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import ops
from rein.data_structures import StepType
from rein.ops import scan


def _column(*values):
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


def test_lambda_return_of_three_transitions_by_hand():
    reward, next_value = _column(1, 2, 3), _column(10, 20, 30)
    discount = _column(0.5, 0.5, 0.5)
    # G2 = 3 + .5*30 = 18; G1 = 2 + .5*(.5*20 + .5*18) = 11.5; G0 = 1 + .5*(.5*10 + .5*11.5) = 6.375
    torch.testing.assert_close(ops.lambda_return(reward, discount, next_value, 0.5), _column(6.375, 11.5, 18))


def test_discounted_return_stops_at_termination_and_bootstraps_at_a_cut():
    reward, next_value = _column(1, 2, 3, 4), _column(10, 20, 30, 40)
    discount = _column(0.5, 0.0, 0.5, 0.5)
    cut = torch.tensor([[False], [True], [True], [False]])
    # Row 1 terminates, row 2 runs into a time limit, row 3 ends the segment.
    expected = _column(1 + 0.5 * 2, 2, 3 + 0.5 * 30, 4 + 0.5 * 40)
    torch.testing.assert_close(ops.lambda_return(reward, discount, next_value, 1.0, cut), expected)


def test_trajectory_return_credits_next_reward_to_action_and_ignores_the_step_after_last():
    step_type = torch.tensor([[0], [1], [2], [0], [1]], dtype=torch.int32)
    reward, value = _column(100, 1, 2, 100, 3), _column(5, 6, 7, 8, 9)
    discount = _column(0.9, 0.9, 0.9, 0.9, 0.9)
    actual = ops.trajectory_discounted_return(reward, value, step_type, discount)
    before_limit = 2 + 0.9 * 7  # time limit: bootstraps from the LAST observation
    torch.testing.assert_close(actual, _column(1 + 0.9 * before_limit, before_limit, 7, 3 + 0.9 * 9))
    advantage = ops.trajectory_advantage(reward, value, step_type, discount, 0.95)
    assert advantage[2].item() == 0.0


def test_trajectory_return_takes_nothing_from_beyond_a_terminal():
    step_type = torch.tensor([[1], [2], [0]], dtype=torch.int32)
    reward, value = _column(0, 1, 50), _column(5, 1000, 1000)
    discount = _column(0.9, 0.0, 0.9)
    for target in (
        ops.trajectory_discounted_return(reward, value, step_type, discount),
        ops.trajectory_one_step_return(reward, value, step_type, discount),
        ops.trajectory_n_step_return(reward, value, step_type, discount, 2),
    ):
        torch.testing.assert_close(target, _column(1, 1000))


def _random_segment(seed, steps, batch, dims):
    rng = np.random.default_rng(seed)
    tail = (dims,) if dims else ()
    step_type = np.full((steps, batch), StepType.MID, dtype=np.int32)
    for b in range(batch):
        for t in range(steps):
            if t > 0 and step_type[t - 1, b] == StepType.LAST:
                step_type[t, b] = StepType.FIRST
            elif rng.random() < 0.3:
                step_type[t, b] = StepType.LAST
    terminal = (step_type == StepType.LAST) & (rng.random((steps, batch)) < 0.5)
    discount = np.where(terminal, 0.0, 0.97).astype(np.float32)
    reward = rng.normal(size=(steps, batch, *tail)).astype(np.float32)
    value = rng.normal(size=(steps, batch, *tail)).astype(np.float32)
    return reward, value, step_type, discount


def _naive_n_step(reward, value, step_type, discount, t, n):
    """The sum of up to n rewards after step t of one environment, by definition."""
    total, factor = np.zeros_like(value[0], dtype=np.float64), 1.0
    end = t
    for i in range(t, min(t + n, len(reward) - 1)):
        if step_type[i] == StepType.LAST:
            break
        total = total + factor * reward[i + 1]
        factor *= discount[i + 1]
        end = i + 1
    return total + factor * value[end]


def _naive_lambda(reward, value, step_type, discount, t, lam):
    """The average of n-step returns with weights (1 - lam) lam^(n-1), the rest on the longest, by definition."""
    longest = 0
    while t + longest < len(reward) - 1 and step_type[t + longest] != StepType.LAST:
        longest += 1
    if longest == 0:
        return np.asarray(value[t], dtype=np.float64)
    result = lam ** (longest - 1) * _naive_n_step(reward, value, step_type, discount, t, longest)
    for n in range(1, longest):
        result = result + (1 - lam) * lam ** (n - 1) * _naive_n_step(reward, value, step_type, discount, t, n)
    return result


segments = st.tuples(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 3), st.sampled_from([0, 1, 3]))


@settings(max_examples=40, deadline=None)
@given(segments, st.sampled_from([0.0, 0.3, 0.95, 1.0]))
def test_trajectory_lambda_return_equals_naive_sums(segment, lam):
    arrays = _random_segment(*segment)
    reward, value = arrays[:2]
    expected = np.stack(
        [
            np.stack([_naive_lambda(*(x[:, b] for x in arrays), t, lam) for b in range(reward.shape[1])])
            for t in range(reward.shape[0] - 1)
        ]
    )
    tensors = [torch.from_numpy(x) for x in arrays]
    actual = ops.trajectory_lambda_return(*tensors, lam)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5)
    advantage = ops.trajectory_advantage(*tensors, lam)
    np.testing.assert_allclose(advantage.numpy(), expected - value[:-1], rtol=1e-5, atol=1e-5)
    if lam == 0.0:
        one_step = ops.trajectory_one_step_return(*tensors)
        np.testing.assert_allclose(one_step.numpy(), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(segments, st.integers(1, 14))
def test_trajectory_n_step_return_equals_naive_sums(segment, n):
    arrays = _random_segment(*segment)
    steps, batch = arrays[2].shape
    expected = np.stack(
        [np.stack([_naive_n_step(*(x[:, b] for x in arrays), t, n) for b in range(batch)]) for t in range(steps - 1)]
    )
    actual = ops.trajectory_n_step_return(*(torch.from_numpy(x) for x in arrays), n)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(segments, st.sampled_from([0.0, 0.7, 1.0]))
def test_transition_form_equals_trajectory_form_where_an_action_was_taken(segment, lam):
    reward, value, step_type, discount = (torch.from_numpy(x) for x in _random_segment(*segment))
    ends = step_type[1:] == StepType.LAST
    rows = (reward[1:], discount[1:], value[1:])
    valid = step_type[:-1] != StepType.LAST
    by_time_step = ops.trajectory_lambda_return(reward, value, step_type, discount, lam)
    torch.testing.assert_close(ops.lambda_return(*rows, lam, ends)[valid], by_time_step[valid])
    two_step = ops.trajectory_n_step_return(reward, value, step_type, discount, 2)
    torch.testing.assert_close(ops.n_step_return(*rows, 2, ends)[valid], two_step[valid])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300), st.sampled_from([(), (3,), (2, 4)]))
def test_compiled_scan_equals_torch_scan(seed, steps, tail):
    generator = torch.Generator().manual_seed(seed)
    increment = torch.randn(steps, *tail, generator=generator)
    decay = torch.rand(steps, *tail, generator=generator)
    compiled = scan._reverse_scan_numba(increment, decay)
    torch.testing.assert_close(compiled, scan._reverse_scan_torch(increment, decay), rtol=1e-6, atol=1e-6)


def test_scan_carries_double_precision_over_long_sums():
    steps = 200_000
    increment, decay = torch.full((steps, 1), 0.1), torch.ones(steps, 1)
    exact = steps * float(torch.tensor(0.1))
    for implementation in (scan._reverse_scan_numba, scan._reverse_scan_torch):
        assert implementation(increment, decay)[0].item() == pytest.approx(exact, rel=1e-7)
        if implementation is scan._reverse_scan_numba:
            increment, decay = increment[:2000], decay[:2000]
            exact = 2000 * float(torch.tensor(0.1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scan_keeps_dtype_and_accepts_any_layout(dtype):
    increment = torch.arange(12.0).reshape(3, 4).t().to(dtype)
    assert not increment.is_contiguous()
    result = ops.reverse_scan(increment, torch.full((4,), 0.5, dtype=dtype))
    assert result.dtype == dtype
    expected = scan._reverse_scan_torch(increment, torch.full((4, 3), 0.5, dtype=dtype))
    torch.testing.assert_close(result, expected)


def test_scan_is_differentiable_but_targets_are_not():
    increment = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    decay = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.reverse_scan, (increment, decay))
    assert not ops.lambda_return(increment, decay, increment, 0.9).requires_grad


def test_per_dimension_discounts_and_replicas_broadcast():
    reward, value, step_type, discount = (torch.from_numpy(x) for x in _random_segment(3, 6, 2, 3))
    gamma = torch.tensor([0.9, 0.5, 0.0])
    joint = ops.trajectory_lambda_return(reward, value, step_type, discount.unsqueeze(-1) * gamma, 0.9)
    for d in range(3):
        single = ops.trajectory_lambda_return(reward[..., d], value[..., d], step_type, discount * gamma[d], 0.9)
        torch.testing.assert_close(joint[..., d], single)
    replicas = torch.stack([value[..., 0], value[..., 1]], dim=-1)
    both = ops.trajectory_advantage(reward[..., 0], replicas, step_type, discount, 0.9)
    torch.testing.assert_close(
        both[..., 1], ops.trajectory_advantage(reward[..., 0], value[..., 1], step_type, discount, 0.9)
    )


def test_bad_shapes_and_settings_are_named():
    reward = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"time and batch.*\(3, 4\)"):
        ops.lambda_return(reward, torch.zeros(3, 4), reward, 0.9)
    with pytest.raises(ValueError, match=r"lambda.*1\.5"):
        ops.lambda_return(reward, reward, reward, 1.5)
    with pytest.raises(ValueError, match="n=0"):
        ops.n_step_return(reward, reward, reward, 0)
    with pytest.raises(ValueError, match="at least 2 time steps"):
        ops.trajectory_discounted_return(reward[:1], reward[:1], reward[:1].int(), reward[:1])
    with pytest.raises(ValueError, match="step_type has shape"):
        ops.trajectory_discounted_return(reward, reward, torch.zeros(2, 2, dtype=torch.int32), reward)
    with pytest.raises(ValueError, match="cut has shape"):
        ops.lambda_return(reward, reward, reward, 0.9, torch.zeros(2, 2, dtype=torch.bool))


def test_cpu_tensors_stay_on_the_cpu_under_another_default_device():
    reward = torch.ones(3, 2)
    with torch.device("meta"):
        assert ops.reverse_scan(reward, reward).device.type == "cpu"
