"""Matrix products of single-precision numbers by oneDNN's microkernel, for the small sizes of an update.

`torch.mm` takes some microseconds before it multiplies, by oneDNN ten, and its libraries copy both factors into blocks
first. For products of 256x64x64 that is longer than the arithmetic. Torch ships the kernel that oneDNN multiplies a block
by (`at::native::cpublas::brgemm`), and whatever it needs of a factor, rows without gaps, most factors of an update have.
Here is the glue: a function in C++, compiled the way inductor compiles its kernels, which turns a factor that lies the
other way, shares the rows or columns among the threads, leaves out rows of zeros where they are many (a sample without
gradient is one: the critic that is not the lowest has none for the policy), and calls that kernel.

It takes a C++ compiler and a processor with AVX-512: on others the kernel falls back to the library that `torch.mm` calls,
and a trial of some milliseconds says so.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from threading import Thread
from typing import NamedTuple

import torch
from torch import Tensor

from rein.runtime.trials import kept, processor_time_ratio

VARIABLE = "REIN_MICROKERNEL"
LARGEST = 2**17
"""Elements of the right factor, which the kernel reads for each block of rows, and of a left one that is copied: both
should stay in the cache. Beyond, libraries that work block by block are faster."""
_FASTER = 1.1
_TOLERANCE = 1e-5
_SYMBOL = "_ZN2at6native7cpublas6brgemmEllllllbPKfS3_Pfb"
_NUMBERS = 11
"""Arguments of the function behind the tensors."""

_SOURCE = """
#include <algorithm>
#include <cstdint>
#include <vector>
#include <omp.h>
#include <ATen/cpu/vec/vec.h>

using Brgemm = void (*)(int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t b_row, int64_t c_row, bool add,
                        const float* a, const float* b, float* c, bool is_vnni);

// Copies [rows, columns] of any strides to rows without gaps.
static void in_rows(const float* from, int64_t rows, int64_t columns, int64_t row, int64_t column, float* to) {
    constexpr int64_t tile = 16;
    int64_t i = 0;
    if (row == 1) {
        for (; i + tile <= rows; i += tile) {
            int64_t j = 0;
            for (; j + tile <= columns; j += tile)
                at::vec::transpose_mxn<float, tile, tile>(from + i + j * column, column, to + i * columns + j, columns);
            for (; j < columns; ++j)
                for (int64_t l = i; l < i + tile; ++l) to[l * columns + j] = from[l + j * column];
        }
    }
    for (; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = from[i * row + j * column];
}

static float* scratch(std::vector<float>& held, int64_t size) {
    if (static_cast<int64_t>(held.size()) < size) held.resize(size);
    return held.data();
}

// Whether there is anything but zeros.
static bool has_any(const float* row, int64_t size) {
    constexpr int64_t step = 64;
    const uint32_t* bits = reinterpret_cast<const uint32_t*>(row);
    int64_t i = 0;
    for (; i + step <= size; i += step) {
        uint32_t any = 0;
        for (int64_t j = 0; j < step; ++j) any |= bits[i + j] << 1;
        if (any) return true;
    }
    for (; i < size; ++i)
        if (bits[i] << 1) return true;
    return false;
}

extern "C" void kernel(const float* a, const float* b, float* c, int64_t batch, int64_t m, int64_t n, int64_t k,
                       int64_t a_batch, int64_t a_row, int64_t a_column,
                       int64_t b_batch, int64_t b_row, int64_t b_column, uintptr_t brgemm) {
    const auto multiply = reinterpret_cast<Brgemm>(brgemm);
    const bool copies_a = (k > 1 && a_column != 1) || (m > 1 && a_row < k);
    const bool copies_b = (n > 1 && b_column != 1) || (k > 1 && b_row < n);
    if (copies_a && a_row == 1 && n < 32 && m >= 64 && k >= 64) {
        // Turned, a large factor needs no copy, and what has to be copied is thin.
        static thread_local std::vector<float> held;
        float* turned = scratch(held, n * m);
        for (int64_t which = 0; which < batch; ++which) {
            kernel(b + which * b_batch, a + which * a_batch, turned, 1, n, m, k,
                   0, b_column, b_row, 0, a_column, a_row, brgemm);
            in_rows(turned, m, n, 1, m, c + which * m * n);
        }
        return;
    }
    // Below a million operations starting a second thread takes longer than it saves.
    const double operations = 2.0 * batch * m * std::max<int64_t>(n, 16) * k;
    const int64_t threads = operations < 1e6 || omp_in_parallel() ? 1 : omp_get_max_threads();
    // Each thread copies what only it needs: a part of the rows with all of B, or a part of the columns with all of A.
    const int64_t pieces = batch % threads == 0 ? 1 : threads;
    const bool by_columns = n >= 2 * threads && (copies_b || m < 16 * threads);
    const int64_t length = by_columns ? n : m;
    const int64_t step = pieces == 1 ? length : (length + 16 * pieces - 1) / (16 * pieces) * 16;
    auto run = [&](int64_t task) {
        static thread_local std::vector<float> held_a, held_b;
        const int64_t which = task / pieces, begin = task % pieces * step, end = std::min(begin + step, length);
        if (begin >= end) return;
        const int64_t i = by_columns ? 0 : begin, rows = by_columns ? m : end - begin;
        const int64_t j = by_columns ? begin : 0, columns = by_columns ? end - begin : n;
        const float* left = a + which * a_batch + i * a_row;
        const float* right = b + which * b_batch + j * b_column;
        int64_t left_row = m > 1 ? a_row : k, right_row = k > 1 ? b_row : n;
        if (copies_a) {
            float* to = scratch(held_a, rows * k);
            in_rows(left, rows, k, a_row, a_column, to);
            left = to;
            left_row = k;
        }
        if (copies_b) {
            float* to = scratch(held_b, k * columns);
            in_rows(right, k, columns, b_row, b_column, to);
            right = to;
            right_row = columns;
        }
        float* result = c + (which * m + i) * n + j;
        if (!copies_a && std::min(columns, k) >= 32 && rows >= 64) {
            static thread_local std::vector<int64_t> used;
            static thread_local std::vector<float> held_c;
            used.clear();
            for (int64_t row = 0; row < rows; ++row)
                if (has_any(left + row * left_row, k)) used.push_back(row);
            // The kernel is made anew for each number of rows, so these are few.
            const int64_t count = (used.size() + 15) / 16 * 16;
            if (4 * count <= 3 * rows) {
                float* packed = scratch(held_a, count * k);
                float* products = scratch(held_c, count * columns);
                for (size_t row = 0; row < used.size(); ++row)
                    std::copy_n(left + used[row] * left_row, k, packed + row * k);
                std::fill(packed + used.size() * k, packed + count * k, 0.0f);
                if (count) multiply(count, columns, k, k, right_row, columns, false, packed, right, products, false);
                size_t next = 0;
                for (int64_t row = 0; row < rows; ++row) {
                    if (next < used.size() && used[next] == row)
                        std::copy_n(products + next++ * columns, columns, result + row * n);
                    else
                        std::fill_n(result + row * n, columns, 0.0f);
                }
                return;
            }
        }
        multiply(rows, columns, k, left_row, right_row, n, false, left, right, result, false);
    };
    const int64_t tasks = batch * pieces;
    if (threads == 1) {
        for (int64_t task = 0; task < tasks; ++task) run(task);
    } else {
        #pragma omp parallel num_threads(threads)
        for (int64_t task = omp_get_thread_num(); task < tasks; task += threads) run(task);
    }
}
"""


class Form(NamedTuple):
    """Sizes and strides of a product of [batch, m, k] and [batch, k, n], in elements."""

    batch: int
    m: int
    n: int
    k: int
    a_batch: int
    a_row: int
    a_column: int
    b_batch: int
    b_row: int
    b_column: int

    @classmethod
    def of(
        cls, a_size: tuple[int, ...], a_stride: tuple[int, ...], b_size: tuple[int, ...], b_stride: tuple[int, ...]
    ) -> "Form":
        """The form of a product of factors with 2 dimensions, or with 3 of which the first is the batch."""
        batch, a_batch, b_batch = (1, 0, 0) if len(a_size) == 2 else (a_size[0], a_stride[0], b_stride[0])
        (m, k), n = a_size[-2:], b_size[-1]
        return cls(batch, m, n, k, a_batch, a_stride[-2], a_stride[-1], b_batch, b_stride[-2], b_stride[-1])

    @property
    def is_small(self) -> bool:
        """Whether the kernel is made for such sizes."""
        read_often = self.n if self.a_column == 1 else max(self.m, self.n)
        return min(self.batch, self.m, self.n, self.k) > 0 and self.k * read_often <= LARGEST


def multiply(a: Tensor, b: Tensor, *, form: tuple[int, ...], out: Tensor) -> None:
    """Writes the product of two matrices, or of stacks of them, to `out`, whose rows have no gaps.

    Args:
        a: [m, k] or [batch, m, k].
        b: [k, n] or [batch, k, n].
        form: a `Form` of these, or its numbers.
        out: [m, n] or [batch, m, n].
    """
    kernel, brgemm = _loaded()
    kernel(a, b, out, *form, brgemm)


def is_faster() -> bool:
    """Whether the kernel is there, exact, and faster than `torch.mm`; what a run has found once, it keeps."""
    return kept("products_by_microkernel", VARIABLE, _found)


def is_ready() -> bool:
    """Whether `is_faster` answers at once; if not, the glue is compiled from now on, in a thread."""
    if os.environ.get(VARIABLE, "") == "0":
        return True
    if not _preparing:
        _preparing.append(Thread(target=_is_there, name="microkernel", daemon=True))
        _preparing[0].start()
    return not _preparing[0].is_alive()


_preparing: list[Thread] = []


@cache
def _found(wish: str) -> bool:
    """The outcome of a trial, which takes some milliseconds once the glue is compiled."""
    if wish == "0" or not _is_there() or not _is_exact():
        return False
    return wish == "1" or _ratio() > _FASTER


def _is_there() -> bool:
    try:
        _loaded()
    except Exception:  # Inductor's ways of compiling and torch's kernel are not promised to stay as they are.
        return False
    return True


@cache
def _loaded() -> tuple[Callable[..., None], int]:
    """The compiled function, and where the microkernel is."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    address = ctypes.cast(getattr(library, _SYMBOL), ctypes.c_void_p).value
    arguments = ["const float*", "const float*", "float*", *["int64_t"] * (_NUMBERS - 1), "uintptr_t"]
    return CppPythonBindingsCodeCache.load_pybinding(arguments, _SOURCE), int(address or 0)


def _trials() -> list[tuple[Tensor, Tensor]]:
    """Factors as updates have them: as they are, turned, stacked, and thin."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device="cpu")

    return [
        (numbers(256, 64), numbers(64, 64)),
        (numbers(256, 64), numbers(64, 64).t()),
        (numbers(256, 64).t(), numbers(256, 64)),
        (numbers(256, 4), numbers(64, 4).t()),
        (numbers(256, 64), numbers(2, 64).t()),
        (numbers(2, 128, 84).mT, numbers(2, 128, 120)),
    ]


def _is_exact() -> bool:
    return all(
        torch.allclose(_product(a, b).double(), a.double() @ b.double(), rtol=_TOLERANCE, atol=0.0)
        for a, b in _trials()
    )


def _product(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty((*a.shape[:-1], b.shape[-1]), device="cpu")
    multiply(a, b, form=_form(a, b), out=out)
    return out


def _form(a: Tensor, b: Tensor) -> Form:
    return Form.of(tuple(a.shape), a.stride(), tuple(b.shape), b.stride())


def _ratio() -> float:
    """Processor time of the trials by torch, in that by the kernel."""
    trials = [(a, b, _form(a, b), _product(a, b)) for a, b in _trials()]

    def by_torch() -> None:
        for a, b, _, out in trials:
            torch.matmul(a, b, out=out)

    def by_kernel() -> None:
        for a, b, form, out in trials:
            multiply(a, b, form=form, out=out)

    return processor_time_ratio([by_torch, by_kernel], tries=8)
