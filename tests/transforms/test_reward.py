"""The reward family, by hand."""

import pytest
import torch

from rein.data_structures import Experience, StepType, TimeStep
from rein.specs import TensorSpec
from rein.statistics import ScalarWindowNormalizer, WindowNormalizer
from rein.transforms import (
    FunctionalRewardTransformer,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    RewardTransformer,
)


def mid_steps(reward, batch_dims):
    return TimeStep(
        step_type=torch.full(reward.shape[:batch_dims], StepType.MID, dtype=torch.int32),
        reward=reward,
        observation=torch.zeros(reward.shape[:batch_dims]),
    )


def rollout(transformer, *values):
    return transformer.transform_timestep(mid_steps(torch.tensor(values), 1), ())[0].reward


def replay(transformer, *values):
    return transformer.transform_experience(Experience(time_step=mid_steps(torch.tensor(values), 2))).reward


@pytest.mark.parametrize(
    ("transformer", "expected"),
    [
        (RewardClipping(), [-1.0, 0.5, 1.0]),
        (RewardClipping(minmax=(0.0, 2.0)), [0.0, 0.5, 2.0]),
        (RewardScaling(0.5), [-2.0, 0.25, 1.5]),
        (RewardShifting(1.0), [-3.0, 1.5, 4.0]),
        (FunctionalRewardTransformer(lambda reward: reward**2), [16.0, 0.25, 9.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rewards_by_hand(transformer, expected):
    reward = torch.tensor([-4.0, 0.5, 3.0])
    assert transformer(reward).tolist() == expected
    assert rollout(transformer, -4.0, 0.5, 3.0).tolist() == expected
    assert replay(transformer, [-4.0, 0.5, 3.0]).tolist() == [expected]
    assert reward.tolist() == [-4.0, 0.5, 3.0]
    # Vector rewards: all elements alike.
    vectors = transformer.transform_timestep(mid_steps(torch.stack([reward, reward], -1), 1), ())[0].reward
    assert vectors.tolist() == [[value, value] for value in expected]


def test_the_observation_stays():
    spec = {"a": TensorSpec((2,))}
    for transformer in (
        RewardClipping(spec),
        RewardScaling(2.0, spec),
        RewardShifting(1.0, spec),
        RewardNormalizer(spec),
    ):
        assert transformer.transformed_observation_spec is spec
        assert transformer.state_spec == ()
    time_step = mid_steps(torch.ones(2), 1)
    assert RewardClipping().transform_timestep(time_step, ())[0].observation is time_step.observation


def test_normalized_rewards_by_hand():
    normalizer = RewardNormalizer(normalizer=ScalarWindowNormalizer(), update_mode="rollout")
    torch.testing.assert_close(rollout(normalizer, 1.0, 3.0), torch.tensor([-1.0, 1.0]))
    # mean (2 + 6) / 2 = 4, mean square ((1 + 9) / 2 + 36) / 2 = 20.5, variance 4.5
    torch.testing.assert_close(rollout(normalizer, 6.0, 6.0), torch.tensor([2.0, 2.0]) / 4.5**0.5)
    # In another mode nothing more is taken in, although the given normalizer would by itself.
    torch.testing.assert_close(replay(normalizer, [4.0, 4.0]), torch.zeros(1, 2))
    assert normalizer.normalizer.mean().item() == 4.0


def test_normalized_rewards_are_clipped():
    normalizer = RewardNormalizer(normalizer=ScalarWindowNormalizer(), update_mode="rollout", clip_value=0.25)
    assert normalizer.clip_value == 0.25
    assert rollout(normalizer, 1.0, 3.0).tolist() == [-0.25, 0.25]


def test_by_default_the_statistics_follow_what_is_learned_from():
    normalizer = RewardNormalizer()
    rollout(normalizer, 5.0, 7.0)
    assert normalizer.normalizer.mean().item() == 0.0
    replay(normalizer, [5.0, 7.0])
    assert normalizer.normalizer.mean().item() == pytest.approx(6.0)
    normalizer = RewardNormalizer()
    normalizer.set_data_source("rollout")
    rollout(normalizer, 5.0, 7.0)
    assert normalizer.normalizer.mean().item() == pytest.approx(6.0)


def test_statistics_stop_after_the_allowed_calls_also_after_a_restart():
    make = lambda: RewardNormalizer(  # noqa: E731
        normalizer=WindowNormalizer(TensorSpec(())), update_max_calls=2, update_mode="rollout"
    )
    normalizer = make()
    rollout(normalizer, 1.0, 1.0)
    restarted = make()
    restarted.load_state_dict(normalizer.state_dict())
    rollout(restarted, 3.0, 3.0)
    rollout(restarted, 100.0, 100.0)
    assert restarted.normalizer.mean().item() == 2.0


def test_called_as_a_function_it_follows_what_it_is_given_unless_evaluating():
    normalizer = RewardNormalizer()
    normalizer(torch.tensor([1.0, 3.0]))
    assert normalizer.normalizer.mean().item() == pytest.approx(2.0)
    normalizer.eval()
    normalizer(torch.tensor([100.0]))
    assert normalizer.normalizer.mean().item() == pytest.approx(2.0)


def test_each_element_of_a_vector_reward_has_its_own_statistics():
    for normalizer in (RewardNormalizer(reward_spec=TensorSpec((2,))), RewardNormalizer()):
        normalizer.set_reward_spec(TensorSpec((2,)))
        result = replay(normalizer, [[1.0, 10.0], [3.0, 30.0]])
        torch.testing.assert_close(result, torch.tensor([[[-1.0, -1.0], [1.0, 1.0]]]))
        assert normalizer.normalizer.mean().tolist() == pytest.approx([2.0, 20.0])


def test_a_vector_reward_for_a_scalar_normalizer_is_refused():
    with pytest.raises(ValueError, match="give it the reward_spec of the environment"):
        replay(RewardNormalizer(), [[1.0, 10.0], [3.0, 30.0]])
    used = RewardNormalizer()
    replay(used, [1.0, 3.0])
    with pytest.raises(ValueError, match="already follows rewards"):
        used.set_reward_spec(TensorSpec((2,)))


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"minmax is \(1, -1\)"):
        RewardClipping(minmax=(1, -1))
    with pytest.raises(ValueError, match="update_mode of RewardNormalizer is 'pretrain'"):
        RewardNormalizer(update_mode="pretrain")
    with pytest.raises(ValueError, match="update_max_calls is -1"):
        RewardNormalizer(update_max_calls=-1)
    with pytest.raises(TypeError, match=r"give one from rein\.statistics"):
        RewardNormalizer(normalizer=3.0)
    with pytest.raises(TypeError, match="give a function"):
        FunctionalRewardTransformer(2.0)
    with pytest.raises(NotImplementedError, match="must define forward"):
        RewardTransformer(())(torch.zeros(1))
