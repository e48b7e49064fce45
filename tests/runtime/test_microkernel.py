"""Products by the microkernel: any sizes and strides, any number of threads, the same numbers as torch's."""

import itertools
import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rein.runtime import microkernel
from rein.runtime.microkernel import LARGEST, Form, multiply

needs_kernel = pytest.mark.skipif(not microkernel._is_there(), reason="no C++ compiler, or a torch without the kernel")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    microkernel._found.cache_clear()
    yield
    microkernel._found.cache_clear()
    torch.set_num_threads(threads)


def product(a: Tensor, b: Tensor) -> Tensor:
    out = torch.full((*a.shape[:-1], b.shape[-1]), torch.nan)
    multiply(a, b, form=Form.of(tuple(a.shape), a.stride(), tuple(b.shape), b.stride()), out=out)
    return out


def check(a: Tensor, b: Tensor) -> None:
    exact, bound = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    # Each of k sums is rounded to 2^-24 of what has been summed up.
    assert ((product(a, b) - exact).abs() <= a.shape[-1] * 2.0**-23 * bound).all()


@needs_kernel
def test_a_product_by_hand() -> None:
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [6.0]])
    assert product(a, b).tolist() == [[17.0], [39.0]]
    assert product(a.t(), b).tolist() == [[23.0], [34.0]]
    assert product(b.t(), a).tolist() == [[23.0, 34.0]]


@needs_kernel
@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 70),
    n=st.integers(1, 70),
    k=st.integers(1, 70),
    batch=st.integers(0, 3),
    turned=st.tuples(st.booleans(), st.booleans()),
    gap=st.integers(0, 3),
    threads=st.integers(1, 3),
)
def test_all_sizes_and_strides(
    m: int, n: int, k: int, batch: int, turned: tuple[bool, bool], gap: int, threads: int
) -> None:
    torch.set_num_threads(threads)
    stack = (batch,) if batch else ()

    def factor(rows: int, columns: int, is_turned: bool) -> Tensor:
        shape = (columns, rows + gap) if is_turned else (rows, columns + gap)
        made = torch.randn(*stack, *shape, generator=torch.Generator().manual_seed(rows * columns))
        return made[..., :rows].mT if is_turned else made[..., :columns]

    check(factor(m, k, turned[0]), factor(k, n, turned[1]))


@needs_kernel
@pytest.mark.parametrize("shape", [(256, 256, 256), (2, 256, 256), (200, 16, 400), (16, 300, 400), (300, 9, 400)])
@pytest.mark.parametrize("turned", list(itertools.product([False, True], repeat=2)))
def test_large_ones_have_the_same_bits_with_any_number_of_threads(
    shape: tuple[int, int, int], turned: tuple[bool, bool]
) -> None:
    m, n, k = shape
    torch.manual_seed(0)
    for stack in ((), (2,), (3,)):
        a = torch.randn(*stack, k, m).mT if turned[0] else torch.randn(*stack, m, k)
        b = torch.randn(*stack, n, k).mT if turned[1] else torch.randn(*stack, k, n)
        torch.set_num_threads(1)
        alone = product(a, b)
        check(a, b)
        for threads in (2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(product(a, b), alone)


@needs_kernel
@pytest.mark.parametrize("shape", [(256, 256, 64), (2, 256, 40, 70), (2, 70, 256, 64)])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.9, 1.0])
def test_rows_of_zeros_give_zeros_and_others_what_they_gave(shape: tuple[int, ...], share: float) -> None:
    *lead, m, k, n = shape
    a, b = torch.randn(*lead, m, k), torch.randn(*lead, k, n)
    is_used = torch.rand(*lead, m, 1) < share
    rows = torch.where(is_used, a, -0.0)
    rows[..., : k - 1] = torch.where(torch.rand(*lead, m, 1) < 0.3, 0.0, rows[..., : k - 1])
    # With ones in their place no row is left out.
    full = product(torch.where(rows.abs().sum(-1, keepdim=True) > 0.0, rows, 1.0), b)
    expected = torch.where(rows.abs().sum(-1, keepdim=True) > 0.0, full, 0.0)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(product(rows, b), expected)
    check(rows, b)


@needs_kernel
def test_rows_of_zeros_hide_nothing_that_is_not_finite() -> None:
    a, b = torch.zeros(256, 64), torch.randn(64, 64)
    a[7, 63], a[200, 0] = torch.nan, torch.inf
    found = product(a, b)
    assert found[7].isnan().all()
    assert not found[200].isfinite().any()
    assert (found.abs().sum(1) == 0.0).sum() == 254


@needs_kernel
@pytest.mark.parametrize("shape", [(256, 256, 17), (2, 100, 70, 5), (64, 64, 1), (256, 300, 31)])
def test_thin_ones_with_a_turned_factor(shape: tuple[int, ...]) -> None:
    *lead, m, k, n = shape
    a, b = torch.randn(*lead, k, m).mT, torch.randn(*lead, k, 2 * n)[..., :n]
    check(a, b)
    found = product(a, b)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(product(a, b), found)


@needs_kernel
def test_rows_that_are_repeated() -> None:
    row, column = torch.randn(1, 20), torch.randn(20, 1)
    check(row.expand(30, 20), column.expand(20, 40))
    check(torch.randn(30, 1).expand(30, 20), torch.randn(1, 1).expand(20, 5))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (torch.empty(256, 256), torch.empty(256, 256), True),
        (torch.empty(4096, 16), torch.empty(16, 8), True),
        (torch.empty(16, 512), torch.empty(512, 512), False),
        (torch.empty(4096, 64).t(), torch.empty(4096, 64), False),
        (torch.empty(0, 16), torch.empty(16, 8), False),
    ],
)
def test_what_it_is_made_for(a: Tensor, b: Tensor, expected: bool) -> None:
    assert Form.of(tuple(a.shape), a.stride(), tuple(b.shape), b.stride()).is_small is expected
    assert LARGEST == 2**17


@pytest.mark.parametrize(
    ("ratio", "wish", "expected"), [(2.0, "", True), (1.0, "", False), (2.0, "0", False), (0.5, "1", True)]
)
def test_it_must_be_faster_unless_the_environment_decides(
    ratio: float, wish: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microkernel, "_is_there", lambda: True)
    monkeypatch.setattr(microkernel, "_is_exact", lambda: True)
    monkeypatch.setattr(microkernel, "_ratio", lambda: ratio)
    monkeypatch.setenv(microkernel.VARIABLE, wish)
    assert microkernel.is_faster() is expected


@needs_kernel
def test_one_that_is_not_exact_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def rough(a: Tensor, b: Tensor, *, form: tuple[int, ...], out: Tensor) -> None:
        out.copy_((a.bfloat16() @ b.bfloat16()).float())

    monkeypatch.setattr(microkernel, "multiply", rough)
    monkeypatch.setenv(microkernel.VARIABLE, "1")
    assert not microkernel.is_faster()


def test_it_is_compiled_in_a_thread_while_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(microkernel, "_is_there", may_end.wait)
    monkeypatch.setattr(microkernel, "_preparing", [])
    monkeypatch.delenv(microkernel.VARIABLE, raising=False)
    assert [microkernel.is_ready(), microkernel.is_ready()] == [False, False]
    may_end.set()
    microkernel._preparing[0].join()
    assert microkernel.is_ready()
    assert len(microkernel._preparing) == 1


def test_where_it_is_not_wanted_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microkernel, "_preparing", [])
    monkeypatch.setenv(microkernel.VARIABLE, "0")
    assert microkernel.is_ready()
    assert microkernel._preparing == []


def test_a_torch_without_it_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microkernel, "_SYMBOL", "not_there")
    monkeypatch.setenv(microkernel.VARIABLE, "1")
    microkernel._loaded.cache_clear()
    try:
        assert not microkernel.is_faster()
    finally:
        microkernel._loaded.cache_clear()
