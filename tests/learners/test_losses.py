"""Losses of every learner on two rows, by hand; gamma is 0.99, three steps and weights 1 and 3 where it says so."""

from typing import Any

import pytest
import torch

from rein.learners import DDPG, DDQN, MPO, SAC, TD3

WEIGHTS = torch.tensor([[1.0], [3.0]])
DISCOUNT = 0.99**3


def test_ddqn_picks_by_the_online_network_and_values_by_the_target(line_actor: Any, two_choices: Any) -> None:
    learner = DDQN("cpu", None, line_actor(discrete=True))
    with torch.no_grad():
        learner.actor_targets.q1.v.fill_(-5.0)
    loss, errors = learner.compute_loss(two_choices, n_step=3, per_weights=WEIGHTS)
    # Online Q(2, .) = (2, 4): action 1, which the target values 2 - 5; Q(1, 1) = 3 and Q(-1, 0) = -1.
    first, second = 3 - (1 - 3 * DISCOUNT), -1 - 2
    assert errors.flatten().tolist() == pytest.approx([abs(first), abs(second)])
    assert loss.item() == pytest.approx((first**2 + 3 * second**2) / 2)


def test_ddpg(line_actor: Any, two_rows: Any) -> None:
    learner = DDPG("cpu", None, line_actor())
    loss_q1, loss_q2, loss_q, errors = learner.compute_loss_q(two_rows, n_step=3, per_weights=WEIGHTS)
    # Q(1, .3) = 1.6, Q(-1, .5) = 0; mu'(2) = 1 so that Q'(2, 1) = 4.
    first, second = 1.6 - (1 + 4 * DISCOUNT), 0 - 2
    assert errors.flatten().tolist() == pytest.approx([abs(first), abs(second)])
    assert loss_q.item() == pytest.approx((first**2 + 3 * second**2) / 4)
    assert (loss_q1.item(), loss_q2.item()) == (loss_q.item(), 0.0)
    # Q(1, .5) = 2 and Q(-1, -.5) = -2.
    assert learner.compute_loss_pi(two_rows, WEIGHTS).item() == pytest.approx(-(2 - 3 * 2) / 2)


def test_td3(line_actor: Any, two_rows: Any) -> None:
    learner = TD3("cpu", None, line_actor())
    learner.algorithm._target_action_noise = 0.0
    loss_q1, loss_q2, loss_q, errors = learner.compute_loss_q(two_rows, n_step=3, per_weights=WEIGHTS)
    # Targets: min(2 + 2, 3 + 1) = 4; Q1 = (1.6, 0), Q2 = (1.8, -1).
    target = 1 + 4 * DISCOUNT
    assert loss_q1.item() == pytest.approx(((1.6 - target) ** 2 + 3 * 4) / 2)
    assert loss_q2.item() == pytest.approx(((1.8 - target) ** 2 + 3 * 9) / 2)
    assert loss_q.item() == pytest.approx((loss_q1.item() + loss_q2.item()) / 2)
    assert errors.flatten().tolist() == pytest.approx([abs(1.6 - target), 3.0])
    assert learner.compute_loss_pi(two_rows, WEIGHTS).item() == pytest.approx(2.0)


def test_td3_target_actions_have_noise_of_their_own_within_limits_and_bounds(line_actor: Any) -> None:
    learner = TD3("cpu", None, line_actor())
    torch.manual_seed(0)
    # mu(3) = 1.5; noise is cut off at half of half the range, which is 1.
    action = learner.algorithm._smoothed(torch.full((2000, 1), 1.5))
    assert action.max().item() == 2.0
    assert action.min().item() == pytest.approx(0.5)
    assert len(action.unique()) > 1000


def test_sac(line_actor: Any, two_rows: Any) -> None:
    learner = SAC("cpu", None, line_actor(), initial_alpha=0.5)
    density = torch.distributions.Normal(0.0, 0.5).log_prob(torch.tensor(0.1)).item()
    loss_q1, loss_q2, loss_q, errors = learner.compute_loss_q(two_rows, n_step=3, per_weights=WEIGHTS)
    # a' = mu(2) + 0.1 = 1.1: min(2 + 2.2, 3 + 1.1) = 4.1.
    target = 1 + DISCOUNT * (4.1 - 0.5 * density)
    assert loss_q1.item() == pytest.approx(((1.6 - target) ** 2 + 3 * 4) / 2)
    assert loss_q2.item() == pytest.approx(((1.8 - target) ** 2 + 3 * 9) / 2)
    assert loss_q.item() == pytest.approx((loss_q1.item() + loss_q2.item()) / 2)
    assert errors.flatten().tolist() == pytest.approx([(abs(1.6 - target) + abs(1.8 - target)) / 2, 2.5])
    loss_pi, logp = learner.compute_loss_pi(two_rows, WEIGHTS)
    # At s = 1, a = .6: min(2.2, 2.1); at s = -1, a = -.4: min(-1.8, -1.9).
    assert loss_pi.item() == pytest.approx(((0.5 * density - 2.1) + 3 * (0.5 * density + 1.9)) / 2)
    assert logp.flatten().tolist() == pytest.approx([density, density])
    learner.log_alpha.data.fill_(0.7)
    assert learner.compute_loss_alpha(logp, WEIGHTS).item() == pytest.approx(-0.7 * 2 * (density - 1))


def test_discrete_sac_takes_means_over_actions(line_actor: Any, two_choices: Any) -> None:
    learner = SAC("cpu", None, line_actor(discrete=True), initial_alpha=0.5)
    assert learner.discrete_version
    p = torch.sigmoid(torch.tensor(1.0)).item()
    entropy = -(p * torch.tensor(p).log() + (1 - p) * torch.tensor(1 - p).log()).item()
    loss_q1, *_ = learner.compute_loss_q(two_choices)
    # Q'(2, .) = min((2, 4), (3, 4)).
    target = 1 + 0.99 * (p * 4 + (1 - p) * 2 + 0.5 * entropy)
    assert loss_q1.item() == pytest.approx(((3 - target) ** 2 + 9) / 2, rel=1e-5)
    _, logp = learner.compute_loss_pi(two_choices)
    p = torch.sigmoid(torch.tensor(0.5))
    assert logp[0].item() == pytest.approx((p * p.log() + (1 - p) * (1 - p).log()).item(), rel=1e-5)
    assert learner.target_entropy == pytest.approx(0.98 * 0.693147, rel=1e-5)


def test_discrete_sac_stays_finite_where_a_probability_is_zero(line_actor: Any, two_choices: Any) -> None:
    actor = line_actor(discrete=True)
    actor.policy_net.w.data.fill_(1e4)
    grads, _ = SAC("cpu", None, actor).compute_gradients(two_choices)
    assert all(
        torch.isfinite(torch.as_tensor(one)).all() for group in grads.values() for one in group if one is not None
    )


def test_discrete_mpo(line_actor: Any, two_choices: Any) -> None:
    learner = MPO("cpu", None, line_actor(discrete=True), polyak=0.5, kl_constraint=0.01)
    loss_q, _ = learner.compute_loss_q(two_choices, n_step=3, per_weights=WEIGHTS)
    p = torch.sigmoid(torch.tensor(1.0)).item()
    first, second = 3 - (1 + DISCOUNT * (4 * p + 2 * (1 - p))), -1 - 2
    assert loss_q.item() == pytest.approx((first**2 + 3 * second**2) / 4, rel=1e-5)
    loss_pi = learner.compute_loss_pi(two_choices).item()
    # The policy is still that of the target, so no limit is broken and alpha stays 0: minus the mean of log pi under q.
    eta, expected = learner.eta.item(), 0.0
    for s in (1.0, -1.0):
        log_pi = torch.log_softmax(torch.tensor([0.0, 0.5 * s]), 0)
        weights = torch.softmax(log_pi + torch.tensor([s, s + 2]) / eta, 0)
        expected -= (weights * log_pi).sum().item() / 2
    assert loss_pi == pytest.approx(expected, rel=1e-4)
    assert learner.multipliers.tolist() == [0.0]


def test_mpo_multipliers_follow_their_own_divergences(line_actor: Any, two_rows: Any) -> None:
    learner = MPO(
        "cpu", None, line_actor(), polyak=0.5, mstep_iterations=2, alpha_mean_max=10.0, kl_mean_constraint=0.01
    )
    with torch.no_grad():
        learner.actor.policy_net.w.fill_(0.7)
    learner.compute_loss_pi(two_rows)
    # Means differ by 0.2 at deviations of 0.5: KL is 0.5 * 0.16 in both rows; variances do not differ.
    assert learner.multipliers.tolist() == pytest.approx([2 * (0.08 - 0.01), 0.0], rel=1e-4)
