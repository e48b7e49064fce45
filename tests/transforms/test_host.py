"""What quick rollouts do in the place of `transform_timestep` gives the same."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from rein import nest
from rein.data_structures import StepType, TimeStep
from rein.specs import TensorSpec
from rein.statistics import frozen_statistics
from rein.transforms import (
    FrameStacker,
    IdentityDataTransformer,
    ObservationNormalizer,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    SequentialDataTransformer,
    UntransformedTimeStep,
)
from rein.transforms.base import DataTransformer

SPEC = TensorSpec((3,))


def _steps(count: int, shape: tuple[int, ...] = (5, 3)) -> list[TimeStep]:
    rng = np.random.default_rng(0)
    kinds = torch.full(shape[:1], StepType.MID, dtype=torch.int32)
    center, scale = rng.normal(0.0, 30.0, shape[1:]), 10.0 ** rng.integers(-2, 3, shape[1:])
    drawn = [(rng.normal(center, scale, shape).astype(np.float32), rng.normal(size=shape[0]) * 2) for _ in range(count)]
    return [
        TimeStep(step_type=kinds, observation=torch.from_numpy(observation), reward=torch.from_numpy(reward).float())
        for observation, reward in drawn
    ]


def _by_step(transformer: DataTransformer, steps: list[TimeStep], keep: list[bool]) -> list[TimeStep]:
    state = nest.map_structure(lambda spec: spec.zeros((5,)), transformer.state_spec)
    found = []
    for step, is_kept in zip(steps, keep, strict=True):
        if is_kept:
            found.append(transformer.transform_timestep(step, state)[0])
        else:
            with frozen_statistics():
                found.append(transformer.transform_timestep(step, state)[0])
    return found


def _on_host(transformer: DataTransformer, steps: list[TimeStep], keep: list[bool]) -> list[TimeStep]:
    transform = transformer.host_transform()
    assert transform is not None
    found = []
    for step, is_kept in zip(steps, keep, strict=True):
        observation, reward = step.observation, step.reward
        if transform.observation is not None:
            observation = torch.full_like(observation, torch.nan)
            transform.observation(step.observation.numpy(), observation.numpy(), is_kept)
        if transform.reward is not None:
            reward = transform.reward(reward)
        found.append(step._replace(observation=observation, reward=reward))
    return found


def _check(make: Any, shape: tuple[int, ...] = (5, 3), count: int = 60) -> None:
    steps = _steps(count, shape)
    keep = [index % 7 != 3 for index in range(count)]
    host, plain = make(), make()
    for mine, theirs in zip(_on_host(host, steps, keep), _by_step(plain, steps, keep), strict=True):
        torch.testing.assert_close(mine.observation, theirs.observation, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(mine.reward, theirs.reward, rtol=0.0, atol=0.0)
    states = host.state_dict(), plain.state_dict()
    assert list(states[0]) == list(states[1])
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("zero_mean", [True, False])
@pytest.mark.parametrize("clipping", [0.0, 0.7])
@pytest.mark.parametrize("settings", [{}, {"mode": "em", "update_rate": 0.05}, {"speed": 1.0}])
def test_normalized_on_the_host_as_by_tensors(zero_mean: bool, clipping: float, settings: dict[str, Any]) -> None:
    def make() -> DataTransformer:
        return ObservationNormalizer(
            SPEC, zero_mean=zero_mean, clipping=clipping, update_mode="rollout", **settings
        ).train()

    _check(make)


@pytest.mark.parametrize("shape", [(1, 3), (5,), (4, 2, 3)])
def test_observations_of_any_shape(shape: tuple[int, ...]) -> None:
    _check(lambda: ObservationNormalizer(TensorSpec(shape[1:]), update_mode="rollout"), shape)


@pytest.mark.parametrize(
    ("update_mode", "source", "moves"),
    [
        ("rollout", "replay", True),
        ("replay", "rollout", True),
        ("replay", "replay", False),
        ("pretrain", "replay", False),
    ],
)
def test_statistics_follow_a_rollout_only_where_they_should(update_mode: str, source: Any, moves: bool) -> None:
    def make() -> ObservationNormalizer:
        normalizer = ObservationNormalizer(SPEC, update_mode=update_mode)
        normalizer.set_data_source(source)
        return normalizer

    _check(make)
    for is_training, is_frozen, takes_in in [(True, False, moves), (False, False, False), (True, True, False)]:
        normalizer = make().train(is_training)
        if is_frozen:
            with frozen_statistics():
                _on_host(normalizer, _steps(3), [True] * 3)
        else:
            _on_host(normalizer, _steps(3), [True] * 3)
        assert bool(normalizer.normalizer.mean()[0].abs().sum() > 0) == takes_in


def test_what_is_no_number_stays_so_and_everything_else_is_limited() -> None:
    normalizer = ObservationNormalizer(SPEC, clipping=2.0, update_mode="rollout").eval()
    step = _steps(1)[0]
    step.observation[0] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    mine, theirs = (walk(normalizer, [step], [True])[0].observation for walk in (_on_host, _by_step))
    torch.testing.assert_close(mine, theirs, equal_nan=True)


def test_it_goes_on_exactly_where_it_was_saved() -> None:
    steps, keep = _steps(40), [True] * 40
    normalizer = ObservationNormalizer(SPEC, update_mode="rollout")
    _on_host(normalizer, steps[:20], keep[:20])
    saved = copy.deepcopy(normalizer.state_dict())
    first = _on_host(normalizer, steps[20:], keep[20:])
    other = ObservationNormalizer(SPEC, update_mode="rollout")
    other.load_state_dict(saved)
    normalizer.load_state_dict(saved)
    for again in (_on_host(one, steps[20:], keep[20:]) for one in (other, normalizer)):
        assert all(torch.equal(a.observation, b.observation) for a, b in zip(first, again, strict=True))


def test_copies_have_statistics_of_their_own() -> None:
    steps, keep = _steps(12), [True] * 4
    normalizer = ObservationNormalizer(SPEC, update_mode="rollout")
    _on_host(normalizer, steps[:4], keep)
    copies = [copy.deepcopy(normalizer), pickle.loads(pickle.dumps(normalizer))]
    before = normalizer.normalizer.mean()[0]
    for one in copies:
        _on_host(one, steps[4:8], keep)
        assert not torch.equal(one.normalizer.mean()[0], before)
    assert torch.equal(normalizer.normalizer.mean()[0], before)
    # Where the memory moves, it is found again.
    normalizer.double().float()
    normalizer.normalizer._moments.double()
    normalizer.share_memory()
    _on_host(normalizer, steps[4:8], keep)
    torch.testing.assert_close(normalizer.normalizer.mean()[0], copies[0].normalizer.mean()[0])


def test_whoever_looks_out_for_changes_learns_of_them() -> None:
    normalizer = ObservationNormalizer(SPEC, update_mode="rollout")
    mean = normalizer.normalizer._moments.mean(0)
    for _ in range(2):
        before = mean._version
        _on_host(normalizer, _steps(2), [True] * 2)
        assert mean._version > before


def test_in_order_and_with_rewards_all_at_once() -> None:
    def make() -> SequentialDataTransformer:
        constructors = [
            lambda spec: ObservationNormalizer(spec, update_mode="rollout"),
            lambda spec: RewardScaling(0.3, spec),
            lambda spec: ObservationNormalizer(spec, update_mode="rollout", zero_mean=False, clipping=0.5),
            lambda spec: RewardClipping(spec),
            lambda spec: RewardShifting(1.0, spec),
        ]
        return SequentialDataTransformer(constructors, SPEC)

    _check(make)
    _check(lambda: SequentialDataTransformer([IdentityDataTransformer], SPEC))


class _Doubled(ObservationNormalizer):
    def _transform(self, time_step: TimeStep) -> TimeStep:
        return time_step._replace(observation=2 * time_step.observation)


class _Noisy(RewardClipping):
    def forward(self, reward: torch.Tensor) -> torch.Tensor:
        return reward + torch.randn(())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ObservationNormalizer(SPEC, mode="window"),
        lambda: ObservationNormalizer({"a": SPEC}, fields=["a"]),
        lambda: ObservationNormalizer({"a": SPEC, "b": SPEC}),
        lambda: ObservationNormalizer(TensorSpec((3,), torch.int64)),
        lambda: ObservationNormalizer(TensorSpec((3,), torch.float64)),
        lambda: RewardNormalizer(SPEC),
        lambda: UntransformedTimeStep(SPEC),
        lambda: SequentialDataTransformer([FrameStacker, ObservationNormalizer], SPEC),
        lambda: _Doubled(SPEC),
        lambda: _Noisy(SPEC),
    ],
)
def test_what_needs_more_is_asked_at_each_step(make: Any) -> None:
    assert make().host_transform() is None
