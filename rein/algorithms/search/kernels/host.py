"""Whole searches in one compiled loop, with a small model evaluated beside the tree."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.dense import is_over, read_prior, run_steps
from rein.algorithms.search.kernels.growing import add_node, finish, walk
from rein.algorithms.search.kernels.jit import jit, part
from rein.algorithms.search.kernels.scoring import choose_at_roots, root_logits, root_policies

PRIOR_FLOOR = 1e-20
"""Probability that a legal action keeps at least; see `rein.ops.mask_prior`."""


@part
def _evaluate(host, b, source, slot, n, latents, memory, out, logarithm):
    """Evaluates the model from a stored latent, stores latent and priors; returns value, reward, whether it is the end."""
    size = latents.shape[2]
    memory[:size] = latents[b, source]
    run_steps(host.steps, 0, host.weights, memory, slot)
    latents[b, n] = memory[host.next_latent : host.next_latent + size]
    read_prior(host, memory, out, logarithm)
    reward = np.float64(memory[host.reward]) if host.reward >= 0 else 0.0
    return np.float64(memory[host.value]), reward, is_over(host, memory)


@jit
def search_on_host(tree, rules, num_rounds, host, latents, memory, paths, scratch):
    """Runs all simulations of all trees with a model that is evaluated here too.

    Args:
        tree: the arrays, with the roots expanded.
        rules: the numbers of `SearchRules`; all children are never expanded at once here.
        num_rounds: simulations per path.
        host: a `HostProgram`.
        latents: float32 [B, N, L], those of the roots given.
        memory: float32, of the size that the model needs.
        paths: [4, P].
        scratch: [3, K].
    """
    for b in range(latents.shape[0]):
        for sim in range(num_rounds):
            walk(tree, rules, b, sim, paths)
            for p in range(paths.shape[1]):
                if paths[3, p] == 1:
                    n, source, slot = paths[0, p], paths[1, p], paths[2, p]
                    value, reward, over = _evaluate(
                        host, b, source, slot, n, latents, memory, tree.prior[b, n], tree.log_prior[b, n]
                    )
                    add_node(tree, b, n, source, slot, value, reward, over)
            finish(tree, rules, b, sim, paths, scratch)


@part
def _mask(prior, mask):
    """Restricts a prior [K] to what is legal; whether anything is."""
    total = 0.0
    for k in range(prior.shape[0]):
        prior[k] = max(prior[k], PRIOR_FLOOR) if mask[k] else 0.0
        total += prior[k]
    for k in range(prior.shape[0]):
        prior[k] /= total
    return total > 0.0


@part
def _mix(prior, noise, fraction):
    """Mixes noise [K] into a prior [K]; see `rein.ops.mix_noise`."""
    total = 0.0
    for k in range(prior.shape[0]):
        if prior[k] > 0:
            total += noise[k]
    if total > 0:
        for k in range(prior.shape[0]):
            if prior[k] > 0:
                prior[k] = fraction * noise[k] / total + (1.0 - fraction) * prior[k]


@part
def _consider(prior, noise, table, gumbel, considered):
    """Chooses what a Gumbel root search considers: the legal actions with the best noisy logits."""
    legal = 0
    for k in range(prior.shape[0]):
        legal += prior[k] > 0
        gumbel[k] = -np.inf
    legal = min(legal, table.shape[0])
    considered[:] = table[legal - 1]
    for _ in range(legal):
        best, best_score = -1, -np.inf
        for k in range(prior.shape[0]):
            if prior[k] > 0 and gumbel[k] == -np.inf:
                score = math.log(prior[k]) + noise[k]
                if best < 0 or score > best_score:
                    best, best_score = k, score
        gumbel[best] = noise[best]


@jit
def plant(tree, rules, host, latents, memory, given, prior):
    """Evaluates and writes the roots.

    Args:
        tree: the arrays.
        rules: the numbers of `SearchRules`.
        host: a `HostProgram`.
        latents: float32 [B, N, L], overwritten at the roots.
        memory: float32, of the size that the model needs.
        given: a `HostRoots`.
        prior: float64 [K].

    Returns:
        0, or what is wrong: 1 for probabilities that are not finite, 2 for a mask without a legal action.
    """
    size = latents.shape[2]
    for b in range(latents.shape[0]):
        latents[b, 0] = given.latent[b]
        memory[host.next_latent : host.next_latent + size] = given.latent[b]
        run_steps(host.steps, host.root_step, host.weights, memory, 0)
        if not math.isfinite(read_prior(host, memory, prior, prior[:0])):
            return 1
        if given.has_mask and not _mask(prior, given.mask[b]):
            return 2
        if rules.selection == 2:
            _consider(prior, given.noise[b], given.table, tree.gumbel[b], tree.considered[b])
        elif given.fraction > 0.0:
            _mix(prior, given.noise[b], given.fraction)
        over = is_over(host, memory)
        tree.game_over[b, 0] = over
        tree.reward[b, 0] = memory[host.reward] if host.reward_at_root else np.float32(0.0)
        tree.raw_value[b, 0] = 0.0 if over and tree.has_reward else memory[host.value]
        tree.visits[b, 0], tree.value_sum[b, 0] = 1.0, tree.raw_value[b, 0]
        tree.is_spread[b, 0] = False
        tree.to_play[b, 0] = given.to_play[b]
        tree.child[b, 0] = 0
        tree.prior[b, 0] = prior
        tree.bounds[b, 0], tree.bounds[b, 1] = np.inf, -np.inf
    return 0


@part
def _sharpen(weight, temperature, policy):
    """Writes a policy [K] in proportion to weight ** (1 / temperature); zeros stay zeros. Returns the sum of the weights."""
    largest, sum_of_weights = 0.0, 0.0
    for k in range(weight.shape[0]):
        largest = max(largest, weight[k])
        sum_of_weights += weight[k]
    if temperature == 1.0:
        for k in range(weight.shape[0]):
            policy[k] = weight[k] / sum_of_weights if sum_of_weights > 0 else 0.0
        return sum_of_weights
    total = 0.0
    for k in range(weight.shape[0]):
        weight[k] = math.exp((math.log(weight[k]) - math.log(largest)) / temperature) if weight[k] > 0 else 0.0
        total += weight[k]
    for k in range(weight.shape[0]):
        policy[k] = weight[k] / total if total > 0 else 0.0
    return sum_of_weights


@part
def _best_of_most_visited(visits, logits, gumbel):
    """The action that a Gumbel root search decides on."""
    most = 0.0
    for k in range(visits.shape[0]):
        most = max(most, visits[k])
    best, best_score = 0, -np.inf
    for k in range(visits.shape[0]):
        if visits[k] == most and logits[k] + gumbel[k] > best_score:
            best, best_score = k, logits[k] + gumbel[k]
    return best


@part
def _softmax(x):
    largest, total = -np.inf, 0.0
    for k in range(x.shape[0]):
        largest = max(largest, x[k])
    for k in range(x.shape[0]):
        x[k] = math.exp(x[k] - largest)
        total += x[k]
    for k in range(x.shape[0]):
        x[k] /= total


@part
def _read(tree, rules, given, found, scratch):
    """Writes what came out of the searches into a `HostFound`."""
    batch, branches = found.acting.shape
    found_by_policy = found.policy
    if rules.selection == 2:
        root_logits(tree, rules, found_by_policy)
    elif given.acts_by_policy or given.learns_policy:
        root_policies(tree, rules, found_by_policy, scratch)
    weight = scratch[0]
    for b in range(batch):
        prior = tree.prior[b, 0]
        for k in range(branches):
            c = tree.child[b, 0, k]
            is_there = c > 0 and prior[k] > 0
            found.visits[b, k] = tree.visits[b, c] if is_there else 0.0
            found.rewards[b, k] = tree.reward[b, c] if is_there else 0.0
        found.value[b] = tree.value_sum[b, 0] / tree.visits[b, 0]
        policy = found_by_policy[b]
        if rules.selection == 2:
            found.acting[b] = 0.0
            found.acting[b, _best_of_most_visited(found.visits[b], policy, tree.gumbel[b])] = 1.0
            _softmax(policy)
        else:
            for k in range(branches):
                weight[k] = policy[k] if given.acts_by_policy else found.visits[b, k]
                weight[k] = weight[k] if prior[k] > 0 else 0.0
            if _sharpen(weight, given.temperature[b], found.acting[b]) <= 0.0:
                for k in range(branches):
                    found.acting[b, k] = 1.0 if prior[k] > 0 else 0.0
        for k in range(branches):
            weight[k] = policy[k] if rules.selection == 2 or given.learns_policy else found.visits[b, k]
            weight[k] = weight[k] if prior[k] > 0 else 0.0
        _sharpen(weight, given.learn_temperature, found.learning[b])


@jit
def search_from_latents(tree, rules, num_rounds, host, latents, memory, paths, prior, scratch, given, found):
    """A whole search, from the latents of the roots to the policies; see `search_on_host` and `plant`.

    Args:
        tree: the arrays.
        rules: the numbers of `SearchRules`.
        num_rounds: simulations per path.
        host: a `HostProgram`.
        latents: float32 [B, N, L].
        memory: float32, of the size that the model needs.
        paths: [4, P].
        prior: float64 [K].
        scratch: [3, K].
        given: a `HostRoots`.
        found: a `HostFound`, overwritten.

    Returns:
        0, or what is wrong with the roots; see `plant`.
    """
    wrong = plant(tree, rules, host, latents, memory, given, prior)
    if wrong == 0:
        choose_at_roots(tree, rules, scratch)
        search_on_host(tree, rules, num_rounds, host, latents, memory, paths, scratch)
        _read(tree, rules, given, found, scratch)
    return wrong
