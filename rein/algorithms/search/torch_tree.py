"""Search trees in tensors: the same searches as `CompiledTree`, in plain torch, on any device.

For accelerators, where no numba is, and as the oracle of the compiled loops.
"""

import math
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.search.rules import EXPLORATION_POLICY, FORWARD_KL, GUMBEL, UCB, UNEXPANDED_KINDS, SearchRules
from rein.ops import (
    calculate_exploration_policy,
    calculate_kl_exploration_policy,
    hashed_uniform,
    min_max_normalize,
    puct_exploration_weight,
)

_TOLERANCE = 1e-12


class TorchTree:
    """B trees of at most N nodes with K children each; see `TreeArrays` for what the tensors hold."""

    def __init__(self, rules: SearchRules, batch_size: int, branch_factor: int, device: torch.device) -> None:
        """Allocates the tensors.

        Args:
            rules: of the search.
            batch_size: number of trees.
            branch_factor: children per node.
            device: where they live.
        """
        self.rules = rules
        self.numbers = rules.numbers()
        b, n, k, p = batch_size, rules.num_nodes(branch_factor), branch_factor, rules.num_parallel_sims
        f8: Any = {"dtype": torch.float64, "device": device}
        i8: Any = {"dtype": torch.int64, "device": device}
        self.visits, self.value_sum, self.raw_value, self.reward = (torch.zeros(b, n, **f8) for _ in range(4))
        self.game_over, self.is_spread = (torch.zeros(b, n, dtype=torch.bool, device=device) for _ in range(2))
        self.to_play, self.depth, self.parent, self.slot = (torch.zeros(b, n, **i8) for _ in range(4))
        self.prior = torch.zeros(b, n, k, **f8)
        self.child = torch.zeros(b, n, k, **i8)
        self.best = torch.zeros(b, n, p, **i8)
        self.low, self.high = torch.zeros(b, **f8), torch.zeros(b, **f8)
        self.first = 1 + (k if rules.expands_root else 0)
        self._trees = torch.arange(b, device=device).unsqueeze(-1)
        self._slots = torch.arange(k, device=device)
        self._seed = 0
        self._has_reward = self._has_game_over = False
        self._gumbel = self._considered = self.low  # both are given to `start`

    def start(
        self,
        prior: Tensor,
        value: Tensor,
        reward: Tensor | None,
        game_over: Tensor | None,
        to_play: Tensor,
        seed: int,
        gumbel: Tensor | None,
        considered: Tensor | None,
    ) -> None:
        """Clears the trees and writes their roots; see `CompiledTree.start`."""
        self._seed = seed
        self._has_reward, self._has_game_over = reward is not None, game_over is not None
        self.visits[:, 0] = 1.0
        self.game_over[:, 0] = False if game_over is None else game_over
        self.reward[:, 0] = 0.0 if reward is None else reward.double()
        ended = self.game_over[:, 0] & self._has_reward
        self.raw_value[:, 0] = value.double().masked_fill(ended, 0.0)
        self.value_sum[:, 0] = self.raw_value[:, 0]
        self.is_spread[:, 0] = False
        self.to_play[:, 0] = to_play.long()
        self.prior[:, 0] = prior
        self.child.zero_()
        self.low.fill_(math.inf)
        self.high.fill_(-math.inf)
        if gumbel is not None and considered is not None:
            self._gumbel, self._considered = gumbel, considered
        self._choose(torch.zeros_like(self._trees), 0)

    # Walking.

    def _is_end(self, node: Tensor) -> Tensor:
        return self.game_over[self._trees, node] | (self.depth[self._trees, node] >= self.numbers.max_depth)

    def select(self, simulation: int) -> tuple[Tensor, Tensor]:
        """Walks down all trees; see `CompiledTree.select`."""
        batch, parallel = self.visits.shape[0], self.rules.num_parallel_sims
        node = torch.zeros(batch, parallel, dtype=torch.int64, device=self.visits.device)
        source, slot = torch.zeros_like(node), torch.zeros_like(node)
        is_new = torch.zeros_like(node, dtype=torch.bool)
        walking = ~self._is_end(node)
        earlier = torch.ones(parallel, parallel, dtype=torch.bool, device=node.device).tril(-1)
        turn = torch.arange(parallel, device=node.device).expand(batch, parallel)
        while bool(walking.any()):
            if self.numbers.selection == UCB:
                same = (node.unsqueeze(2) == node.unsqueeze(1)) & walking.unsqueeze(1) & earlier
                turn = same.sum(2)
            choice = self.best[self._trees, node, turn]
            source, slot = torch.where(walking, node, source), torch.where(walking, choice, slot)
            child = self.child[self._trees, source, slot]
            is_new |= walking & (child == 0)
            walking = walking & (child > 0)
            node = torch.where(walking, child, node)
            walking = walking & ~self._is_end(node)
        # Of several paths to the same new node the first one adds it.
        twin = (source.unsqueeze(2) == source.unsqueeze(1)) & (slot.unsqueeze(2) == slot.unsqueeze(1))
        owner = (twin & is_new.unsqueeze(1)).long().argmax(2)
        self._adds = is_new & (owner == torch.arange(parallel, device=node.device))
        self._leaf = torch.where(is_new, self.first + simulation * parallel + owner, node)
        self._source, self._slot = source, slot
        return (source * batch + self._trees).flatten(), slot.flatten()

    def select_leaves(self) -> tuple[Tensor, Tensor]:
        """Walks to nodes without children; see `CompiledTree.select_leaves`."""
        batch, branches = self.visits.shape[0], self.prior.shape[2]
        node = torch.zeros_like(self._trees)
        while True:
            walking = self.is_spread[self._trees, node] & ~self._is_end(node)
            if not bool(walking.any()):
                break
            child = self.child[self._trees, node, self.best[self._trees, node, 0]]
            node = torch.where(walking, child, node)
        self._leaf = node
        # What is over is not gone on from: its parent is, and what comes out is not used.
        source = torch.where(self.game_over[self._trees, node], self.parent[self._trees, node], node)
        rows = (source * batch + self._trees).expand(batch, branches)
        return rows.flatten(), self._slots.expand(batch, branches).flatten()

    # Growing.

    def expand(
        self, simulation: int, value: Tensor, reward: Tensor | None, game_over: Tensor | None, prior: Tensor
    ) -> None:
        """Adds the leaves that `select` found; see `CompiledTree.expand`."""
        tree, path = self._adds.nonzero(as_tuple=True)
        row = tree * self._adds.shape[1] + path
        self._link(tree, self._leaf[tree, path], self._source[tree, path], self._slot[tree, path], row, reward)
        self._describe(tree, self._leaf[tree, path], row, value, game_over, prior)
        leaf_value = self.raw_value[self._trees, self._leaf]
        path_nodes = self._back_up(self._leaf, leaf_value, 1.0)
        self._widen(path_nodes)
        self._choose(path_nodes, simulation + 1)

    def expand_children(
        self,
        first: int,
        simulation: int,
        value: Tensor,
        reward: Tensor | None,
        game_over: Tensor | None,
        prior: Tensor,
    ) -> None:
        """Adds all children of the leaves that `select_leaves` found; see `CompiledTree.expand_children`."""
        branches = self.prior.shape[2]
        ends = self._is_end(self._leaf)
        tree, slot = (~ends).expand(-1, branches).nonzero(as_tuple=True)
        row, node, source = tree * branches + slot, first + slot, self._leaf[tree, 0]
        self._link(tree, node, source, slot, row, reward)
        self._describe(tree, node, row, value, game_over, prior)
        self.visits[tree, node] = 1.0
        self.value_sum[tree, node] = self.raw_value[tree, node]
        self.is_spread[tree, source] = True
        children = first + self._slots.expand(len(ends), branches)
        share = self.prior[self._trees, self._leaf].squeeze(1)
        worth = self.reward[self._trees, children] + self.numbers.discount * self.raw_value[self._trees, children]
        total = share.sum(-1, keepdim=True)
        mean = (share * worth).sum(-1, keepdim=True) / total.where(total > 0, 1.0)
        spread = torch.where(ends, self.raw_value[self._trees, self._leaf], mean)
        path_nodes = self._back_up(self._leaf, spread, float(branches))
        self._widen(torch.cat([path_nodes, torch.where(ends | (share <= 0), 0, children)], 1))
        self._choose(torch.cat([path_nodes, torch.where(ends, 0, children)], 1), simulation)

    def _link(
        self, tree: Tensor, node: Tensor, source: Tensor, slot: Tensor, row: Tensor, reward: Tensor | None
    ) -> None:
        """Links new nodes, [M] each, to their parents."""
        self.parent[tree, node], self.slot[tree, node] = source, slot
        self.depth[tree, node] = self.depth[tree, source] + 1
        self.to_play[tree, node] = 1 - self.to_play[tree, source]
        self.reward[tree, node] = 0.0 if reward is None else reward[row].double()
        self.child[tree, source, slot] = node

    def _describe(
        self, tree: Tensor, node: Tensor, row: Tensor, value: Tensor, game_over: Tensor | None, prior: Tensor
    ) -> None:
        """Writes what the model said about new nodes, [M] each."""
        over = torch.zeros_like(row, dtype=torch.bool) if game_over is None else game_over[row]
        self.game_over[tree, node] = over
        self.raw_value[tree, node] = value[row].double().masked_fill(over & self._has_reward, 0.0)
        self.prior[tree, node] = prior[row].double()
        self.visits[tree, node], self.value_sum[tree, node] = 0.0, 0.0
        self.child[tree, node] = 0
        self.is_spread[tree, node] = False

    def _back_up(self, leaf: Tensor, value: Tensor, weight: float) -> Tensor:
        """Adds values [B, P] along the paths to leaves [B, P]; returns the nodes on the paths, [B, M], with repetitions."""
        node, active, levels = leaf, torch.ones_like(leaf, dtype=torch.bool), []
        trees = self._trees.expand_as(leaf)
        while True:
            levels.append(node)
            added = weight * active.double()
            self.visits.index_put_((trees, node), added, accumulate=True)
            self.value_sum.index_put_((trees, node), added * value, accumulate=True)
            active = active & (node > 0)
            if not bool(active.any()):
                return torch.cat(levels, 1)
            value = self.reward[trees, node] + self.numbers.discount * value
            node = self.parent[trees, node]

    def _widen(self, nodes: Tensor) -> None:
        q = self.reward[self._trees, nodes] + self.numbers.discount * self._value(nodes)
        self.low = torch.minimum(self.low, q.amin(1))
        self.high = torch.maximum(self.high, q.amax(1))

    # Scores.

    def _value(self, nodes: Tensor) -> Tensor:
        return self.value_sum[self._trees, nodes] / self.visits[self._trees, nodes]

    def _normalised(self, q: Tensor) -> Tensor:
        if self.numbers.has_bounds:
            return (q - self.numbers.low) / (self.numbers.high - self.numbers.low)
        shape = (-1, *(1,) * (q.ndim - 1))
        return min_max_normalize(q, self.low.view(shape), self.high.view(shape), self.numbers.min_delta)

    def _sign(self, nodes: Tensor) -> Tensor:
        if not self.numbers.is_two_player:
            return torch.ones_like(nodes, dtype=torch.float64)
        return 1.0 - 2.0 * self.to_play[self._trees, nodes].double()

    def _children(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of the children of nodes [B, M]: prior, whether expanded, visits, signed and normalised values, [B, M, K]."""
        prior, child = self.prior[self._trees, nodes], self.child[self._trees, nodes]
        trees, expanded = self._trees.unsqueeze(-1), child > 0
        visits = self.visits[trees, child].masked_fill(~expanded, 0.0)
        q = self.reward[trees, child] + self.numbers.discount * (
            self.value_sum[trees, child] / self.visits[trees, child]
        )
        score = self._sign(nodes).unsqueeze(-1) * self._normalised(q)
        return prior, expanded, visits, score.masked_fill(~expanded, 0.0)

    def _fill(self, nodes: Tensor, prior: Tensor, expanded: Tensor, score: Tensor) -> Tensor:
        """Value scores of all children, those of unexpanded ones by the rule, [B, M, K]."""
        kind = UNEXPANDED_KINDS[self.numbers.unexpanded_kind]
        sign = self._sign(nodes)
        counted = expanded & (prior > 0)
        count = counted.sum(-1)
        total = score.masked_fill(~counted, 0.0).sum(-1)
        if kind == "number":
            fill = sign * self.numbers.unexpanded_value
        elif kind == "mean_with_parent":
            fill = (total + sign * self._normalised(self._value(nodes))) / (count + 1)
        elif kind == "max":
            fill = score.masked_fill(~counted, -math.inf).amax(-1)
        elif kind == "mean":
            fill = total / count
        else:
            fill = score.masked_fill(~counted, math.inf).amin(-1)
        if kind in ("max", "mean", "min", "none"):
            fill = fill.where(count > 0, 0.0)
        return torch.where(expanded, score, fill.unsqueeze(-1))

    # Choices.

    def _choose(self, nodes: Tensor, simulation: int) -> None:
        """Stores the next choices of nodes [B, M]; equal nodes get equal choices."""
        if self.numbers.selection == EXPLORATION_POLICY:
            choice = self._draw(nodes, simulation)
        elif self.numbers.selection == GUMBEL:
            choice = self._choose_by_gumbel(nodes, simulation)
        else:
            choice = self._choose_by_ucb(nodes, simulation)
        self.best[self._trees, nodes] = choice

    def _choose_by_ucb(self, nodes: Tensor, simulation: int) -> Tensor:
        rules = self.numbers
        prior, expanded, child_visits, score = self._children(nodes)
        score = self._fill(nodes, prior, expanded, score)
        visits = self.visits[self._trees, nodes].unsqueeze(-1) - rules.parent_visits_less
        choices = []
        for p in range(self.rules.num_parallel_sims):
            weight = puct_exploration_weight(visits + p, rules.pb_c_init, rules.pb_c_base) * (visits + p).sqrt()
            ucb = score + prior * weight / (1.0 + child_visits)
            if rules.tie_eps > 0:
                at = (self._trees.unsqueeze(-1), nodes.unsqueeze(-1))
                ucb = ucb + rules.tie_eps * hashed_uniform(self._seed, simulation, *at, p, self._slots)
            best = ucb.masked_fill(prior <= 0, -math.inf).argmax(-1)
            choices.append(best)
            child_visits = child_visits.scatter_add(-1, best.unsqueeze(-1), torch.ones_like(score[..., :1]))
        return torch.stack(choices, -1)

    def _policy(self, nodes: Tensor) -> Tensor:
        """Exploration policies of nodes [B, M], [B, M, K]."""
        rules = self.numbers
        full, expanded, _, score = self._children(nodes)
        score = self._fill(nodes, full, expanded, score)
        prior = full
        if UNEXPANDED_KINDS[rules.unexpanded_kind] == "none":
            prior = full.masked_fill(~expanded, 0.0)
        share = prior.sum(-1, keepdim=True)
        # A node without expanded children keeps its prior: any prior will do to solve for.
        scaled = torch.where(share > 0, prior / share, full)
        visits = self.visits[self._trees, nodes].unsqueeze(-1)
        c = puct_exploration_weight(visits, rules.pb_c_init, rules.pb_c_base) / visits.sqrt()
        flat = (score.flatten(0, 1), scaled.flatten(0, 1), c.flatten(0, 1))
        if rules.policy_type == FORWARD_KL:
            policy, _ = calculate_kl_exploration_policy(*flat)
        else:
            policy, _ = calculate_exploration_policy(*flat, tol=_TOLERANCE)
        policy = policy.view_as(score) * share
        return torch.where((prior > 0) & (share > 0), policy, full)

    def _draw(self, nodes: Tensor, simulation: int) -> Tensor:
        policy = self._policy(nodes)
        reached = policy.cumsum(-1)
        path = torch.arange(self.rules.num_parallel_sims, device=nodes.device)
        at = (self._trees.unsqueeze(-1), nodes.unsqueeze(-1))
        threshold = hashed_uniform(self._seed, simulation, *at, path) * reached[..., -1:]
        passed = (reached.unsqueeze(-2) > threshold.unsqueeze(-1)) & (policy > 0).unsqueeze(-2)
        return passed.long().argmax(-1)

    def _completed_logits(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Log prior + sigma(completed Q) of the children of nodes [B, M], and their visits, [B, M, K] each."""
        rules = self.numbers
        prior, expanded, visits, score = self._children(nodes)
        counted = expanded & (prior > 0)
        visits = visits.masked_fill(~counted, 0.0)
        share = prior.masked_fill(~counted, 0.0).sum(-1)
        mean = (prior * score).masked_fill(~counted, 0.0).sum(-1) / share.where(share > 0, 1.0)
        total = visits.sum(-1)
        raw = self._sign(nodes) * self._normalised(self.raw_value[self._trees, nodes])
        mixed = torch.where(share > 0, (raw + total * mean) / (1.0 + total), raw).unsqueeze(-1)
        scale = (rules.gumbel_visit + visits.amax(-1, keepdim=True)) * rules.gumbel_scale
        return prior.log() + scale * torch.where(counted, score, mixed), visits

    def _choose_by_gumbel(self, nodes: Tensor, simulation: int) -> Tensor:
        logits, visits = self._completed_logits(nodes)
        inner = logits.softmax(-1) - visits / (1.0 + visits.sum(-1, keepdim=True))
        inner = inner.masked_fill(self.prior[self._trees, nodes] <= 0, -math.inf).argmax(-1)
        step = min(simulation, self._considered.shape[1] - 1)
        wanted = self._considered[:, step].view(-1, 1, 1)
        root = (logits + self._gumbel.unsqueeze(1)).masked_fill(visits != wanted, -math.inf).argmax(-1)
        return torch.where(nodes == 0, root, inner).unsqueeze(-1)

    # What came out.

    def root_visits(self) -> Tensor:
        """float64 [B]."""
        return self.visits[:, 0].clone()

    def root_values(self) -> Tensor:
        """float64 [B], mean values of the roots."""
        return self.value_sum[:, 0] / self.visits[:, 0]

    def child_visits(self) -> Tensor:
        """float64 [B, K], visits of the roots' children; 0 for forbidden ones."""
        return self._of_children(self.visits)

    def child_rewards(self) -> Tensor:
        """float64 [B, K], rewards of entering the roots' children; 0 where not expanded."""
        return self._of_children(self.reward)

    def _of_children(self, field: Tensor) -> Tensor:
        child = self.child[:, 0]
        return field.gather(1, child).masked_fill((child == 0) | (self.prior[:, 0] <= 0), 0.0)

    def root_policies(self) -> Tensor:
        """float64 [B, K], exploration policies of the roots."""
        return self._policy(torch.zeros_like(self._trees)).squeeze(1)

    def root_logits(self) -> Tensor:
        """float64 [B, K], log prior + sigma(completed Q) of the roots' children."""
        return self._completed_logits(torch.zeros_like(self._trees))[0].squeeze(1)

    def root_gumbel(self) -> Tensor:
        """float64 [B, K], the noise of the roots' actions in a Gumbel root search."""
        return self._gumbel
