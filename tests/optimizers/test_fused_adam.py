"""The direct call of the fused kernel gives what torch's own Adam gives."""

import copy
import io
from typing import Any

import pytest
import torch

from rein.optimizers import Adam


def _parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 2), (5,), (1, 4))]


@pytest.mark.parametrize("by", ["step", "advance"])
def test_same_steps_as_torch_also_where_a_gradient_is_missing_at_times(by: str) -> None:
    ours, theirs = _parameters(), _parameters()
    optimizer = Adam(lr=0.1, weight_decay=0.01)
    optimizer.add_param_group({"params": ours[:2]})
    optimizer.add_param_group({"params": ours[2:], "lr": 0.02})
    reference = torch.optim.Adam([{"params": theirs[:2]}, {"params": theirs[2:], "lr": 0.02}], 0.1, weight_decay=0.01)
    for i in range(6):
        for parameters in (ours, theirs):
            for j, parameter in enumerate(parameters):
                # The last parameter joins late: its group has no state while the other has.
                parameter.grad = None if j == 2 and i < 3 else torch.full_like(parameter, 0.5 + i - j)
        getattr(optimizer, by)()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
    assert [int(optimizer.state[p]["step"]) for p in ours] == [6, 6, 3]


def test_hooks_of_torch_are_called_by_advance_too() -> None:
    (parameter, *_) = _parameters()
    optimizer = Adam(lr=0.1)
    optimizer.add_param_group({"params": [parameter]})
    called: list[int] = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    parameter.grad = torch.ones_like(parameter)
    optimizer.advance()
    assert called == [1]


def _optimizer_of(parameters: list[torch.nn.Parameter]) -> Adam:
    optimizer = Adam(lr=0.1)
    optimizer.add_param_group({"params": parameters})
    return optimizer


def _advance(optimizer: Adam, *gradients: float) -> None:
    for gradient in gradients:
        for parameter in optimizer.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        optimizer.advance()


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file)
    return loaded


@pytest.mark.parametrize("keep", [copy.deepcopy, _through_a_file])
def test_a_kept_state_goes_on_where_it_was_kept_and_stays_as_it_was(keep: Any) -> None:
    first = _optimizer_of(_parameters())
    _advance(first, 1.0, -0.5, 2.0)
    kept, values = keep(first.state_dict()), [p.detach().clone() for p in first.parameters()]
    _advance(first, 0.3, 0.7)
    assert [int(one["step"]) for one in kept["state"].values()] == [3, 3, 3]
    assert [int(one["step"]) for one in first.state_dict()["state"].values()] == [5, 5, 5]

    second = _optimizer_of(_parameters())
    _advance(second, 4.0)  # It has counted, and gets other numbers.
    for parameter, value in zip(second.parameters(), values, strict=True):
        parameter.data.copy_(value)
    second.load_state_dict(kept)
    _advance(second, 0.3, 0.7)
    for mine, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert [int(one["step"]) for one in second.state.values()] == [5, 5, 5]


def test_numbers_of_steps_may_differ_within_a_group() -> None:
    optimizer = _optimizer_of(_parameters())
    _advance(optimizer, 1.0, 1.0)
    optimizer.parameters()[1].grad = None
    optimizer.advance()
    _advance(optimizer, 1.0)
    assert [int(optimizer.state[p]["step"]) for p in optimizer.parameters()] == [4, 3, 4]
