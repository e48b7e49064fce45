"""The target updater: period, rate, state."""

import copy

import pytest
import torch
from torch import nn

from rein.runtime import LinearScheduler, Run
from rein.statistics import TargetUpdater
from rein.statistics.target_updater import soft_update


def _pair():
    torch.manual_seed(0)
    return nn.Linear(2, 2), nn.Linear(2, 2)


def test_targets_start_as_copies_unless_told_otherwise():
    source, target = _pair()
    TargetUpdater(source, target, copy=False)
    assert not torch.equal(source.weight, target.weight)
    TargetUpdater(source, target)
    assert torch.equal(source.weight, target.weight)


def test_targets_move_by_tau_every_period():
    source, target = _pair()
    updater = TargetUpdater([source], [target], tau=0.25, period=3)
    with torch.no_grad():
        source.weight.add_(1.0)
    gaps = []
    for _ in range(6):
        updater()
        gaps.append((source.weight - target.weight).mean().item())
    assert gaps == pytest.approx([1, 1, 0.75, 0.75, 0.75, 0.5625], abs=1e-6)


def test_only_the_count_is_state_and_it_resumes_the_period():
    source, target = _pair()
    updater = TargetUpdater(source, target, period=3)
    assert list(updater.state_dict()) == ["_calls._number"]
    assert not list(updater.parameters())
    updater.update()
    updater.update()
    fresh = TargetUpdater(source, target, period=3)
    fresh.load_state_dict(updater.state_dict())
    with torch.no_grad():
        source.weight.add_(1.0)
    fresh()
    assert torch.equal(source.weight, target.weight)


def test_a_copied_algorithm_updates_its_own_networks():
    class Algorithm(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.target = _pair()
            self.updater = TargetUpdater(self.net, self.target)

    original = Algorithm()
    other = copy.deepcopy(original)
    with torch.no_grad():
        other.net.weight.add_(1.0)
    other.updater()
    assert torch.equal(other.net.weight, other.target.weight)
    assert not torch.equal(other.target.weight, original.target.weight)


def test_parameters_and_scheduled_tau():
    source, target = nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(2))
    updater = TargetUpdater(source, target, tau=LinearScheduler("percent", [(0, 0.5), (1, 1.0)]), copy=False)
    with Run() as run:
        updater()
        assert target.tolist() == [0.5, 0.5]
        run.progress = 1.0
        updater()
        assert target.tolist() == [1.0, 1.0]


def test_bad_arguments_are_named():
    source, target = _pair()
    with pytest.raises(ValueError, match=r"period.*0"):
        TargetUpdater(source, target, period=0)
    with pytest.raises(ValueError, match="2 models, but 1"):
        TargetUpdater([source, source], target)
    with pytest.raises(TypeError, match="Linear cannot be followed by Parameter"):
        TargetUpdater(source, target.weight)


def _net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("tau", [0.0, 0.01, 0.5, 1.0])
def test_soft_update_averages_parameters_and_copies_buffers(tau):
    source, target = _net(0), _net(1)
    source(torch.randn(8, 3))
    before = [p.detach().clone() for p in target.parameters()]
    soft_update(source, target, tau)
    for old, new, towards in zip(before, target.parameters(), source.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old + tau * (towards.detach() - old))
    copied = [torch.equal(a, b) for a, b in zip(source.buffers(), target.buffers(), strict=True)]
    assert all(copied) == (tau > 0)


def test_soft_update_with_tau_one_copies_every_bit():
    source, target = _net(0), _net(1)
    soft_update(source.parameters(), target.parameters(), 1.0)
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


def test_soft_update_errors_name_what_differs():
    with pytest.raises(ValueError, match=r"tau.*1\.5"):
        soft_update([], [], 1.5)
    with pytest.raises(ValueError, match="1 source tensors, but 2"):
        soft_update([torch.zeros(1)], [torch.zeros(1)] * 2, 0.5)
    with pytest.raises(ValueError, match=r"tensor 0 has shape \(1,\)"):
        soft_update([torch.zeros(1)], [torch.zeros(2)], 0.5)
    with pytest.raises(TypeError, match="both be modules"):
        soft_update(nn.Linear(1, 1), [torch.zeros(1)], 0.5)
    with pytest.raises(TypeError, match="floating"):
        soft_update([torch.zeros(1)], [torch.zeros(1, dtype=torch.int64)], 0.5)
