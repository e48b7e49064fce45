"""Normalizers against moments computed from all data at once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import statistics
from rein.config import config, fresh_configs
from rein.runtime import Run, summary
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer, EMNormalizer, WindowNormalizer, batches

SPEC = TensorSpec((3,))


def _normalizers(spec=SPEC, **kwargs):
    return [
        statistics.WindowNormalizer(spec, window_size=10_000, **kwargs),
        statistics.EMNormalizer(spec, update_rate=0.01, **kwargs),
        statistics.AdaptiveNormalizer(spec, speed=1.0, **kwargs),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_normalized_data_have_mean_zero_and_deviation_one(kind):
    torch.manual_seed(0)
    normalizer = _normalizers()[kind]
    mean, std = torch.tensor([0.0, 100.0, -5.0]), torch.tensor([1.0, 0.1, 20.0])
    for _ in range(500):
        normalizer.normalize(mean + std * torch.randn(16, 3))
    fresh = normalizer.normalize(mean + std * torch.randn(20_000, 3))
    torch.testing.assert_close(fresh.mean(0), torch.zeros(3), atol=0.06, rtol=0)
    torch.testing.assert_close(fresh.std(0), torch.ones(3), atol=0.06, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 9))
def test_window_moments_equal_those_of_the_pooled_batches(seed, count, window):
    rng = np.random.default_rng(seed)
    batches = rng.normal(loc=rng.normal(scale=10, size=(count, 1, 1)), size=(count, 4, 2))
    normalizer = statistics.WindowNormalizer(TensorSpec((2,), torch.float64), window_size=window)
    for i, batch in enumerate(batches):
        normalizer.update(torch.from_numpy(batch))
        pooled = batches[max(0, i + 1 - window) : i + 1].reshape(-1, 2)
        np.testing.assert_allclose(normalizer.mean().numpy(), pooled.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normalizer.std().numpy(), pooled.std(0), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from(["em", "adaptive"]))
def test_decaying_moments_equal_weighted_pooled_moments(seed, count, kind):
    rng = np.random.default_rng(seed)
    batches = rng.normal(loc=rng.normal(scale=10, size=(count, 1)), size=(count, 5))
    if kind == "em":
        normalizer, rates = statistics.ScalarEMNormalizer(0.3), [0.3] * count
    else:
        normalizer, rates = statistics.ScalarAdaptiveNormalizer(4.0), [4 / (t + 4) for t in range(count)]
    weights = np.zeros(count)
    for i, rate in enumerate(rates):
        weights *= 1 - rate
        weights[i] = rate
        normalizer.update(torch.from_numpy(batches[i]))
    weights = np.repeat(weights / weights.sum() / 5, 5)
    pooled = batches.reshape(-1)
    mean = np.dot(weights, pooled)
    variance = np.dot(weights, (pooled - mean) ** 2)
    assert normalizer._moments.mean(0).item() == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert normalizer._moments.variance(0).item() == pytest.approx(variance, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", range(3))
def test_large_offsets_do_not_cancel(kind):
    torch.manual_seed(0)
    normalizer = _normalizers(TensorSpec((), torch.float64))[kind]
    for _ in range(300):
        normalizer.update(1e8 + torch.randn(64, dtype=torch.float64))
    assert normalizer.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("kind", range(3))
def test_without_data_nothing_changes_and_without_auto_update_nothing_is_learnt(kind):
    normalizer = _normalizers(auto_update=False)[kind]
    x = torch.randn(5, 3)
    torch.testing.assert_close(normalizer.normalize(x), x)
    torch.testing.assert_close(normalizer(x), x)
    normalizer.update(x * 10)
    assert not torch.allclose(normalizer.normalize(x), x)
    normalizer.reset()
    torch.testing.assert_close(normalizer.normalize(x), x)


def test_kinds_of_scaling_without_centring():
    batch = torch.tensor([1.0, 3.0])
    power = statistics.ScalarAdaptiveNormalizer(zero_mean=False).normalize(batch)
    torch.testing.assert_close(power, batch / 5.0**0.5)
    centred = statistics.ScalarWindowNormalizer().normalize(batch)
    torch.testing.assert_close(centred, torch.tensor([-1.0, 1.0]))


def test_a_deviation_taken_for_one_leaves_only_the_mean_to_subtract():
    batch = torch.tensor([1.0, 3.0, 8.0])
    shifted = statistics.ScalarWindowNormalizer(unit_std=True).normalize(batch)
    torch.testing.assert_close(shifted, torch.tensor([-3.0, -1.0, 4.0]))
    with pytest.raises(ValueError, match="would change nothing"):
        statistics.ScalarEMNormalizer(zero_mean=False, unit_std=True)


def test_clipping_limits_both_sides():
    normalizer = statistics.ScalarEMNormalizer(auto_update=False)
    assert normalizer.normalize(torch.tensor([-9.0, 0.5, 9.0]), clip_value=2.0).tolist() == [-2.0, 0.5, 2.0]
    assert normalizer.normalize(torch.tensor([9.0]), clip_value=0.0).item() == pytest.approx(9.0)


def test_constant_data_give_zero_and_gradients_reach_the_input():
    normalizer = statistics.AdaptiveNormalizer(SPEC)
    x = torch.full((4, 3), 7.0, requires_grad=True)
    result = normalizer.normalize(x)
    assert torch.equal(result.detach(), torch.zeros(4, 3))
    result.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_nests_integers_and_dtypes():
    spec = {"image": TensorSpec((2,), torch.uint8), "x": TensorSpec((), torch.float64)}
    normalizer = statistics.EMNormalizer(spec, update_rate=0.5)
    result = normalizer.normalize(
        {"image": torch.tensor([[0, 10], [10, 30]], dtype=torch.uint8), "x": torch.tensor([1.0, 3.0])}
    )
    assert result["image"].dtype == torch.float32
    assert result["x"].dtype == torch.float32
    torch.testing.assert_close(result["image"], torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    assert normalizer.mean()["x"].dtype == torch.float64


@pytest.mark.parametrize("kind", range(3))
def test_state_dict_resumes_exactly(kind):
    torch.manual_seed(0)
    original, restored = (_normalizers()[kind] for _ in range(2))
    for _ in range(5):
        original.update(torch.randn(4, 3))
    restored.load_state_dict(original.state_dict())
    batch = torch.randn(4, 3)
    assert torch.equal(original.normalize(batch), restored.normalize(batch))


class Recorder(summary.SummaryWriter):
    def __init__(self):
        self.values = {}

    def scalar(self, name, value, step):
        self.values[name] = value


def test_debug_summaries_show_the_moments():
    recorder = Recorder()
    normalizer = statistics.EMNormalizer(
        {"a": TensorSpec((2,)), "b": TensorSpec(())}, debug_summaries=True, name="norm"
    )
    batch = {"a": torch.tensor([[0.0, 2.0], [0.0, 6.0]]), "b": torch.tensor([1.0, 1.0])}
    normalizer.update(batch)
    with Run(writer=recorder):
        normalizer.update(batch)
    assert recorder.values["norm/a.mean.max"] == pytest.approx(4.0)
    assert recorder.values["norm/a.std.max"] == pytest.approx(2.0)
    assert recorder.values["norm/b.mean"] == pytest.approx(1.0)
    assert "norm/b.mean.max" not in recorder.values


def test_bad_epsilon_is_named():
    with pytest.raises(ValueError, match="variance_epsilon"):
        statistics.ScalarEMNormalizer(variance_epsilon=-1.0)


def test_parameters_can_be_given_by_a_conf():
    with fresh_configs():
        config({"AdaptiveNormalizer.speed": 2.0, "ScalarWindowNormalizer.window_size": 1})
        assert statistics.AdaptiveNormalizer(SPEC)._moments._speed == 2.0
        assert statistics.ScalarAdaptiveNormalizer(3.0)._moments._speed == 3.0
        normalizer = statistics.ScalarWindowNormalizer()
        normalizer.update(torch.tensor(1.0))
        normalizer.update(torch.tensor(5.0))
        assert normalizer.mean().item() == 5.0


@pytest.mark.parametrize("zero_mean", [False, True])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("kind", [AdaptiveNormalizer, EMNormalizer, WindowNormalizer])
def test_small_batches_are_taken_in_as_large_ones_are(
    kind: type, shape: tuple[int, ...], zero_mean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (kind(TensorSpec(shape), zero_mean=zero_mean) for _ in range(2))
    for batch in ((), (1,), (2, 4)):
        x = 100.0 + torch.randn((*batch, *shape))
        monkeypatch.setattr(batches, "MOST_ON_HOST", 4096)
        mine = small.normalize(x, clip_value=3.0)
        monkeypatch.setattr(batches, "MOST_ON_HOST", -1)
        theirs = large.normalize(x, clip_value=3.0)
        assert mine.shape == x.shape
        assert mine.dtype == x.dtype
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
        for a, b in zip(small.state_dict().values(), large.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_a_small_batch_leaves_a_mark_on_the_buffers_that_it_changes() -> None:
    normalizer = AdaptiveNormalizer(TensorSpec((3,)))
    before = [(one, one._version) for one in normalizer.buffers()]
    normalizer.update(torch.randn(2, 3))
    assert all(one._version > version for one, version in before)


def test_what_is_normalized_on_the_host_is_not_overwritten() -> None:
    normalizer = AdaptiveNormalizer(TensorSpec((3,)))
    x = torch.randn(5, 3)
    kept = x.clone()
    first = normalizer.normalize(x)
    copy = first.clone()
    normalizer.normalize(torch.randn(5, 3))
    assert torch.equal(x, kept)
    assert torch.equal(first, copy)
