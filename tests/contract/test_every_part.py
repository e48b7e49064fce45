"""What every algorithm promises that learns from batches without acting."""

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.framework import Algorithm
from tests.contract import discovery
from tests.contract.states import differences
from tests.contract.world import Part


@pytest.fixture(params=[pytest.param(part, id=name) for name, part in discovery.parts().items()])
def part(request: pytest.FixtureRequest) -> Part:
    found: Part = request.param
    return found


def update(part: Part, algorithm: Algorithm, times: int = 1) -> Any:
    for _ in range(times):
        averaged, _ = algorithm.update_with_gradient(part.losses(algorithm))
    return averaged


def handled(algorithm: Algorithm) -> list[Tensor]:
    return [p for o in algorithm.optimizers() for group in o.param_groups for p in group["params"]]


def test_every_parameter_has_at_most_one_optimizer_and_learns(part: Part) -> None:
    algorithm = part.build()
    trained = handled(algorithm)
    assert trained, "no optimizer has a parameter: add optimizers in `make` of the case"
    assert all(number == 1 for number in Counter(map(id, trained)).values())
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    torch.manual_seed(1)
    update(part, algorithm, 4)
    ids = {id(p) for p in trained}
    still = [name for name, p in algorithm.named_parameters() if id(p) in ids and torch.equal(p, before[name])]
    assert not still, f"four updates changed nothing in {still}"
    assert all(torch.isfinite(p).all() for p in trained)


def test_losses_leave_the_algorithm_as_it_is(part: Part) -> None:
    algorithm = part.build()
    before = {name: tensor.clone() for name, tensor in algorithm.named_parameters()}
    torch.manual_seed(1)
    first = part.losses(algorithm)
    torch.manual_seed(1)
    second = part.losses(algorithm)
    assert torch.equal(torch.as_tensor(first.loss), torch.as_tensor(second.loss))
    assert not differences(before, dict(algorithm.named_parameters()))


def test_the_same_seed_gives_the_same_training(part: Part) -> None:
    first, second = part.build(), part.build()
    for algorithm in (first, second):
        torch.manual_seed(1)
        update(part, algorithm, 2)
    assert not differences(first.state_dict(), second.state_dict())
    assert differences(first.state_dict(), part.build(seed=1).state_dict())


def test_a_restored_state_goes_on_alike(part: Part) -> None:
    first, second = part.build(), part.build(seed=1)
    torch.manual_seed(1)
    update(part, first, 2)
    second.load_state_dict(deepcopy(first.state_dict()))
    for algorithm in (first, second):
        torch.manual_seed(2)
        update(part, algorithm)
    assert not differences(first.state_dict(), second.state_dict())
