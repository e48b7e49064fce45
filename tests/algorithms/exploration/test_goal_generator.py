import pytest
import torch

from rein.algorithms.exploration import GoalInfo, GoalState, RandomCategoricalGoalGenerator
from rein.data_structures import LossInfo
from rein.specs import TensorSpec


@pytest.mark.parametrize("kind", ["predict_step", "rollout_step"])
def test_goals_change_at_first_steps_only(step, kind):
    torch.manual_seed(0)
    generator = RandomCategoricalGoalGenerator(TensorSpec((1,)), 5)
    act = getattr(generator, kind)
    size = 200
    state = GoalState(torch.zeros(size, 5))
    first = act(step(torch.zeros(size, 1), step_type=[0] * size), state)
    goal, reward = first.output
    assert reward == ()
    assert torch.equal(goal.sum(1), torch.ones(size))
    assert set(goal.unique().tolist()) == {0.0, 1.0}
    assert (goal.sum(0) > 20).all()  # each of five goals about 40 times
    for step_type in (1, 2):
        later = act(step(torch.zeros(size, 1), step_type=[step_type] * size), first.state)
        assert torch.equal(later.output[0], goal)
    some = act(step(torch.zeros(size, 1), step_type=[0] * 100 + [1] * 100), first.state)
    assert torch.equal(some.output[0][100:], goal[100:])
    assert not torch.equal(some.output[0][:100], goal[:100])
    assert torch.equal(some.state.goal, some.output[0])


def test_training_takes_the_goal_of_the_rollout(step):
    generator = RandomCategoricalGoalGenerator(TensorSpec((1,)), 2)
    goal = torch.tensor([[0.0, 1.0]])
    result = generator.train_step(step(torch.zeros(1, 1), step_type=[0]), (), GoalInfo(goal=goal))
    assert torch.equal(result.output[0], goal)
    assert generator.calc_loss(result.info) == LossInfo()


def test_there_must_be_a_goal():
    with pytest.raises(ValueError, match="num_of_goals is 0"):
        RandomCategoricalGoalGenerator(TensorSpec((1,)), 0)
