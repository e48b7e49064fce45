"""Models of tree search: predictions, candidates, losses by hand, and searches on the host."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from search_worlds import ScalarsInMemory
from torch import nn

from rein.algorithms.search import MCTSModel, ModelOutput, ModelState, ModelTarget, SimpleMCTSModel, SimplePredictionNet
from rein.algorithms.search.host_model import HostModelBuilder
from rein.algorithms.search.planning import Planner, Root
from rein.algorithms.search.representation_losses import AsymmetricSimSiamLoss, MeanSquaredLoss
from rein.algorithms.search.rules import SearchRules
from rein.algorithms.search.scalar_losses import (
    DiscreteRegressionLoss,
    OrderedDiscreteRegressionLoss,
    QuantileRegressionLoss,
    Sqrt1pTransform,
    SquareLoss,
)
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
    min_max_normalized,
)
from rein.config.data_values import Decoder, Encoder
from rein.distributions import Beta, Categorical, MultiCategorical
from rein.networks import BetaProjectionNetwork, CategoricalProjectionNetwork, EncodingNetwork, Network
from rein.runtime.run import Run
from rein.specs import BoundedTensorSpec, TensorSpec

DISCRETE = BoundedTensorSpec((), torch.int64, 0, 3)
SMALL = {
    "encoding_net_ctor": lambda spec: create_simple_encoding_net(spec, (16,)),
    "dynamics_net_ctor": lambda spec: create_simple_dynamics_net(spec, (24,)),
    "prediction_net_ctor": lambda spec, action: create_simple_prediction_net(spec, action, (20,)),
}


def simple(action_spec=DISCRETE, observation_spec=TensorSpec((5,)), **options):
    return SimpleMCTSModel(observation_spec, action_spec, **{"num_unroll_steps": 2, **SMALL, **options})


class Told(Network):
    """Predicts what it is told: value, reward and logit of the end are the first numbers of the latent."""

    def __init__(self):
        super().__init__(TensorSpec((3,)), name="Told")

    def forward(self, inputs, state=()):
        return (inputs[:, 0], inputs[:, 1], Categorical(logits=inputs[:, :2]), inputs[:, 2]), state


class Next(Network):
    """The reward head's number grows by the action."""

    def __init__(self):
        super().__init__((TensorSpec((3,)), DISCRETE), name="Next")

    def forward(self, inputs, state=()):
        latent, action = inputs
        return latent + torch.stack([torch.zeros(len(action)), action.float(), torch.zeros(len(action))], 1), state


class Same(Network):
    """The observation is the latent."""

    def forward(self, inputs, state=()):
        return inputs, state


def told(num_unroll_steps=2, train_reward_function=True, train_game_over_function=True, **options):
    return MCTSModel(
        num_unroll_steps,
        Same(TensorSpec((3,))),
        Next(),
        Told(),
        train_reward_function,
        train_game_over_function,
        **options,
    )


def output(value, reward=None, logits=None, over=None, latent=None):
    value = torch.tensor(value)
    return ModelOutput(
        value_pred=value,
        reward_pred=() if reward is None else torch.tensor(reward),
        action_distribution=() if logits is None else Categorical(logits=torch.tensor(logits)),
        game_over_logit=() if over is None else torch.tensor(over),
        state=ModelState(state=() if latent is None else torch.tensor(latent)),
    )


def loss_of(model, out, **target):
    return model.calc_loss(out, ModelTarget(**{name: torch.tensor(value) for name, value in target.items()}))


def test_the_value_loss_weighs_the_steps():
    plain = dict(train_reward_function=False, train_game_over_function=False, train_policy=False)
    info = loss_of(told(**plain), output([[0.0, 0.0, 0.0]]), value=[[1.0, 2.0, 3.0]])
    assert info.loss.tolist() == [7.5]
    assert info.extra["value"].tolist() == [7.5]
    assert info.extra["td_error"].tolist() == [1.0]
    info = loss_of(told(initial_loss_weight=None, **plain), output([[0.0, 0.0, 0.0]]), value=[[1.0, 2.0, 3.0]])
    assert info.loss.tolist() == [7.0]
    info = loss_of(told(value_loss_weight=2.0, **plain), output([[0.0, 0.0, 0.0]]), value=[[1.0, 2.0, 3.0]])
    assert info.loss.tolist() == [15.0]


def test_all_losses_by_hand():
    model = told(1, reward_loss_weight=10.0, policy_loss_weight=100.0, game_over_loss_weight=1000.0)
    out = output([[0.0, 0.0]], [[0.0, 1.0]], [[[0.0, 0.0], [0.0, math.log(3.0)]]], [[0.0, 0.0]])
    target = dict(value=[[0.0, 0.0]], reward=[[1.0, 3.0]], action_policy=[[[1.0, 0.0], [0.0, 1.0]]])
    info = loss_of(model, out, game_over=[[False, False]], **target)
    expected = {
        "value": 0.0,
        "reward": 1.0 + 4.0,
        "policy": math.log(2) - math.log(0.75),
        "game_over": 2 * math.log(2),
    }
    for name, value in expected.items():
        assert info.extra[name].item() == pytest.approx(value, abs=1e-6), name
    total = 10 * expected["reward"] + 100 * expected["policy"] + 1000 * expected["game_over"]
    assert info.loss.item() == pytest.approx(total, rel=1e-6)
    # The policy of a game that is over is not learnt.
    info = loss_of(model, out, game_over=[[False, True]], **target)
    assert info.extra["policy"].item() == pytest.approx(math.log(2))


def test_rewards_out_of_sums():
    model = told(predict_reward_sum=True)
    model.eval()
    state = model.initial_predict(torch.tensor([[0.0, 1.0, 0.0]]))
    rewards = [state.reward.item()]
    for action in (2, 3):
        state = model.recurrent_inference(state.state, torch.tensor([action]))
        rewards.append(state.reward.item())
    assert rewards == [1.0, 2.0, 3.0]
    assert state.state.step.tolist() == [2]
    assert state.value_pred == ()
    options = dict(train_game_over_function=False, train_policy=False, predict_reward_sum=True)
    info = loss_of(told(**options), output([[0.0] * 3], [[1.0, 3.0, 6.0]]), value=[[0.0] * 3], reward=[[1.0, 2.0, 3.0]])
    assert info.loss.item() == 0.0


def test_the_initial_reward_may_be_left_out():
    model = told(predict_initial_reward=False, predict_reward_sum=True).eval()
    first = model.initial_predict(torch.tensor([[0.0, 7.0, 0.0]]))
    assert first.reward.item() == 0.0
    assert model.recurrent_inference(first.state, torch.tensor([2])).reward.item() == 9.0
    options = dict(train_game_over_function=False, train_policy=False, predict_initial_reward=False)
    info = loss_of(told(**options), output([[0.0] * 3], [[5.0, 2.0, 0.0]]), value=[[0.0] * 3], reward=[[1.0, 2.0, 3.0]])
    assert info.extra["reward"].item() == 4.5


def test_sums_of_rewards_start_anew():
    model = told(predict_reward_sum=True, reset_reward_sum_period=3).eval()
    state = model.initial_predict(torch.tensor([[0.0, 1.0, 0.0]]))
    rewards = []
    for _ in range(4):
        state = model.recurrent_inference(state.state, torch.tensor([1]))
        rewards.append(state.reward.item())
    assert rewards == [1.0, 1.0, 4.0, 1.0]
    for options in ({"reset_reward_sum_period": 2, "predict_reward_sum": True}, {"reset_reward_sum_period": 9}):
        with pytest.raises(ValueError, match="needs predict_reward_sum=True and at least 3"):
            told(**options)


def test_masks():
    plain = dict(train_reward_function=False, train_game_over_function=False, train_policy=False)
    beyond = dict(beyond_episode_end=[[False, False, True]] * 2, is_partial_trajectory=[True, False])
    out = output([[0.0] * 3] * 2, latent=[[[1.0], [2.0], [3.0]]] * 2)
    target = dict(value=[[1.0, 2.0, 3.0]] * 2, observation=[[[0.0], [0.0], [0.0]]] * 2)
    info = loss_of(told(apply_partial_trajectory_mask=True, **plain), out, **beyond, **target)
    assert info.loss.tolist() == [3.0, 7.5]
    repr_only = dict(**plain, train_repr_prediction=True, value_loss_weight=0.0)
    latent = ModelState(state=torch.tensor([[[1.0] * 3, [2.0] * 3, [3.0] * 3]] * 2))
    out = out._replace(state=latent)
    target["observation"] = [[[0.0] * 3] * 3] * 2
    for options, expected in (
        ({}, [14 / 3, 14 / 3]),
        ({"apply_partial_trajectory_mask": True}, [5 / 3, 14 / 3]),
        ({"apply_beyond_episode_end_mask": True, "apply_partial_trajectory_mask": True}, [5 / 3, 5 / 3]),
    ):
        info = loss_of(told(**repr_only, **options), out, **beyond, **target)
        torch.testing.assert_close(info.loss, torch.tensor(expected))
    doubled = loss_of(told(**repr_only, repr_prediction_loss_weight=2.0), out, **beyond, **target)
    torch.testing.assert_close(doubled.loss, torch.tensor([28 / 3, 28 / 3]))


def test_the_entropy_bonus_and_its_weight():
    plain = dict(train_reward_function=False, train_game_over_function=False)
    model = told(1, initial_alpha=0.5, target_entropy=1.0, alpha_adjust_rate=0.1, debug_summaries=True, **plain)
    out = output([[0.0, 0.0]], logits=[[[0.0, 0.0], [0.0, 0.0]]])
    info = loss_of(model, out, value=[[0.0, 0.0]], action_policy=[[[1.0, 0.0]] * 2])
    assert info.loss.item() == pytest.approx(2 * math.log(2) - 0.5 * 2 * math.log(2))
    before = model._log_alpha.item()
    shown = ScalarsInMemory()
    with Run(writer=shown):
        model.adjust_alpha(info.extra["entropy"].mean())
    assert shown.last == {"MCTSModel/alpha": pytest.approx(0.5 * math.exp(0.1))}
    assert model._log_alpha.item() == pytest.approx(before + 0.1)
    model.adjust_alpha(torch.tensor(2.0))
    assert model._log_alpha.item() == pytest.approx(before)


def test_targets_of_the_representation_have_no_gradient():
    model = simple(train_repr_prediction=True)
    observation = torch.randn(3, 5)
    first = model.initial_inference(observation)
    latent = first.state.state.unsqueeze(1).repeat(1, 3, 1)
    target = ModelTarget(observation=observation.unsqueeze(1).repeat(1, 3, 1))
    loss = model._repr_losses(ModelOutput(state=ModelState(state=latent.detach())), target, None)
    loss.sum().backward()
    assert all(p.grad is None for p in model._representation_net.parameters())
    assert any(p.grad is not None for p in model._repr_loss.parameters())


def test_representation_losses_by_hand():
    pred, target = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([[[0.0, 0.0], [1.0, 3.0]]])
    assert MeanSquaredLoss(batch_dims=2)(pred, target).tolist() == [[0.5, 2.0]]
    assert repr(MeanSquaredLoss(batch_dims=2)) == "MeanSquaredLoss(batch_dims=2)"
    loss = AsymmetricSimSiamLoss(2, (), (), 2)
    for layer in (loss.projection[0], loss.prediction[0]):
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
    torch.testing.assert_close(loss(pred, target.clone()), torch.tensor([[0.0, -4 / math.sqrt(20)]]))
    loss = AsymmetricSimSiamLoss(2, proj_hidden_sizes=(7,), pred_hidden_sizes=(3, 4), output_size=5)
    sizes = [[tuple(p.shape) for p in part.parameters() if p.ndim == 2] for part in (loss.projection, loss.prediction)]
    assert sizes == [[(7, 2), (5, 7)], [(3, 5), (4, 3), (5, 4)]]
    with pytest.raises(ValueError, match="leave it False"):
        AsymmetricSimSiamLoss(2, fixed_weight_norm=True)


def test_what_a_simple_model_says():
    torch.manual_seed(0)
    model = simple().eval()
    first = model.initial_inference(torch.randn(6, 5))
    latent = first.state.state
    assert model.repr_spec == TensorSpec((16,))
    torch.testing.assert_close(latent.amin(1), torch.zeros(6))
    torch.testing.assert_close(latent.amax(1), torch.ones(6))
    assert first.value.tolist() == [0.0] * 6
    assert first.reward.tolist() == [0.0] * 6
    assert first.actions == ()
    torch.testing.assert_close(first.action_probs.sum(1), torch.ones(6))
    assert not first.game_over.any()
    after = model.recurrent_inference(first.state, torch.tensor([0, 1, 2, 3, 0, 1]))
    assert after.state.step.tolist() == [1] * 6
    assert not torch.equal(after.state.state, latent)
    assert simple(train_reward_function=False).initial_inference(torch.zeros(1, 5)).reward == ()
    assert simple(train_game_over_function=False).initial_inference(torch.zeros(1, 5)).game_over == ()
    assert model.train().initial_inference(torch.zeros(1, 5)).value_pred.shape == (1,)


def test_the_game_is_over_above_the_threshold():
    ctor = lambda spec, action: create_simple_prediction_net(spec, action, (4,), initial_game_over_bias=0.9)  # noqa: E731
    assert not simple(prediction_net_ctor=ctor).initial_inference(torch.zeros(1, 5)).game_over
    assert simple(prediction_net_ctor=ctor, game_over_logit_thresh=0.8).initial_inference(torch.zeros(1, 5)).game_over


def test_the_most_probable_actions_are_candidates():
    model = simple(num_sampled_actions=2)
    probs = torch.tensor([[0.1, 0.5, 0.1, 0.3]])
    actions, prior = model._candidates(Categorical(probs=probs), 1)
    assert actions.tolist() == [[1, 3]]
    torch.testing.assert_close(prior, torch.tensor([[0.625, 0.375]]))


@pytest.mark.parametrize(
    ("spec", "check"),
    [
        (BoundedTensorSpec((2,), torch.float32, -0.1, 0.2), lambda a: (a >= -0.1).all() and (a <= 0.2).all()),
        (
            BoundedTensorSpec((2,), torch.int64, 0, np.array([1, 2])),
            lambda a: (a[..., 0] <= 1).all() and (a >= 0).all() and (a[..., 1] <= 2).all(),
        ),
    ],
)
def test_samples_of_the_policy_are_candidates(spec, check):
    torch.manual_seed(0)
    model = simple(action_spec=spec, num_sampled_actions=7)
    first = model.initial_inference(torch.randn(3, 5))
    assert first.actions.shape == (3, 7, 2)
    assert check(first.actions)
    torch.testing.assert_close(first.action_probs, torch.full((3, 7), 1 / 7))
    model.recurrent_inference(first.state, first.actions[:, 0])
    target = ModelTarget(
        action=first.actions.unsqueeze(1).repeat(1, 3, 1, 1), action_policy=torch.full((3, 3, 7), 1 / 7)
    )
    distribution = first.action_distribution.map_params(lambda t: t.unsqueeze(1).repeat(1, 3, *(1,) * (t.ndim - 1)))
    model = simple(action_spec=spec, num_sampled_actions=7, train_game_over_function=False)
    losses = model._policy_losses(ModelOutput(action_distribution=distribution), target)
    by_hand = -torch.stack([first.action_distribution.log_prob(first.actions[:, k]) for k in range(7)]).mean(0)
    torch.testing.assert_close(losses, by_hand.unsqueeze(1).expand(3, 3))
    assert isinstance(first.action_distribution, MultiCategorical) == spec.is_discrete


def test_bad_models_are_refused():
    with pytest.raises(ValueError, match="set num_sampled_actions"):
        simple(action_spec=BoundedTensorSpec((2,), torch.float32, -1, 1))
    with pytest.raises(ValueError, match="of 4 actions: give fewer"):
        simple(num_sampled_actions=4)
    with pytest.raises(ValueError, match="merge it into one"):
        simple(action_spec=[DISCRETE])
    with pytest.raises(ValueError, match="at least 1"):
        simple(num_unroll_steps=0)


def test_fields_for_the_search_alone_are_not_encoded():
    spec = {
        "board": TensorSpec((3, 2, 2)),
        "valid_action_mask": TensorSpec((4,), torch.bool),
        "to_play": TensorSpec(()),
    }
    encoder = create_simple_encoding_net(spec, (8,))
    assert encoder.layers[0].input_size == 12
    observation = {
        "board": torch.randn(2, 3, 2, 2),
        "valid_action_mask": torch.ones(2, 4, dtype=torch.bool),
        "to_play": torch.zeros(2),
    }
    assert encoder(observation)[0].shape == (2, 8)
    assert min_max_normalized(torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0]])).tolist() == [[0, 1, 0.5], [0, 0, 0]]


def test_a_prediction_net_may_give_many_numbers():
    trunk = lambda input_tensor_spec: EncodingNetwork(input_tensor_spec, fc_layer_params=(8,))  # noqa: E731
    net = SimplePredictionNet(TensorSpec((4,)), DISCRETE, trunk, num_quantiles=5, initial_game_over_bias=-2.0)
    (value, reward, distribution, over), state = net(torch.randn(3, 4))
    assert value.shape == reward.shape == (3, 5)
    assert distribution.batch_shape == (3,)
    assert over.tolist() == [-2.0] * 3
    assert state == ()


@pytest.mark.parametrize("make", [create_simple_encoding_net, create_simple_dynamics_net, create_simple_prediction_net])
def test_makers_of_networks_are_saved_as_data(make):
    assert Decoder().decode(Encoder().encode(partial(make, fc_layer_params=(8,)))).func is make


def test_the_policy_of_a_prediction_net_may_be_another():
    trunk = lambda input_tensor_spec: EncodingNetwork(input_tensor_spec, fc_layer_params=(8,))  # noqa: E731
    own = {
        "discrete_projection_net_ctor": partial(CategoricalProjectionNetwork, logits_init_output_factor=0.0),
        "continuous_projection_net_ctor": BetaProjectionNetwork,
    }
    (*_, choice, _), _ = SimplePredictionNet(TensorSpec((4,)), DISCRETE, trunk, **own)(torch.randn(3, 4))
    torch.testing.assert_close(choice.log_probs.exp(), torch.full((3, 4), 0.25))
    box = BoundedTensorSpec((2,), torch.float32, -1, 1)
    (*_, vector, _), _ = SimplePredictionNet(TensorSpec((4,)), box, trunk, **own)(torch.randn(3, 4))
    assert isinstance(vector, Beta)


def randomized(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("rewards", [True, False])
def test_searches_on_the_host_equal_those_with_torch(rewards):
    torch.manual_seed(0)
    model = randomized(simple(train_reward_function=rewards, train_game_over_function=rewards))
    root = model.initial_inference(torch.randn(16, 5))
    rules = SearchRules(num_simulations=24, discount=0.97, num_parallel_sims=2)
    trees = []
    for backend in ("host", "compiled"):
        torch.manual_seed(0)
        start = Root(root, root.action_probs.double(), torch.zeros(16, dtype=torch.int64))
        trees.append(Planner(rules, backend).search(model, start))
    # Sums in another order may decide near ties otherwise: nearly all trees are the same, in no case are all.
    same = (trees[0].child_visits() == trees[1].child_visits()).all(1)
    assert same.float().mean() >= 0.9
    torch.testing.assert_close(trees[0].root_values()[same], trees[1].root_values()[same], atol=1e-5, rtol=1e-5)


class HyperbolicModel:
    """Layers of odd sizes with biases and tanh, wide and narrow, in torch and for the host."""

    def __init__(self, latent=7, hidden=21, actions=3):
        self.sizes = latent, hidden, actions
        layers = {"d": (latent + actions, hidden), "s": (hidden, latent), "v": (latent, 1), "r": (hidden, 1)}
        layers["p"] = (latent, actions)
        self.layers = {name: nn.Linear(*size) for name, size in layers.items()}

    def initial_predict(self, latent, reward=None):
        layers = self.layers
        return ModelOutput(
            value=layers["v"](latent).squeeze(1),
            reward=torch.zeros(len(latent)) if reward is None else reward,
            action_probs=layers["p"](latent).softmax(1),
            state=ModelState(state=latent),
        )

    def recurrent_inference(self, state, action):
        chosen = nn.functional.one_hot(action, self.sizes[2]).float()
        hidden = (4 * self.layers["d"](torch.cat([state.state, chosen], 1))).tanh()
        return self.initial_predict(self.layers["s"](hidden).tanh(), self.layers["r"](hidden).squeeze(1))

    def host_program(self, batch_size):
        steps = HostModelBuilder(self.sizes[0], self.sizes[2])
        add = lambda source, name, *how, by=1.0: steps.fully_connected(  # noqa: E731
            source, by * self.layers[name].weight, by * self.layers[name].bias, *how
        )
        hidden = add(steps.latent_and_action, "d", "tanh", by=4.0)
        latent = add(hidden, "s", "tanh")
        return steps.finish(
            next_latent=latent, value=add(latent, "v"), logits=add(latent, "p"), reward=add(hidden, "r")
        )


def test_one_simulation_on_the_host_equals_that_in_torch():
    torch.manual_seed(0)
    model = HyperbolicModel()
    with torch.no_grad():
        root = model.initial_predict(torch.randn(64, 7))
        start = Root(root, root.action_probs.double(), torch.zeros(64, dtype=torch.int64))
        trees = [Planner(SearchRules(1, 0.9), backend).search(model, start) for backend in ("host", "compiled")]
    assert torch.equal(trees[0].child_visits(), trees[1].child_visits())
    for read in ("root_values", "child_rewards"):
        found, expected = (getattr(tree, read)() for tree in trees)
        torch.testing.assert_close(found, expected, atol=3e-6, rtol=0)


def test_a_host_program_follows_the_weights_and_is_for_small_plain_models():
    model = randomized(simple())
    before = model.host_program(4).weights.copy()
    twin = copy.deepcopy(model)
    model._dynamics_net.layers[0].weight.data.add_(1.0)
    assert not np.array_equal(model.host_program(4).weights, before)
    assert np.array_equal(twin.host_program(4).weights, before)
    layer = model._dynamics_net.layers[0]
    layer.weight = nn.Parameter(layer.weight.detach() - 1.0)
    assert np.allclose(model.host_program(4).weights, before, atol=1e-6)
    assert model.host_program(10_000_000) is None
    assert simple(num_sampled_actions=2).host_program(1) is None
    assert simple(value_loss=DiscreteRegressionLoss()).host_program(1) is None
    assert simple(predict_reward_sum=True).host_program(1) is None
    root = model.initial_inference(torch.zeros(1, 5))
    start = Root(root, root.action_probs.double(), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="use backend='auto'"):
        Planner(SearchRules(4, 1.0, expand_all_root_children=True), "host").search(model, start)


@pytest.mark.parametrize(
    ("loss", "size"),
    [
        (DiscreteRegressionLoss(), 20),
        (OrderedDiscreteRegressionLoss(), 20),
        (QuantileRegressionLoss(), 20),
        (DiscreteRegressionLoss(Sqrt1pTransform()), 20),
    ],
)
def test_predicted_numbers_approach_the_mean_of_the_targets(loss, size):
    torch.manual_seed(0)
    pred = torch.zeros(size, requires_grad=True)
    optimizer = torch.optim.Adam([pred], 0.05)
    target = (torch.arange(100) + 0.5) / 10
    for _ in range(500):
        optimizer.zero_grad()
        loss(pred.expand(100, size), target).mean().backward()
        optimizer.step()
    # Between two bins at y and y + 1 of the inverse y^2 + 2y, the mean of both lies t (1 - t) above what it stands for.
    transformed = isinstance(getattr(loss, "_transform", None), Sqrt1pTransform)
    expected_mean = 5.0 + (1 / 6 if transformed else 0.0)
    assert loss.calc_expectation(pred.detach()).item() == pytest.approx(expected_mean, abs=0.1)
    if isinstance(loss, DiscreteRegressionLoss | OrderedDiscreteRegressionLoss) and not isinstance(
        loss._transform, Sqrt1pTransform
    ):
        expected = torch.tensor([0.0] * 9 + [0.05] + [0.1] * 9 + [0.05])
        torch.testing.assert_close(loss.probs(pred.detach()), expected, atol=0.02, rtol=0)


def test_scalar_losses_by_hand():
    assert SquareLoss()(torch.tensor([1.0]), torch.tensor([3.0])).tolist() == [4.0]
    assert repr(SquareLoss()) == "SquareLoss()"
    logits = torch.zeros(1, 3)
    assert DiscreteRegressionLoss()(logits, torch.tensor([0.5])).item() == pytest.approx(math.log(3))
    assert DiscreteRegressionLoss().calc_expectation(torch.tensor([[0.0, 0.0, 9.0]])).item() == pytest.approx(
        1, abs=1e-3
    )
    ordered = OrderedDiscreteRegressionLoss()
    # At least -1: certain; at least 0: 0.5; at least 1: not more than at least 0.
    pred = torch.tensor([[0.0, 0.0, 5.0]])
    torch.testing.assert_close(ordered.probs(pred), torch.tensor([[0.5, 0.0, 0.5]]))
    quantiles = QuantileRegressionLoss()
    assert quantiles.calc_expectation(torch.tensor([[1.0, 3.0]])).item() == 2.0
    # Levels 0.25 and 0.75 at errors 2 and -1: 0.25 * 1.5 + 0.25 * 0.5.
    assert quantiles(torch.tensor([[1.0, 4.0]]), torch.tensor([3.0])).item() == pytest.approx(0.5)
    for loss in (DiscreteRegressionLoss(), ordered, quantiles, SquareLoss()):
        bias = torch.ones(5)
        loss.initialize_bias(bias)
        if not isinstance(loss, SquareLoss):
            assert loss.calc_expectation(bias).abs().item() < 0.35
    transformed = DiscreteRegressionLoss(Sqrt1pTransform(), inverse_after_mean=True)
    assert transformed.calc_expectation(torch.tensor([[-20.0, 0.0, 20.0]])).item() == pytest.approx(3.0, abs=1e-4)
