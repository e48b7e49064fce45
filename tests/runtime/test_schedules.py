"""Schedulers as functions of the current run's progress."""

import pickle

import numpy as np
import pytest

from rein import runtime
from rein.runtime import (
    ConditionalScheduler,
    ConstantScheduler,
    CyclicalScheduler,
    LinearScheduler,
    ProgressAtLeast,
    RepeatWarmupScheduler,
    Run,
    StepScheduler,
    as_scheduler,
)


def _values(scheduler, points, progress_type="env_steps"):
    with Run() as run:
        result = []
        for point in points:
            setattr(run, progress_type, point)
            result.append(scheduler())
    return result


def test_step_scheduler_changes_at_its_points():
    scheduler = StepScheduler("env_steps", [(10, 1.0), (20, 0.5), (30, 0.1)])
    assert _values(scheduler, [0, 9, 10, 19, 20, 29, 30, 1000]) == [1, 1, 0.5, 0.5, 0.1, 0.1, 0.1, 0.1]
    assert scheduler.final_value() == 0.1


def test_step_scheduler_warms_up_from_its_start():
    scheduler = StepScheduler("env_steps", [(10, 2.0), (20, 1.0)], warm_up_period=4, start=100)
    assert _values(scheduler, [0, 100, 101, 104, 109, 110]) == [0, 0, 0.5, 2, 2, 1]


def test_linear_scheduler_interpolates_and_holds_its_ends():
    scheduler = LinearScheduler("env_steps", [(10, 1.0), (20, 0.0), (40, 4.0)])
    assert _values(scheduler, [0, 10, 15, 20, 25, 40, 99]) == [1, 1, 0.5, 0, 1, 4, 4]


@pytest.mark.parametrize("progress_type", ["iterations", "env_steps", "global_counter"])
def test_each_progress_type_reads_its_counter(progress_type):
    assert _values(LinearScheduler(progress_type, [(0, 0.0), (10, 1.0)]), [5], progress_type) == [0.5]


def test_percent_reads_progress():
    assert _values(LinearScheduler("percent", [(0, 0.0), (1, 2.0)]), [0.25], "progress") == [0.5]


def test_repeat_warmup_restarts_each_period():
    scheduler = RepeatWarmupScheduler("env_steps", period=10, warm_up_period=4, value=1.0, start_value=0.2)
    assert _values(scheduler, [0, 2, 4, 9, 10, 12, 15]) == pytest.approx([0.2, 0.6, 1, 1, 0.2, 0.6, 1])
    twice = RepeatWarmupScheduler("env_steps", 10, 4, value=1.0, repeats=2)
    assert _values(twice, [10, 20, 30]) == [0, 1, 1]


def test_repeat_warmup_rises_to_a_scheduled_value():
    decay = StepScheduler("env_steps", [(10, 1.0), (20, 0.5)])
    scheduler = RepeatWarmupScheduler("env_steps", 10, 4, value=decay)
    assert _values(scheduler, [2, 5, 12, 15]) == [0.5, 1.0, 0.25, 0.5]
    assert scheduler.final_value() == 0.5


def test_conditional_scheduler_switches_on_progress():
    ramp = LinearScheduler("env_steps", [(0, 0.0), (100, 1.0)])
    scheduler = ConditionalScheduler(ProgressAtLeast("env_steps", 10), then=ramp, otherwise=7)
    assert _values(scheduler, [0, 9, 10, 50]) == [7, 7, 0.1, 0.5]
    assert scheduler.final_value() == 1.0
    with pytest.raises(TypeError, match="callable"):
        ConditionalScheduler(True, 1.0, 2.0)


def test_as_scheduler_takes_numbers_and_schedulers():
    scheduler = StepScheduler("percent", [(1, 1.0)])
    assert as_scheduler(scheduler) is scheduler
    assert as_scheduler(3)() == 3.0
    assert as_scheduler(np.float32(0.5))() == 0.5
    for bad in ("0.1", True, None):
        with pytest.raises(TypeError, match="a number, a Scheduler, pairs"):
            as_scheduler(bad)


def test_constant_needs_no_run_and_others_say_so():
    assert ConstantScheduler(2.0)() == 2.0
    with pytest.raises(RuntimeError, match="no current run"):
        LinearScheduler("percent", [(0, 1.0), (1, 0.0)])()


@pytest.mark.parametrize(
    "scheduler",
    [
        ConstantScheduler(1.0),
        StepScheduler("percent", [(0.5, 1.0), (1.0, 2.0)]),
        LinearScheduler("env_steps", [(0, 1.0), (5, 2.0)]),
        RepeatWarmupScheduler("iterations", 10, 5, 1.0),
        ConditionalScheduler(ProgressAtLeast("percent", 0.5), 1.0, LinearScheduler("percent", [(0, 1), (1, 0)])),
    ],
)
def test_schedulers_have_value_semantics(scheduler):
    copy = pickle.loads(pickle.dumps(scheduler))
    assert copy == scheduler
    assert hash(copy) == hash(scheduler)
    with pytest.raises(AttributeError):
        scheduler.value = 3


def test_bad_schedules_are_named():
    with pytest.raises(ValueError, match="unknown progress type 'steps'"):
        StepScheduler("steps", [(0, 1.0)])
    with pytest.raises(ValueError, match=r"increase strictly, got \[1\.0, 1\.0\]"):
        LinearScheduler("percent", [(1, 0.0), (1, 2.0)])
    with pytest.raises(ValueError, match="pairs"):
        LinearScheduler("percent", [])
    with pytest.raises(ValueError, match="pairs"):
        LinearScheduler("percent", [(1, 2, 3)])
    with pytest.raises(ValueError, match="warm_up_period=6"):
        RepeatWarmupScheduler("percent", 5, 6, 1.0)
    with pytest.raises(ValueError, match="repeats"):
        RepeatWarmupScheduler("percent", 5, 5, 1.0, repeats=-1)
    with pytest.raises(ValueError, match="warm_up_period"):
        StepScheduler("percent", [(1, 1.0)], warm_up_period=-1)


def test_two_runs_give_one_scheduler_two_values():
    scheduler = runtime.LinearScheduler("percent", [(0, 0.0), (1, 1.0)])
    a, b = Run(), Run()
    a.progress, b.progress = 0.25, 0.75
    with a:
        with b:
            assert scheduler() == 0.75
        assert scheduler() == 0.25


def test_cyclical_scheduler_goes_to_and_fro():
    step = CyclicalScheduler("env_steps", base_lr=1.0, bound_lr=3.0, half_cycle_size=10)
    assert _values(step, [0, 9, 10, 19, 20, 35]) == [1, 1, 3, 3, 1, 3]
    line = CyclicalScheduler("env_steps", base_lr=1.0, bound_lr=3.0, half_cycle_size=10, switch_mode="linear")
    assert _values(line, [0, 5, 10, 15, 20, 25]) == [1, 2, 3, 2, 1, 2]
    with pytest.raises(ValueError, match="no final value"):
        line.final_value()


@pytest.mark.parametrize("wrong", [{"half_cycle_size": 0}, {"switch_mode": "jump"}, {"progress_type": "years"}])
def test_cyclical_scheduler_refuses(wrong):
    given = {"progress_type": "env_steps", "base_lr": 1.0, "bound_lr": 2.0, "half_cycle_size": 5, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong)).split("_")[0]):
        CyclicalScheduler(**given)
