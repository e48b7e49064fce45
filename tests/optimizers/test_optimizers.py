"""Optimizers against torch's own, and what they add: late binding, clipping, schedules, resume."""

import copy
import json
import math
import pickle
from dataclasses import dataclass

import pytest
import torch

from rein import optimizers
from rein.runtime.schedules import Scheduler

PAIRS = {
    "adam": (optimizers.Adam, torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "adam_amsgrad": (optimizers.Adam, torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    "adamw": (optimizers.AdamW, torch.optim.AdamW, {"lr": 1e-2, "betas": (0.8, 0.99)}),
    "sgd": (optimizers.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "rmsprop": (optimizers.RMSprop, torch.optim.RMSprop, {"lr": 1e-2, "centered": True}),
    "nadam": (optimizers.NAdam, torch.optim.NAdam, {"lr": 1e-2}),
    "radam": (optimizers.RAdam, torch.optim.RAdam, {"lr": 1e-2}),
}
EVERY = [optimizers.Adam, optimizers.AdamW, optimizers.SGD, optimizers.RMSprop, optimizers.NAdam, optimizers.RAdam]
EVERY.append(optimizers.AdamTF)


@dataclass(frozen=True)
class Countdown(Scheduler):
    """A schedule over a list that the test owns."""

    values: list

    def __call__(self):
        return self.values[0]


def _net(dtype=torch.float64):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(dtype)


def _gradients(net, step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 3, generator=generator).to(next(net.parameters()).dtype)
    net.zero_grad()
    (net(x) ** 2).sum().backward()


def _train(net, optimizer, steps=range(8)):
    for step in steps:
        _gradients(net, step)
        optimizer.step()
    return [parameter.detach().clone() for parameter in net.parameters()]


def _bound(optimizer, net):
    optimizer.add_param_group({"params": list(net.parameters())})
    return optimizer


def _parameter(gradient):
    parameter = torch.nn.Parameter(torch.zeros(len(gradient), dtype=torch.float64))
    parameter.grad = torch.tensor(gradient, dtype=torch.float64)
    return parameter


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_steps_as_torch(name):
    ours, theirs, settings = PAIRS[name]
    first, second = _net(), _net()
    expected = _train(first, theirs(first.parameters(), **settings))
    for a, b in zip(_train(second, _bound(ours(**settings), second)), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kernel", [{"fused": True}, {"foreach": True}, {"foreach": False, "fused": False}, {}])
def test_every_kernel_gives_the_same_steps(kernel):
    net, reference = _net(), _net()
    expected = _train(reference, torch.optim.Adam(reference.parameters(), lr=1e-2))
    for a, b in zip(_train(net, _bound(optimizers.Adam(lr=1e-2, **kernel), net)), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_fused_kernels_are_the_default_where_there_are_some():
    optimizer = _bound(optimizers.Adam(), _net())
    assert optimizer.param_groups[0]["fused"]
    assert not optimizer.param_groups[0]["foreach"]
    rmsprop = _bound(optimizers.RMSprop(), _net())
    assert rmsprop.param_groups[0]["foreach"]
    with pytest.raises(TypeError):
        optimizers.RMSprop(fused=True)


@pytest.mark.parametrize("make", EVERY)
def test_an_optimizer_starts_without_parameters_and_groups_are_bound_later(make):
    optimizer = make(lr=0.1)
    assert optimizer.param_groups == []
    assert optimizer.parameters() == []
    optimizer.step()
    first, second = _parameter([1.0]), _parameter([1.0])
    optimizer.add_param_group({"params": [first]})
    optimizer.add_param_group({"params": second, "lr": 0.0})
    optimizer.step()
    assert first.item() != 0.0
    assert second.item() == 0.0
    assert optimizer.learning_rates() == [0.1, 0.0]
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [first]})


def test_clipping_by_value():
    parameter = _parameter([3.0, -0.5, -7.0])
    optimizer = optimizers.SGD(lr=1.0, gradient_clipping=1.0, clip_by_value=True)
    optimizer.add_param_group({"params": [parameter]})
    optimizer.step()
    assert parameter.tolist() == [-1.0, 0.5, 1.0]
    assert optimizer.grad_norm is None


def test_clipping_by_the_norm_of_each_tensor():
    big, small = _parameter([3.0, 4.0]), _parameter([0.3, 0.4])
    optimizer = optimizers.SGD(lr=1.0, gradient_clipping=1.0)
    optimizer.add_param_group({"params": [big, small]})
    optimizer.step()
    torch.testing.assert_close(big.detach(), torch.tensor([-0.6, -0.8], dtype=torch.float64))
    torch.testing.assert_close(small.detach(), torch.tensor([-0.3, -0.4], dtype=torch.float64))
    assert optimizer.grad_norm.item() == pytest.approx(math.sqrt(25.25))


def test_clipping_by_global_norm_spans_groups():
    first, second, unused = _parameter([3.0]), _parameter([4.0]), torch.nn.Parameter(torch.zeros(2))
    optimizer = optimizers.SGD(lr=1.0, gradient_clipping=1.0, clip_by_global_norm=True)
    optimizer.add_param_group({"params": [first, unused]})
    optimizer.add_param_group({"params": [second]})
    optimizer.step()
    assert first.item() == pytest.approx(-0.6)
    assert second.item() == pytest.approx(-0.8)
    assert optimizer.grad_norm.item() == pytest.approx(5.0)
    first.grad, second.grad = torch.full_like(first, 0.3), torch.full_like(second, 0.4)
    optimizer.step()
    assert first.item() == pytest.approx(-0.9)
    assert unused.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gradient_clipping": 0.0}, "positive"),
        ({"gradient_clipping": -1.0}, "positive"),
        ({"clip_by_global_norm": True}, "gradient_clipping"),
        ({"clip_by_value": True}, "gradient_clipping"),
        ({"gradient_clipping": 1.0, "clip_by_value": True, "clip_by_global_norm": True}, "exclude"),
        ({"lr": -1.0}, "learning rate"),
        ({"betas": (1.5, 0.9)}, "beta"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"(?i){message}"):
        optimizers.Adam(**settings)


def test_learning_rate_must_be_a_number_or_a_schedule():
    with pytest.raises(TypeError, match="fast"):
        optimizers.Adam(lr="fast")


def test_schedules_are_asked_at_every_step_and_per_group():
    shared, own = [1.0], [10.0]
    first, second, third = _parameter([1.0]), _parameter([1.0]), _parameter([1.0])
    optimizer = optimizers.SGD(lr=Countdown(shared))
    optimizer.add_param_group({"params": [first]})
    optimizer.add_param_group({"params": [second], "lr": Countdown(own)})
    optimizer.add_param_group({"params": [third], "lr": 0.5})
    optimizer.step()
    assert [p.item() for p in (first, second, third)] == [-1.0, -10.0, -0.5]
    shared[0], own[0] = 2.0, 20.0
    assert optimizer.learning_rates() == [2.0, 20.0, 0.5]
    optimizer.step()
    assert [p.item() for p in (first, second, third)] == [-3.0, -30.0, -1.0]


def test_closure_is_evaluated_with_gradient_and_its_loss_returned():
    parameter = torch.nn.Parameter(torch.tensor(2.0))
    optimizer = optimizers.SGD(lr=0.1, gradient_clipping=1.0)
    optimizer.add_param_group({"params": [parameter]})

    def closure():
        parameter.grad = None
        loss = parameter**2
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 4.0
    assert parameter.item() == pytest.approx(1.9)


@pytest.mark.parametrize("make", EVERY)
def test_resuming_from_a_state_dict_is_exact(make):
    def fresh(net):
        return _bound(make(lr=0.01, gradient_clipping=0.5, clip_by_global_norm=True), net)

    straight = _net(torch.float32)
    expected = _train(straight, fresh(straight), range(10))

    net = _net(torch.float32)
    optimizer = fresh(net)
    _train(net, optimizer, range(5))
    saved = copy.deepcopy(optimizer.state_dict())
    resumed = _net(torch.float32)
    resumed.load_state_dict(net.state_dict())
    other = fresh(resumed)
    other.load_state_dict(saved)
    for a, b in zip(_train(resumed, other, range(5, 10)), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_together_with_the_network_go_on_alike(make, duplicate):
    net = _net(torch.float32)
    optimizer = _bound(make(lr=0.01, gradient_clipping=0.5), net)
    _train(net, optimizer, range(3))
    net2, optimizer2 = duplicate((net, optimizer))
    for a, b in zip(_train(net, optimizer, range(3, 6)), _train(net2, optimizer2, range(3, 6)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("make", EVERY)
def test_copy_is_a_fresh_optimizer_with_the_same_settings(make):
    optimizer = make(lr=0.25, gradient_clipping=2.0, clip_by_global_norm=True, name="critic")
    optimizer.add_param_group({"params": [_parameter([1.0])]})
    twin = optimizer.copy()
    assert type(twin) is make
    assert twin.param_groups == []
    assert twin.settings == optimizer.settings
    assert optimizer.copy(lr=0.5).settings["lr"] == 0.5


def test_info_can_be_written_as_json():
    optimizer = _bound(optimizers.AdamW(lr=Countdown([1.0]), name="actor"), _net())
    info = json.loads(json.dumps(optimizer.get_optimizer_info()))
    assert info["optimizer"] == "actor"
    assert info["num_elements"] == 3 * 8 + 8 + 8 * 2 + 2
    assert info["hypers"]["weight_decay"] == 0.01
    assert "Countdown" in info["hypers"]["lr"]
    assert optimizers.Adam().name == "Adam"


def test_step_hooks_run_once_even_if_torch_has_patched_its_own_class():
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    optimizer = optimizers.Adam()
    optimizer.add_param_group({"params": [_parameter([1.0])]})
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.step()
    assert calls == ["before", "after"]


def _adam_tf(gradients, lr, beta1, beta2, eps):
    m = v = w = 0.0
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w -= lr * math.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (math.sqrt(v) + eps)
    return w


@pytest.mark.parametrize("kernel", [{"fused": True}, {"foreach": True}])
def test_adam_tf_by_its_formula(kernel):
    gradients = [1.0, -0.5, 0.25, 2.0, 1e-3]
    optimizer = optimizers.AdamTF(lr=0.1, betas=(0.9, 0.99), eps=0.1, **kernel)
    parameter = _parameter([0.0])
    optimizer.add_param_group({"params": [parameter]})
    for gradient in gradients:
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    assert parameter.item() == pytest.approx(_adam_tf(gradients, 0.1, 0.9, 0.99, 0.1), rel=1e-6)
    assert optimizer.param_groups[0]["eps"] == 0.1


def test_adam_tf_counts_the_steps_of_each_parameter():
    always, late = _parameter([1.0]), _parameter([1.0])
    optimizer = optimizers.AdamTF(lr=0.1, eps=0.1)
    optimizer.add_param_group({"params": [always, late]})
    late.grad = None
    optimizer.step()
    late.grad = torch.ones(1, dtype=torch.float64)
    optimizer.step()
    assert always.item() == pytest.approx(_adam_tf([1.0, 1.0], 0.1, 0.9, 0.999, 0.1), rel=1e-5)
    assert late.item() == pytest.approx(_adam_tf([1.0], 0.1, 0.9, 0.999, 0.1), rel=1e-5)


def test_adam_tf_damps_the_first_steps_more_than_torch():
    results = []
    for make in (optimizers.Adam, optimizers.AdamTF):
        parameter = _parameter([1e-3])
        optimizer = make(lr=1.0, eps=1e-3)
        optimizer.add_param_group({"params": [parameter]})
        optimizer.step()
        results.append(abs(parameter.item()))
    assert results[1] < 0.1 * results[0]


@pytest.mark.parametrize("limit", [0.1, 100.0])
def test_known_squares_clip_as_those_that_are_found(limit):
    steps, norms = [], []
    for known in (None, 25.0):
        parameter = torch.nn.Parameter(torch.zeros(2))
        parameter.grad = torch.tensor([3.0, 4.0])
        optimizer = optimizers.SGD(lr=1.0, gradient_clipping=limit, clip_by_global_norm=True)
        optimizer.add_param_group({"params": [parameter]})
        optimizer.advance(known)
        steps.append(parameter.detach())
        norms.append(optimizer.grad_norm)
    assert torch.equal(*steps)
    assert norms == [5.0, 5.0]
