"""Actors, critics, action values and projections: what they compute and what they refuse."""

import math
from functools import partial

import pytest
import torch

from rein.distributions import Categorical, DiagNormal, Mixture, MultiCategorical, SquashedNormal
from rein.networks import (
    ActorDistributionNetwork,
    ActorNetwork,
    BetaProjectionNetwork,
    CategoricalProjectionNetwork,
    CriticNetwork,
    MixtureProjectionNetwork,
    NestConcat,
    NormalProjectionNetwork,
    OnehotCategoricalProjectionNetwork,
    QNetwork,
    StableNormalProjectionNetwork,
    TruncatedProjectionNetwork,
    ValueNetwork,
)
from rein.specs import BoundedTensorSpec, TensorSpec

VECTOR = TensorSpec((5,))
ACTION = BoundedTensorSpec((2,), minimum=(-1.0, -2.0), maximum=(1.0, 3.0))
CHOICE = BoundedTensorSpec((), torch.int64, minimum=0, maximum=3)
X = torch.linspace(-2, 2, 15).reshape(3, 5)
LOW, HIGH = torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 3.0])


def test_actor_stays_within_bounds_and_starts_at_their_middle():
    actor = ActorNetwork(VECTOR, ACTION, fc_layer_params=(16,))
    action, _ = actor(X)
    torch.testing.assert_close(action, torch.tensor([0.0, 0.5]).expand(3, 2), atol=0.2, rtol=0)
    action, _ = actor(X * 1e6)
    assert ((action >= LOW) & (action <= HIGH)).all()


def test_projections_have_the_documented_parameters():
    normal = NormalProjectionNetwork(5, ACTION, std_bias_initializer_value=0.0)(X)[0]
    assert isinstance(normal, DiagNormal)
    torch.testing.assert_close(normal.scale, torch.full((3, 2), math.log(2)))
    assert ((normal.loc >= LOW) & (normal.loc <= HIGH)).all()
    squashed = NormalProjectionNetwork(5, ACTION, squash_mean=False, scale_distribution=True)(X)[0]
    assert isinstance(squashed, SquashedNormal)
    sample = squashed.sample((100,))
    assert ((sample >= LOW) & (sample <= HIGH)).all()
    stable = StableNormalProjectionNetwork(5, ACTION, init_std=0.4)(X)[0]
    torch.testing.assert_close(stable.scale, torch.full((3, 2), 0.4))
    for transform in ("exp", "softplus"):
        stable = StableNormalProjectionNetwork(
            5, ACTION, inverse_std_transform=transform, state_dependent_std=True, init_std=0.5, min_std=0.3, max_std=0.6
        )(X * 1e9)[0]
        assert ((stable.scale >= 0.3 - 1e-6) & (stable.scale <= 0.6 + 1e-6)).all()
    beta = BetaProjectionNetwork(5, ACTION)(X)[0]
    torch.testing.assert_close(beta.concentration1, torch.ones(3, 2))
    torch.testing.assert_close(beta.concentration0, torch.ones(3, 2))
    torch.testing.assert_close(beta.mean, torch.tensor([0.0, 0.5]).expand(3, 2))
    truncated = TruncatedProjectionNetwork(5, ACTION, init_scale=0.5, state_dependent_scale=False)(X)[0]
    torch.testing.assert_close(truncated.scale, torch.tensor([0.5, 1.25]).expand(3, 2))
    mixture = MixtureProjectionNetwork(5, ACTION, 3)(X)[0]
    assert isinstance(mixture, Mixture)
    assert mixture.log_prob(mixture.sample()).shape == (3,)
    onehot = OnehotCategoricalProjectionNetwork(5, TensorSpec((4,)), mode="st-gumbel")(X)[0]
    plain = OnehotCategoricalProjectionNetwork(5, TensorSpec((4,)), mode="plain")(X)[0]
    assert not plain.has_rsample
    assert not plain.sample().requires_grad
    torch.testing.assert_close(plain.sample().sum(-1), torch.ones(len(X)))
    relaxed = OnehotCategoricalProjectionNetwork(5, TensorSpec((4,)), mode="gumbel")(X)[0].rsample()
    assert relaxed.requires_grad
    assert ((relaxed > 0) & (relaxed < 1)).all()
    torch.testing.assert_close(relaxed.sum(-1), torch.ones(len(X)))
    assert onehot.rsample().sum(-1).tolist() == pytest.approx([1.0] * 3)


def test_discrete_projections():
    single = CategoricalProjectionNetwork(5, CHOICE)(X)[0]
    assert isinstance(single, Categorical)
    assert single.logits.shape == (3, 4)
    several = CategoricalProjectionNetwork(5, BoundedTensorSpec((2,), torch.int64, 0, (2, 4)))(X)[0]
    assert isinstance(several, MultiCategorical)
    assert (several.sample() <= torch.tensor([2, 4])).all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("scaled", [False, True])
def test_actions_of_any_shape(shape, scaled):
    spec = BoundedTensorSpec(shape, minimum=-2.0, maximum=1.0)
    ctor = partial(NormalProjectionNetwork, scale_distribution=scaled, state_dependent_std=True)
    network = ActorDistributionNetwork(VECTOR, spec, fc_layer_params=(4,), continuous_projection_net_ctor=ctor)
    distribution, _ = network(X)
    action = distribution.rsample()
    assert action.shape == (3, *shape)
    assert distribution.log_prob(action.detach()).shape == (3,)
    assert network.is_distribution_output
    assert ActorNetwork(VECTOR, spec)(X)[0].shape == (3, *shape)


def test_nested_actions_give_nested_distributions():
    spec = {"move": (CHOICE, ACTION)}
    output, _ = ActorDistributionNetwork(VECTOR, spec, fc_layer_params=(4,))(X)
    assert isinstance(output["move"][0], Categorical)
    assert isinstance(output["move"][1], DiagNormal)


def test_critic_output_shapes():
    x, a = X, torch.zeros(3, 2)
    assert CriticNetwork((VECTOR, ACTION))((x, a))[0].shape == (3,)
    assert CriticNetwork((VECTOR, ACTION), TensorSpec((4,)))((x, a))[0].shape == (3, 4)
    assert CriticNetwork((VECTOR, ACTION), TensorSpec((4, 2)))((x, a))[0].shape == (3, 4, 2)
    assert CriticNetwork((VECTOR, CHOICE))((x, torch.tensor([0, 3, 1])))[0].shape == (3,)
    assert ValueNetwork(VECTOR, TensorSpec((2,)))(x)[0].shape == (3, 2)
    naive = CriticNetwork((VECTOR, ACTION), use_naive_parallel_network=True).make_parallel(2)
    assert type(naive).__name__ == "NaiveParallelNetwork"
    assert naive((x, a))[0].shape == (3, 2)


def test_dueling_values_have_the_state_value_as_mean():
    network = QNetwork(VECTOR, CHOICE, fc_layer_params=(8,), dueling=True, dueling_fc_layer_params=(6,))
    q, _ = network(X)
    features, _ = network.trunk(X)
    torch.testing.assert_close(q.mean(-1, keepdim=True), network.head.value(features))
    quantiles, _ = QNetwork(VECTOR, CHOICE, num_quantiles=7, dueling=True)(X)
    assert quantiles.shape == (3, 4, 7)


def test_noisy_values_explore_in_training_only():
    network = QNetwork(VECTOR, CHOICE, fc_layer_params=(8,), noisy=True)
    assert not torch.equal(network(X)[0], network(X)[0])
    network.eval()
    assert torch.equal(network(X)[0], network(X)[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ActorNetwork(VECTOR, CHOICE), "must be continuous with bounds"),
        (lambda: ActorNetwork(VECTOR, {"a": TensorSpec((2,))}), "action 'a' must be continuous with bounds"),
        (lambda: ActorDistributionNetwork(VECTOR, ()), "action_spec is empty"),
        (lambda: NormalProjectionNetwork(5, TensorSpec((2,))), "need an action with bounds"),
        (lambda: NormalProjectionNetwork(5, CHOICE), "needs a continuous action"),
        (lambda: NormalProjectionNetwork(5, ACTION, dist_squashing_transform="cut"), "choose 'tanh' or 'clip'"),
        (lambda: NormalProjectionNetwork(5, ACTION, projection_output_init_gain=-1), "must not be negative"),
        (lambda: StableNormalProjectionNetwork(5, ACTION, min_std=2.0), "min_std < init_std"),
        (lambda: StableNormalProjectionNetwork(5, ACTION, inverse_std_transform="log"), "'softplus' or 'exp'"),
        (lambda: BetaProjectionNetwork(5, ACTION, max_concentration=0.0), "must exceed"),
        (lambda: TruncatedProjectionNetwork(5, ACTION, min_scale=0.0), "0 < min_scale"),
        (lambda: OnehotCategoricalProjectionNetwork(5, ACTION, mode="hard"), "'st', 'st-gumbel', 'gumbel' or 'plain'"),
        (lambda: CategoricalProjectionNetwork(5, ACTION), "bounded discrete action"),
        (lambda: CategoricalProjectionNetwork(5, BoundedTensorSpec((), torch.int64, 1, 3)), "start at 0"),
        (lambda: QNetwork(VECTOR, ACTION), "one discrete scalar action"),
        (lambda: QNetwork(VECTOR, BoundedTensorSpec((), torch.int64, 1, 3)), "start at 0"),
        (lambda: QNetwork(VECTOR, CHOICE, num_quantiles=0), "num_quantiles must be at least 1"),
        (lambda: CriticNetwork(VECTOR), "must be \\(observation_spec, action_spec\\)"),
        (
            lambda: CriticNetwork(((VECTOR, VECTOR), ACTION), observation_input_processors=(None, None)),
            "preprocessing_combiner",
        ),
    ],
)
def test_impossible_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_critic_of_nested_observation():
    network = CriticNetwork(
        ({"a": VECTOR, "b": VECTOR}, ACTION),
        observation_preprocessing_combiner=NestConcat(),
        joint_fc_layer_params=(8,),
    )
    assert network(({"a": X, "b": X}, torch.zeros(3, 2)))[0].shape == (3,)
