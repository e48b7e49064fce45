from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import ActorCriticLoss, PPOLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.algorithms.on_policy.actor_critic import ActorCriticState
from rein.data_structures import LossInfo, restart
from rein.distributions import compute_log_probability
from rein.framework import TrainerConfig
from rein.framework.updating.replay_training import train_from_unroll
from rein.networks import ActorDistributionNetwork, ActorDistributionRNNNetwork, ValueNetwork, ValueRNNNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.runtime.checkpoint import Checkpointer
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 2)
RECURRENT: dict[str, Any] = dict(
    actor_network_ctor=partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
    value_network_ctor=partial(ValueRNNNetwork, lstm_hidden_size=8),
)


def first_step(batch: int = 1) -> Any:
    torch.manual_seed(0)
    return restart(torch.randn(batch, 3), DISCRETE)


def test_rollout_records_what_the_networks_say(make: Any) -> None:
    alg = make(ActorCriticAlgorithm, "discrete", dict(unroll_length=4), optimizer=Adam(lr=1e-3))
    experience = alg.unroll(4)
    info = experience.rollout_info
    assert info.reward.shape == (5, 2)
    for name in ("reward", "step_type", "discount"):
        assert torch.equal(getattr(info, name), getattr(experience.time_step, name))
    flat = experience.observation.flatten(0, 1)
    assert torch.allclose(alg._value_network(flat)[0].reshape(5, 2), info.value, atol=1e-6)
    distribution = alg._actor_network(flat)[0]
    log_prob = distribution.log_prob(info.action.flatten()).reshape(5, 2)
    assert torch.allclose(log_prob, info.log_prob, atol=1e-6)
    assert torch.equal(experience.time_step.prev_action[1:5], info.action[0:4])


def test_one_update_follows_the_gradient_of_the_loss(make: Any) -> None:
    """SGD on the mean of the loss of the steps taken; the step that was only looked at gives its value, no loss."""
    alg = make(ActorCriticAlgorithm, "discrete", dict(unroll_length=4), optimizer=SGD(lr=0.1))
    experience = alg.unroll(4)
    loss = ActorCriticLoss().calc_loss(experience.rollout_info).loss[:4]
    mask = (experience.step_type[:4] != 2).float()
    gradients = torch.autograd.grad((loss * mask).mean(), list(alg.parameters()), retain_graph=True)
    before = [p.detach().clone() for p in alg.parameters()]
    assert train_from_unroll(alg, experience, experience.rollout_info, num_bootstrap_steps=1) == 8
    for old, gradient, new in zip(before, gradients, alg.parameters(), strict=True):
        assert torch.allclose(new, old - 0.1 * gradient, atol=1e-6)


class TestEvaluationOnly:
    def full(self, **arguments: Any) -> ActorCriticAlgorithm:
        torch.manual_seed(1)
        return ActorCriticAlgorithm(OBSERVATION, DISCRETE, optimizer=Adam(lr=1e-2), **arguments)

    @pytest.mark.parametrize("networks", [{}, RECURRENT], ids=["plain", "recurrent"])
    @pytest.mark.parametrize("optimizer", [None, Adam(lr=1e-2)], ids=["no_optimizer", "optimizer"])
    def test_a_full_checkpoint_loads_without_the_critic(self, networks: Any, optimizer: Any, tmp_path: Path) -> None:
        trained = self.full(**networks)
        step = trained.rollout_step(first_step(), zero_state(trained.rollout_state_spec, 1))
        trained.update_with_gradient(nest_loss(step))
        Checkpointer(tmp_path).save(1, {"alg": dict(trained.state_dict())})
        deployed = ActorCriticAlgorithm(
            OBSERVATION, DISCRETE, optimizer=optimizer, **{**networks, "value_network_ctor": None}
        )
        deployed.load_state_dict(Checkpointer(tmp_path).load().components["alg"])
        assert not [name for name, _ in deployed.named_parameters() if "value" in name]
        state = zero_state(trained.predict_state_spec, 1)
        a, b = trained.predict_step(first_step(), state), deployed.predict_step(first_step(), state)
        assert torch.equal(a.info.action_distribution.logits, b.info.action_distribution.logits)

    def test_it_cannot_roll_out(self) -> None:
        deployed = ActorCriticAlgorithm(OBSERVATION, DISCRETE, value_network_ctor=None)
        with pytest.raises(ValueError, match="built without value_network_ctor: it can only predict"):
            deployed.rollout_step(first_step(), ActorCriticState())

    def test_a_missing_actor_is_still_an_error(self) -> None:
        state = {key: value for key, value in self.full().state_dict().items() if "_actor" not in key}
        deployed = ActorCriticAlgorithm(OBSERVATION, DISCRETE, value_network_ctor=None)
        with pytest.raises(ValueError, match="missing"):
            deployed.load_state_dict(state)


def nest_loss(step: Any) -> Any:
    return LossInfo(loss=step.info.value.square() - step.info.log_prob)


class TestEpsilonGreedy:
    def alg(self, epsilon: float | None, config: TrainerConfig | None = None) -> ActorCriticAlgorithm:
        return ActorCriticAlgorithm(OBSERVATION, DISCRETE, epsilon_greedy=epsilon, config=config)

    def actions(self, alg: ActorCriticAlgorithm) -> torch.Tensor:
        inputs = restart(torch.ones(2000, 3), DISCRETE)
        return alg.predict_step(inputs, ActorCriticState()).output

    def test_zero_takes_the_mode(self) -> None:
        assert self.actions(self.alg(0.0)).unique().numel() == 1

    def test_one_samples_the_policy(self) -> None:
        torch.manual_seed(0)
        alg = self.alg(1.0)
        inputs = restart(torch.ones(2000, 3), DISCRETE)
        probabilities = alg.predict_step(inputs, ActorCriticState()).info.action_distribution.probs[0]
        counts = torch.bincount(self.actions(alg), minlength=3) / 2000
        assert torch.allclose(counts, probabilities.detach(), atol=0.05)

    def test_in_between_the_mode_is_taken_more_often_than_sampled(self) -> None:
        torch.manual_seed(0)
        alg = self.alg(0.3)
        inputs = restart(torch.ones(2000, 3), DISCRETE)
        probabilities = alg.predict_step(inputs, ActorCriticState()).info.action_distribution.probs[0].detach()
        best = int(probabilities.argmax())
        share = (self.actions(alg) == best).float().mean().item()
        assert share == pytest.approx(0.7 + 0.3 * probabilities[best].item(), abs=0.05)

    def test_it_comes_from_the_settings_unless_given(self) -> None:
        config = TrainerConfig("", epsilon_greedy=0.25)
        assert self.alg(None, config)._epsilon_greedy == 0.25
        assert self.alg(0.5, config)._epsilon_greedy == 0.5
        assert self.alg(None)._epsilon_greedy == 0.0
        with pytest.raises(ValueError, match=r"epsilon_greedy is 1\.5"):
            self.alg(1.5)


class TestVectorReward:
    def test_the_value_has_a_head_for_each_reward(self, make: Any) -> None:
        alg = make(ActorCriticAlgorithm, "discrete", dict(unroll_length=3), reward_dim=2, optimizer=Adam(lr=1e-2))
        assert alg.unroll(3).rollout_info.value.shape == (4, 2, 2)
        assert alg.has_multidim_reward()
        assert alg.reward_weights.tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("cls", [ActorCriticAlgorithm, partial(PPOAlgorithm, loss_class=PPOLoss)])
    def test_new_weights_count_from_the_next_step_on(self, make: Any, cls: Any) -> None:
        settings = dict(unroll_length=3, num_updates_per_train_iter=1)
        alg = make(cls, "discrete", settings, reward_dim=2, reward_weights=[1.0, 2.0], optimizer=Adam(lr=1e-2))
        assert alg.unroll(3).rollout_info.reward_weights[0, 0].tolist() == [1.0, 2.0]
        alg.set_reward_weights(torch.tensor([0.0, 5.0]))
        assert alg.unroll(3).rollout_info.reward_weights[0, 0].tolist() == [0.0, 5.0]
        alg.train_iter()

    def test_past_infos_keep_the_weights_they_were_collected_with(self, make: Any) -> None:
        alg = make(ActorCriticAlgorithm, "discrete", dict(unroll_length=3), reward_dim=2, optimizer=Adam(lr=1e-2))
        experience = alg.unroll(3)
        alg.set_reward_weights(torch.tensor([0.0, 5.0]))
        assert experience.rollout_info.reward_weights[0, 0].tolist() == [1.0, 1.0]

    def test_wrong_weights_are_refused(self, make: Any) -> None:
        with pytest.raises(ValueError, match="3 entries for 2 rewards"):
            make(ActorCriticAlgorithm, "discrete", {}, reward_dim=2, reward_weights=[1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="reward is a scalar"):
            make(ActorCriticAlgorithm, "discrete", {}, reward_weights=[1.0])


class TestRecurrent:
    def test_predict_keeps_the_actors_state_only(self) -> None:
        alg = ActorCriticAlgorithm(OBSERVATION, DISCRETE, **RECURRENT)
        assert alg.predict_state_spec.value == ()
        state = zero_state(alg.train_state_spec, 1)
        nest.assert_same_structure(alg.convert_train_state_to_predict_state(state), alg.predict_state_spec)

    def test_ppo_in_one_call_gives_what_steps_in_order_give(self, make: Any) -> None:
        """With stored states and unchanged weights, training sees the log-probabilities of the rollout."""
        settings = dict(unroll_length=6, mini_batch_length=3, mini_batch_size=4, use_rollout_state=True)
        alg = make(PPOAlgorithm, "mixed", settings, loss_class=PPOLoss, optimizer=Adam(lr=0.0), **RECURRENT)
        seen = []
        calc_loss = alg.calc_loss
        alg.calc_loss = lambda info: (seen.append(info), calc_loss(info))[1]
        for _ in range(3):
            alg.train_iter()
        for info in seen:
            log_prob = compute_log_probability(info.action_distribution, info.action)
            assert torch.allclose(log_prob, info.rollout_log_prob, atol=1e-5)

    def test_without_stored_states_sequences_begin_from_zero(self, make: Any) -> None:
        settings = dict(unroll_length=4, mini_batch_length=4, mini_batch_size=2, num_updates_per_train_iter=1)
        alg = make(PPOAlgorithm, "discrete", settings, loss_class=PPOLoss, optimizer=Adam(lr=0.0), **RECURRENT)
        seen = []
        calc_loss = alg.calc_loss
        alg.calc_loss = lambda info: (seen.append(info), calc_loss(info))[1]
        alg.train_iter()
        log_prob = compute_log_probability(seen[0].action_distribution, seen[0].action)
        assert torch.allclose(log_prob, seen[0].rollout_log_prob, atol=1e-5)  # the run begins with zeros too
        alg.train_iter()
        log_prob = compute_log_probability(seen[1].action_distribution, seen[1].action)
        assert not torch.allclose(log_prob, seen[1].rollout_log_prob, atol=1e-5)


def test_networks_are_called_by_keyword() -> None:
    """Constructors get exactly what the documentation says, so that partial functions can bind the rest."""
    calls = []

    def actor(*, input_tensor_spec: Any, action_spec: Any) -> Any:
        calls.append("actor")
        return ActorDistributionNetwork(input_tensor_spec, action_spec)

    def value(*, input_tensor_spec: Any) -> Any:
        calls.append("value")
        return ValueNetwork(input_tensor_spec)

    def loss(*, debug_summaries: bool) -> Any:
        calls.append(debug_summaries)
        return ActorCriticLoss(debug_summaries=debug_summaries)

    ActorCriticAlgorithm(
        OBSERVATION, DISCRETE, actor_network_ctor=actor, value_network_ctor=value, loss_class=loss, debug_summaries=True
    )
    assert calls == ["actor", "value", True]


def test_a_given_loss_is_used() -> None:
    loss = ActorCriticLoss(gamma=0.123)
    alg = ActorCriticAlgorithm(OBSERVATION, DISCRETE, loss=loss)
    assert alg._loss is loss


@pytest.mark.parametrize("make_algorithm", [ActorCriticAlgorithm, PPOAlgorithm])
def test_actor_and_critic_share_the_encoder_of_images(make_algorithm: Any) -> None:
    spec = {"image": BoundedTensorSpec((3, 12, 12), torch.uint8, 0, 255), "vector": TensorSpec((2,))}
    action_spec = BoundedTensorSpec((), torch.int64, 0, 2)
    networks = {
        "actor_network_ctor": partial(ActorDistributionNetwork, fc_layer_params=(4,)),
        "value_network_ctor": partial(ValueNetwork, fc_layer_params=(4,)),
    }
    algorithm = make_algorithm(spec, action_spec, optimizer=Adam(lr=1e-3), **networks)
    assert algorithm._actor_network.input_tensor_spec == {"image": TensorSpec((256,)), "vector": TensorSpec((2,))}
    assert algorithm.quick_actor() is None
    observation = nest.map_structure(lambda one: one.zeros((5,)), spec)
    step = algorithm.rollout_step(restart(observation, action_spec), ActorCriticState())
    assert step.output.shape == (5,)
    step.info.value.sum().backward()
    critic_only = [parameter.grad.abs().sum() for parameter in algorithm._encoder.parameters()]
    assert all(torch.isfinite(gradient) for gradient in critic_only)
    own = {**networks, "value_network_ctor": partial(ValueNetwork, preprocessing_combiner=lambda one: one["vector"])}
    assert make_algorithm(spec, action_spec, optimizer=Adam(lr=1e-3), **own)._encoder is None
