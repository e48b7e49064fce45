import pytest
import torch

from rein.algorithms.exploration import RNDAlgorithm
from rein.networks import EncodingNetwork
from rein.optimizers import SGD
from rein.specs import TensorSpec


def test_the_reward_is_the_squared_error_and_is_what_is_learnt(networks, step):
    target, predictor = networks.scaled(TensorSpec((2,)), 3.0), networks.scaled(TensorSpec((2,)), 1.0)
    rnd = RNDAlgorithm(target, predictor, optimizer=SGD(lr=0.01))
    observation = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
    rollout = rnd.rollout_step(step(observation), ())
    # (3 - 1)^2 (1 + 4) and (3 - 1)^2 9
    assert rollout.output.tolist() == [20.0, 36.0]
    assert rollout.info == ()
    info = rnd.train_step(step(observation), (), ()).info
    loss = rnd.calc_loss(info)
    assert loss.scalar_loss.item() == 28.0
    rnd.update_with_gradient(loss)
    # d/dw of mean (3 - w)^2 ||s||^2 is -2 (3 - w) 7 = -28
    assert predictor.weight.item() == pytest.approx(1.28)
    assert target.weight.item() == 3.0


def test_only_the_predictor_is_trained(networks):
    spec = TensorSpec((2,))
    encoder, target, predictor = (networks.scaled(spec, w) for w in (2.0, 3.0, 1.0))
    rnd = RNDAlgorithm(target, predictor, encoder_net=encoder, optimizer=SGD(lr=0.01))
    params = [p for group in rnd.optimizers()[0].param_groups for p in group["params"]]
    assert params == [predictor.weight]
    assert rnd.get_unoptimized_parameter_info() == ""


def test_the_encoder_comes_first(networks, step):
    spec = TensorSpec((1,))
    rnd = RNDAlgorithm(networks.scaled(spec, 3.0), networks.scaled(spec, 1.0), encoder_net=networks.scaled(spec, 10.0))
    assert rnd.rollout_step(step(torch.tensor([[1.0]])), ()).output.tolist() == [400.0]


def test_on_policy_the_rollout_carries_the_loss_and_its_gradient(networks, step):
    spec = TensorSpec((1,))
    predictor = networks.scaled(spec, 1.0)
    rnd = RNDAlgorithm(networks.scaled(spec, 3.0), predictor)
    rnd.set_on_policy(True)
    rollout = rnd.rollout_step(step(torch.tensor([[2.0]])), ())
    assert not rollout.output.requires_grad
    rnd.calc_loss(rollout.info).scalar_loss.backward()
    assert predictor.weight.grad.item() == pytest.approx(-2 * 2 * 4)


def test_no_gradient_flows_into_what_made_the_observation(networks, step):
    spec = TensorSpec((1,))
    rnd = RNDAlgorithm(networks.scaled(spec, 3.0), networks.scaled(spec, 1.0))
    observation = torch.ones(1, 1, requires_grad=True)
    rnd.calc_loss(rnd.train_step(step(observation), (), ()).info).scalar_loss.backward()
    assert observation.grad is None


def test_rewards_are_normalized_by_what_came_so_far_and_clipped(networks, step):
    spec = TensorSpec((1,))
    make = lambda clip: RNDAlgorithm(  # noqa: E731
        networks.scaled(spec, 1.0), networks.scaled(spec, 0.0), reward_adapt_speed=8.0, clip_value=clip
    )
    observation = torch.tensor([[1.0], [2.0], [3.0]])
    # errors 1, 4, 9: mean 14/3, deviation sqrt(98/3 - 196/9)
    errors = torch.tensor([1.0, 4.0, 9.0])
    expected = (errors - errors.mean()) / errors.std(unbiased=False)
    reward = make(-1.0).rollout_step(step(observation), ()).output
    torch.testing.assert_close(reward, expected)
    assert make(0.5).rollout_step(step(observation), ()).output.tolist() == pytest.approx(
        [-0.5, expected[1].item(), 0.5]
    )


def test_observations_are_normalized_by_rollouts_only(networks, step):
    spec = TensorSpec((1,))
    rnd = RNDAlgorithm(
        networks.scaled(spec, 1.0), networks.scaled(spec, 0.0), observation_adapt_speed=8.0, observation_spec=spec
    )
    observation = torch.tensor([[0.0], [4.0]])
    # mean 2, deviation 2: normalized to -1 and 1
    assert rnd.rollout_step(step(observation), ()).output.tolist() == pytest.approx([1.0, 1.0])
    far = torch.tensor([[100.0], [4.0]])
    for _ in range(2):
        info = rnd.train_step(step(far), (), ()).info
        # (100 - 2) / 2 is clipped to 5
        assert info.loss.tolist() == pytest.approx([25.0, 1.0])


def test_only_the_newest_frames_of_images_are_looked_at(step):
    torch.manual_seed(0)
    make = lambda: EncodingNetwork(TensorSpec((1, 2, 2)), conv_layer_params=((3, 2, 1),))  # noqa: E731
    rnd = RNDAlgorithm(make(), make(), keep_stacked_frames=1)
    frames = torch.rand(2, 4, 2, 2)
    reward = rnd.rollout_step(step(frames), ()).output
    older = torch.cat([torch.rand(2, 3, 2, 2), frames[:, 3:]], 1)
    assert torch.equal(reward, rnd.rollout_step(step(older), ()).output)


def test_impossible_settings_are_refused(networks):
    spec = TensorSpec((2,))
    with pytest.raises(ValueError, match="the same shape"):
        RNDAlgorithm(networks.scaled(spec), networks.scaled(TensorSpec((3,))))
    with pytest.raises(ValueError, match="give observation_spec"):
        RNDAlgorithm(networks.scaled(spec), networks.scaled(spec), observation_adapt_speed=1.0)
    with pytest.raises(ValueError, match="must not be negative"):
        RNDAlgorithm(networks.scaled(spec), networks.scaled(spec), keep_stacked_frames=-1)
