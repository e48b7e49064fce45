"""MDQ: its three losses against their definitions, its settings, and learning."""

import math
from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.mdq import MdqAlgorithm, MdqAlphaInfo, MdqCriticInfo, MdqInfo
from rein.data_structures import Experience, TimeStep
from rein.distributions import calc_default_target_entropy_quantized
from rein.framework import Batch
from rein.framework.updating.gradients import train_info
from rein.networks import ActionQuantizer, MdqCriticNetwork
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((2,), minimum=-2, maximum=2)
BINS = 15


def network(specs: Any = (OBSERVATION, ACTION), bins: int = BINS) -> MdqCriticNetwork:
    sizes = (16,)
    return MdqCriticNetwork(
        specs,
        ActionQuantizer(specs[1], bins),
        obs_encoding_layer_params=sizes,
        mid_encoding_layer_params=sizes,
        post_encoding_layer_params=sizes,
        free_form_fc_layer_params=sizes,
    )


def make(**settings: Any) -> MdqAlgorithm:
    defaults = {"critic_optimizer": SGD(lr=0.1), "alpha_optimizer": SGD(lr=0.1)}
    return MdqAlgorithm(OBSERVATION, ACTION, network(), **{**defaults, **settings})


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, MdqInfo]:
    observation = [[[1.0], [2.0]], [[0.5], [-1.0]]]
    return sequence(observation, [[0.0, 1.0], [0.0, 2.0]]), MdqInfo(action=torch.rand(2, 2, 2))


def test_losses_by_hand() -> None:
    algorithm = make(initial_log_alpha=math.log(2.0))
    info = MdqInfo(
        reward=torch.tensor([[0.0], [1.0]]),
        step_type=torch.ones(2, 1, dtype=torch.int32),
        discount=torch.ones(2, 1),
        critic=MdqCriticInfo(
            critic_free_form=torch.tensor([[[1.0, 2.0]], [[0.0, 0.0]]]),
            target_critic_free_form=torch.tensor([[0.0], [4.0]]),
            critic_adv_form=torch.tensor([[[0.0, 0.0]], [[1.0, 1.0]]]),
            distill_target=torch.tensor([[[1.0, 2.0]], [[1.0, 1.0]]]),
            kl_wrt_prior=torch.tensor([[0.0], [0.5]]),
        ),
        alpha=MdqAlphaInfo(torch.tensor([[0.25], [0.0]]), torch.tensor([[-1.0], [-1.0]])),
    )
    loss = algorithm.calc_loss(info)
    target = 1 + 0.99 * (4 - 2.0 * 0.5)
    assert loss.extra.critic.flatten().tolist() == pytest.approx([(target - 1) ** 2 + (target - 2) ** 2, 0.0])
    assert loss.extra.distill.flatten().tolist() == pytest.approx([1 + 4, 0.0])
    assert loss.loss[0].item() == pytest.approx((target - 1) ** 2 + (target - 2) ** 2 + 5 + 0.25)


def test_a_step_evaluates_what_the_losses_say(batch: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(distill_noise=0.0, target_entropy=1.5, initial_log_alpha=-1.0)
    step = TimeStep(torch.ones(4, dtype=torch.int32), torch.zeros(4), torch.ones(4), torch.randn(4, 1))
    action = torch.rand(4, 2)
    critic = algorithm._critic_step(step.observation, action)
    values, _ = algorithm._critic_network((step.observation, action))
    assert torch.equal(critic.critic_free_form, values)
    assert torch.allclose(critic.distill_target, values, atol=1e-6)
    assert not critic.distill_target.requires_grad
    adv = algorithm._critic_network.adv_form((step.observation, action), torch.tensor(-1.0).exp()).critic
    assert torch.allclose(critic.critic_adv_form, adv)
    torch.manual_seed(1)
    info = algorithm.train_step(step, (), MdqInfo(action=action)).info
    target, kl, alpha = info.critic.target_critic_free_form, info.critic.kl_wrt_prior, info.alpha
    torch.manual_seed(1)
    sample = algorithm._critic_network.get_action(step.observation, torch.tensor(-1.0).exp())
    assert torch.allclose(target, algorithm._target_critic_network((step.observation, sample.action))[0].amin(1))
    assert torch.allclose(kl, sample.kl_wrt_prior)
    assert torch.allclose(alpha.alpha_loss, -1.0 * (-sample.log_pi - 1.5))


def test_distillation_leaves_the_free_form_alone(batch: Any) -> None:
    algorithm = make()
    info = train_info(algorithm, Batch(_experience(batch)), algorithm.learning.settings)
    algorithm.calc_loss(info).extra.distill.sum().backward()
    network = algorithm._critic_network
    assert all(p.grad is None for p in network.free_form.parameters())
    assert all(p.grad is not None for p in network.rows.parameters())


def _experience(batch: Any) -> Any:
    return Experience(time_step=batch[0], rollout_info=batch[1])


def test_distill_noise_spreads_actions_within_bounds() -> None:
    torch.manual_seed(0)
    seen: list[torch.Tensor] = []
    algorithm = make(distill_noise=0.1)
    algorithm._critic_network.register_forward_pre_hook(lambda _, args: seen.append(args[0][1]))
    algorithm._critic_step(torch.zeros(2000, 1), torch.full((2000, 2), 2.0))
    noisy = seen[-1]
    assert noisy.max().item() == 2.0
    assert (2.0 - noisy[noisy < 2.0]).mean().item() == pytest.approx(0.1 * math.sqrt(2 / math.pi), rel=0.1)


@pytest.mark.parametrize("one_transition", [False, True])
def test_one_update_changes_all_but_the_target(batch: Any, update: Any, one_transition: bool) -> None:
    algorithm = make(one_transition=one_transition, target_update_tau=1.0, target_update_period=2)
    before = {n: p.clone() for n, p in algorithm.named_parameters()}
    info, loss = update(algorithm, *batch)
    assert info.critic.critic_free_form.shape == (2, 2, 2)
    assert torch.isfinite(loss.loss)
    for name, parameter in algorithm.named_parameters():
        assert torch.equal(parameter, before[name]) is name.startswith("_target"), name
    update(algorithm, *batch)
    pairs = zip(algorithm._critic_network.parameters(), algorithm._target_critic_network.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("size", [1, 3])
def test_several_rewards_are_summed(batch: Any, update: Any, size: int) -> None:
    time_step, rollout_info = batch
    reward = torch.randn(2, 2, size)
    found = []
    for settings, values in (({}, reward.sum(-1)), ({"reward_spec": TensorSpec((size,))}, reward)):
        torch.manual_seed(0)
        algorithm = make(**settings)
        found.append(update(algorithm, time_step._replace(reward=values), rollout_info)[1].loss)
    assert torch.allclose(*found)


def test_target_entropy() -> None:
    assert make(target_entropy=0.7)._target_entropy == pytest.approx(0.7)
    assert make()._target_entropy == pytest.approx(calc_default_target_entropy_quantized(ACTION, BINS))
    assert make(target_entropy=lambda spec, bins: bins / 2)._target_entropy == 7.5


def test_critic_loss_can_be_chosen_and_networks_built_here(batch: Any, update: Any) -> None:
    algorithm = MdqAlgorithm(
        OBSERVATION, ACTION, network, critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0), critic_optimizer=SGD(lr=0.1)
    )
    assert isinstance(algorithm._critic_network, MdqCriticNetwork)
    assert algorithm._critic_loss.gamma.item() == 0.0


def test_evaluation_is_greedy_unless_epsilon_greedy() -> None:
    torch.manual_seed(0)
    step = TimeStep(step_type=torch.ones(500, dtype=torch.int32), observation=torch.ones(500, 1))
    algorithm = make(epsilon_greedy=0.0)
    with torch.no_grad():
        greedy = algorithm.predict_step(step, ()).output
        assert (greedy == greedy[0]).all()
        rollout = algorithm.rollout_step(step, ())
        assert rollout.output.std() > 0.5
        assert torch.equal(rollout.info.action, rollout.output)
        mixed = make(epsilon_greedy=0.5)
        action = mixed.predict_step(step, ()).output
        assert 0.3 < (action != action.mode(0).values).any(-1).float().mean() < 0.7


@pytest.mark.parametrize(
    ("action_spec", "settings", "message"),
    [
        (BoundedTensorSpec((), torch.int64, 0, 2), {}, "one vector of continuous actions"),
        (BoundedTensorSpec((2,), torch.int64, 0, 2), {}, "needs continuous actions"),
        ((ACTION, ACTION), {}, "concatenate"),
        (ACTION, {"reward_spec": TensorSpec((2, 2))}, "scalars or vectors"),
        (ACTION, {"distill_noise": -1.0}, "distill_noise"),
    ],
)
def test_bad_settings_are_refused_with_the_fix(action_spec: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MdqAlgorithm(OBSERVATION, action_spec, network(), **settings)


@pytest.mark.learning
def test_it_learns_to_repeat_what_it_sees(train_toy: Any) -> None:
    ctor = partial(
        MdqAlgorithm,
        critic_network=network,
        critic_optimizer=Adam(lr=3e-3),
        alpha_optimizer=Adam(lr=1e-2),
        target_entropy=1.0,
        initial_log_alpha=-2.0,
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.0),
        one_transition=True,
    )
    _, mean_return = train_toy(ctor, "rein/IdentityContinuous-v0", 500, env_kwargs={"dim": 2})
    assert mean_return > -0.8
