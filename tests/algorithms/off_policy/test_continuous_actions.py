"""Boxes of continuous actions."""

import pytest
import torch

from rein.algorithms.off_policy.continuous_actions import ContinuousActions, OrnsteinUhlenbeckNoise, replace_rows
from rein.specs import BoundedTensorSpec, TensorSpec

SPEC = {
    "a": BoundedTensorSpec((2,), minimum=[-1.0, 0.0], maximum=[1.0, 4.0]),
    "b": BoundedTensorSpec((), minimum=-2, maximum=2),
}


def test_actions_are_clipped_to_their_bounds() -> None:
    box = ContinuousActions(SPEC, "X")
    clipped = box.clip({"a": torch.tensor([[-5.0, 5.0]]), "b": torch.tensor([3.0])})
    assert clipped["a"].tolist() == [[-1.0, 4.0]]
    assert clipped["b"].tolist() == [2.0]


def test_uniform_actions_fill_the_box() -> None:
    torch.manual_seed(0)
    action = ContinuousActions(SPEC, "X").uniform(2000)
    assert action["a"].shape == (2000, 2)
    assert action["b"].shape == (2000,)
    assert torch.allclose(action["a"].mean(0), torch.tensor([0.0, 2.0]), atol=0.1)
    assert action["a"][:, 1].min() >= 0
    assert action["a"][:, 1].max() > 3.9


def test_normal_noise_is_a_share_of_half_of_the_range_and_is_cut_off() -> None:
    torch.manual_seed(0)
    box = ContinuousActions(SPEC, "X")
    noise = box.normal(4000, 0.1)
    assert torch.allclose(noise["a"].std(0), torch.tensor([0.1, 0.2]), rtol=0.1)
    assert box.normal(4000, 1.0, limit=0.5)["a"].abs().amax(0).tolist() == [0.5, 1.0]


def test_rows_are_replaced_together() -> None:
    torch.manual_seed(0)
    zeros, ones = ({"a": f(1000, 2), "b": f(1000)} for f in (torch.zeros, torch.ones))
    mixed = replace_rows(zeros, ones, 0.3)
    assert mixed["b"].mean().item() == pytest.approx(0.3, abs=0.05)
    assert torch.equal(mixed["a"][:, 0], mixed["b"])
    assert torch.equal(mixed["a"][:, 1], mixed["b"])
    assert replace_rows(zeros, ones, 0.0) is zeros
    assert replace_rows(zeros, ones, 1.0) is ones


def test_the_process_keeps_its_share_and_settles_at_its_deviation() -> None:
    torch.manual_seed(0)
    assert OrnsteinUhlenbeckNoise(0.0, 0.25).step(torch.tensor([8.0]), ()).item() == 6.0
    process = OrnsteinUhlenbeckNoise(0.2, 0.15)
    noise = process.step((), torch.zeros(5000))
    for _ in range(60):
        noise = process.step(noise, ())
    assert noise.std().item() == pytest.approx(0.2 / (1 - 0.85**2) ** 0.5, rel=0.05)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (BoundedTensorSpec((), torch.int64, 0, 3), "use DqnAlgorithm or SacAlgorithm"),
        ({"x": {"y": BoundedTensorSpec((), torch.int64, 0, 3)}}, "'x.y'"),
        (TensorSpec((2,)), "with bounds"),
        (BoundedTensorSpec((2,), minimum=-float("inf"), maximum=float("inf")), "finite bounds"),
        ((), "at least one"),
    ],
)
def test_other_actions_are_refused(spec: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinuousActions(spec, "Someone")


@pytest.mark.parametrize(("stddev", "damping", "name"), [(-1.0, 0.1, "ou_stddev"), (0.1, -1.0, "ou_damping")])
def test_negative_noise_is_refused(stddev: float, damping: float, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        OrnsteinUhlenbeckNoise(stddev, damping)
