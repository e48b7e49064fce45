"""Sets of steps, and an update that is the same over single steps and over sequences."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.distributions import DiagNormal
from rein.framework.steps import LearnsFromSteps, Steps, check_length, check_one_transition, of_first_steps
from rein.specs import TensorSpec

DATA = torch.arange(6.0).reshape(2, 3)
STEPS = Steps(3)


def test_taking_goes_sequence_by_sequence() -> None:
    assert STEPS.take(DATA, STEPS.every).tolist() == [0, 1, 2, 3, 4, 5]
    assert STEPS.take(DATA, STEPS.after_first).tolist() == [1, 2, 4, 5]
    assert STEPS.take(DATA, STEPS.before_last).tolist() == [0, 1, 3, 4]
    assert STEPS.take(DATA, range(1, 2)).tolist() == [1, 4]


def test_selecting_is_taking_fewer_steps() -> None:
    merged = STEPS.take(DATA, range(3))
    for wanted in (range(3), range(2), range(1, 3), range(2, 3)):
        assert torch.equal(STEPS.select(merged, range(3), wanted), STEPS.take(DATA, wanted))
    assert torch.equal(STEPS.select(STEPS.take(DATA, range(1, 3)), range(1, 3), range(2, 3)), DATA[:, 2])


def test_distributions_are_selected_and_put_too() -> None:
    merged = DiagNormal(torch.arange(6.0).reshape(6, 1), 1.0)
    assert STEPS.select(merged, range(3), range(2, 3)).loc.tolist() == [[2.0], [5.0]]
    assert STEPS.put(merged, range(3)).loc.squeeze(-1).tolist() == DATA.T.tolist()
    two = STEPS.select(merged, range(3), range(1, 3))
    assert STEPS.put(two, range(1, 3)).loc.squeeze(-1).tolist() == DATA.T[1:].tolist()


def test_putting_back_fills_other_steps_with_zeros() -> None:
    assert torch.equal(STEPS.put(STEPS.take(DATA, range(3)), range(3)), DATA.T)
    assert torch.equal(STEPS.turn(DATA), DATA.T)
    middle = STEPS.put(STEPS.take(DATA, range(1, 2)), range(1, 2))
    assert middle.tolist() == [[0, 0], [1, 4], [0, 0]]


def test_steps_put_alone_have_no_rows_for_others() -> None:
    for steps in (range(3), range(1, 3), range(1, 2)):
        alone = STEPS.put_alone(STEPS.take(DATA, steps), steps)
        assert torch.equal(alone, STEPS.put(STEPS.take(DATA, steps), steps)[steps.start : steps.stop])


def test_single_steps_are_left_as_they_are() -> None:
    single = Steps()
    assert single.take(DATA, single.before_last) is DATA
    assert single.select(DATA, single.policy, single.after_first) is DATA
    assert single.put(DATA, single.after_first) is DATA
    assert single.put_alone(DATA, single.after_first) is DATA
    assert single.turn(DATA) is DATA


def test_which_steps_cover_which() -> None:
    assert Steps.cover(range(3), range(1, 3))
    assert not Steps.cover(range(1), range(1, 2))
    assert not Steps.cover(range(1, 3), range(2))
    single = Steps()
    assert Steps.cover(single.policy, single.after_first)


class Info(NamedTuple):
    step_type: Any = ()
    policy: Any = ()
    critic: Any = ()


class Learner(LearnsFromSteps):
    """Doubles observations at all steps that the policy learns from, and triples them before the last."""

    _train_state_spec: Any = ()
    _name = "Learner"

    def __init__(self, one_transition: bool = False) -> None:
        self._one_transition = one_transition

    def learn(self, steps: Steps, inputs: Any, state: Any, rollout_info: Any) -> AlgStep:
        policy = 2 * steps.take(inputs.observation, steps.policy)
        critic = 3 * steps.take(inputs.observation, steps.before_last)
        info = Info(steps.turn(inputs.step_type), steps.put(policy, steps.policy), steps.put(critic, steps.before_last))
        return AlgStep(info=info)


def test_one_statement_gives_both_forms() -> None:
    inputs = TimeStep(step_type=torch.ones(2, 3, dtype=torch.int32), observation=DATA)
    info = Learner().train_sequences(inputs, (), ())
    assert info.policy.tolist() == (2 * DATA.T).tolist()
    assert info.critic.tolist() == [*(3 * DATA.T).tolist()[:2], [0, 0]]
    for t in range(3):
        single = TimeStep(step_type=inputs.step_type[:, t], observation=DATA[:, t])
        step = Learner().train_step(single, (), ()).info
        assert torch.equal(step.policy, info.policy[t])
        assert torch.equal(step.critic, 3 * DATA[:, t])


def test_one_transition_learns_from_the_first_of_two_steps() -> None:
    inputs = TimeStep(step_type=torch.ones(2, 2, dtype=torch.int32), observation=DATA[:, :2])
    info = Learner(one_transition=True).train_sequences(inputs, (), ())
    assert info.policy.tolist() == [[0, 6], [0, 0]]
    with pytest.raises(ValueError, match="sequences of 2 steps, got 3"):
        Learner(one_transition=True).train_sequences(inputs._replace(step_type=torch.ones(2, 3)), (), ())
    check_length(False, 3, "Learner")
    with pytest.raises(ValueError, match=r"leave out one_transition.*give one_transition=False"):
        check_one_transition(True, None, TensorSpec((3,)), "Learner")
    with pytest.raises(ValueError, match="got 4: give one_transition=False"):
        check_one_transition(True, SimpleNamespace(mini_batch_length=4), (), "Learner")


def test_losses_of_first_steps_leave_out_last_ones() -> None:
    step_type = torch.tensor([[StepType.MID, StepType.LAST], [StepType.MID, StepType.FIRST]])
    loss = LossInfo(loss=torch.tensor([[1.0, 2.0], [3.0, 4.0]]), extra=torch.tensor([[5.0, 6.0], [7.0, 8.0]]))
    first = of_first_steps(loss, step_type)
    assert first.loss.tolist() == [1.0, 0.0]
    assert first.extra.tolist() == [5.0, 0.0]
