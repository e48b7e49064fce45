"""Tree search after the published pseudocode, one node object at a time, slow and plain.

Schrittwieser et al. (2020), pseudocode.py of arXiv:1911.08265, with the documented differences: all values and rewards are
player 0's; values are normalised after adding the reward; unexpanded children have a value score; the root starts with one
visit; a game may be over. Further the options: exploration policies, parallel simulations, children expanded all at once.
"""

import math

import torch

from rein.ops import calculate_exploration_policy, calculate_kl_exploration_policy, hashed_uniform


class MinMaxStats:
    def __init__(self, known_bounds, delta):
        self.known_bounds, self.delta = known_bounds, delta
        self.maximum, self.minimum = -math.inf, math.inf

    def update(self, value):
        self.maximum = max(self.maximum, value)
        self.minimum = min(self.minimum, value)

    def normalize(self, value):
        if self.known_bounds is not None:
            low, high = self.known_bounds
            return (value - low) / (high - low)
        if self.maximum > self.minimum:
            return (value - self.minimum) / max(self.maximum - self.minimum, self.delta)
        return value


class Node:
    def __init__(self, index, depth, to_play):
        self.index, self.depth, self.to_play = index, depth, to_play
        self.visit_count, self.value_sum, self.reward = 0, 0.0, 0.0
        self.network_value = 0.0
        self.game_over = False
        self.prior, self.children, self.choices = [], {}, []
        self.hidden_state = None
        self.actions = None

    def value(self):
        return self.value_sum / self.visit_count


class Search:
    """One tree."""

    def __init__(self, rules, model, tree_index, seed):
        self.rules, self.model, self.tree_index, self.seed = rules, model, tree_index, seed
        self.stats = MinMaxStats(rules.known_value_bounds, rules.value_min_max_delta)
        self.round = 0

    # Evaluating.

    def fill(self, node, output, row):
        node.network_value = float(output.value[row])
        node.reward = float(output.reward[row]) if isinstance(output.reward, torch.Tensor) else 0.0
        if isinstance(output.game_over, torch.Tensor):
            node.game_over = bool(output.game_over[row])
        if node.game_over and isinstance(output.reward, torch.Tensor):
            node.network_value = 0.0
        node.prior = [float(p) for p in output.action_probs[row].double()]
        node.hidden_state = torch.utils._pytree.tree_map(lambda t: t[row : row + 1], output.state)
        if isinstance(output.actions, torch.Tensor):
            node.actions = output.actions[row]

    def expand(self, parent, slot, index):
        action = torch.tensor([slot]) if parent.actions is None else parent.actions[slot : slot + 1]
        output = self.model.recurrent_inference(parent.hidden_state, action)
        child = Node(index, parent.depth + 1, 1 - parent.to_play)
        self.fill(child, output, 0)
        return child

    # Scores.

    def value_scores(self, node):
        sign = -1.0 if self.rules.is_two_player_game and node.to_play == 1 else 1.0
        scores = {
            k: sign * self.stats.normalize(child.reward + self.rules.discount * child.value())
            for k, child in node.children.items()
        }
        known = [scores[k] for k in scores if node.prior[k] > 0]
        kind = self.rules.unexpanded_value_score
        if not isinstance(kind, str):
            fill = sign * kind
        elif kind == "mean_with_parent":
            fill = (sum(known) + sign * self.stats.normalize(node.value())) / (len(known) + 1)
        elif not known:
            fill = 0.0
        else:
            fill = {"max": max(known), "mean": sum(known) / len(known)}.get(kind, min(known))
        return [scores.get(k, fill) for k in range(len(node.prior))]

    def pb_c(self, visits):
        return math.log((visits + self.rules.pb_c_base + 1) / self.rules.pb_c_base) + self.rules.pb_c_init

    def ucb_choices(self, node):
        values = self.value_scores(node)
        visits = {k: child.visit_count for k, child in node.children.items()}
        parent = node.visit_count - (1 if self.rules.ucb_parent_visit_count_minus_one else 0)
        choices = []
        for p in range(self.rules.num_parallel_sims):
            best, best_score = 0, -math.inf
            for k, prior in enumerate(node.prior):
                if prior <= 0:
                    continue
                score = values[k] + self.pb_c(parent) * math.sqrt(parent) / (visits.get(k, 0) + 1) * prior
                if self.rules.ucb_break_tie_eps:
                    noise = hashed_uniform(self.seed, self.round, self.tree_index, node.index, p, k)
                    score += self.rules.ucb_break_tie_eps * float(noise)
                if score > best_score:
                    best, best_score = k, score
            choices.append(best)
            visits[best] = visits.get(best, 0) + 1
            parent += 1
        return choices

    def policy(self, node):
        values, prior = self.value_scores(node), list(node.prior)
        keeps = self.rules.unexpanded_value_score == "none"
        if keeps:
            prior = [p if k in node.children else 0.0 for k, p in enumerate(prior)]
        share = sum(prior)
        if share == 0:
            return list(node.prior)
        c = self.pb_c(node.visit_count) / math.sqrt(node.visit_count)
        table = [torch.tensor([x], dtype=torch.float64) for x in (values, [p / share for p in prior], [c])]
        if self.rules.exploration_policy_type == "kl":
            solved, _ = calculate_kl_exploration_policy(*table)
        else:
            solved, _ = calculate_exploration_policy(*table, tol=1e-12)
        solved = solved[0].tolist()
        return [
            node.prior[k] if keeps and k not in node.children else share * solved[k] for k in range(len(node.prior))
        ]

    def drawn_choices(self, node):
        policy, choices = self.policy(node), []
        for p in range(self.rules.num_parallel_sims):
            noise = float(hashed_uniform(self.seed, self.round, self.tree_index, node.index, p))
            reached = 0.0
            for k, probability in enumerate(policy):
                if probability > 0:
                    choice = k
                    reached += probability
                    if reached > noise * sum(policy):
                        break
            choices.append(choice)
        return choices

    def choose(self, node):
        node.choices = self.drawn_choices(node) if self.rules.search_with_exploration_policy else self.ucb_choices(node)

    # Growing.

    def run(self, root_output, prior, to_play):
        rules = self.rules
        self.root = Node(0, 0, int(to_play))
        self.fill(self.root, root_output, self.tree_index)
        self.root.prior = [float(p) for p in prior]
        self.root.visit_count, self.root.value_sum = 1, self.root.network_value
        self.choose(self.root)
        branches, first = len(self.root.prior), 1
        if rules.expand_all_children or rules.expand_all_root_children:
            self.expand_all([self.root], first)
            first += branches
        for i in range(rules.num_simulations // rules.num_parallel_sims):
            self.round = i + 1
            if rules.expand_all_children:
                path = [self.root]
                while path[-1].children and not self.is_end(path[-1]):
                    path.append(path[-1].children[path[-1].choices[0]])
                self.expand_all(path, first + i * branches)
            else:
                self.simulate(first + i * rules.num_parallel_sims)
        return self.root

    def is_end(self, node):
        return node.game_over or node.depth >= self.rules.max_unroll_length

    def simulate(self, first):
        paths = [[self.root] for _ in range(self.rules.num_parallel_sims)]
        ended = [self.is_end(self.root)] * len(paths)
        new = {}
        while not all(ended):
            ends = [None if ended[p] else path[-1] for p, path in enumerate(paths)]
            for p, path in enumerate(paths):
                if ended[p]:
                    continue
                node = path[-1]
                turn = p if self.rules.search_with_exploration_policy else sum(e is node for e in ends[:p])
                slot = node.choices[turn]
                if slot in node.children and (node.index, slot) not in new:
                    path.append(node.children[slot])
                    ended[p] = self.is_end(path[-1])
                else:
                    if (node.index, slot) not in new:
                        new[node.index, slot] = self.expand(node, slot, first + p)
                        node.children[slot] = new[node.index, slot]
                    path.append(new[node.index, slot])
                    ended[p] = True
        for path in paths:
            self.backpropagate(path, path[-1].network_value, 1)
        for path in paths:
            for node in path:
                self.stats.update(node.reward + self.rules.discount * node.value())
        for path in paths:
            for node in path:
                self.choose(node)

    def backpropagate(self, path, value, weight):
        for node in reversed(path):
            node.value_sum += weight * value
            node.visit_count += weight
            value = node.reward + self.rules.discount * value

    def expand_all(self, path, first):
        leaf = path[-1]
        branches = len(self.root.prior)
        children = []
        if self.is_end(leaf):
            self.backpropagate(path, leaf.network_value, branches)
        else:
            children = [self.expand(leaf, k, first + k) for k in range(branches)]
            leaf.children = dict(enumerate(children))
            worth = [child.reward + self.rules.discount * child.network_value for child in children]
            mean = sum(p * w for p, w in zip(leaf.prior, worth, strict=True)) / sum(leaf.prior)
            for child in children:
                child.visit_count, child.value_sum = 1, child.network_value
            self.backpropagate(path, mean, branches)
        legal = [child for child, prior in zip(children, leaf.prior, strict=False) if prior > 0]
        for node in [*path, *legal]:
            self.stats.update(node.reward + self.rules.discount * node.value())
        for node in [*children, *path]:
            self.choose(node)
