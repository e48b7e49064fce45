"""Whole searches in one compiled loop, with a small model evaluated beside the tree."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.growing import add_node, finish, walk
from rein.algorithms.search.kernels.jit import jit, part


@part
def _activate(x, kind):
    if kind == 1:
        for j in range(x.shape[0]):
            x[j] = max(x[j], np.float32(0.0))
    elif kind == 2:
        for j in range(x.shape[0]):
            x[j] = math.tanh(x[j])


@part
def _run(steps, weights, memory, action):
    """Runs the steps of a `HostModel` on one row of memory."""
    for s in range(steps.shape[0]):
        kind, at, size, to, width = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        if kind == 0:
            out = memory[to : to + width]
            if steps[s, 6] >= 0:
                out[:] = weights[steps[s, 6] : steps[s, 6] + width]
            else:
                out[:] = np.float32(0.0)
            for i in range(size):
                x = memory[at + i]
                if x != 0.0:
                    row = weights[steps[s, 5] + i * width : steps[s, 5] + (i + 1) * width]
                    for j in range(width):
                        out[j] += x * row[j]
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
