"""TD3 against numbers by hand: pi(s) = w s with w = 0.5, Q(s, a) = u s + v a with u = 1, v = 2, gamma = 0.99."""

from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.deterministic_actor_critic import DdpgInfo
from rein.algorithms.off_policy.td3 import Td3Algorithm
from rein.data_structures import BatchInfo, TimeStep
from rein.framework import TrainerConfig
from rein.networks import ActorNetwork, ActorRNNNetwork, CriticNetwork, CriticRNNNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), minimum=-2, maximum=2)


@pytest.fixture
def make(one_weight: Any) -> Any:
    def build(**settings: Any) -> Td3Algorithm:
        defaults = {
            "actor_network_ctor": one_weight.actor,
            "critic_network_ctor": one_weight.critic,
            "actor_optimizer": SGD(lr=0.1),
            "critic_optimizer": SGD(lr=0.1),
            "target_action_noise": 0.0,
            "one_transition": True,
        }
        return Td3Algorithm(OBSERVATION, ACTION, **{**defaults, **settings})

    return build


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, DdpgInfo]:
    """One sequence of two steps: s = 1, a = 0.3, r = 1, s' = 2."""
    return sequence([[[1.0], [2.0]]], [[0.0, 1.0]]), DdpgInfo(action=torch.tensor([[[0.3], [0.7]]]))


def parameters(critics: torch.nn.Module, name: str) -> list[float]:
    return next(p for n, p in critics.named_parameters() if n.endswith(name)).tolist()


def act(algorithm: Td3Algorithm, method: str, observation: torch.Tensor) -> Any:
    size = observation.shape[0]
    step = TimeStep(step_type=torch.ones(size, dtype=torch.int32), observation=observation)
    with torch.no_grad():
        return getattr(algorithm, method)(step, zero_state(algorithm.rollout_state_spec, size))


def test_both_critics_learn_from_the_lowest_target(make: Any, batch: Any, update: Any) -> None:
    algorithm = make()
    with torch.no_grad():
        next(p for n, p in algorithm._target_critic_networks.named_parameters() if n.endswith("u"))[1] = 0.0
    info, loss = update(algorithm, *batch)
    # The lower target is 0 * 2 + 2 * 1, so y = 1 + 0.99 * 2 and the error of both is 1.38.
    assert info.critic.target_q_values[1].item() == pytest.approx(2.0)
    assert loss.extra.critic.item() == pytest.approx(2 * 1.38**2, rel=1e-5)
    assert parameters(algorithm._critic_networks, "u") == pytest.approx([1 + 0.1 * 2 * 1.38] * 2)


def test_actor_and_targets_wait_for_their_turn(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(target_update_tau=0.5, actor_update_period=2)
    info, loss = update(algorithm, *batch)
    assert info.actor_loss == ()
    assert loss.extra.actor == ()
    assert algorithm._actor_network.weight.item() == 0.5
    assert parameters(algorithm._target_critic_networks, "u") == [1.0, 1.0]
    u, v = (parameters(algorithm._critic_networks, name)[0] for name in "uv")
    info, _ = update(algorithm, *batch)
    assert info.actor_loss.shape == (2, 1)
    # The slope of the critic before its own second step.
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * v)
    assert algorithm._target_actor_network.weight.item() == pytest.approx(0.5 + 0.05 * v)
    new_u = parameters(algorithm._critic_networks, "u")[0]
    assert new_u != pytest.approx(u)
    assert parameters(algorithm._target_critic_networks, "u")[0] == pytest.approx((1 + new_u) / 2)


def test_the_turn_is_saved(make: Any, batch: Any, update: Any) -> None:
    algorithm, resumed = make(), make()
    update(algorithm, *batch)
    resumed.load_state_dict(algorithm.state_dict())
    assert update(resumed, *batch)[0].actor_loss != ()


def test_only_the_first_critic_leads_the_actor(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(actor_update_period=1)
    with torch.no_grad():
        next(p for n, p in algorithm._critic_networks.named_parameters() if n.endswith("v"))[1] = -100.0
    update(algorithm, *batch)
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 2)


def test_target_actions_are_smoothed_within_limits_and_bounds(make: Any, sequence: Any) -> None:
    torch.manual_seed(0)
    count = 3000
    algorithm = make(target_action_noise=0.5, target_action_noise_limit=0.25)
    batch = sequence([[[1.0], [2.0]]] * count, [[0.0, 1.0]] * count)
    info = algorithm.train_sequences(batch, (), DdpgInfo(action=torch.zeros(count, 2, 1)))
    noise = (info.critic.target_q_values[1] - 4.0) / 2
    # Half of the range is 2: deviation 1.0, cut off at 0.5, around the action 1.
    assert noise.abs().max().item() == pytest.approx(0.5)
    assert noise.mean().item() == pytest.approx(0.0, abs=0.05)
    assert noise.std().item() > 0.35
    near_bound = sequence([[[1.0], [4.0]]] * count, [[0.0, 1.0]] * count)
    info = algorithm.train_sequences(near_bound, (), DdpgInfo(action=torch.zeros(count, 2, 1)))
    assert info.critic.target_q_values[1].max().item() == pytest.approx(4 + 2 * 2)


def test_all_steps_improve_the_actor_by_default(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=False, actor_update_period=1)
    update(algorithm, *batch)
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 2 * (1 + 2) / 2)


def test_sequences_at_once_give_the_same_as_step_by_step(make: Any, sequence: Any, update: Any) -> None:
    batch = sequence([[[1.0], [2.0], [-1.0]]], [[0.0, 1.0, 2.0]]), DdpgInfo(action=torch.rand(1, 3, 1))
    settings = {"one_transition": False, "actor_update_period": 1}
    at_once, by_steps = make(**settings), make(**settings)
    by_steps._config = TrainerConfig("unused", temporally_independent_train_step=False)
    losses = [update(algorithm, *batch)[1] for algorithm in (at_once, by_steps)]
    assert losses[0].loss.item() == pytest.approx(losses[1].loss.item())


def test_rollouts_add_normal_noise_and_some_uniform_actions(make: Any) -> None:
    torch.manual_seed(0)
    action = act(make(rollout_noise=0.1), "rollout_step", torch.ones(2000, 1)).output
    assert action.mean().item() == pytest.approx(0.5, abs=0.02)
    assert action.std().item() == pytest.approx(0.2, rel=0.1)
    action = act(make(rollout_noise=0.0, rollout_random_action=0.3), "rollout_step", torch.ones(2000, 1)).output
    assert (action != 0.5).float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert act(make(rollout_noise=0.0), "rollout_step", torch.full((1, 1), 9.0)).output.item() == 2.0


def test_evaluation_is_greedy_unless_epsilon_greedy(make: Any) -> None:
    torch.manual_seed(0)
    assert (act(make(), "predict_step", torch.ones(300, 1)).output == 0.5).all()
    action = act(make(epsilon_greedy=0.4), "predict_step", torch.ones(1000, 1)).output
    assert (action != 0.5).float().mean().item() == pytest.approx(0.4, abs=0.05)


def test_remaining_settings_do_what_they_say(make: Any, batch: Any, update: Any, sequence: Any) -> None:
    clipped = make(actor_update_period=1, dqda_clipping=0.5)
    update(clipped, *batch)
    assert clipped._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 0.5)
    other_loss = make(critic_loss_ctor=partial(OneStepTDLoss, gamma=0.5))
    assert update(other_loss, *batch)[1].extra.critic.item() == pytest.approx(2 * 1.4**2, rel=1e-5)
    assert update(make(calculate_priority=True), *batch)[1].priority.tolist() == pytest.approx([3.36])
    vector = make(reward_spec=TensorSpec((2,)), reward_weights=[1.0, -3.0], actor_update_period=1)
    update(vector, sequence([[[1.0], [2.0]]], [[[0.0, 0.0], [1.0, 5.0]]]), batch[1])
    assert vector._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * (2 - 6))
    returns = torch.tensor([[1.0, 2.0]])
    assert make().preprocess_experience(*batch, BatchInfo(discounted_return=returns))[1].discounted_return is returns


def test_recurrent_networks_learn_with_states_from_the_rollout(train_toy: Any) -> None:
    ctor = partial(
        Td3Algorithm,
        actor_network_ctor=partial(ActorRNNNetwork, lstm_hidden_size=8),
        critic_network_ctor=partial(CriticRNNNetwork, lstm_hidden_size=8),
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
    )
    settings = {"mini_batch_length": 4, "use_rollout_state": True, "episodes": 2, "initial_collect_steps": 40}
    train_toy(ctor, "rein/IdentityContinuous-v0", 20, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 2)}, "needs continuous actions"),
        ({"actor_update_period": 0}, "actor_update_period"),
        ({"target_action_noise": -0.1}, "target_action_noise"),
        ({"config": TrainerConfig("unused", mini_batch_length=5), "one_transition": True}, "mini_batch_length=2"),
    ],
)
def test_bad_settings_are_refused_with_the_fix(settings: dict[str, Any], message: str) -> None:
    action_spec = settings.pop("action_spec", ACTION)
    with pytest.raises(ValueError, match=message):
        Td3Algorithm(OBSERVATION, action_spec, **settings)


@pytest.mark.learning
def test_it_learns_to_repeat_what_it_sees(train_toy: Any) -> None:
    ctor = partial(
        Td3Algorithm,
        actor_network_ctor=partial(ActorNetwork, fc_layer_params=(32,)),
        critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=3e-3),
        rollout_noise=0.5,
        one_transition=True,
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0),
    )
    _, mean_return = train_toy(ctor, "rein/IdentityContinuous-v0", 700)
    assert mean_return > -0.4
