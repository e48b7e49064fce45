"""Walking down trees, adding nodes and backing up what they are worth."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np

from rein.algorithms.search.kernels.jit import jit, part, written_in
from rein.algorithms.search.kernels.scoring import choose


@written_in
def _choose_along_path(tree, rules, b, leaf, sim, scratch):
    n = leaf
    while True:
        choose(tree, rules, b, n, sim, scratch)
        if n == 0:
            return
        n = tree.parent[b, n]


@part
def _widen(bounds, q):
    bounds[0] = min(bounds[0], q)
    bounds[1] = max(bounds[1], q)


@written_in
def _widen_along_path(tree, rules, b, leaf):
    visits, value_sum, reward, parent = tree.visits[b], tree.value_sum[b], tree.reward[b], tree.parent[b]
    bounds = tree.bounds[b]
    n = leaf
    while True:
        _widen(bounds, reward[n] + rules.discount * (value_sum[n] / visits[n]))
        if n == 0:
            return
        n = parent[n]


@written_in
def _back_up(tree, rules, b, leaf, value, weight):
    visits, value_sum, reward, parent = tree.visits[b], tree.value_sum[b], tree.reward[b], tree.parent[b]
    n = leaf
    while True:
        visits[n] += weight
        value_sum[n] += weight * value
        if n == 0:
            return
        value = reward[n] + rules.discount * value
        n = parent[n]


@written_in
def _is_end(tree, rules, b, n):
    return tree.game_over[b, n] or tree.depth[b, n] >= rules.max_depth


@part
def _walk_alone(game_over, depth, best, child, max_depth, new, paths):
    """The walk of a single path; `new` is the node that it may add."""
    n, source, slot, kind = 0, 0, 0, 0
    while not (game_over[n] or depth[n] >= max_depth):
        source, slot = n, best[n, 0]
        n = child[source, slot]
        if n == 0:
            n, kind = new, 1
            break
    paths[0, 0], paths[1, 0], paths[2, 0], paths[3, 0] = n, source, slot, kind


@part
def walk(tree, rules, b, sim, paths):
    """Follows the stored choices of one tree, all paths a step at a time.

    Args:
        tree: the arrays.
        rules: the numbers of `SearchRules`.
        b: which tree.
        sim: counts the walks.
        paths: [4, P], overwritten: the leaf, the node and the choice that lead to it, and 1 if it is a new node, 2 if it is
            one that an earlier path of this walk adds, 0 if it is in the tree already.
    """
    parallel = paths.shape[1]
    game_over, depth, best, child = tree.game_over[b], tree.depth[b], tree.best[b], tree.child[b]
    if parallel == 1:
        _walk_alone(game_over, depth, best, child, rules.max_depth, tree.first + sim, paths)
        return
    walking = 0
    for p in range(parallel):
        paths[0, p], paths[1, p], paths[2, p], paths[3, p] = 0, 0, 0, 0
        if not _is_end(tree, rules, b, 0):
            paths[3, p] = -1
            walking += 1
    while walking > 0:
        for p in range(parallel):
            if paths[3, p] == -1:
                j = p
                if rules.selection == 0:
                    # Paths that stand at the same node take its choices in turn.
                    j = 0
                    for other in range(p):
                        if paths[3, other] == -1 and paths[1, other] == paths[0, p]:
                            j += 1
                paths[1, p] = paths[0, p]
                paths[2, p] = best[paths[0, p], j]
        for p in range(parallel):
            if paths[3, p] == -1:
                n = child[paths[1, p], paths[2, p]]
                if n == 0:
                    walking -= 1
                    _claim(tree.first, sim, paths, p)
                else:
                    paths[0, p] = n
                    if game_over[n] or depth[n] >= rules.max_depth:
                        walking -= 1
                        paths[3, p] = 0


@part
def _claim(first, sim, paths, p):
    """Makes the leaf of path `p` a new node, or that of an earlier path that adds the same."""
    for other in range(p):
        if paths[3, other] > 0 and paths[1, other] == paths[1, p] and paths[2, other] == paths[2, p]:
            paths[0, p], paths[3, p] = paths[0, other], 2
            return
    paths[0, p], paths[3, p] = first + sim * paths.shape[1] + p, 1


@written_in
def add_node(tree, b, n, source, slot, value, reward, game_over):
    """Writes a new node, without visits yet; its prior is the caller's."""
    tree.parent[b, n], tree.slot[b, n] = source, slot
    tree.depth[b, n] = tree.depth[b, source] + 1
    tree.to_play[b, n] = 1 - tree.to_play[b, source]
    tree.reward[b, n] = reward
    tree.game_over[b, n] = game_over
    # Where rewards are learnt nothing more is earned after the end.
    tree.raw_value[b, n] = 0.0 if game_over and tree.has_reward else value
    tree.visits[b, n], tree.value_sum[b, n] = 0.0, 0.0
    tree.child[b, n] = 0
    tree.is_spread[b, n] = False
    tree.child[b, source, slot] = n


@part
def set_prior(tree, rules, b, n, prior):
    """Writes the prior of a new node, [K]."""
    target = tree.prior[b, n]
    for k in range(target.shape[0]):
        target[k] = prior[k]
    if rules.selection == 2:
        logarithm = tree.log_prior[b, n]
        for k in range(target.shape[0]):
            logarithm[k] = math.log(target[k]) if target[k] > 0 else -np.inf


@jit
def select(tree, rules, sim, paths, rows):
    """Walks down all trees.

    Args:
        tree: the arrays.
        rules: the numbers of `SearchRules`.
        sim: counts the calls.
        paths: [B, 4, P], overwritten; see `walk`.
        rows: int64 [2, B * P], overwritten: which stored state, node * B + tree, and which action of it to evaluate.
    """
    batch, _, parallel = paths.shape
    for b in range(batch):
        walk(tree, rules, b, sim, paths[b])
        for p in range(parallel):
            rows[0, b * parallel + p] = paths[b, 1, p] * batch + b
            rows[1, b * parallel + p] = paths[b, 2, p]


@written_in
def finish(tree, rules, b, sim, paths, scratch):
    """Backs up the values of the leaves of one tree, then widens its bounds, then makes the next choices."""
    for p in range(paths.shape[1]):
        leaf = paths[0, p]
        _back_up(tree, rules, b, leaf, tree.raw_value[b, leaf], 1.0)
    for p in range(paths.shape[1]):
        _widen_along_path(tree, rules, b, paths[0, p])
    for p in range(paths.shape[1]):
        _choose_along_path(tree, rules, b, paths[0, p], sim + 1, scratch)


@jit
def expand(tree, rules, sim, paths, value, reward, game_over, prior, scratch, rows):
    """Stores what the model said about the leaves of `select`, row `b * P + p` each, backs it up, and selects anew."""
    batch, _, parallel = paths.shape
    for b in range(batch):
        for p in range(parallel):
            if paths[b, 3, p] == 1:
                r, n = b * parallel + p, paths[b, 0, p]
                over = tree.has_game_over and game_over[r]
                earned = np.float64(reward[r]) if tree.has_reward else 0.0
                add_node(tree, b, n, paths[b, 1, p], paths[b, 2, p], value[r], earned, over)
                set_prior(tree, rules, b, n, prior[r])
        finish(tree, rules, b, sim, paths[b], scratch)
    select(tree, rules, sim + 1, paths, rows)


@part
def _spread(tree, rules, b, leaf, first, sim, scratch):
    """Backs up that all children of `leaf`, the nodes from `first` on, were expanded at once."""
    branches = tree.prior.shape[2]
    share, mean = 0.0, 0.0
    for k in range(branches):
        n = first + k
        tree.visits[b, n], tree.value_sum[b, n] = 1.0, tree.raw_value[b, n]
        weight = tree.prior[b, leaf, k]
        share += weight
        mean += weight * (tree.reward[b, n] + rules.discount * tree.raw_value[b, n])
    _back_up(tree, rules, b, leaf, mean / share if share > 0 else 0.0, float(branches))
    _widen_along_path(tree, rules, b, leaf)
    for k in range(branches):
        if tree.prior[b, leaf, k] > 0:
            _widen(tree.bounds[b], tree.reward[b, first + k] + rules.discount * tree.raw_value[b, first + k])
    for k in range(branches):
        choose(tree, rules, b, first + k, sim, scratch)
    _choose_along_path(tree, rules, b, leaf, sim, scratch)


@jit
def select_leaf(tree, rules, leaves, rows):
    """Walks down all trees to nodes whose children are not expanded; leaves [B] int64, rows [2, B * K] as in `select`."""
    batch, branches = leaves.shape[0], tree.prior.shape[2]
    for b in range(batch):
        n = 0
        while not _is_end(tree, rules, b, n) and tree.is_spread[b, n]:
            n = tree.child[b, n, tree.best[b, n, 0]]
        leaves[b] = n
        # What is over is not gone on from: its parent is, and what comes out is not used.
        source = tree.parent[b, n] if tree.game_over[b, n] else n
        for k in range(branches):
            rows[0, b * branches + k] = source * batch + b
            rows[1, b * branches + k] = k


@jit
def expand_children(tree, rules, leaves, first, sim, value, reward, game_over, prior, scratch):
    """Stores what the model said about all children of `leaves`, row `b * K + k` each, and backs it up."""
    branches = tree.prior.shape[2]
    for b in range(leaves.shape[0]):
        leaf = leaves[b]
        if _is_end(tree, rules, b, leaf):
            _back_up(tree, rules, b, leaf, tree.raw_value[b, leaf], float(branches))
            _widen_along_path(tree, rules, b, leaf)
            _choose_along_path(tree, rules, b, leaf, sim, scratch)
            continue
        for k in range(branches):
            r = b * branches + k
            over = tree.has_game_over and game_over[r]
            earned = np.float64(reward[r]) if tree.has_reward else 0.0
            add_node(tree, b, first + k, leaf, k, value[r], earned, over)
            tree.prior[b, first + k] = prior[r]
        tree.is_spread[b, leaf] = True
        _spread(tree, rules, b, leaf, first, sim, scratch)
