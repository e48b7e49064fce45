"""NaN and infinite numbers never reach parameters, optimizers or checkpoints."""

import math

import pytest
import torch
from torch import nn

import rein.framework.algorithm as algorithm_module
from rein.framework.updating import NonFiniteGradientError, NonFiniteParametersError, check_finite_state, gradients
from rein.framework.updating.finite import MAX_SKIPPED_IN_A_ROW, admits, skipped_updates, sum_of_squares
from rein.optimizers import Adam
from rein.runtime import Run
from tests.contract import discovery

CASES = discovery.cases()


class Poison:
    """Makes a gradient of chosen updates bad; the loss stays finite."""

    def __init__(self, monkeypatch, bad):
        self.bad, self.is_on, self.count = bad, False, 0
        self._differentiate = gradients.differentiate
        for module in (gradients, algorithm_module):
            monkeypatch.setattr(module, "differentiate", self)

    def __call__(self, *args, **kwargs):
        values = self._differentiate(*args, **kwargs)
        chosen = [number for number, value in enumerate(values) if value is not None]
        if self.is_on and chosen:
            self.count += 1
            position = chosen[self.count % len(chosen)]
            values[position] = values[position].clone()
            values[position].view(-1)[-1] = self.bad
        return values


def _numbers(algorithm):
    return {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])
def test_no_algorithm_is_poisoned_by_a_bad_gradient(name, monkeypatch):
    algorithm = CASES[name].build()
    for bad in (math.nan, math.inf, 1e30):
        with monkeypatch.context() as patched, Run(seed=0) as run:
            poison = Poison(patched, bad)
            for _ in range(3):
                algorithm.train_iter()
            before = _numbers(algorithm)
            poison.is_on = True
            while not poison.count:
                algorithm.train_iter()
            assert run.skipped_updates == poison.count
            for parameter_name, parameter in algorithm.named_parameters():
                assert torch.isfinite(parameter).all(), parameter_name
            if poison.count == 1 and len(algorithm.optimizers()) == 1:
                changed = [key for key, value in _numbers(algorithm).items() if not torch.equal(value, before[key])]
                assert not changed
            check_finite_state(algorithm, algorithm.optimizers())


def test_too_many_in_a_row_stop_and_name_the_parameter():
    learner = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    parameters = list(learner.parameters())
    good = [torch.ones_like(one) for one in parameters]
    bad = [*good[:2], torch.full_like(parameters[2], math.nan), None]
    with Run(seed=0) as run:
        for _ in range(MAX_SKIPPED_IN_A_ROW - 1):
            assert not admits(learner, parameters, bad, sum_of_squares(bad))
        assert admits(learner, parameters, good, sum_of_squares(good))
        for _ in range(MAX_SKIPPED_IN_A_ROW - 1):
            assert not admits(learner, parameters, bad, sum_of_squares(bad))
        with pytest.raises(NonFiniteGradientError, match=r"the gradients of 1\.weight are NaN"):
            admits(learner, parameters, bad, sum_of_squares(bad))
        assert run.skipped_updates == skipped_updates(learner).total == 2 * MAX_SKIPPED_IN_A_ROW - 1


@pytest.mark.parametrize("value", [math.nan, -math.inf, 1e30])
@pytest.mark.parametrize("shapes", [[(100, 100)], [(3,), (100, 100), ()], [(3,), (2, 2)]])
def test_one_bad_element_is_found_wherever_it_is(shapes, value):
    for bad in range(len(shapes)):
        gradients = [torch.ones(shape) for shape in shapes]
        assert math.isfinite(sum_of_squares(gradients))
        assert math.isfinite(sum_of_squares([one.T if one.ndim > 1 else one for one in gradients]))
        gradients[bad].view(-1)[-1] = value
        assert not math.isfinite(sum_of_squares(gradients))


@pytest.mark.parametrize("where", ["parameter", "moment"])
def test_what_is_not_finite_is_not_saved(where):
    learner = nn.Linear(2, 1)
    optimizer = Adam(lr=0.1)
    optimizer.add_param_group({"params": list(learner.parameters())})
    learner(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    check_finite_state(learner, [optimizer])
    if where == "parameter":
        learner.weight.data[0, 1] = math.inf
    else:
        optimizer.state[learner.weight]["exp_avg_sq"][0, 0] = math.nan
    with pytest.raises(NonFiniteParametersError, match="weight"):
        check_finite_state(learner, [optimizer])
