"""The direct call of the fused kernel gives what torch's own Adam gives."""

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
