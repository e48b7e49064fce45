"""SARSA against numbers by hand: a(s) = w s with w = 0.5, Q(s, a) = u s + v a with u = 1, v = 2, gamma = 0.99."""

import math
from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.sarsa import SarsaAlgorithm, SarsaInfo, SarsaState
from rein.data_structures import Experience, StepType, TimeStep
from rein.distributions import calc_default_target_entropy
from rein.framework import Batch, TrainerConfig
from rein.framework.updating.gradients import train_info, valid_masks
from rein.framework.updating.replay_training import train_from_unroll
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    ActorNetwork,
    ActorRNNNetwork,
    CriticNetwork,
    CriticRNNNetwork,
    NormalProjectionNetwork,
)
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), minimum=-2, maximum=2)


@pytest.fixture
def make(one_weight: Any) -> Any:
    def build(stochastic: bool = False, **settings: Any) -> SarsaAlgorithm:
        defaults = {
            "actor_network_ctor": one_weight.normal_actor if stochastic else one_weight.actor,
            "critic_network_ctor": one_weight.critic,
            "num_critic_replicas": 1,
            "actor_optimizer": SGD(lr=0.1),
            "critic_optimizer": SGD(lr=0.1),
            "alpha_optimizer": SGD(lr=0.1),
        }
        return SarsaAlgorithm(OBSERVATION, ACTION, **{**defaults, **settings})

    return build


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, SarsaInfo]:
    """One sequence of two steps: s = 1, a = 0.3, r = 1, s' = 2."""
    return sequence([[[1.0], [2.0]]], [[0.0, 1.0]]), SarsaInfo(action=torch.tensor([[[0.3], [0.7]]]))


def u_of(critics: torch.nn.Module) -> float:
    return next(p for n, p in critics.named_parameters() if n.endswith("u"))[0].item()


def act(algorithm: SarsaAlgorithm, method: str, size: int) -> Any:
    step = TimeStep(
        step_type=torch.ones(size, dtype=torch.int32),
        reward=torch.zeros(size),
        discount=torch.ones(size),
        observation=torch.ones(size, 1),
    )
    spec = algorithm.rollout_state_spec if method == "rollout_step" else algorithm.predict_state_spec
    return getattr(algorithm, method)(step, zero_state(spec, size))


def test_one_update_from_replay(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(one_transition=True, target_update_tau=0.5, target_update_period=1)
    info, loss = update(algorithm, *batch)
    # The current policy would take 1 at s' = 2: y = 1 + 0.99 * 4, Q = 1.6.
    assert info.target_critics[1].item() == pytest.approx(4.0)
    assert loss.extra.critic.item() == pytest.approx(3.36**2, rel=1e-5)
    assert u_of(algorithm._critic_networks) == pytest.approx(1 + 0.1 * 2 * 3.36)
    assert u_of(algorithm._target_critic_networks) == pytest.approx(1 + 0.05 * 2 * 3.36)
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 2)
    assert loss.extra.alpha == ()


def test_all_steps_improve_the_actor_by_default(make: Any, batch: Any, update: Any) -> None:
    algorithm = make()
    update(algorithm, *batch)
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 2 * (1 + 2) / 2)


def test_on_policy_bootstraps_from_the_action_that_is_taken_next(make: Any) -> None:
    algorithm = make(on_policy=True, ou_stddev=0.0, ou_damping=0.0)
    state = SarsaState(noise=torch.tensor([[0.2]]))
    infos, steps = [], []
    for observation, reward in ((1.0, 0.0), (2.0, 1.0)):
        step = TimeStep(
            step_type=torch.ones(1, dtype=torch.int32),
            reward=torch.tensor([reward]),
            discount=torch.ones(1),
            observation=torch.tensor([[observation]]),
        )
        alg_step = algorithm.rollout_step(step, state)
        assert alg_step.output.item() == pytest.approx(0.5 * observation + 0.2)
        infos.append(alg_step.info)
        steps.append(step)
    info = SarsaInfo(*(torch.stack(p) if isinstance(p[0], torch.Tensor) else () for p in zip(*infos, strict=True)))
    loss = algorithm.calc_loss(info)
    # Q(1, 0.7) = 2.4, Q'(2, 1.2) = 4.4.
    assert loss.extra.critic[0].item() == pytest.approx((1 + 0.99 * 4.4 - 2.4) ** 2, rel=1e-5)
    experience = Experience(time_step=TimeStep(step_type=torch.ones(2, 1, dtype=torch.int32)))
    train_from_unroll(algorithm, experience, info, num_bootstrap_steps=1)
    assert algorithm._actor_network.weight.item() == pytest.approx(0.7)


def test_the_lowest_critic_counts(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(num_critic_replicas=2)
    with torch.no_grad():
        next(p for n, p in algorithm._target_critic_networks.named_parameters() if n.endswith("u"))[1] = -1.0
    assert update(algorithm, *batch)[0].target_critics[1].item() == pytest.approx(0.0)


def test_a_stochastic_actor_is_pulled_up_by_entropy_and_tunes_alpha(make: Any, batch: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(stochastic=True, one_transition=True, initial_alpha=0.5, target_entropy=1.0)
    assert algorithm._log_alpha.item() == pytest.approx(math.log(0.5))
    info, loss = update(algorithm, *batch)
    log_pi = info.neg_entropy[0].item()
    # Without one the deviation only feels 2 * noise; alpha times d(log pi)/d(std) = -alpha / std is added.
    assert loss.extra.alpha.item() == pytest.approx(math.log(0.5) * (-log_pi - 1.0), rel=1e-4)
    assert algorithm._log_alpha.item() == pytest.approx(math.log(0.5) - 0.1 * (-log_pi - 1.0), rel=1e-4)


def test_entropy_can_be_left_out(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(stochastic=True, initial_alpha=None)
    assert algorithm._log_alpha is None
    assert update(algorithm, *batch)[1].extra.alpha == ()


def test_target_entropy_by_default_and_by_a_function(make: Any) -> None:
    assert make(stochastic=True)._target_entropy == pytest.approx(calc_default_target_entropy(ACTION))
    assert make(stochastic=True, target_entropy=lambda spec: 0.25)._target_entropy == 0.25


def test_entropy_is_part_of_the_reward_if_so_chosen(make: Any, sequence: Any) -> None:
    info = SarsaInfo(
        reward=torch.tensor([[0.0], [1.0]]),
        step_type=torch.ones(2, 1, dtype=torch.int32),
        discount=torch.tensor([[1.0], [0.5]]),
        actor_loss=torch.zeros(2, 1),
        critics=torch.zeros(2, 1, 1),
        target_critics=torch.zeros(2, 1),
        neg_entropy=torch.tensor([[7.0], [-3.0]]),
    )
    plain = make(stochastic=True, initial_alpha=2.0).calc_loss(info).extra.critic[0].item()
    bonus = make(stochastic=True, initial_alpha=2.0, use_entropy_reward=True).calc_loss(info).extra.critic[0].item()
    assert plain == pytest.approx(1.0)
    assert bonus == pytest.approx((1 + 2 * 3 * 0.99 * 0.5) ** 2, rel=1e-5)


def test_sequences_at_once_give_the_same_as_step_by_step(make: Any, sequence: Any) -> None:
    batch = sequence([[[1.0], [2.0], [-1.0]]], [[0.0, 1.0, 2.0]]), SarsaInfo(action=torch.rand(1, 3, 1))
    algorithm = make(num_critic_replicas=2)
    experience = Experience(time_step=batch[0], rollout_info=batch[1])
    losses = []
    for independent in (True, False):
        algorithm._config = TrainerConfig("unused", temporally_independent_train_step=independent)
        losses.append(algorithm.calc_loss(train_info(algorithm, Batch(experience), algorithm.learning.settings)).loss)
    assert losses[0].shape == losses[1].shape == (3, 1)
    assert torch.allclose(losses[0], losses[1])


def test_the_smoothed_actor_acts(make: Any, batch: Any, update: Any) -> None:
    algorithm = make(use_smoothed_actor=True, target_update_tau=0.5, target_update_period=2, ou_stddev=0.0)
    for expected in (0.5, None):
        update(algorithm, *batch)
        if expected is not None:
            assert algorithm._smoothed_actor_network.weight.item() == expected
    weight = algorithm._smoothed_actor_network.weight.item()
    assert weight == pytest.approx((0.5 + algorithm._actor_network.weight.item()) / 2)
    assert act(algorithm, "rollout_step", 1).output.item() == pytest.approx(weight)
    assert act(algorithm, "predict_step", 1).output.item() == pytest.approx(weight)


def test_a_deterministic_actor_explores_by_noise_that_is_carried_along(make: Any) -> None:
    torch.manual_seed(0)
    step = act(make(ou_stddev=0.3, ou_damping=0.1), "rollout_step", 1000)
    assert torch.allclose(step.output, 0.5 + step.state.noise)
    assert step.output.std().item() == pytest.approx(0.3, rel=0.1)
    assert (act(make(), "predict_step", 10).output == 0.5).all()
    noisy = act(make(epsilon_greedy=0.4), "predict_step", 1000).output
    assert (noisy != 0.5).float().mean().item() == pytest.approx(0.4, abs=0.05)


def test_a_stochastic_actor_explores_by_sampling(make: Any) -> None:
    torch.manual_seed(0)
    assert act(make(stochastic=True), "rollout_step", 1000).output.std().item() == pytest.approx(0.1, rel=0.1)
    assert (act(make(stochastic=True), "predict_step", 10).output == 0.5).all()
    assert act(make(stochastic=True, epsilon_greedy=1.0), "predict_step", 100).output.std() > 0.05


def test_the_rest_of_the_settings(make: Any, batch: Any, update: Any) -> None:
    clipped = make(one_transition=True, dqda_clipping=0.5)
    update(clipped, *batch)
    assert clipped._actor_network.weight.item() == pytest.approx(0.55)
    other = make(one_transition=True, critic_loss_cls=partial(OneStepTDLoss, gamma=0.5))
    assert update(other, *batch)[1].extra.critic.item() == pytest.approx(1.4**2, rel=1e-5)
    assert update(make(), *batch)[1].priority == ()
    assert update(make(calculate_priority=True), *batch)[1].priority.tolist() == pytest.approx([3.36 / 2**0.5])
    state = SarsaState(actor=1, critics=2, target_critics=3, noise=4)
    assert make().convert_train_state_to_predict_state(state) == SarsaState(actor=1)


def test_vector_rewards(make: Any, sequence: Any, update: Any) -> None:
    algorithm = make(reward_spec=TensorSpec((2,)), num_critic_replicas=2, one_transition=True)
    batch = sequence([[[1.0], [2.0]]], [[[0.0, 0.0], [1.0, 5.0]]]), SarsaInfo(action=torch.tensor([[[0.3], [0.0]]]))
    assert update(algorithm, *batch)[0].target_critics[1].tolist() == [[4.0, 4.0]]
    assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 4)


class TestSequencesOfOneStep:
    """`mini_batch_length=1`: the state carries the step before."""

    CONFIG = TrainerConfig("unused", mini_batch_length=1, mini_batch_size=4, whole_replay_buffer_training=False)

    def step(self, step_type: int, discount: float = 1.0) -> tuple[TimeStep, SarsaState]:
        """s = 1, a = 0.3, r = 1, s' = 2, as steps [1, 1]."""
        inputs = TimeStep(
            step_type=torch.tensor([[step_type]], dtype=torch.int32),
            reward=torch.tensor([[1.0]]),
            discount=torch.tensor([[discount]]),
            observation=torch.tensor([[[2.0]]]),
            prev_action=torch.tensor([[[0.3]]]),
            env_id=torch.zeros(1, 1, dtype=torch.int64),
        )
        before = SarsaState(torch.tensor([[[1.0]]]), torch.tensor([[int(StepType.MID)]], dtype=torch.int32))
        return inputs, before

    def update(self, algorithm: SarsaAlgorithm, inputs: TimeStep, state: SarsaState) -> Any:
        experience = Experience(inputs, state=state, rollout_info=SarsaInfo(action=torch.tensor([[[9.0]]])))
        loss = algorithm.calc_loss(train_info(algorithm, Batch(experience), algorithm.learning.settings))
        valid = valid_masks(inputs.step_type.T)
        return algorithm.update_with_gradient(loss, valid)[0]

    def test_the_step_before_and_its_action_are_what_the_critics_learn(self, make: Any) -> None:
        algorithm = make(config=self.CONFIG)
        assert algorithm.train_state_spec.prev_observation == OBSERVATION
        assert algorithm.train_state_spec.prev_step_type.shape == ()
        loss = self.update(algorithm, *self.step(StepType.MID))
        # As in a sequence of two steps: y = 1 + 0.99 * 4, Q = 1.6; the actor learns at s' = 2.
        assert loss.extra.critic.item() == pytest.approx(3.36**2, rel=1e-5)
        assert u_of(algorithm._critic_networks) == pytest.approx(1 + 0.1 * 2 * 3.36)
        assert algorithm._actor_network.weight.item() == pytest.approx(0.5 + 0.1 * 2 * 2)

    def test_the_end_of_an_episode_is_learnt_and_its_beginning_is_not(self, make: Any) -> None:
        algorithm = make(config=self.CONFIG)
        loss = self.update(algorithm, *self.step(StepType.LAST, discount=0.0))
        assert loss.extra.critic.item() == pytest.approx((1.0 - 1.6) ** 2, rel=1e-5)
        assert algorithm._actor_network.weight.item() == 0.5  # nobody acts at a LAST step
        algorithm = make(config=self.CONFIG)
        loss = self.update(algorithm, *self.step(StepType.FIRST))
        assert loss.extra.critic.item() == 0.0
        assert u_of(algorithm._critic_networks) == 1.0
        assert algorithm._actor_network.weight.item() > 0.5

    def test_priorities_and_entropy(self, make: Any) -> None:
        algorithm = make(stochastic=True, config=self.CONFIG, calculate_priority=True, use_entropy_reward=True)
        inputs, state = self.step(StepType.MID)
        experience = Experience(inputs, state=state, rollout_info=SarsaInfo(action=torch.tensor([[[9.0]]])))
        info = train_info(algorithm, Batch(experience), algorithm.learning.settings)
        loss = algorithm.calc_loss(info)
        target = 1 - 0.99 * info.neg_entropy[0].item() + 0.99 * info.target_critics[0].item()
        assert loss.extra.critic.item() == pytest.approx((target - 1.6) ** 2, rel=1e-5)
        assert loss.priority.item() == pytest.approx(abs(target - 1.6), rel=1e-5)

    @pytest.mark.parametrize("is_recurrent", [False, True])
    @pytest.mark.parametrize("stochastic", [False, True])
    def test_replay_holds_what_came_before(self, train_toy: Any, is_recurrent: bool, stochastic: bool) -> None:
        actor: Any = ActorDistributionNetwork if stochastic else ActorNetwork
        if is_recurrent:
            actor = ActorDistributionRNNNetwork if stochastic else ActorRNNNetwork
        ctor = partial(
            SarsaAlgorithm,
            actor_network_ctor=actor,
            critic_network_ctor=CriticRNNNetwork if is_recurrent else CriticNetwork,
            actor_optimizer=Adam(lr=1e-3),
            critic_optimizer=Adam(lr=1e-3),
            alpha_optimizer=Adam(lr=1e-3),
        )
        algorithm, _ = train_toy(
            ctor, "rein/IdentityContinuous-v0", 12, mini_batch_length=1, initial_collect_steps=20, episodes=2
        )
        stored, _ = algorithm.replay_buffer.gather_all()
        follows = stored.time_step.step_type[:, 1:] != StepType.FIRST
        observation, before = stored.time_step.observation, stored.state.prev_observation
        assert follows.any()
        assert torch.equal(before[:, 1:][follows], observation[:, :-1][follows])
        assert (before[:, 1:][~follows] == 0).all()
        assert torch.equal(stored.state.prev_step_type[:, 1:][follows], stored.time_step.step_type[:, :-1][follows])

    def test_recurrent_critics_see_each_step_once(self, make: Any) -> None:
        """The state of the critics in replay is that before the step that comes before."""
        algorithm = make(
            config=self.CONFIG,
            actor_network_ctor=partial(ActorRNNNetwork, lstm_hidden_size=4),
            critic_network_ctor=partial(CriticRNNNetwork, lstm_hidden_size=4),
        )
        state = zero_state(algorithm.rollout_state_spec, 1)
        network = algorithm._critic_networks
        expected: Any = zero_state(network.state_spec, 1)
        action = torch.zeros(1, 1)
        with torch.no_grad():
            for t in range(3):
                step = TimeStep(
                    step_type=torch.tensor([int(StepType.MID if t else StepType.FIRST)], dtype=torch.int32),
                    observation=torch.tensor([[float(t)]]),
                    prev_action=action,
                )
                if t:
                    expected = network((torch.tensor([[t - 1.0]]), action), expected)[1]
                result = algorithm.rollout_step(step, state)
                state, action = result.state, result.output
                found = nest.flatten(state.critics)
                assert all(torch.equal(a, b) for a, b in zip(found, nest.flatten(expected), strict=True))

    def test_longer_sequences_carry_nothing(self, make: Any) -> None:
        algorithm = make(config=TrainerConfig("unused", mini_batch_length=2, whole_replay_buffer_training=False))
        assert algorithm.train_state_spec == SarsaState()
        assert not algorithm.need_full_rollout_state()


@pytest.mark.parametrize("on_policy", [False, True])
def test_recurrent_networks(train_toy: Any, on_policy: bool) -> None:
    ctor = partial(
        SarsaAlgorithm,
        actor_network_ctor=partial(ActorRNNNetwork, lstm_hidden_size=8),
        critic_network_ctor=partial(CriticRNNNetwork, lstm_hidden_size=8),
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
        on_policy=on_policy,
    )
    settings: dict[str, Any] = {"episodes": 2, "mini_batch_length": 4, "initial_collect_steps": 40}
    if on_policy:
        settings |= {"whole_replay_buffer_training": True, "clear_replay_buffer": True, "unroll_length": 4}
        settings |= {"mini_batch_size": None}
    else:
        settings |= {"use_rollout_state": True}
    train_toy(ctor, "rein/IdentityContinuous-v0", 15, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 2)}, "needs continuous actions"),
        ({"on_policy": True, "use_smoothed_actor": True}, "on_policy=False"),
        ({"on_policy": True, "one_transition": True}, "on_policy=False"),
        ({"initial_alpha": -1.0}, "initial_alpha"),
        ({"use_entropy_reward": True}, "gives distributions"),
        ({"num_critic_replicas": 0}, "num_critic_replicas"),
    ],
)
def test_bad_settings_are_refused_with_the_fix(settings: dict[str, Any], message: str) -> None:
    action_spec = settings.pop("action_spec", ACTION)
    with pytest.raises(ValueError, match=message):
        SarsaAlgorithm(OBSERVATION, action_spec, ActorNetwork, CriticNetwork, **settings)


@pytest.mark.parametrize("kind", ["deterministic", "stochastic", "on_policy"])
@pytest.mark.learning
def test_it_learns_to_repeat_what_it_sees(train_toy: Any, kind: str) -> None:
    projection = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False)
    stochastic = partial(ActorDistributionNetwork, fc_layer_params=(32,), continuous_projection_net_ctor=projection)
    ctor = partial(
        SarsaAlgorithm,
        actor_network_ctor=stochastic if kind == "stochastic" else partial(ActorNetwork, fc_layer_params=(32,)),
        critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=3e-3),
        alpha_optimizer=Adam(lr=1e-2),
        critic_loss_cls=partial(OneStepTDLoss, gamma=0.0),
        ou_stddev=0.5,
        initial_alpha=0.05,
        on_policy=kind == "on_policy",
        one_transition=kind != "on_policy",
    )
    settings: dict[str, Any] = {}
    if kind == "on_policy":
        settings = {"whole_replay_buffer_training": True, "clear_replay_buffer": True, "mini_batch_length": 4}
        settings |= {"unroll_length": 4, "num_envs": 16, "mini_batch_size": None}
    _, mean_return = train_toy(ctor, "rein/IdentityContinuous-v0", 300, **settings)
    assert mean_return > -0.8
