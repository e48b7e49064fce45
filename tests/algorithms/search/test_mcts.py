"""`MCTSAlgorithm`: what it reads, how it acts, what it gives, and what it refuses."""

import math

import pytest
import torch
from search_worlds import Game, RandomModel, ScalarsInMemory, TicTacToeModel, bandit, board

from rein import nest
from rein.algorithms.search import (
    CategoricalSeedSampler,
    EpsilonGreedySampler,
    LinearTdStepFunc,
    MCTSAlgorithm,
    MCTSState,
    MultinomialSampler,
    SearchRoot,
    VisitSoftmaxTemperatureByMoves,
    VisitSoftmaxTemperatureByProgress,
    create_atari_mcts,
    create_board_game_mcts,
    create_control_mcts,
)
from rein.algorithms.search.action_samplers import log_gamma_quantile
from rein.algorithms.search.representation_losses import MeanSquaredLoss
from rein.algorithms.search.scalar_losses import (
    DiscreteRegressionLoss,
    OrderedDiscreteRegressionLoss,
    QuantileRegressionLoss,
    Sqrt1pTransform,
    SquareLoss,
)
from rein.config.data_values import Decoder, Encoder
from rein.data_structures import StepType, TimeStep
from rein.networks import zero_state
from rein.runtime.run import Run
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches
from rein.transforms import RewardScaling

COLD = VisitSoftmaxTemperatureByMoves([(0, 1e-4)])
WARM = VisitSoftmaxTemperatureByMoves([(0, 1.0)])


def mcts(model, actions=3, **options):
    settings = {
        "observation_spec": TensorSpec((1,), torch.int64),
        "action_spec": BoundedTensorSpec((), torch.int64, 0, actions - 1),
        "num_simulations": 20,
        "root_dirichlet_alpha": 0.3,
        "root_exploration_fraction": 0.0,
        "pb_c_init": 1.25,
        "pb_c_base": 19652,
        "discount": 1.0,
        "is_two_player_game": False,
        "visit_softmax_temperature_fn": COLD,
        "model": model,
    }
    return MCTSAlgorithm(**{**settings, **options})


def step(observation):
    size = nest.get_nest_batch_size(observation)
    return TimeStep(
        step_type=torch.full((size,), StepType.MID, dtype=torch.int32),
        reward=torch.zeros(size),
        observation=observation,
        env_id=torch.arange(size) + 10,
    )


def act(algorithm, observation, rollout=False, steps=0):
    spec = algorithm.rollout_state_spec if rollout else algorithm.predict_state_spec
    state = zero_state(spec, nest.get_nest_batch_size(observation))
    state = state._replace(steps=state.steps + steps)
    return (algorithm.rollout_step if rollout else algorithm.predict_step)(step(observation), state)


START = torch.zeros(2, 1, dtype=torch.int64)


def test_what_comes_out_of_a_search():
    algorithm = mcts(bandit((0.0, 0.5, 1.0)))
    result = act(algorithm, START, rollout=True, steps=4)
    assert result.output.tolist() == [2, 2]
    check_matches(result.output, algorithm.action_spec, 1, "the action")
    check_matches(result.state, algorithm.rollout_state_spec, 1, "the state")
    assert result.state.steps.tolist() == [5, 5]
    assert result.state.next_predicted_reward.tolist() == [1.0, 1.0]
    assert result.info.candidate_actions == ()
    torch.testing.assert_close(result.info.value, torch.full((2,), 17.5 / 21))
    torch.testing.assert_close(result.info.candidate_action_policy, torch.tensor([[0.05, 0.15, 0.8]]).repeat(2, 1))
    predicted = act(algorithm, START)
    check_matches(predicted.state, algorithm.predict_state_spec, 1, "the state")
    assert predicted.state.next_predicted_reward == ()
    assert algorithm.train_state_spec.next_predicted_reward == ()
    assert algorithm.discount == 1.0
    assert not list(algorithm.parameters())


def test_temperatures_of_acting_and_learning_are_separate():
    counts = torch.tensor([1.0, 3.0, 16.0])
    learnt = mcts(bandit((0.0, 0.5, 1.0)), learn_policy_temperature=0.5, visit_softmax_temperature_fn=WARM)
    torch.manual_seed(0)
    result = act(learnt, torch.zeros(4000, 1, dtype=torch.int64), rollout=True)
    torch.testing.assert_close(result.info.candidate_action_policy[0], counts**2 / (counts**2).sum())
    share = torch.bincount(result.output, minlength=3) / 4000
    torch.testing.assert_close(share, counts / 20, atol=0.03, rtol=0)


def test_evaluation_may_have_noise_of_its_own():
    noisy = {"root_exploration_fraction": 1.0, "root_dirichlet_alpha": 0.3, "num_simulations": 4}
    plain = act(mcts(bandit((0.0, 0.5, 1.0)), **{**noisy, "root_exploration_fraction": 0.0}), START).info
    algorithm = mcts(bandit((0.0, 0.5, 1.0)), predict_exploration_fraction=0.0, **noisy)
    many = torch.zeros(50, 1, dtype=torch.int64)
    assert torch.equal(act(algorithm, START).info.candidate_action_policy, plain.candidate_action_policy)
    rollout = act(algorithm, many, rollout=True).info.candidate_action_policy
    evaluated = act(mcts(bandit((0.0, 0.5, 1.0)), **noisy), many).info.candidate_action_policy
    for policy in (rollout, evaluated):
        assert len(policy.unique(dim=0)) > 1, "with the same noise in both unless told otherwise"


@pytest.mark.parametrize("options", [{}, {"gumbel_actions": 3}])
def test_evaluation_may_search_longer(options):
    algorithm = mcts(bandit((0.0, 0.5, 1.0)), predict_num_simulations=50, **options)
    for rollout, simulations in ((True, 20), (False, 50), (True, 20)):
        act(algorithm, START, rollout)
        assert algorithm.last_tree.child_visits().sum(1).tolist() == [simulations] * 2
    with pytest.raises(ValueError, match="both must be at least 1"):
        mcts(bandit((0.0, 0.5, 1.0)), predict_num_simulations=0)


def test_rollouts_and_evaluation_have_samplers_of_their_own():
    samplers = {"rollout_action_sampler": EpsilonGreedySampler(0.0), "predict_action_sampler": MultinomialSampler()}
    algorithm = mcts(bandit((0.0, 0.5, 1.0)), visit_softmax_temperature_fn=WARM, **samplers)
    many = torch.zeros(200, 1, dtype=torch.int64)
    torch.manual_seed(0)
    assert act(algorithm, many, rollout=True).output.unique().tolist() == [2]
    assert act(algorithm, many).output.unique().tolist() == [0, 1, 2]


def test_errors_of_predicted_rewards_are_shown_if_asked_for():
    shown = ScalarsInMemory()
    with Run(writer=shown):
        for debug in (False, True):
            algorithm = mcts(bandit((0.0, 0.5, 1.0)), debug_summaries=debug, name=f"debug-{debug}")
            first = act(algorithm, START, rollout=True)
            algorithm.rollout_step(step(START)._replace(reward=torch.tensor([1.0, 3.0])), first.state)
    assert shown.last == {"debug-True/reward_prediction_error": 1.0}


@pytest.mark.parametrize(
    "value",
    [
        MultinomialSampler(),
        EpsilonGreedySampler(0.25),
        CategoricalSeedSampler(4, 0.5, 2.0),
        VisitSoftmaxTemperatureByMoves([(3, 0.5), (9, 0.1)]),
        VisitSoftmaxTemperatureByProgress([(0.2, 0.5), (1.0, 0.1)]),
        SquareLoss(),
        DiscreteRegressionLoss(Sqrt1pTransform(), inverse_after_mean=True),
        OrderedDiscreteRegressionLoss(),
        QuantileRegressionLoss(delta=2.0),
        MeanSquaredLoss(2),
        LinearTdStepFunc(0.5, 2),
        RewardScaling(0.02),
    ],
    ids=lambda value: type(value).__name__,
)
def test_small_parts_are_saved_as_data(value):
    made = Decoder().decode(Encoder().encode(value))
    assert type(made) is type(value)
    assert made is not value
    assert text_of(made) == text_of(value)


def text_of(value):
    return {key: text_of(one) if hasattr(one, "settings") else one for key, one in value.settings.items()}


def test_acting_and_learning_by_the_exploration_policy():
    algorithm = mcts(bandit((0.0, 0.5, 1.0)), act_with_exploration_policy=True, learn_with_exploration_policy=True)
    policy = act(algorithm, START).info.candidate_action_policy
    # At 21 visits c is about 0.27; the three children have values 0, 0.5 and 1.
    c = (math.log1p(22 / 19652) + 1.25) / math.sqrt(21)
    p = policy[0].double()
    alpha = p.new_tensor([0.0, 0.5, 1.0]) + c / 3 / p
    torch.testing.assert_close(alpha, alpha[:1].expand(3), atol=1e-4, rtol=0)


def test_fields_of_a_dictionary_are_used():
    model = bandit((0.0, 0.5, 1.0))
    plain = model.initial_predict
    model.initial_predict = lambda observation: plain(observation["x"])
    observation = {
        "x": START,
        "valid_action_mask": torch.tensor([[True, True, False], [False, True, False]]),
        "steps": torch.tensor([0, 40], dtype=torch.int32),
    }
    algorithm = mcts(model, visit_softmax_temperature_fn=VisitSoftmaxTemperatureByMoves([(29, 1.0), (100, 1e-4)]))
    result = act(algorithm, observation)
    assert (result.info.candidate_action_policy > 0).tolist() == [[True, True, False], [False, True, False]]
    assert result.output[1] == 1
    assert result.state.steps.tolist() == [1, 1]
    root = SearchRoot.of(observation, latent=START)
    assert torch.equal(root.valid_action_mask, observation["valid_action_mask"])
    model.initial_predict = plain
    again = act(algorithm, root)
    torch.testing.assert_close(again.info.candidate_action_policy, result.info.candidate_action_policy)


def test_whose_move_it_is():
    rules = dict(is_two_player_game=True, known_value_bounds=(-1.0, 1.0))
    algorithm = mcts(bandit((-1.0, 0.0, 1.0)), **rules)
    assert act(algorithm, START, steps=0).output.tolist() == [2, 2]
    assert act(algorithm, START, steps=1).output.tolist() == [0, 0]
    told = SearchRoot(START, to_play=torch.tensor([0, 1], dtype=torch.int8))
    assert act(algorithm, told, steps=1).output.tolist() == [2, 0]
    counted = SearchRoot(START, steps=torch.tensor([2, 3]))
    assert act(algorithm, counted).output.tolist() == [2, 0]


def test_noise_at_the_root():
    torch.manual_seed(0)
    model = bandit((0.0, 0.0, 0.0), [0.5, 0.5, 0.0])
    algorithm = mcts(model, root_exploration_fraction=1.0, root_dirichlet_alpha=0.03, num_simulations=4)
    policy = act(algorithm, torch.zeros(500, 1, dtype=torch.int64)).info.candidate_action_policy
    assert (policy[:, 2] == 0).all()
    assert (policy.max(-1).values > 0.9).float().mean() > 0.7
    calm = act(mcts(model, num_simulations=4), START).info.candidate_action_policy
    assert calm[0].tolist() == [0.5, 0.5, 0.0]


def test_sampled_candidates_of_a_continuous_action():
    model = RandomModel(0, actions=6, sampled=True)
    algorithm = mcts(model, action_spec=BoundedTensorSpec((2,), torch.float32, -1, 1))
    roots = model.roots(3, 1)
    result = act(algorithm, roots, rollout=True)
    assert result.info.candidate_actions.shape == (3, 6, 2)
    best = result.info.candidate_action_policy.argmax(-1)
    torch.testing.assert_close(result.output, result.info.candidate_actions[torch.arange(3), best].float())


def test_a_game_that_is_over_gives_any_allowed_action():
    model = bandit((1.0, 1.0, 1.0), [0.5, 0.5, 0.0])
    plain = model.initial_predict
    model.initial_predict = lambda latent: plain(latent)._replace(game_over=torch.ones(len(latent), dtype=torch.bool))
    torch.manual_seed(0)
    result = act(mcts(model), torch.zeros(400, 1, dtype=torch.int64))
    assert result.info.candidate_action_policy.sum() == 0
    share = torch.bincount(result.output, minlength=3) / 400
    torch.testing.assert_close(share, torch.tensor([0.5, 0.5, 0.0]), atol=0.1, rtol=0)


class Modes(torch.nn.Module):
    """A bandit that notes whether it was searched in training mode."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.game, self.modes = bandit((0.0, 1.0, 0.0)), []

    def initial_predict(self, latent, pred_state=()):
        self.modes.append(self.training)
        output = self.game.initial_predict(latent)
        return output._replace(value=output.value + self.weight)

    def recurrent_inference(self, state, action):
        return self.game.recurrent_inference(state, action)


def test_the_model_is_searched_in_evaluation_mode_and_stays_its_owners():
    model = Modes()
    algorithm = mcts(None)
    with pytest.raises(ValueError, match="has no model"):
        act(algorithm, START)
    algorithm.set_model(model)
    result = act(algorithm, START)
    assert model.modes == [False]
    assert model.training
    assert not result.info.value.requires_grad
    assert not list(algorithm.parameters())
    assert len(list(mcts(Modes()).parameters())) == 1


class Remembering:
    """Its prediction state counts the roots it has seen."""

    pred_state_spec = TensorSpec((), torch.int64)

    def __init__(self):
        self.game = bandit((0.0, 1.0, 0.0))

    def initial_predict(self, latent, pred_state):
        output = self.game.initial_predict(latent)
        return output._replace(state=output.state._replace(pred_state=pred_state + 1))

    def recurrent_inference(self, state, action):
        output = self.game.recurrent_inference(state, action)
        return output._replace(state=output.state._replace(pred_state=state.pred_state))


def test_the_prediction_state_is_carried_where_it_is_kept():
    algorithm = mcts(Remembering(), keep_model_pred_state=True)
    first = act(algorithm, START)
    second = algorithm.predict_step(step(START), first.state)
    assert second.state.pred_state.tolist() == [2, 2]
    with pytest.raises(ValueError, match="give model= to the constructor"):
        mcts(None, keep_model_pred_state=True)


@pytest.mark.parametrize(
    ("options", "observation", "message"),
    [
        ({"action_spec": [BoundedTensorSpec((), torch.int64, 0, 2)]}, None, "merge it into one"),
        ({"reward_spec": TensorSpec((2,))}, None, "scalar reward"),
        ({"num_simulations": 10, "num_parallel_sims": 4}, None, "use num_simulations=8"),
        ({"actions": 4}, START, "probabilities of 3 actions, but there are 4"),
        ({"action_spec": BoundedTensorSpec((2,), torch.float32, -1, 1)}, START, "num_sampled_actions"),
        (
            {},
            SearchRoot(START, valid_action_mask=torch.tensor([[True] * 3, [False] * 3]), steps=torch.tensor([3, 7])),
            "environment 11 allows no action at step 7",
        ),
        ({}, SearchRoot(START, to_play=torch.tensor([0, 1])), "set is_two_player_game=True"),
    ],
)
def test_bad_input_is_refused(options, observation, message):
    with pytest.raises(ValueError, match=message):
        act(mcts(bandit((0.0, 0.5, 1.0)), **options), observation, rollout=True)


def test_expanding_all_children_and_acting_by_visits_is_warned_of():
    with pytest.warns(UserWarning, match="visit counts say little"):
        mcts(bandit((0.0, 1.0, 0.0)), expand_all_children=True)


# Tic-tac-toe; o is to move in the first seven positions, x in the last two.
POSITIONS = {
    "oxo/oxx/..o": {6},
    ".../.ox/oxx": {2},
    "oxx/xx./.oo": {6},
    ".../.xx/.o.": {3},
    "x.o/.xx/..o": {3},
    ".../.../..x": {4},
    ".../.x./...": {0, 2, 6, 8},
    "xx./oo./...": {2},
    "oo./x../.x.": {2},
}
BY_POLICY = dict(
    act_with_exploration_policy=True, learn_with_exploration_policy=True, search_with_exploration_policy=True
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_parallel_sims": 4},
        BY_POLICY,
        {**BY_POLICY, "num_parallel_sims": 4},
        {**BY_POLICY, "expand_all_children": True},
        {**BY_POLICY, "expand_all_root_children": True},
        {"gumbel_actions": 9},
    ],
)
def test_tic_tac_toe_is_played_well_with_a_perfect_model(options):
    torch.manual_seed(0)
    cells = torch.stack([board(text) for text in POSITIONS])
    algorithm = mcts(
        TicTacToeModel(),
        actions=9,
        num_simulations=1600,
        root_dirichlet_alpha=100.0,
        root_exploration_fraction=0.25,
        pb_c_init=0.25,
        discount=0.9,
        is_two_player_game=True,
        known_value_bounds=(-1.0, 1.0),
        **options,
    )
    moves = act(algorithm, SearchRoot(cells, to_play=(cells > 0).sum(1) % 2)).output.tolist()
    wrong = {text: move for (text, best), move in zip(POSITIONS.items(), moves, strict=True) if move not in best}
    assert not wrong


def test_a_gumbel_search_visits_by_sequential_halving():
    rewards = tuple(i / 8 for i in range(8))
    model = Game(8, lambda state, action: ((1,), rewards[action], True))
    algorithm = mcts(model, actions=8, num_simulations=16, gumbel_actions=4)
    torch.manual_seed(1)
    result = act(algorithm, START, rollout=True)
    visits = algorithm.last_tree.child_visits()
    # Two phases of eight: four actions twice each, then the better two six times in all.
    assert [sorted(row) for row in visits.int().tolist()] == [[0, 0, 0, 0, 2, 2, 6, 6]] * 2
    tried = [[k for k in range(8) if row[k] > 0] for row in visits]
    assert result.output.tolist() == [max(row) for row in tried]
    policy = result.info.candidate_action_policy
    assert torch.equal(policy.argmax(-1), result.output)
    torch.testing.assert_close(policy.sum(-1), torch.ones(2))
    # Without noise, in evaluation, ties go to the first actions.
    act(algorithm, START)
    assert (algorithm.last_tree.child_visits()[0] > 0).nonzero().flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("backend", ["compiled", "torch"])
@pytest.mark.parametrize(("visit", "scale"), [(50.0, 1.0), (2.0, 0.1)])
def test_the_policy_of_a_gumbel_search_by_hand(backend, visit, scale):
    rewards = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    settings = {"known_value_bounds": (0.0, 1.0), "num_simulations": 6, "search_backend": backend}
    algorithm = mcts(
        bandit(tuple(rewards.tolist())), gumbel_actions=3, gumbel_visit=visit, gumbel_scale=scale, **settings
    )
    policy = act(algorithm, START).info.candidate_action_policy
    most = algorithm.last_tree.child_visits()[0].max()
    torch.testing.assert_close(policy[0].double(), ((visit + most) * scale * rewards).softmax(-1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["compiled", "torch"])
def test_both_backends_make_the_same_gumbel_search(backend):
    model = RandomModel(3, actions=6, illegal=True)
    roots = model.roots(5, 0)
    rules = dict(actions=6, num_simulations=30, gumbel_actions=4, discount=0.9, is_two_player_game=True)
    results = []
    for kind in (backend, "compiled"):
        torch.manual_seed(0)
        results.append(act(mcts(model, search_backend=kind, **rules), roots, rollout=True))
    assert torch.equal(results[0].output, results[1].output)
    torch.testing.assert_close(results[0].info, results[1].info)


def test_temperatures_by_moves():
    temperature = VisitSoftmaxTemperatureByMoves()
    steps = torch.tensor([0, 29, 30, 500, 20000])
    torch.testing.assert_close(temperature(steps), torch.tensor([1.0, 1.0, 1e-4, 1e-4, 1e-4]))
    with pytest.raises(ValueError, match="ascending"):
        VisitSoftmaxTemperatureByMoves([(3, 1.0), (3, 0.5)])
    with pytest.raises(ValueError, match="positive"):
        VisitSoftmaxTemperatureByMoves([(3, 0.0)])


def test_temperatures_by_progress():
    temperature, steps = VisitSoftmaxTemperatureByProgress(), torch.zeros(2, dtype=torch.int64)
    with Run(seed=0) as run:
        for progress, expected in ((0.0, 1.0), (0.49, 1.0), (0.5, 0.5), (0.75, 0.25), (1.0, 0.25)):
            run.progress = progress
            assert temperature(steps).tolist() == [expected, expected]


def test_makers_have_the_settings_of_the_paper():
    specs = (TensorSpec((4,)), BoundedTensorSpec((), torch.int64, 0, 8))
    atari, control = create_atari_mcts(*specs), create_control_mcts(*specs, num_simulations=10)
    assert (atari.discount, atari.rules.num_simulations, control.rules.num_simulations) == (0.997, 50, 10)
    assert atari._fractions == (0.25, 0.25)
    assert (atari._alpha, atari.rules.pb_c_init, atari.rules.pb_c_base) == (0.25, 1.25, 19652)
    board_game = create_board_game_mcts(*specs, 0.03)
    assert board_game.rules.is_two_player_game
    assert (board_game.discount, board_game.rules.num_simulations) == (1.0, 800)
    assert board_game.rules.known_value_bounds == (-1.0, 1.0)
    temperature = board_game._temperature(torch.tensor([29, 30]))
    torch.testing.assert_close(temperature, torch.tensor([1.0, 1e-10]))
    bound = create_board_game_mcts(*specs, 0.3, discount=0.9, name="Plan", num_parallel_sims=4)
    assert (bound.discount, bound.name, bound.rules.num_parallel_sims) == (0.9, "Plan", 4)


def test_multinomial_and_epsilon_greedy_samplers():
    torch.manual_seed(0)
    probs = torch.tensor([[1.0, 3.0, 0.0]]).repeat(20_000, 1)
    drawn, state = MultinomialSampler()(probs)
    assert state == ()
    assert drawn.dtype == torch.int64
    assert (drawn == 1).float().mean().item() == pytest.approx(0.75, abs=0.015)
    greedy, _ = EpsilonGreedySampler(0.4)(probs)
    assert (greedy == 0).float().mean().item() == pytest.approx(0.1, abs=0.015)
    assert EpsilonGreedySampler(0.0)(probs)[0].unique().tolist() == [1]
    assert repr(MultinomialSampler()) == "MultinomialSampler()"


def test_the_seed_sampler_disturbs_probabilities_alike_for_a_while():
    torch.manual_seed(0)
    p = torch.tensor([0.2, 0.3, 0.5])
    probs = p.repeat(20_000, 1)
    sampler = CategoricalSeedSampler(3, new_noise_prob=0.1)
    _, state = sampler(probs, torch.zeros(20_000, 3))
    assert not (state == 0).all(-1).any()
    torch.testing.assert_close(sampler.disturbed(probs, state).mean(0), p, atol=0.01, rtol=0)
    _, later = sampler(probs, state)
    assert (later != state).any(-1).float().mean().item() == pytest.approx(0.1, abs=0.01)
    small = CategoricalSeedSampler(3, concentration=1e-3)
    choice, _ = small(torch.tensor([[0.0, 0.5, 0.5]]).repeat(500, 1))
    assert (choice != 0).all()
    with pytest.raises(ValueError, match="set num_classes=4"):
        sampler(torch.ones(1, 4))


def test_gamma_quantiles():
    shape = torch.tensor([0.3, 1.0, 5.0, 1e-3], dtype=torch.float64)
    level = torch.tensor([0.2, 0.7, 0.01, 0.9995], dtype=torch.float64)
    x = log_gamma_quantile(shape, level).exp()
    torch.testing.assert_close(torch.special.gammainc(shape, x), level, atol=1e-9, rtol=0)
    assert x[1].item() == pytest.approx(-math.log(0.3))
    # Where the quantile itself is too small for a number: F(x) = x^a / Gamma(a + 1).
    tiny = log_gamma_quantile(shape[3:], torch.tensor([0.1], dtype=torch.float64))
    assert tiny.item() == pytest.approx((math.log(0.1) + math.lgamma(1.001)) / 1e-3)


def test_states_are_documented_tuples():
    assert MCTSState._fields == ("steps", "pred_state", "action_sampler_state", "next_predicted_reward")
