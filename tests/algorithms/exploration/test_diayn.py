import math

import pytest
import torch

from rein import nest
from rein.algorithms.exploration import DIAYNAlgorithm
from rein.networks import EncodingNetwork
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

SKILLS = BoundedTensorSpec((), torch.int64, 0, 3)


def with_guesses(networks, skill_spec=SKILLS, size=4, **arguments):
    """A module whose discriminator returns the observation itself."""
    diayn = DIAYNAlgorithm(skill_spec, networks.scaled(TensorSpec((size,)), 1.0), **arguments)
    diayn._discriminator = networks.scaled(TensorSpec((size,)), 1.0)
    return diayn


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_reward_is_log_q_less_log_p(networks, step, one_hot):
    diayn = with_guesses(networks, reward_adapt_speed=None)
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    skill = torch.tensor([2, 0, 0])
    skill = torch.eye(4)[skill] if one_hot else skill
    result = diayn.rollout_step(step([logits, skill], step_type=[1, 2, 0]), ())
    # q = 1/4, 2/5; p = 1/4; the third is a FIRST step
    assert result.output.tolist() == pytest.approx([0.0, math.log(0.4) - math.log(0.25), 0.0], abs=1e-6)
    assert result.info == ()
    info = diayn.train_step(step([logits, skill], step_type=[1, 2, 0])).info
    assert info.loss[:2].tolist() == pytest.approx([math.log(4), -math.log(0.4)])
    loss = diayn.calc_loss(nest.batch_nested_tensor(info))
    assert loss.scalar_loss.item() == pytest.approx((math.log(4) - math.log(0.4)) / 2)
    assert loss.extra["accuracy"].item() == 0.5


def test_continuous_skills_are_guessed_by_squared_error(networks, step):
    diayn = with_guesses(networks, TensorSpec((2,)), 2, reward_adapt_speed=None)
    inputs = step([torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])])
    assert diayn.rollout_step(inputs, ()).output.tolist() == [-5.0]
    info = diayn.train_step(inputs).info
    assert info.loss.tolist() == [5.0]
    assert "accuracy" not in diayn.calc_loss(nest.batch_nested_tensor(info)).extra


def test_rewards_are_normalized_without_first_steps(networks, step):
    diayn = with_guesses(networks, TensorSpec((1,)), 1)
    inputs = step([torch.tensor([[1.0], [3.0], [100.0]]), torch.zeros(3, 1)], step_type=[1, 1, 0])
    # -1 and -9: mean -5, deviation 4
    assert diayn.rollout_step(inputs, ()).output.tolist() == pytest.approx([1.0, -1.0, 0.0])


def test_numbers_of_skills_may_begin_anywhere(networks, step):
    diayn = with_guesses(networks, BoundedTensorSpec((), torch.int64, 5, 8), reward_adapt_speed=None)
    inputs = step([torch.tensor([[0.0, 0.0, 0.0, 50.0]]), torch.tensor([8])])
    assert diayn.rollout_step(inputs, ()).output.item() == pytest.approx(math.log(4))


def test_the_discriminator_learns_to_tell_skills_apart(step):
    torch.manual_seed(0)
    observation_spec = TensorSpec((2,))
    diayn = DIAYNAlgorithm(
        SKILLS,
        EncodingNetwork(observation_spec, fc_layer_params=(16,)),
        observation_spec=observation_spec,
        hidden_size=(16,),
    )
    diayn.add_optimizer(Adam(lr=1e-2), [diayn._encoding_net, diayn._discriminator])
    angles = torch.arange(4) * math.pi / 2
    for _ in range(100):
        skill = torch.randint(4, (64,))
        place = torch.stack([angles[skill].cos(), angles[skill].sin()], 1) + 0.2 * torch.randn(64, 2)
        inputs = step([place, skill])
        diayn.rollout_step(inputs, ())
        loss = diayn.calc_loss(nest.batch_nested_tensor(diayn.train_step(inputs).info))
        diayn.update_with_gradient(loss)
    assert loss.extra["accuracy"] > 0.9


def test_impossible_skills_are_refused(networks):
    network = networks.scaled(TensorSpec((2,)))
    with pytest.raises(ValueError, match="bounded scalar"):
        DIAYNAlgorithm(BoundedTensorSpec((2,), torch.int64, 0, 3), network)
    with pytest.raises(ValueError, match="a vector"):
        DIAYNAlgorithm(TensorSpec((2, 2)), network)
