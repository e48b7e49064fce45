"""Scores, policies and choices of the children of a node."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.jit import jit, part, written_in


@part
def _scramble(x):
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@part
def _hashed(state, coordinate):
    return _scramble((state + coordinate * 0x9E3779B9) & 0xFFFFFFFF)


@written_in
def _scale(bounds, rules):
    """What values are scaled by: (q - low) / width; 0 and 1 until two different values were seen."""
    if rules.has_bounds:
        return rules.low, rules.high - rules.low
    if bounds[1] > bounds[0]:
        return bounds[0], max(bounds[1] - bounds[0], rules.min_delta)
    return 0.0, 1.0


@written_in
def _sign(to_play, rules):
    return -1.0 if rules.is_two_player and to_play == 1 else 1.0


# The functions below get rows of one tree, not all arrays: what is called for each node must have few arguments.


@part
def _value_scores(child, prior, visits, value_sum, reward, n, sign, low, width, rules, score):
    """Writes the signed, scaled values of the children of node `n`, [K]."""
    count, total, smallest, largest = 0, 0.0, np.inf, -np.inf
    for k in range(child.shape[0]):
        c = child[k]
        if c > 0:
            q = reward[c] + rules.discount * (value_sum[c] / visits[c])
            s = sign * ((q - low) / width)
            score[k] = s
            if prior[k] > 0:
                count += 1
                total += s
                smallest = min(smallest, s)
                largest = max(largest, s)
    kind = rules.unexpanded_kind
    fill = 0.0
    if kind == 0:
        fill = sign * rules.unexpanded_value
    elif kind == 4:
        fill = (total + sign * ((value_sum[n] / visits[n] - low) / width)) / (count + 1)
    elif count > 0:
        fill = largest if kind == 1 else (total / count if kind == 3 else smallest)
    for k in range(child.shape[0]):
        if child[k] == 0:
            score[k] = fill


@part
def _best_one_by_ucb(child, prior, visits, n, rules, score):
    """The choice of `_best_by_ucb` for one path without noise; most children of a node were never visited."""
    parent = visits[n] - rules.parent_visits_less
    weight = (math.log1p((parent + 1.0) / rules.pb_c_base) + rules.pb_c_init) * math.sqrt(parent)
    choice, choice_score = 0, -np.inf
    for k in range(child.shape[0]):
        if prior[k] > 0:
            c = child[k]
            bonus = prior[k] * weight
            s = score[k] + (bonus / (1.0 + visits[c]) if c > 0 else bonus)
            if s > choice_score:
                choice, choice_score = k, s
    return choice


@part
def _best_by_ucb(child, prior, visits, n, state, rules, score, more, best):
    """Writes the choices with the best scores into `best`, [P], each as if the ones before it were visited."""
    for k in range(child.shape[0]):
        c = child[k]
        more[k] = 1.0 + (visits[c] if c > 0 else 0.0)
    here = visits[n] - rules.parent_visits_less
    for p in range(best.shape[0]):
        parent = here + p
        weight = (math.log1p((parent + 1.0) / rules.pb_c_base) + rules.pb_c_init) * math.sqrt(parent)
        choice, choice_score = 0, -np.inf
        for k in range(child.shape[0]):
            if prior[k] > 0:
                s = score[k] + prior[k] * weight / more[k]
                if rules.tie_eps > 0:
                    s += rules.tie_eps * (_hashed(_hashed(state, p), k) / 4294967296.0)
                if s > choice_score:
                    choice, choice_score = k, s
        best[p] = choice
        more[choice] += 1.0


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
def _exploration_policy(child, full_prior, visits, rules, score, prior, policy):
    """Writes the exploration policy of a node with `visits`, [K]; `prior` is overwritten."""
    keeps_unexpanded = rules.unexpanded_kind == 5
    share = 0.0
    for k in range(score.shape[0]):
        prior[k] = 0.0 if keeps_unexpanded and child[k] == 0 else full_prior[k]
        share += prior[k]
    if share <= 0.0:
        policy[:] = full_prior
        return
    for k in range(score.shape[0]):
        prior[k] /= share
    c = (math.log1p((visits + 1.0) / rules.pb_c_base) + rules.pb_c_init) / math.sqrt(visits)
    if rules.policy_type == 0:
        _reverse_kl_policy(score, prior, c, policy)
    else:
        _forward_kl_policy(score, prior, c, policy)
    for k in range(score.shape[0]):
        if keeps_unexpanded and child[k] == 0:
            policy[k] = full_prior[k]
        else:
            policy[k] *= share


@part
def _draw(policy, state, best):
    """Writes choices drawn from a policy [K] into `best`, [P]."""
    total = 0.0
    for k in range(policy.shape[0]):
        total += policy[k]
    for p in range(best.shape[0]):
        threshold = _hashed(state, p) / 4294967296.0 * total
        reached, choice = 0.0, 0
        for k in range(policy.shape[0]):
            if policy[k] > 0:
                choice = k
                reached += policy[k]
                if reached > threshold:
                    break
        best[p] = choice


@part
def _completed_logits(child, prior, log_prior, visits, value_sum, reward, raw, sign, low, width, rules, score):
    """Writes log prior + sigma(completed Q) of the children (Danihelka et al. 2022, eq. 8 and 33); returns their visits."""
    total, most, share, mean = 0.0, 0.0, 0.0, 0.0
    for k in range(score.shape[0]):
        c = child[k]
        if c > 0 and prior[k] > 0:
            q = reward[c] + rules.discount * (value_sum[c] / visits[c])
            score[k] = sign * ((q - low) / width)
            total += visits[c]
            most = max(most, visits[c])
            share += prior[k]
            mean += prior[k] * score[k]
    mixed = sign * ((raw - low) / width)
    if share > 0:
        mixed = (mixed + total * mean / share) / (1.0 + total)
    scale = (rules.gumbel_visit + most) * rules.gumbel_scale
    for k in range(score.shape[0]):
        if prior[k] > 0:
            score[k] = log_prior[k] + scale * (score[k] if child[k] > 0 else mixed)
        else:
            score[k] = -np.inf
    return total


@part
def _best_at_gumbel_root(child, visits, gumbel, wanted, score):
    """The considered action with the wanted number of visits that has the best noisy logit."""
    best, best_score = 0, -np.inf
    for k in range(score.shape[0]):
        c = child[k]
        if (visits[c] if c > 0 else 0.0) == wanted and gumbel[k] > -np.inf and score[k] + gumbel[k] > best_score:
            best, best_score = k, score[k] + gumbel[k]
    return best


@part
def _best_inside_gumbel_tree(child, prior, visits, total, score, policy):
    """The child whose share of visits lags most behind the improved policy."""
    largest, mass = -np.inf, 0.0
    for k in range(score.shape[0]):
        largest = max(largest, score[k])
    for k in range(score.shape[0]):
        policy[k] = math.exp(score[k] - largest)
        mass += policy[k]
    best, best_score = 0, -np.inf
    scale, each = 1.0 / mass, 1.0 / (1.0 + total)
    for k in range(score.shape[0]):
        if prior[k] > 0:
            c = child[k]
            s = policy[k] * scale - (visits[c] * each if c > 0 else 0.0)
            if s > best_score:
                best, best_score = k, s
    return best


@written_in
def choose(tree, rules, b, n, sim, scratch):
    """Stores the next choices of a node, for the simulation `sim`; `scratch` is [3, K]."""
    child, prior, best = tree.child[b, n], tree.prior[b, n], tree.best[b, n]
    visits, value_sum, reward = tree.visits[b], tree.value_sum[b], tree.reward[b]
    low, width = _scale(tree.bounds[b], rules)
    sign = _sign(tree.to_play[b, n], rules)
    score = scratch[0]
    state = 0
    if rules.selection == 1 or rules.tie_eps > 0:
        state = _hashed(_hashed(_hashed(_scramble(tree.seed), sim), b), n)
    if rules.selection == 2:
        raw = tree.raw_value[b, n]
        log_prior = tree.log_prior[b, n]
        total = _completed_logits(
            child, prior, log_prior, visits, value_sum, reward, raw, sign, low, width, rules, score
        )
        if n == 0:
            wanted = tree.considered[b, min(sim, tree.considered.shape[1] - 1)]
            best[0] = _best_at_gumbel_root(child, visits, tree.gumbel[b], wanted, score)
        else:
            best[0] = _best_inside_gumbel_tree(child, prior, visits, total, score, scratch[1])
        return
    _value_scores(child, prior, visits, value_sum, reward, n, sign, low, width, rules, score)
    if rules.selection == 0 and best.shape[0] == 1 and rules.tie_eps == 0.0:
        best[0] = _best_one_by_ucb(child, prior, visits, n, rules, score)
    elif rules.selection == 0:
        _best_by_ucb(child, prior, visits, n, state, rules, score, scratch[1], best)
    else:
        _exploration_policy(child, prior, visits[n], rules, score, scratch[1], scratch[2])
        _draw(scratch[2], state, best)


@jit
def choose_at_roots(tree, rules, scratch):
    """Stores the first choices of all roots."""
    for b in range(tree.visits.shape[0]):
        if rules.selection == 2:
            for k in range(tree.prior.shape[2]):
                p = tree.prior[b, 0, k]
                tree.log_prior[b, 0, k] = math.log(p) if p > 0 else -np.inf
        choose(tree, rules, b, 0, 0, scratch)


@jit
def root_policies(tree, rules, policy, scratch):
    """Writes the exploration policies of all roots, [B, K]."""
    for b in range(policy.shape[0]):
        child, prior, visits = tree.child[b, 0], tree.prior[b, 0], tree.visits[b]
        low, width = _scale(tree.bounds[b], rules)
        sign = _sign(tree.to_play[b, 0], rules)
        score = scratch[0]
        _value_scores(child, prior, visits, tree.value_sum[b], tree.reward[b], 0, sign, low, width, rules, score)
        _exploration_policy(child, prior, visits[0], rules, score, scratch[1], policy[b])


@jit
def root_logits(tree, rules, logits):
    """Writes log prior + sigma(completed Q) of all roots, [B, K]."""
    for b in range(logits.shape[0]):
        child, prior, visits = tree.child[b, 0], tree.prior[b, 0], tree.visits[b]
        low, width = _scale(tree.bounds[b], rules)
        sign, raw = _sign(tree.to_play[b, 0], rules), tree.raw_value[b, 0]
        value_sum, reward, log_prior = tree.value_sum[b], tree.reward[b], tree.log_prior[b, 0]
        _completed_logits(child, prior, log_prior, visits, value_sum, reward, raw, sign, low, width, rules, logits[b])
