"""DDPG against numbers by hand: mu(s) = w s with w = 0.5, Q(s, a) = u s + v a with u = 1, v = 2, gamma = 0.99."""

from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.losses import OneStepTDLoss, TDLoss
from rein.algorithms.off_policy.ddpg import DdpgAlgorithm, DdpgInfo, DdpgState
from rein.data_structures import BatchInfo, TimeStep
from rein.framework import TrainerConfig
from rein.networks import ActorNetwork, ActorRNNNetwork, CriticNetwork, CriticRNNNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.runtime.schedules import ConstantScheduler
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), minimum=-2, maximum=2)


@pytest.fixture
def make(one_weight: Any) -> Any:
    def build(**settings: Any) -> DdpgAlgorithm:
        defaults = {
            "actor_network_ctor": one_weight.actor,
            "critic_network_ctor": one_weight.critic,
            "actor_optimizer": SGD(lr=0.1),
            "critic_optimizer": SGD(lr=0.1),
        }
        return DdpgAlgorithm(OBSERVATION, ACTION, **{**defaults, **settings})

    return build


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, DdpgInfo]:
    """One sequence of two steps: s = 1, a = 0.3, r = 1, s' = 2."""
    return sequence([[[1.0], [2.0]]], [[0.0, 1.0]]), DdpgInfo(action=torch.tensor([[[0.3], [0.7]]]))


def weights(algorithm: DdpgAlgorithm) -> dict[str, float]:
    critic = dict(algorithm._critic_networks.named_parameters())
    u, v = (p for n, p in critic.items() if n.endswith(("u", "v")))
    return {"w": algorithm._actor_network.weight.item(), "u": u[0].item(), "v": v[0].item()}


def act(algorithm: DdpgAlgorithm, method: str, observation: torch.Tensor, state: Any = None) -> Any:
    size = observation.shape[0]
    step = TimeStep(step_type=torch.ones(size, dtype=torch.int32), observation=observation)
    spec = algorithm.rollout_state_spec if method == "rollout_step" else algorithm.predict_state_spec
    with torch.no_grad():
        return getattr(algorithm, method)(step, zero_state(spec, size) if state is None else state)


def test_one_update_of_one_transition(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=True, target_update_tau=0.5)
    info, loss = update(algorithm, *batch)
    # y = 1 + 0.99 Q(2, 1) = 1 + 0.99 * 4, Q(1, 0.3) = 1.6, so the error is 3.36.
    assert info.critic.target_q_values[1].item() == pytest.approx(4.0)
    assert loss.extra.critic.item() == pytest.approx(3.36**2, rel=1e-5)
    after = weights(algorithm)
    assert after["u"] == pytest.approx(1 + 0.1 * 2 * 3.36)
    assert after["v"] == pytest.approx(2 + 0.1 * 2 * 3.36 * 0.3)
    assert after["w"] == pytest.approx(0.5 + 0.1 * 2 * 1)
    target = [p for n, p in algorithm._target_critic_networks.named_parameters() if n.endswith("u")]
    assert target[0][0].item() == pytest.approx(1 + 0.5 * 0.1 * 2 * 3.36)
    assert algorithm._target_actor_network.weight.item() == pytest.approx(0.6)


def test_by_default_every_step_improves_the_actor_and_the_mean_is_over_steps(
    make: Any, batch: Any, update: Any
) -> None:
    algorithm = make()
    update(algorithm, *batch)
    after = weights(algorithm)
    assert after["u"] == pytest.approx(1 + 0.1 * 3.36)
    assert after["w"] == pytest.approx(0.5 + 0.1 * 2 * (1 + 2) / 2)


def test_sequences_at_once_give_the_same_as_step_by_step(make: Any, sequence: Any, update: Any) -> None:
    batch = sequence([[[1.0], [2.0], [-1.0]]], [[0.0, 1.0, 2.0]]), DdpgInfo(action=torch.rand(1, 3, 1))
    settings = {"critic_loss_ctor": partial(TDLoss, td_lambda=0.5), "num_critic_replicas": 2}
    at_once, by_steps = make(**settings), make(**settings)
    by_steps._config = TrainerConfig("unused", temporally_independent_train_step=False)
    losses = [update(algorithm, *batch)[1] for algorithm in (at_once, by_steps)]
    assert losses[0].loss.item() == pytest.approx(losses[1].loss.item())
    assert weights(at_once) == pytest.approx(weights(by_steps))


def test_terminal_steps_do_not_bootstrap_and_last_steps_have_no_loss(make: Any, sequence: Any, update: Any) -> None:
    terminal = sequence([[[1.0], [2.0]]], [[0.0, 1.0]], discount=[[1.0, 0.0]])
    _, loss = update(make(one_transition=True), terminal, DdpgInfo(action=torch.tensor([[[0.3], [0.0]]])))
    assert loss.extra.critic.item() == pytest.approx(0.6**2, rel=1e-5)
    between = sequence([[[1.0], [2.0]]], [[0.0, 1.0]], step_type=[[2, 0]])
    algorithm = make(one_transition=True)
    _, loss = update(algorithm, between, DdpgInfo(action=torch.tensor([[[0.3], [0.0]]])))
    assert loss.loss.item() == 0.0
    assert weights(algorithm) == pytest.approx({"w": 0.5, "u": 1.0, "v": 2.0})


def test_clipping_dqda_limits_the_step_of_the_actor(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=True, dqda_clipping=0.5)
    update(algorithm, *batch)
    assert weights(algorithm)["w"] == pytest.approx(0.5 + 0.1 * 0.5)


def test_action_l2_pulls_actions_to_zero(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=True, action_l2=3.0)
    update(algorithm, *batch)
    # d/dw 3 (w s)^2 = 6 w s^2 = 3
    assert weights(algorithm)["w"] == pytest.approx(0.5 + 0.1 * (2 - 3))


def test_targets_move_after_their_period(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(target_update_tau=1.0, target_update_period=2)
    update(algorithm, *batch)
    assert algorithm._target_actor_network.weight.item() == 0.5
    update(algorithm, *batch)
    assert algorithm._target_actor_network.weight.item() == algorithm._actor_network.weight.item()


def test_several_critics_count_by_the_lowest(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(num_critic_replicas=2)
    with torch.no_grad():
        for name, parameter in algorithm._target_critic_networks.named_parameters():
            if name.endswith("u"):
                parameter[1] = -1.0
    info, _ = update(algorithm, *batch)
    assert info.critic.q_values.shape == (2, 1, 2)
    assert info.critic.target_q_values[1].item() == pytest.approx(-2 + 2 * 1)


def test_vector_rewards_have_targets_of_their_own_and_weights_for_the_actor(
    make: Any, sequence: Any, update: Any
) -> None:
    algorithm = make(reward_spec=TensorSpec((2,)), reward_weights=[1.0, -3.0], one_transition=True)
    batch = sequence([[[1.0], [2.0]]], [[[0.0, 0.0], [1.0, 5.0]]]), DdpgInfo(action=torch.tensor([[[0.3], [0.0]]]))
    info, loss = update(algorithm, *batch)
    assert info.critic.target_q_values[1].tolist() == [[4.0, 4.0]]
    assert loss.extra.critic.item() == pytest.approx((3.36**2 + 7.36**2) / 2, rel=1e-5)
    assert weights(algorithm)["w"] == pytest.approx(0.5 + 0.1 * (2 - 6))


def test_priorities_come_with_the_loss_if_asked_for(make: Any, batch: Any, update: Any) -> None:
    assert update(make(one_transition=True), *batch)[1].priority == ()
    priority = update(make(calculate_priority=True), *batch)[1].priority
    # The loss is 3.36 ** 2 at the first of two steps.
    assert priority.tolist() == pytest.approx([3.36 / 2**0.5])


def test_the_critic_loss_can_be_chosen(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=True, critic_loss_ctor=partial(OneStepTDLoss, gamma=0.5))
    assert update(algorithm, *batch)[1].extra.critic.item() == pytest.approx((1 + 0.5 * 4 - 1.6) ** 2, rel=1e-5)


def test_recorded_returns_reach_the_critic_loss(make: Any, batch: Any) -> None:
    returns = torch.tensor([[1.0, 2.0]])
    _, info = make().preprocess_experience(*batch, BatchInfo(discounted_return=returns))
    assert info.discounted_return is returns


def test_evaluation_is_greedy_unless_epsilon_greedy(make: Any) -> None:
    torch.manual_seed(0)
    observation = torch.ones(500, 1)
    assert torch.equal(act(make(epsilon_greedy=0.0), "predict_step", observation).output, 0.5 * observation)
    action = act(make(epsilon_greedy=0.4), "predict_step", observation).output
    assert (action != 0.5).float().mean().item() == pytest.approx(0.4, abs=0.06)


def test_rollouts_add_noise_that_is_carried_along_and_clipped(make: Any) -> None:
    torch.manual_seed(0)
    step = act(make(ou_stddev=0.3, ou_damping=0.0), "rollout_step", torch.ones(1000, 1))
    assert step.output.std().item() == pytest.approx(0.3, rel=0.1)
    assert torch.allclose(step.output, 0.5 + step.state.noise)
    assert torch.equal(step.info.action, step.output)
    silent = make(ou_stddev=0.0, ou_damping=0.25)
    state = DdpgState(noise=torch.full((2, 1), 4.0))
    step = act(silent, "rollout_step", torch.ones(2, 1), state)
    assert step.state.noise.tolist() == [[3.0], [3.0]]
    assert step.output.tolist() == [[2.0], [2.0]]


@pytest.mark.parametrize("chance", [0.3, ConstantScheduler(0.3)])
def test_some_rollout_actions_are_uniform(make: Any, chance: Any) -> None:
    torch.manual_seed(0)
    action = act(make(ou_stddev=0.0, rollout_random_action=chance), "rollout_step", torch.ones(1000, 1)).output
    is_random = action != 0.5
    assert is_random.float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert action.min() < -1.8
    assert action.max() > 1.8


def test_targets_are_in_no_optimizer(make: Any) -> None:
    algorithm = make()
    assert algorithm.get_unoptimized_parameter_info().splitlines() != []
    handled = {id(p) for o in algorithm.optimizers() for g in o.param_groups for p in g["params"]}
    assert handled == {id(p) for m in (algorithm._actor_network, algorithm._critic_networks) for p in m.parameters()}


def test_recurrent_networks_learn_with_states_from_the_rollout(train_toy: Any) -> None:
    ctor = partial(
        DdpgAlgorithm,
        actor_network_ctor=partial(ActorRNNNetwork, lstm_hidden_size=8),
        critic_network_ctor=partial(CriticRNNNetwork, lstm_hidden_size=8),
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
    )
    settings = {"mini_batch_length": 4, "use_rollout_state": True, "episodes": 2, "initial_collect_steps": 40}
    algorithm, _ = train_toy(ctor, "rein/IdentityContinuous-v0", 20, **settings)
    assert algorithm.train_state_spec.critics.target_critics != ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 2)}, "needs continuous actions"),
        ({"config": TrainerConfig("unused", mini_batch_length=3), "one_transition": True}, "mini_batch_length=2"),
        ({"ou_stddev": -0.1}, "ou_stddev"),
        ({"num_critic_replicas": 0}, "num_critic_replicas"),
        ({"reward_weights": [1.0]}, "reward is a scalar"),
        ({"epsilon_greedy": 2.0}, "epsilon_greedy"),
        (
            {
                "one_transition": True,
                "actor_network_ctor": ActorRNNNetwork,
                "critic_network_ctor": partial(CriticNetwork, joint_fc_layer_params=(4,)),
            },
            "leave out one_transition",
        ),
    ],
)
def test_bad_settings_are_refused_with_the_fix(make: Any, settings: dict[str, Any], message: str) -> None:
    action_spec = settings.pop("action_spec", ACTION)
    arguments = {"actor_network_ctor": ActorNetwork, "critic_network_ctor": CriticNetwork, **settings}
    with pytest.raises(ValueError, match=message):
        DdpgAlgorithm(OBSERVATION, action_spec, **arguments)


@pytest.mark.learning
def test_it_learns_to_repeat_what_it_sees(train_toy: Any) -> None:
    ctor = partial(
        DdpgAlgorithm,
        actor_network_ctor=partial(ActorNetwork, fc_layer_params=(32,)),
        critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=3e-3),
        ou_stddev=0.5,
        one_transition=True,
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0),
    )
    _, mean_return = train_toy(ctor, "rein/IdentityContinuous-v0", 500)
    assert mean_return > -0.4
