"""MPO: its dual against the definition, its M-step by hand, both kinds of actions, and learning."""

import copy
import math
from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.mpo import MpoAlgorithm, MpoInfo, candidate_weights, solve_temperature
from rein.algorithms.off_policy.mpo_heads import Candidates, CategoricalHead, Constraint, NormalHead
from rein.data_structures import LossInfo, TimeStep
from rein.distributions import Categorical, DiagNormal, kl_divergence
from rein.framework import NonFiniteLossError
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    BetaProjectionNetwork,
    CriticNetwork,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), minimum=-2, maximum=2)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 2)


@pytest.fixture
def make(one_weight: Any) -> Any:
    def build(action_spec: Any = ACTION, **settings: Any) -> MpoAlgorithm:
        defaults = {
            "actor_network_ctor": one_weight.normal_actor,
            "critic_network_ctor": one_weight.critic,
            "actor_optimizer": SGD(lr=1e-4),
            "critic_optimizer": SGD(lr=0.1),
        }
        return MpoAlgorithm(OBSERVATION, action_spec, **{**defaults, **settings})

    return build


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, MpoInfo]:
    """One sequence of two steps: s = 1, a = 0.3, r = 1, s' = 2."""
    return sequence([[[1.0], [2.0]]], [[0.0, 1.0]]), MpoInfo(action=torch.tensor([[[0.3], [0.7]]]))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_temperature_minimises_the_dual(epsilon: float, scale: float) -> None:
    torch.manual_seed(0)
    values = scale * torch.randn(50, 10, dtype=torch.float64)
    log_prior = torch.log_softmax(torch.randn(50, 10, dtype=torch.float64), -1)
    eta = solve_temperature(values, log_prior, epsilon, torch.tensor(1.0, dtype=torch.float64))

    def dual(eta: torch.Tensor) -> float:
        return (eta * epsilon + eta * torch.logsumexp(log_prior + values / eta, -1).mean()).item()

    assert dual(eta) <= min(dual(0.9 * eta), dual(1.1 * eta))
    weights = torch.softmax(log_prior + values / eta, -1)
    divergence = (weights * (weights.log() - log_prior)).sum(-1).mean().item()
    assert divergence == pytest.approx(epsilon, rel=2e-3)


def test_values_that_cannot_diverge_so_far_give_the_smallest_temperature() -> None:
    values = torch.tensor([[1.0, 0.0]])
    eta = solve_temperature(values, torch.full((1, 2), math.log(0.5)), 5.0, torch.tensor(1.0))
    assert 0 < eta.item() < 1e-3
    assert torch.isfinite(solve_temperature(torch.zeros(3, 4), torch.zeros(3, 4) - math.log(4), 0.1, torch.tensor(1.0)))


def test_weights_follow_values_and_prior() -> None:
    candidates = Candidates((), torch.tensor([[0.0, 2.0]]), torch.tensor([[0.25, 0.75]]).log())
    ratio = candidate_weights(candidates, torch.tensor(2.0))[0]
    assert (ratio[1] / ratio[0]).item() == pytest.approx(3 * math.e)
    assert ratio.sum().item() == pytest.approx(1.0)


def test_the_normal_head_limits_mean_and_variance_apart(one_weight: Any) -> None:
    limit = Constraint("x", 0.1, 1.0, 1.0)
    head = NormalHead(one_weight.normal_actor(OBSERVATION), 4, limit, limit)
    new = DiagNormal(torch.tensor([[1.0]]), torch.tensor([[2.0]]))
    old = DiagNormal(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    by_mean, by_variance = head.divergences(new, old)
    assert by_mean.item() == pytest.approx(0.5)
    assert by_variance.item() == pytest.approx(math.log(2) + 1 / 8 - 0.5)
    action = torch.tensor([[[0.5], [-1.0]]])
    expected = [
        DiagNormal(new.loc, old.scale).log_prob(a) + DiagNormal(old.loc, new.scale).log_prob(a) for a in action[0]
    ]
    assert torch.allclose(head.log_likelihood(new, old, action)[0], torch.cat(expected))


def test_the_categorical_head_takes_all_actions_with_their_probabilities() -> None:
    head = CategoricalHead(DISCRETE, Constraint("kl", 0.1, 1.0, 1.0))
    network = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(4,)).make_parallel(2)
    policy = Categorical(logits=torch.randn(5, 3))
    candidates = head.candidates(network, torch.randn(5, 1), policy)
    assert candidates.value.shape == (5, 3)
    assert torch.equal(candidates.log_prior, policy.log_probs)
    other = Categorical(logits=torch.randn(5, 3))
    assert torch.equal(head.divergences(other, policy)[0], kl_divergence(policy, other))


def test_the_critic_learns_from_the_mean_over_candidates(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(sample_action_num=512)
    info, loss = update(algorithm, *batch)
    # E Q(2, a) with a around 1 is 4, so y is about 4.96 and the error 3.36.
    assert info.target_value[1].item() == pytest.approx(4.0, abs=0.05)
    assert loss.extra.critic.item() == pytest.approx(3.36**2 / 2, rel=0.05)


def test_the_policy_moves_to_better_actions(make: Any, batch: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(mstep_iterations=3, kl_mean_constraint=10.0)
    before = algorithm._actor_network.weight.item()
    update(algorithm, *batch)
    assert algorithm._actor_network.weight.item() > before


def test_each_iteration_is_a_step_of_the_actor(make: Any, batch: Any, update: Any) -> None:
    moves = []
    for iterations in (1, 4):
        torch.manual_seed(0)
        algorithm = make(mstep_iterations=iterations, kl_mean_constraint=10.0, actor_optimizer=SGD(lr=1e-4))
        update(algorithm, *batch)
        moves.append(algorithm._actor_network.weight.item() - 0.5)
    assert moves[1] == pytest.approx(4 * moves[0], rel=0.05)


def test_multipliers_rise_with_broken_limits_up_to_their_largest_and_fall_to_zero(make: Any, batch: Any) -> None:
    algorithm = make(kl_mean_constraint=0.01, alpha_mean_scale=2.0, alpha_mean_max=0.3, alpha_var_scale=1.0)
    with torch.no_grad():
        algorithm._actor_network.weight.add_(0.005)
    info = algorithm.train_sequences(batch[0], (), batch[1])
    # Means differ by 0.005 s with deviation 0.1: KL = (0.05 s) ** 2 / 2, 0.00125 and 0.005.
    algorithm._multipliers.data.fill_(0.2)
    divergences = move_multipliers(algorithm, info)
    assert divergences[0].flatten().tolist() == pytest.approx([0.00125, 0.005], rel=1e-3)
    assert algorithm._multipliers[0].item() == pytest.approx(0.2 + 2.0 * (0.003125 - 0.01), rel=1e-4)
    assert algorithm._multipliers[1].item() == pytest.approx(0.2 - 0.0001, rel=1e-4)
    with torch.no_grad():
        algorithm._actor_network.weight.add_(1.0)
    move_multipliers(algorithm, algorithm.train_sequences(batch[0], (), batch[1]))
    assert algorithm._multipliers[0].item() == pytest.approx(0.3)
    algorithm._multipliers.data.fill_(1e-6)
    algorithm._actor_network.load_state_dict(algorithm._target_actor_network.state_dict())
    move_multipliers(algorithm, algorithm.train_sequences(batch[0], (), batch[1]))
    assert algorithm._multipliers.tolist() == [0.0, 0.0]


def move_multipliers(algorithm: MpoAlgorithm, info: MpoInfo) -> Any:
    """One step of the multipliers, as the framework makes it; the divergences."""
    _, multiplier_loss, divergences = algorithm._m_step_loss(info, info.action_distribution)
    assert multiplier_loss.item() == 0.0
    algorithm.update_with_gradient(LossInfo(scalar_loss=multiplier_loss))
    algorithm._limit_multipliers()
    return divergences


def test_losses_change_nothing_and_the_multipliers_are_trained_like_all_parameters(make: Any, batch: Any) -> None:
    algorithm = make(mstep_iterations=1, alpha_mean_scale=2.0, kl_mean_constraint=0.01, alpha_mean_max=1.0)
    with torch.no_grad():
        algorithm._actor_network.weight.add_(0.05)
    before = copy.deepcopy(algorithm.state_dict())
    info = algorithm.train_sequences(batch[0], (), batch[1])
    loss = algorithm.calc_loss(info)
    assert torch.equal(loss.loss, algorithm.calc_loss(info).loss)
    for key, value in algorithm.state_dict().items():
        assert not isinstance(value, torch.Tensor) or torch.equal(value, before[key]), key
    handled = [p for o in algorithm.optimizers() for g in o.param_groups for p in g["params"]]
    assert any(p is algorithm._multipliers for p in handled)
    algorithm.update_with_gradient(loss, torch.ones(2, 1))
    algorithm.after_update((), info)
    # KL of the means is (0.5 s) ** 2 / 2, so the multiplier rises from 0 by 2 (0.3125 - 0.01).
    assert algorithm._multipliers[0].item() == pytest.approx(2.0 * (0.3125 - 0.01), rel=1e-4)
    assert algorithm._temperature.item() == info.temperature[0, 0].item() != 1.0


def test_every_m_step_is_guarded_against_values_that_are_not_finite(make: Any, batch: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(mstep_iterations=5, kl_mean_constraint=10.0, actor_optimizer=SGD(lr=0.01))
    with pytest.raises(NonFiniteLossError):  # steps so large that the deviation becomes negative
        update(algorithm, *batch)
    assert all(torch.isfinite(parameter).all() for parameter in algorithm.parameters())


def test_multipliers_and_temperature_are_saved(make: Any, batch: Any, update: Any) -> None:
    algorithm, resumed = (make(actor_optimizer=SGD(lr=1e-4)) for _ in range(2))
    for _ in range(3):
        update(algorithm, *batch)
    resumed.load_state_dict(algorithm.state_dict())
    assert torch.equal(resumed._temperature, algorithm._temperature)
    assert torch.equal(resumed._multipliers, algorithm._multipliers)
    assert algorithm._temperature.item() != 1.0


def test_settings_of_discrete_actions(sequence: Any, update: Any) -> None:
    settings = {
        "actor_network_ctor": partial(ActorDistributionNetwork, fc_layer_params=(4,)),
        "q_network_ctor": partial(QNetwork, fc_layer_params=(4,)),
        "actor_optimizer": SGD(lr=0.1),
        "critic_optimizer": SGD(lr=0.1),
    }
    algorithm = MpoAlgorithm(
        OBSERVATION, DISCRETE, kl_constraint=0.02, alpha_scale=3.0, alpha_max=0.7, num_critic_replicas=2, **settings
    )
    assert algorithm._head.constraints == (Constraint("kl", 0.02, 3.0, 0.7),)
    batch = sequence([[[1.0], [2.0]]], [[0.0, 1.0]]), MpoInfo(action=torch.tensor([[2, 0]]))
    info, loss = update(algorithm, *batch)
    assert info.q_values.shape == (2, 1, 2)
    assert torch.isfinite(loss.loss)
    assert list(loss.extra.divergences) == ["kl"]


def test_the_rest_of_the_settings(make: Any, batch: Any, update: Any) -> None:
    assert update(make(), *batch)[1].priority == ()
    assert update(make(calculate_priority=True), *batch)[1].priority.shape == (1,)
    algorithm = make(target_update_tau=1.0, target_update_period=2)
    update(algorithm, *batch)
    assert algorithm._target_actor_network.weight.item() == 0.5
    update(algorithm, *batch)
    assert algorithm._target_actor_network.weight.item() == algorithm._actor_network.weight.item() != 0.5
    hot, cold = make(dual_constraint=0.01), make(dual_constraint=1.0)
    for one in (hot, cold):
        torch.manual_seed(0)
        update(one, *batch)
    assert hot._temperature > cold._temperature


def test_acting_samples_in_rollouts_and_takes_the_mode_in_evaluation(make: Any) -> None:
    torch.manual_seed(0)
    step = TimeStep(step_type=torch.ones(500, dtype=torch.int32), observation=torch.ones(500, 1))
    with torch.no_grad():
        assert (make(epsilon_greedy=0.0).predict_step(step, ()).output == 0.5).all()
        assert make(epsilon_greedy=1.0).predict_step(step, ()).output.std() > 0.05
        assert make().rollout_step(step, ()).output.std().item() == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_spec": BoundedTensorSpec((2,), torch.int64, 0, 3)}, "one discrete scalar action"),
        ({"action_spec": (DISCRETE, ACTION)}, "continuous actions"),
        ({"reward_spec": TensorSpec((2,))}, "scalar reward"),
        ({"actor_optimizer": None}, "mstep_iterations=1"),
        ({"dual_constraint": 0.0}, "dual_constraint"),
        ({"mstep_iterations": 0}, "mstep_iterations"),
        ({"sample_action_num": 1}, "sample_action_num"),
        ({"actor_network_ctor": ActorDistributionRNNNetwork, "critic_network_ctor": CriticNetwork}, "recurrent"),
        (
            {
                "actor_network_ctor": partial(
                    ActorDistributionNetwork, continuous_projection_net_ctor=BetaProjectionNetwork
                )
            },
            "NormalProjectionNetwork",
        ),
    ],
)
def test_bad_settings_are_refused_with_the_fix(settings: dict[str, Any], message: str) -> None:
    action_spec = settings.pop("action_spec", ACTION)
    with pytest.raises(ValueError, match=message):
        MpoAlgorithm(OBSERVATION, action_spec, **{"actor_optimizer": SGD(lr=0.1), **settings})


@pytest.mark.learning
def test_it_learns_to_repeat_what_it_sees(train_toy: Any) -> None:
    projection = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False)
    ctor = partial(
        MpoAlgorithm,
        actor_network_ctor=partial(
            ActorDistributionNetwork, fc_layer_params=(32,), continuous_projection_net_ctor=projection
        ),
        critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=3e-3),
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0),
        sample_action_num=16,
        mstep_iterations=2,
        kl_mean_constraint=0.1,
        target_update_tau=0.05,
    )
    _, mean_return = train_toy(ctor, "rein/IdentityContinuous-v0", 300, mini_batch_size=32)
    assert mean_return > -1.0


def test_it_learns_a_discrete_task(train_toy: Any) -> None:
    ctor = partial(
        MpoAlgorithm,
        actor_network_ctor=partial(ActorDistributionNetwork, fc_layer_params=(32,)),
        q_network_ctor=partial(QNetwork, fc_layer_params=(32,)),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=3e-3),
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0),
        kl_constraint=0.1,
        mstep_iterations=2,
        target_update_tau=0.05,
    )
    _, mean_return = train_toy(ctor, "rein/Identity-v0", 250)
    assert mean_return > 8.0
