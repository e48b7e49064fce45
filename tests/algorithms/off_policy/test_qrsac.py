"""What QRSAC changes about SAC: quantiles, their minimum, their mean, their loss."""

from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.losses import OneStepTDQRLoss
from rein.algorithms.off_policy import QrsacAlgorithm
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.data_structures import Experience, StepType, TimeStep
from rein.framework import Batch, TrainerConfig
from rein.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork
from rein.networks.state import zero_state
from rein.ops import huber_function, quantile_huber_loss, quantile_midpoints
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
ACTION = BoundedTensorSpec((2,), torch.float32, -1.0, 1.0)
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)


def make(action_spec: Any = ACTION, **changes: Any) -> QrsacAlgorithm:
    torch.manual_seed(0)
    config = TrainerConfig(root_dir="", mini_batch_length=2, whole_replay_buffer_training=False)
    arguments: dict[str, Any] = {
        "actor_network_cls": partial(ActorDistributionNetwork, continuous_projection_net_ctor=PROJECTION),
        "critic_network_cls": partial(CriticNetwork, joint_fc_layer_params=(4,)),
        "critic_loss_ctor": partial(OneStepTDQRLoss, num_quantiles=5),
        "actor_optimizer": SGD(lr=0.1),
        "critic_optimizer": SGD(lr=0.1),
        "alpha_optimizer": SGD(lr=0.1),
        "config": config,
    }
    return QrsacAlgorithm(OBSERVATION, action_spec, **{**arguments, **changes})


def batch() -> Experience:
    torch.manual_seed(1)
    time_step = TimeStep(
        step_type=torch.full((4, 2), StepType.MID, dtype=torch.int32),
        reward=torch.randn(4, 2),
        discount=torch.ones(4, 2),
        observation=torch.randn(4, 2, 3),
        prev_action=torch.zeros(4, 2, 2),
        env_id=torch.zeros(4, 2, dtype=torch.int64),
    )
    return Experience(time_step=time_step, rollout_info=SacInfo(action=ACTION.sample((4, 2))))


def test_critics_give_as_many_quantiles_as_the_loss_says() -> None:
    data = batch()
    info = make().train_sequences(data.time_step, (), data.rollout_info)
    assert info.critic.critics.shape == (2, 4, 2, 5)
    assert info.critic.target_critic.shape == (2, 4, 5)
    assert make(critic_loss_ctor=None)._critic_losses[0].num_quantiles == 50


def test_the_minimum_is_by_quantile_or_by_mean() -> None:
    quantiles = torch.tensor([[[0.0, 9.0], [1.0, 2.0]]])  # means 4.5 and 1.5
    assert make()._minimum(quantiles).tolist() == [[0.0, 2.0]]
    assert make(min_critic_by_critic_mean=True)._minimum(quantiles).tolist() == [[1.0, 2.0]]


def test_the_actor_climbs_the_mean_of_the_quantiles() -> None:
    algorithm, data = make(), batch()
    inputs = (data.time_step.observation[:, 0], data.rollout_info.action[:, 0])
    _, value, _ = algorithm._policy_values(inputs, ())
    expected = algorithm._critic_networks(inputs)[0].min(1).values.mean(-1)
    assert torch.allclose(value, expected)


def test_the_critic_loss_is_quantile_regression_on_the_target_quantiles() -> None:
    algorithm, data = make(), batch()
    info = algorithm.train_sequences(data.time_step, (), data.rollout_info)
    target = data.time_step.reward[:, 1:2] + 0.99 * info.critic.target_critic[1]
    each = [
        quantile_huber_loss(info.critic.critics[0, :, i], target, quantile_midpoints(5), huber_function)
        for i in range(2)
    ]
    assert torch.allclose(algorithm._critic_loss(info)[0], each[0] + each[1], atol=1e-6)


def test_the_entropy_reward_is_off_by_default_and_reaches_all_quantiles() -> None:
    data = batch()
    losses = []
    for use in (False, True):
        algorithm = make(use_entropy_reward=use, initial_log_alpha=1.0)
        torch.manual_seed(3)
        info = algorithm.train_sequences(data.time_step, (), data.rollout_info)
        losses.append(algorithm._critic_loss(info))
    assert not torch.allclose(*losses)
    assert make()._use_entropy_reward is False


@pytest.mark.parametrize("one_transition", [False, True])
def test_updates_reach_every_network(one_transition: bool) -> None:
    algorithm = make(one_transition=one_transition)
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    algorithm.learning.update([Batch(batch())])
    changed = {name.split(".")[0] for name, p in algorithm.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {"_actor_network", "_critic_networks", "_target_critic_networks", "_log_alpha"}


def test_bad_input_is_refused() -> None:
    discrete = BoundedTensorSpec((), torch.int64, 0, 3)
    with pytest.raises(ValueError, match="use SacAlgorithm"):
        make(discrete)
    with pytest.raises(ValueError, match="use SacAlgorithm"):
        make((discrete, ACTION))


@pytest.mark.parametrize("by_mean", [False, True])
@pytest.mark.parametrize("size", [1, 3])
def test_each_of_several_rewards_has_its_quantiles(size: int, by_mean: bool) -> None:
    algorithm = make(reward_spec=TensorSpec((size,)), min_critic_by_critic_mean=by_mean)
    data = batch()
    data = data._replace(time_step=data.time_step._replace(reward=torch.randn(4, 2, size)))
    info = algorithm.train_sequences(data.time_step, (), data.rollout_info)
    assert info.critic.critics.shape == (2, 4, 2, size, 5)
    assert info.critic.target_critic.shape == (2, 4, size, 5)
    assert algorithm.calc_loss(info).loss.shape == (2, 4)
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    algorithm.learning.update([Batch(data)])
    changed = {name.split(".")[0] for name, p in algorithm.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {"_actor_network", "_critic_networks", "_target_critic_networks", "_log_alpha"}


def test_pessimism_about_several_rewards_follows_the_sign_of_their_weights() -> None:
    quantiles = torch.tensor([[[[0.0, 9.0], [0.0, 9.0]], [[1.0, 2.0], [1.0, 2.0]]]])  # [B, n, D, N]
    for by_mean, low, high in ((False, [0.0, 2.0], [1.0, 9.0]), (True, [1.0, 2.0], [0.0, 9.0])):
        algorithm = make(reward_spec=TensorSpec((2,)), min_critic_by_critic_mean=by_mean)
        algorithm.set_reward_weights(torch.tensor([2.0, -1.0]))
        assert algorithm._minimum(quantiles).tolist() == [[low, high]]
    assert algorithm._weighted(torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])).tolist() == [2.0 * 2.0 - 5.0]


def test_it_acts_without_critics() -> None:
    algorithm = make(critic_network_cls=None, config=None)
    step = algorithm.predict_step(batch().time_step._replace(observation=torch.zeros(4, 3)), algorithm_state(algorithm))
    assert step.output.shape == (4, 2)


def algorithm_state(algorithm: QrsacAlgorithm) -> Any:
    return zero_state(algorithm.predict_state_spec, 4)
