"""Whole searches in one compiled loop, with a small model evaluated beside the tree."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.growing import add_node, finish, walk
from rein.algorithms.search.kernels.jit import arithmetic, jit, part

_TANH_BOUND = np.float32(7.9053111)
"""From here on tanh is 1 in single precision."""
_TANH_ODD = tuple(
    np.float32(c)
    for c in (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    )
)
_TANH_EVEN = tuple(
    np.float32(c) for c in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
)
"""A quotient of polynomials, highest power first, within a few units in the last place of tanh, which loops can vectorise."""


# Loops below run over slices from 0 on: with offsets in the index they would not be vectorised.


@arithmetic
def _activate(x, kind):
    if kind == 1:
        for j in range(x.shape[0]):
            x[j] = max(x[j], np.float32(0.0))
    elif kind == 2:
        for j in range(x.shape[0]):
            t = min(max(x[j], -_TANH_BOUND), _TANH_BOUND)
            y = t * t
            odd = y * _TANH_ODD[0] + _TANH_ODD[1]
            odd = y * odd + _TANH_ODD[2]
            odd = y * odd + _TANH_ODD[3]
            odd = y * odd + _TANH_ODD[4]
            odd = y * odd + _TANH_ODD[5]
            odd = y * odd + _TANH_ODD[6]
            even = y * _TANH_EVEN[0] + _TANH_EVEN[1]
            even = y * even + _TANH_EVEN[2]
            even = y * even + _TANH_EVEN[3]
            x[j] = t * odd / even


@arithmetic
def _add_row(out, x, row):
    for j in range(out.shape[0]):
        out[j] += x * row[j]


@arithmetic
def _add_four_rows(out, a, b, c, d, first, second, third, fourth):
    for j in range(out.shape[0]):
        out[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]


@part
def _fully_connected(x, out, weights, matrix, bias):
    """Writes a layer's output; four inputs at a time, so that it is read and written less often."""
    width = out.shape[0]
    if bias >= 0:
        out[:] = weights[bias : bias + width]
    else:
        out[:] = np.float32(0.0)
    i, row = 0, matrix
    while i + 4 <= x.shape[0]:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            _add_four_rows(
                out,
                a,
                b,
                c,
                d,
                weights[row : row + width],
                weights[row + width : row + 2 * width],
                weights[row + 2 * width : row + 3 * width],
                weights[row + 3 * width : row + 4 * width],
            )
        i += 4
        row += 4 * width
    while i < x.shape[0]:
        _add_row(out, x[i], weights[row : row + width])
        i += 1
        row += width


@arithmetic
def _product(x, row):
    total = np.float32(0.0)
    for i in range(x.shape[0]):
        total += x[i] * row[i]
    return total


@part
def _narrow(x, out, weights, matrix, bias):
    """Writes the output of a layer whose weights are kept by output."""
    size = x.shape[0]
    for j in range(out.shape[0]):
        out[j] = _product(x, weights[matrix + j * size : matrix + (j + 1) * size])
        if bias >= 0:
            out[j] += weights[bias + j]


@part
def _run(steps, weights, memory, action):
    """Runs the steps of a `HostModel` on one row of memory."""
    for s in range(steps.shape[0]):
        kind, at, size, to, width = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        if kind == 0:
            out = memory[to : to + width]
            _fully_connected(memory[at : at + size], out, weights, steps[s, 5], steps[s, 6])
            _activate(out, steps[s, 7])
        elif kind == 3:
            out = memory[to : to + width]
            _narrow(memory[at : at + size], out, weights, steps[s, 5], steps[s, 6])
            _activate(out, steps[s, 7])
        elif kind == 1:
            memory[to : to + width] = np.float32(0.0)
            memory[to + action] = np.float32(1.0)
        elif kind == 2:
            low, high = memory[at], memory[at]
            for i in range(size):
                low, high = min(low, memory[at + i]), max(high, memory[at + i])
            scale = max(high - low, np.float32(1e-5))
            for i in range(size):
                memory[to + i] = (memory[at + i] - low) / scale


@part
def _evaluate(host, b, source, slot, n, latents, memory, out):
    """Evaluates the model from a stored latent; stores the new latent and prior, returns value, reward, logit of the end."""
    size = latents.shape[2]
    memory[host.latent : host.latent + size] = latents[b, source]
    _run(host.steps, host.weights, memory, slot)
    latents[b, n] = memory[host.next_latent : host.next_latent + size]
    branches = out.shape[0]
    logits = memory[host.logits : host.logits + branches]
    largest, total = -np.inf, 0.0
    for k in range(branches):
        largest = max(largest, logits[k])
    for k in range(branches):
        out[k] = math.exp(logits[k] - largest)
        total += out[k]
    for k in range(branches):
        out[k] /= total
    reward = np.float64(memory[host.reward]) if host.reward >= 0 else 0.0
    over = host.game_over >= 0 and memory[host.game_over] > host.threshold
    return np.float64(memory[host.value]), reward, over


@jit
def search_on_host(tree, rules, num_rounds, host, latents, memory, paths, prior, scratch):
    """Runs all simulations of all trees with a model that is evaluated here too.

    Args:
        tree: the arrays, with the roots expanded.
        rules: the numbers of `SearchRules`; all children are never expanded at once here.
        num_rounds: simulations per path.
        host: the numbers of a `HostModel`.
        latents: float32 [B, N, L].
        memory: float32, of the size that the model needs.
        paths: [4, P].
        prior: float64 [K].
        scratch: [3, K].
    """
    for b in range(latents.shape[0]):
        for sim in range(num_rounds):
            walk(tree, rules, b, sim, paths)
            for p in range(paths.shape[1]):
                if paths[3, p] == 1:
                    n, source, slot = paths[0, p], paths[1, p], paths[2, p]
                    value, reward, over = _evaluate(host, b, source, slot, n, latents, memory, prior)
                    add_node(tree, b, n, source, slot, value, reward, over)
                    tree.prior[b, n] = prior
            finish(tree, rules, b, sim, paths, scratch)
