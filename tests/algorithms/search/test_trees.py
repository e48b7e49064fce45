"""Searches on all backends, against the published pseudocode and against numbers worked out by hand."""

import itertools

import pytest
import torch
from search_pseudocode import Search
from search_worlds import RandomModel, bandit, delayed, matrix

from rein.algorithms.search.planning import Planner, Root
from rein.algorithms.search.rules import SearchRules
from rein.ops import mask_prior

BACKENDS = ["compiled", "torch"]


def search(model, backend="compiled", roots=None, to_play=0, prior=None, seed=3, **rules):
    rules = SearchRules(**{"num_simulations": 20, "discount": 1.0, **rules})
    output = model.initial_predict(torch.zeros(1, 1, dtype=torch.int64) if roots is None else roots)
    prior = output.action_probs.double() if prior is None else prior
    to_play = torch.as_tensor(to_play).expand(len(prior))
    torch.manual_seed(seed)
    return Planner(rules, backend).search(model, Root(output, prior, to_play)), output, prior, to_play, rules


def visits(model, backend, **rules):
    tree, *_ = search(model, backend, **rules)
    return [int(n) for n in tree.child_visits()[0]]


@pytest.mark.parametrize("backend", BACKENDS)
class TestByHand:
    def test_a_bandit(self, backend):
        rewards = (0.0, 0.5, 1.0)
        tree, *_ = search(bandit(rewards), backend)
        assert tree.child_visits().tolist() == [[1, 3, 16]]
        assert tree.root_visits().tolist() == [21]
        assert tree.root_values().item() == pytest.approx(17.5 / 21)
        assert tree.child_rewards().tolist() == [list(rewards)]
        assert visits(bandit(rewards), backend, num_parallel_sims=4) == [2, 3, 15]
        assert visits(bandit(rewards), backend, unexpanded_value_score="min") == [1, 6, 13]
        assert visits(bandit(rewards), backend, expand_all_root_children=True) == [1, 3, 19]
        assert visits(bandit(rewards), backend, expand_all_children=True) == [4, 7, 52]
        assert visits(bandit(rewards, [0.5, 0.5, 0.0]), backend) == [2, 18, 0]

    def test_a_bandit_for_two(self, backend):
        rules = dict(is_two_player_game=True, known_value_bounds=(-1.0, 1.0))
        tree, *_ = search(bandit((-1.0, 0.0, 1.0)), backend, **rules)
        assert tree.child_visits().tolist() == [[1, 3, 16]]
        assert tree.root_values().item() == pytest.approx(0.714, abs=1e-3)
        tree, *_ = search(bandit((-1.0, 0.0, 1.0)), backend, to_play=1, **rules)
        assert tree.child_visits().tolist() == [[16, 3, 1]]
        assert tree.root_values().item() == pytest.approx(-0.714, abs=1e-3)

    def test_a_delayed_reward(self, backend):
        for simulations, expected in ((20, [13, 7]), (50, [13, 37]), (100, [13, 87])):
            assert visits(delayed(), backend, num_simulations=simulations, discount=0.9) == expected

    def test_a_matrix_game(self, backend):
        rules = dict(num_simulations=100, is_two_player_game=True, known_value_bounds=(-1.0, 1.0))
        start = torch.tensor([[-1]])
        game, negated = matrix(((1.0, -1.0), (0.2, 0.1))), matrix(((-1.0, 1.0), (-0.2, -0.1)))
        tree, *_ = search(game, backend, roots=start, **rules)
        assert tree.child_visits().tolist() == [[12, 88]]
        assert tree.root_values().item() == pytest.approx(0.033, abs=1e-3)
        tree, *_ = search(game, backend, roots=start, num_parallel_sims=4, **rules)
        assert tree.child_visits().tolist() == [[13, 87]]
        tree, *_ = search(negated, backend, roots=start, to_play=1, **rules)
        assert tree.child_visits().tolist() == [[12, 88]]
        assert tree.root_values().item() == pytest.approx(-0.033, abs=1e-3)

    def test_a_game_that_is_over_is_not_searched(self, backend):
        model = bandit((1.0, 2.0))
        over = model.initial_predict(torch.zeros(1, 1, dtype=torch.int64))
        over = over._replace(game_over=torch.tensor([True]), value=torch.tensor([5.0]))
        model.initial_predict = lambda latent: over
        tree, *_ = search(model, backend)
        assert tree.child_visits().tolist() == [[0, 0]]
        assert tree.root_values().item() == 0.0

    def test_the_depth_is_limited(self, backend):
        model = RandomModel(0, ends=False)
        tree, *_ = search(model, backend, roots=model.roots(2, 0), num_simulations=40, max_unroll_length=2)
        depth = torch.as_tensor(tree.arrays.depth if backend == "compiled" else tree.depth)
        there = torch.as_tensor(tree.arrays.visits if backend == "compiled" else tree.visits) > 0
        assert int(depth[there].max()) == 2
        assert int(there.sum(1).max()) <= 1 + 4 + 16
        assert tree.root_visits().tolist() == [41, 41]


def check_against_pseudocode(seed, backend, model_options=None, masked=False, batch=2, **rules):
    model = RandomModel(seed, **(model_options or {}))
    roots = model.roots(batch, seed)
    prior = model.initial_predict(roots).action_probs.double()
    if masked:
        mask = torch.rand(prior.shape, generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[:, seed % prior.shape[1]] = True
        prior = mask_prior(prior, mask)
    to_play = torch.arange(batch) % 2
    tree, output, prior, to_play, rules = search(
        model, backend, roots=roots, prior=prior, to_play=to_play, seed=seed, discount=0.9, **rules
    )
    torch.manual_seed(seed)
    drawn = int(torch.randint(2**31, ()))
    policies = tree.root_policies()
    for b in range(batch):
        oracle = Search(rules, model, b, drawn)
        root = oracle.run(output, prior[b], to_play[b])
        expected = [root.children[k].visit_count if k in root.children else 0 for k in range(len(root.prior))]
        expected = [n if p > 0 else 0 for n, p in zip(expected, root.prior, strict=True)]
        assert tree.child_visits()[b].tolist() == expected, f"tree {b} of seed {seed} with {rules}"
        assert tree.root_values()[b].item() == pytest.approx(root.value(), abs=1e-9)
        torch.testing.assert_close(
            policies[b], torch.tensor(oracle.policy(root), dtype=torch.float64), atol=1e-9, rtol=0
        )


OPTIONS = [
    {},
    {"is_two_player_game": True},
    {"is_two_player_game": True, "known_value_bounds": (-2.0, 2.0), "num_parallel_sims": 2},
    {"num_parallel_sims": 4},
    {"unexpanded_value_score": "max", "ucb_break_tie_eps": 0.3},
    {"unexpanded_value_score": "mean", "is_two_player_game": True, "value_min_max_delta": 0.5},
    {"unexpanded_value_score": "mean_with_parent", "is_two_player_game": True},
    {"unexpanded_value_score": "none", "ucb_parent_visit_count_minus_one": True, "ucb_break_tie_eps": 0.1},
    {"expand_all_root_children": True, "num_parallel_sims": 2, "is_two_player_game": True},
    {"expand_all_children": True, "is_two_player_game": True},
    {"search_with_exploration_policy": True, "num_parallel_sims": 2},
    {"search_with_exploration_policy": True, "exploration_policy_type": "kl", "is_two_player_game": True},
    {"search_with_exploration_policy": True, "unexpanded_value_score": "none", "expand_all_root_children": True},
    {"search_with_exploration_policy": True, "unexpanded_value_score": "none"},
    {"expand_all_children": True, "search_with_exploration_policy": True, "max_unroll_length": 3},
    {"max_unroll_length": 2, "num_parallel_sims": 2},
]
MODELS = [{}, {"rewards": False}, {"ends": False}, {"illegal": True}, {"sampled": True}]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("option", range(len(OPTIONS)))
def test_searches_equal_the_pseudocode(option, backend):
    model = MODELS[option % len(MODELS)]
    check_against_pseudocode(option, backend, model, option % 3 == 0, num_simulations=16, **OPTIONS[option])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_searches_of_two_hundred_random_models_equal_the_pseudocode(part):
    cases = itertools.product(OPTIONS, MODELS, (False, True))
    models = enumerate(itertools.islice(itertools.cycle(cases), 200))
    for seed, (options, model, masked) in itertools.islice(models, 25 * part, 25 * part + 25):
        for backend in BACKENDS:
            check_against_pseudocode(seed, backend, model, masked, num_simulations=24, **options)


@pytest.mark.parametrize("option", range(len(OPTIONS)))
def test_both_backends_grow_the_same_trees(option):
    model = RandomModel(option, actions=6, illegal=True)
    trees = [
        search(model, backend, roots=model.roots(8, option), num_simulations=48, discount=0.97, **OPTIONS[option])[0]
        for backend in BACKENDS
    ]
    assert torch.equal(trees[0].child_visits(), trees[1].child_visits())
    torch.testing.assert_close(trees[0].root_values(), trees[1].root_values(), atol=1e-10, rtol=0)


def test_swapping_the_players_negates_the_value():
    model = RandomModel(4)
    rules = dict(is_two_player_game=True, known_value_bounds=(-1.0, 1.0), discount=0.95)
    first, *_ = search(model, roots=model.roots(3, 0), unexpanded_value_score="mean", **rules)
    predict = model.initial_predict
    model.initial_predict = lambda latent, state=(): (lambda o: o._replace(value=-o.value, reward=-o.reward))(
        predict(latent)
    )
    second, *_ = search(model, roots=model.roots(3, 0), to_play=1, unexpanded_value_score="mean", **rules)
    assert torch.equal(first.child_visits(), second.child_visits())
    torch.testing.assert_close(first.root_values(), -second.root_values())


def test_the_model_is_called_once_per_simulation_for_all_trees():
    model = bandit((0.0, 1.0))
    search(model, roots=torch.zeros(5, 1, dtype=torch.int64), num_simulations=12, num_parallel_sims=3)
    assert model.calls == 4


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"num_simulations": 10, "num_parallel_sims": 4},
            "not divisible by num_parallel_sims=4: use num_simulations=8",
        ),
        ({"num_simulations": 0}, "at least 1"),
        ({"num_parallel_sims": 2, "expand_all_children": True}, "set num_parallel_sims=1"),
        ({"unexpanded_value_score": "median"}, "'median': give a number or one of"),
        ({"exploration_policy_type": "js"}, "choose 'rkl' or 'kl'"),
        ({"known_value_bounds": (1.0, -1.0)}, "the first must be below"),
        ({"value_min_max_delta": 0.0}, "must be positive"),
        ({"max_unroll_length": 0}, "at least 1"),
        ({"discount": 1.5}, "from 0 to 1"),
        ({"gumbel_actions": 4, "num_parallel_sims": 2}, "Gumbel root search"),
    ],
)
def test_rules_that_cannot_be_searched_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        SearchRules(**{"num_simulations": 20, "discount": 1.0, **rules})
