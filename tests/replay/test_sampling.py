"""Frequencies of samples against what they should be, by chi-square with fixed seeds."""

import pytest
import torch
from scipy import stats

from rein.replay import ReplayBuffer, plain_torch
from rein.specs import TensorSpec

SPEC = TensorSpec((), torch.int64)
SMALLEST_P = 1e-3


def make(sizes: list[int], max_length: int, **options: object) -> ReplayBuffer:
    """A buffer whose environments have progressed unevenly."""
    buffer = ReplayBuffer(SPEC, len(sizes), max_length, **options)
    for number in range(max(sizes)):
        env_ids = torch.tensor([env for env, size in enumerate(sizes) if number < size])
        buffer.add_batch(torch.full((len(env_ids),), number), env_ids)
    return buffer


def frequencies(buffer: ReplayBuffer, batch_size: int, length: int, num_batches: int) -> torch.Tensor:
    counts = torch.zeros(buffer.num_environments, int(buffer.current_pos.max()), dtype=torch.int64)
    for _ in range(num_batches):
        _, info = buffer.get_batch(batch_size, length)
        counts.index_put_((info.env_ids, info.positions), torch.ones_like(info.positions), accumulate=True)
    return counts


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("batch_size", [4, 20, 50])
def test_uniform_sampling_is_uniform_over_all_starts(is_plain: bool, with_replacement: bool, batch_size: int) -> None:
    torch.manual_seed(batch_size)
    sizes, length = [3, 30, 8, 1], 2
    if is_plain:
        with plain_torch():
            buffer = make(sizes, 20, with_replacement=with_replacement)
    else:
        buffer = make(sizes, 20, with_replacement=with_replacement)
    counts = frequencies(buffer, batch_size, length, 400)
    starts = [(0, p) for p in range(2)] + [(1, p) for p in range(10, 29)] + [(2, p) for p in range(7)]
    observed = [int(counts[start]) for start in starts]
    assert sum(observed) == 400 * batch_size, "nothing but starts is sampled"
    if with_replacement:
        assert stats.chisquare(observed).pvalue > SMALLEST_P
    else:
        # Draws without replacement vary less than chi-square assumes, so compare the spread directly.
        expected = 400 * batch_size / len(starts)
        assert max(abs(count - expected) for count in observed) < 4.5 * expected**0.5


def test_sets_drawn_without_replacement_are_equally_likely() -> None:
    torch.manual_seed(0)
    buffer = make([5], 5)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        key = tuple(buffer.get_batch(2, 1)[1].positions.tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > SMALLEST_P


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("with_replacement", [False, True])
def test_prioritized_sampling_follows_the_priorities(is_plain: bool, with_replacement: bool) -> None:
    torch.manual_seed(1)
    options = {"prioritized_sampling": True, "with_replacement": with_replacement}
    if is_plain:
        with plain_torch():
            buffer = make([40, 12], 25, **options)
    else:
        buffer = make([40, 12], 25, **options)
    starts = [(0, p) for p in range(15, 40)] + [(1, p) for p in range(12)]
    priorities = torch.rand(len(starts)) ** 3
    priorities[::5] = 0
    env_ids, positions = torch.tensor(starts).T
    buffer.update_priority(env_ids, positions, priorities)
    counts = frequencies(buffer, 16, 1, 600)
    observed = torch.tensor([counts[start] for start in starts])
    assert int(observed.sum()) == 600 * 16
    assert int(observed[::5].sum()) == 0
    kept = priorities > 0
    expected = priorities[kept].double() / priorities[kept].double().sum() * 600 * 16
    if with_replacement:
        assert stats.chisquare(observed[kept].numpy(), expected.numpy()).pvalue > SMALLEST_P
    else:
        assert bool(((observed[kept] - expected).abs() < 4.5 * expected.sqrt() + 1).all())


def test_importance_weights_average_to_one_over_uniform_draws() -> None:
    buffer = make([200], 200, prioritized_sampling=True)
    priorities = torch.rand(200) + 0.1
    buffer.update_priority(torch.zeros(200, dtype=torch.int64), torch.arange(200), priorities)
    _, info = buffer.get_batch(64, 1)
    expected = priorities[info.positions] / priorities.mean()
    assert torch.allclose(info.importance_weights, expected)


def test_recent_share_is_as_asked() -> None:
    torch.manual_seed(2)
    buffer = make([500, 400], 500, recent_data_steps=10, recent_data_ratio=0.25, with_replacement=True)
    counts = frequencies(buffer, 40, 3, 300)
    recent = int(counts[0, 488:498].sum() + counts[1, 388:398].sum())
    share = 0.25 + 0.75 * 20 / (498 + 398)
    assert recent / (40 * 300) == pytest.approx(share, abs=0.01)
    assert stats.chisquare([int(c) for c in counts[0, 488:498]]).pvalue > SMALLEST_P


def test_recent_and_prioritized_together() -> None:
    torch.manual_seed(3)
    buffer = make([300], 300, recent_data_steps=5, recent_data_ratio=0.5, prioritized_sampling=True)
    _, info = buffer.get_batch(10, 1)
    assert int((info.positions >= 295).sum()) >= 5
    assert info.positions.tolist() == sorted(info.positions.tolist())
    assert torch.equal(info.importance_weights, torch.ones(10))
