"""Who makes matrix products: oneDNN only where it is exact, much faster, and the products are large."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from rein.distributed.counters import counters_now, running
from rein.runtime import Run, products

needs_setting = pytest.mark.skipif(not products._may_be_exact(), reason="oneDNN might make products in bfloat16 here")


@pytest.fixture(autouse=True)
def _tried_anew() -> Iterator[None]:
    products._found.cache_clear()
    yield
    products._found.cache_clear()


@pytest.fixture
def exact_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_may_be_exact", lambda: True)
    monkeypatch.setattr(products, "_is_exact", lambda: True)


@pytest.mark.usefixtures("exact_here")
@pytest.mark.parametrize(
    ("ratio", "wish", "expected"), [(2.0, "", True), (1.1, "", False), (2.0, "0", False), (0.5, "1", True)]
)
def test_it_must_be_much_faster_unless_the_environment_decides(
    ratio: float, wish: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_ratio", lambda: ratio)
    monkeypatch.setenv(products.VARIABLE, wish)
    assert products.onednn_is_faster() is expected


@pytest.mark.usefixtures("exact_here")
@pytest.mark.parametrize("first", [True, False])
def test_a_run_keeps_what_it_has_found_after_it_was_resumed_too(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(products, "_ratio", lambda: 2.0 if first else 1.0)
    with Run(seed=0) as run:
        assert products.onednn_is_faster() is first
        state = run.state_dict()
    products._found.cache_clear()
    monkeypatch.setattr(products, "_ratio", lambda: 1.0 if first else 2.0)
    with Run(seed=0) as resumed:
        assert products.onednn_is_faster() is not first
        resumed.load_state_dict(state)
        assert products.onednn_is_faster() is first
    with Run(seed=0) as older:
        older.load_state_dict({name: one for name, one in state.items() if name != "trials"})
        assert products.onednn_is_faster() is not first


def test_what_a_run_has_found_does_not_count_where_products_are_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(products, "_may_be_exact", lambda: False)
    with Run(seed=0) as run:
        run.trials["products_by_onednn"] = True
        assert not products.onednn_is_faster()


@pytest.mark.usefixtures("exact_here")
@pytest.mark.parametrize("found", [True, False])
def test_workers_do_as_the_updater(found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(products, "_ratio", lambda: 2.0 if found else 1.0)
    with Run(seed=0):
        counters = counters_now()
    products._found.cache_clear()
    monkeypatch.setattr(products, "_ratio", lambda: 1.0 if found else 2.0)
    with running(Run(seed=1), counters):
        assert products.onednn_is_faster() is found


def test_products_in_bfloat16_are_noticed_and_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def rough(a: Tensor, b: Tensor) -> Tensor:
        return a @ b if a.dtype == torch.float64 else (a.bfloat16() @ b.bfloat16()).float()

    monkeypatch.setattr(products, "_may_be_exact", lambda: True)
    monkeypatch.setattr(products, "_forms", lambda: [(torch.mm, (8, 8)), (rough, (64, 64))])
    monkeypatch.setenv(products.VARIABLE, "1")
    assert not products.onednn_is_faster()


def test_processors_with_units_for_bfloat16_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setenv(products.VARIABLE, "1")
    assert not products.onednn_is_faster()


@pytest.mark.parametrize(
    ("flops", "expected"),
    [([4e6], True), ([1e6], False), ([2e7] + [1e4] * 5, True), ([3e6] + [1e4] * 5, False), ([], False)],
)
def test_large_products_must_outweigh_small_ones(
    flops: list[float], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    assert products.pays(flops) is expected


@needs_setting
def test_the_setting_of_torch_is_as_before_also_after_an_error() -> None:
    setting = torch.backends.mkldnn.matmul
    before = setting.fp32_precision

    def fail() -> None:
        with products.by_onednn():
            assert setting.fp32_precision == "bf16"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert setting.fp32_precision == before
    with products.by_onednn(False):
        assert setting.fp32_precision == before


@needs_setting
def test_products_of_many_shapes_are_as_exact_as_without() -> None:
    torch.manual_seed(0)
    for rows, inner, columns in [(256, 256, 256), (256, 23, 256), (100, 64, 12), (17, 300, 5), (512, 33, 1)]:
        a, b = torch.randn(rows, inner), torch.randn(inner, columns)
        exact = a.double() @ b.double()
        with products.by_onednn():
            found = [a @ b, a @ b.t().contiguous().t(), (b.t() @ a.t()).t(), torch.bmm(a[None], b[None])[0]]
        error_without = (a @ b - exact).abs().max()
        for one in found:
            assert (one - exact).abs().max() < 4 * error_without + 1e-6
