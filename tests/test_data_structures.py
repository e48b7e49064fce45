import pickle

import pytest
import torch

from rein import nest
from rein.data_structures import (
    AlgStep,
    Experience,
    StepType,
    TimeStep,
    make_experience,
    namedtuple,
    restart,
    termination,
    time_step_spec,
    transition,
)
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches

Info = namedtuple("Info", ["actor", "critic"], default_value=())
OBSERVATION = {"x": torch.zeros(2, 3)}
ACTION_SPEC = BoundedTensorSpec((), torch.int64, 0, 3)


def test_namedtuple_has_defaults_and_pickles() -> None:
    info = Info(actor=1)
    assert info == (1, ())
    assert pickle.loads(pickle.dumps(info)) == info
    assert nest.flatten(info) == [1]
    other = namedtuple("Other", "a b", default_value=None, default_values={"b": 5})
    assert other() == (None, 5)
    with pytest.raises(ValueError, match="which Other has not"):
        namedtuple("Other", "a", default_values={"z": 1})


def test_restart_matches_its_spec() -> None:
    step = restart(OBSERVATION, ACTION_SPEC, TensorSpec((2,)))
    spec = time_step_spec({"x": TensorSpec((3,))}, ACTION_SPEC, TensorSpec((2,)))
    check_matches(step, spec, 1, "time step")
    assert step.is_first().all()
    assert step.reward.abs().sum() == 0
    assert step.discount.tolist() == [1, 1]


def test_time_limit_keeps_the_discount_and_termination_does_not() -> None:
    action, reward = torch.zeros(2, dtype=torch.int64), torch.ones(2)
    step = transition(OBSERVATION, action, reward, is_last=torch.tensor([False, True]))
    assert step.step_type.tolist() == [StepType.MID, StepType.LAST]
    assert step.is_mid().tolist() == [True, False]
    assert step.discount.tolist() == [1, 1]
    ended = termination(OBSERVATION, action, reward)
    assert ended.is_last().all()
    assert ended.discount.tolist() == [0, 0]


def test_experience_reads_through_to_its_time_step() -> None:
    step = restart(OBSERVATION, ACTION_SPEC)
    experience = make_experience(step, AlgStep(output="action", state="new", info="info"), state="old")
    assert experience.action == "action"
    assert experience.rollout_info == "info"
    assert experience.state == "old"
    assert experience.observation is step.observation
    assert experience.is_first().all()
    changed = experience.update_time_step_field("reward", torch.ones(2))
    assert changed.reward.tolist() == [1, 1]
    assert isinstance(changed.time_step, TimeStep)
    assert Experience() == ((),) * 7
