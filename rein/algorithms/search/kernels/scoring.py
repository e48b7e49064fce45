"""Scores, policies and choices of the children of a node."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.jit import jit, part


@part
def _scramble(x):
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@part
def _hashed(state, coordinate):
    return _scramble((state + coordinate * 0x9E3779B9) & 0xFFFFFFFF)


@part
def _normalised(q, tree, rules, b):
    if rules.has_bounds:
        return (q - rules.low) / (rules.high - rules.low)
    low, high = tree.bounds[b, 0], tree.bounds[b, 1]
    if high > low:
        return (q - low) / max(high - low, rules.min_delta)
    return q


@part
def _sign(tree, rules, b, n):
    return -1.0 if rules.is_two_player and tree.to_play[b, n] == 1 else 1.0


@part
def _value_scores(tree, rules, b, n, score):
    """Writes the signed, normalised values of the children; returns how many legal ones are expanded."""
    sign = _sign(tree, rules, b, n)
    count, total, smallest, largest = 0, 0.0, np.inf, -np.inf
    for k in range(tree.prior.shape[2]):
        c = tree.child[b, n, k]
        if c > 0:
            q = tree.reward[b, c] + rules.discount * (tree.value_sum[b, c] / tree.visits[b, c])
            s = sign * _normalised(q, tree, rules, b)
            score[k] = s
            if tree.prior[b, n, k] > 0:
                count += 1
                total += s
                smallest = min(smallest, s)
                largest = max(largest, s)
    kind = rules.unexpanded_kind
    fill = 0.0
    if kind == 0:
        fill = sign * rules.unexpanded_value
    elif kind == 4:
        parent = sign * _normalised(tree.value_sum[b, n] / tree.visits[b, n], tree, rules, b)
        fill = (total + parent) / (count + 1)
    elif count > 0:
        fill = largest if kind == 1 else (total / count if kind == 3 else smallest)
    for k in range(tree.prior.shape[2]):
        if tree.child[b, n, k] == 0:
            score[k] = fill
    return count


@part
def _choose_by_ucb(tree, rules, b, n, sim, score, more):
    _value_scores(tree, rules, b, n, score)
    branches = tree.prior.shape[2]
    for k in range(branches):
        c = tree.child[b, n, k]
        more[k] = 1.0 + (tree.visits[b, c] if c > 0 else 0.0)
    here = tree.visits[b, n] - rules.parent_visits_less
    for p in range(tree.best.shape[2]):
        visits = here + p
        weight = (math.log1p((visits + 1.0) / rules.pb_c_base) + rules.pb_c_init) * math.sqrt(visits)
        best, best_score = 0, -np.inf
        for k in range(branches):
            prior = tree.prior[b, n, k]
            if prior > 0:
                s = score[k] + prior * weight / more[k]
                if rules.tie_eps > 0:
                    state = _hashed(_hashed(_hashed(_scramble(tree.seed), sim), b), n)
                    s += rules.tie_eps * (_hashed(_hashed(state, p), k) / 4294967296.0)
                if s > best_score:
                    best, best_score = k, s
        tree.best[b, n, p] = best
        more[best] += 1.0


@part
def _reverse_kl_policy(score, prior, c, policy):
    """Solves for the policy where `prior` is positive, by Newton's method; see `rein.ops.search`."""
    largest = -np.inf
    for k in range(score.shape[0]):
        if prior[k] > 0:
            largest = max(largest, score[k])
    beta = -np.inf
    for k in range(score.shape[0]):
        if prior[k] > 0:
            beta = max(beta, prior[k] + (score[k] - largest) / c)
    for _ in range(100):
        total, slope = 0.0, 0.0
        for k in range(score.shape[0]):
            policy[k] = 0.0
            if prior[k] > 0:
                gap = beta - (score[k] - largest) / c
                policy[k] = prior[k] / gap
                total += policy[k]
                slope += policy[k] / gap
        if abs(total - 1.0) <= 1e-12:
            return
        beta += (total - 1.0) / slope


@part
def _forward_kl_policy(score, prior, c, policy):
    largest, total = -np.inf, 0.0
    for k in range(score.shape[0]):
        if prior[k] > 0:
            largest = max(largest, score[k])
    for k in range(score.shape[0]):
        policy[k] = prior[k] * math.exp((score[k] - largest) / c) if prior[k] > 0 else 0.0
        total += policy[k]
    for k in range(score.shape[0]):
        policy[k] /= total


@part
def node_policy(tree, rules, b, n, score, prior, policy):
    """Writes the exploration policy of a node; the three arrays of length K are overwritten."""
    _value_scores(tree, rules, b, n, score)
    keeps_unexpanded = rules.unexpanded_kind == 5
    share = 0.0
    for k in range(score.shape[0]):
        prior[k] = tree.prior[b, n, k]
        if keeps_unexpanded and tree.child[b, n, k] == 0:
            prior[k] = 0.0
        share += prior[k]
    if share <= 0.0:
        policy[:] = tree.prior[b, n]
        return
    for k in range(score.shape[0]):
        prior[k] /= share
    visits = tree.visits[b, n]
    c = (math.log1p((visits + 1.0) / rules.pb_c_base) + rules.pb_c_init) / math.sqrt(visits)
    if rules.policy_type == 0:
        _reverse_kl_policy(score, prior, c, policy)
    else:
        _forward_kl_policy(score, prior, c, policy)
    for k in range(score.shape[0]):
        if keeps_unexpanded and tree.child[b, n, k] == 0:
            policy[k] = tree.prior[b, n, k]
        else:
            policy[k] *= share


@part
def _choose_by_policy(tree, rules, b, n, sim, score, prior, policy):
    node_policy(tree, rules, b, n, score, prior, policy)
    total = 0.0
    for k in range(policy.shape[0]):
        total += policy[k]
    state = _hashed(_hashed(_hashed(_scramble(tree.seed), sim), b), n)
    for p in range(tree.best.shape[2]):
        threshold = _hashed(state, p) / 4294967296.0 * total
        reached, choice = 0.0, 0
        for k in range(policy.shape[0]):
            if policy[k] > 0:
                choice = k
                reached += policy[k]
                if reached > threshold:
                    break
        tree.best[b, n, p] = choice


@part
def completed_logits(tree, rules, b, n, score):
    """Writes log prior + sigma(completed Q) of the children (Danihelka et al. 2022, eq. 8 and 33); returns their visits."""
    sign = _sign(tree, rules, b, n)
    visits, most, share, mean = 0.0, 0.0, 0.0, 0.0
    for k in range(score.shape[0]):
        c = tree.child[b, n, k]
        if c > 0 and tree.prior[b, n, k] > 0:
            q = tree.reward[b, c] + rules.discount * (tree.value_sum[b, c] / tree.visits[b, c])
            score[k] = sign * _normalised(q, tree, rules, b)
            visits += tree.visits[b, c]
            most = max(most, tree.visits[b, c])
            share += tree.prior[b, n, k]
            mean += tree.prior[b, n, k] * score[k]
    mixed = sign * _normalised(tree.raw_value[b, n], tree, rules, b)
    if share > 0:
        mixed = (mixed + visits * mean / share) / (1.0 + visits)
    scale = (rules.gumbel_visit + most) * rules.gumbel_scale
    for k in range(score.shape[0]):
        prior = tree.prior[b, n, k]
        if prior > 0:
            value = score[k] if tree.child[b, n, k] > 0 else mixed
            score[k] = math.log(prior) + scale * value
        else:
            score[k] = -np.inf
    return visits


@part
def _choose_by_gumbel(tree, rules, b, n, sim, score, policy):
    visits = completed_logits(tree, rules, b, n, score)
    branches = score.shape[0]
    best, best_score = 0, -np.inf
    if n == 0:
        wanted = tree.considered[b, min(sim, tree.considered.shape[1] - 1)]
        for k in range(branches):
            c = tree.child[b, n, k]
            if (tree.visits[b, c] if c > 0 else 0.0) == wanted and tree.gumbel[b, k] > -np.inf:
                s = score[k] + tree.gumbel[b, k]
                if s > best_score:
                    best, best_score = k, s
    else:
        largest, total = -np.inf, 0.0
        for k in range(branches):
            largest = max(largest, score[k])
        for k in range(branches):
            policy[k] = math.exp(score[k] - largest)
            total += policy[k]
        for k in range(branches):
            if tree.prior[b, n, k] > 0:
                c = tree.child[b, n, k]
                s = policy[k] / total - (tree.visits[b, c] if c > 0 else 0.0) / (1.0 + visits)
                if s > best_score:
                    best, best_score = k, s
    tree.best[b, n, 0] = best


@part
def choose(tree, rules, b, n, sim, scratch):
    """Stores the next choices of a node, for the simulation `sim`; `scratch` is [3, K]."""
    if rules.selection == 0:
        _choose_by_ucb(tree, rules, b, n, sim, scratch[0], scratch[1])
    elif rules.selection == 1:
        _choose_by_policy(tree, rules, b, n, sim, scratch[0], scratch[1], scratch[2])
    else:
        _choose_by_gumbel(tree, rules, b, n, sim, scratch[0], scratch[1])


@jit
def choose_at_roots(tree, rules, scratch):
    """Stores the first choices of all roots."""
    for b in range(tree.visits.shape[0]):
        choose(tree, rules, b, 0, 0, scratch)


@jit
def root_policies(tree, rules, policy, scratch):
    """Writes the exploration policies of all roots, [B, K]."""
    for b in range(policy.shape[0]):
        node_policy(tree, rules, b, 0, scratch[0], scratch[1], policy[b])


@jit
def root_logits(tree, rules, logits):
    """Writes log prior + sigma(completed Q) of all roots, [B, K]."""
    for b in range(logits.shape[0]):
        completed_logits(tree, rules, b, 0, logits[b])
