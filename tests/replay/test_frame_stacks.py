"""Stacked frames are stored once and come back as they were."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.data_structures import StepType, TimeStep
from rein.replay import ReplayBuffer, plain_torch
from rein.specs import TensorSpec

SPEC = TimeStep(
    step_type=TensorSpec((), torch.int32),
    reward=TensorSpec(()),
    discount=TensorSpec(()),
    observation={"image": TensorSpec((4, 6, 6), torch.uint8), "x": TensorSpec(())},
)


def play(buffers: list[ReplayBuffer], num_steps: int, axis: int, padding: str, seed: int) -> None:
    """Steps of environments that stack their own frames, with ends at random."""
    rng = np.random.default_rng(seed)
    num_envs = buffers[0].num_environments
    stacks: list[list[np.ndarray]] = [[] for _ in range(num_envs)]
    last = [True] * num_envs
    for _ in range(num_steps):
        kinds = []
        for env in range(num_envs):
            frame = rng.integers(0, 256, (6, 6), dtype=np.uint8)
            if last[env]:
                kinds.append(StepType.FIRST)
                filler = frame if padding == "repeat" else np.zeros_like(frame)
                stacks[env] = [filler] * 3 + [frame]
            else:
                kinds.append(StepType.LAST if rng.random() < 0.2 else StepType.MID)
                stacks[env] = [*stacks[env][1:], frame]
            last[env] = kinds[-1] == StepType.LAST
        images = np.stack([np.stack(stack, axis=axis) for stack in stacks])
        for buffer in buffers:
            buffer.add_batch(
                TimeStep(
                    step_type=torch.tensor(kinds, dtype=torch.int32),
                    reward=torch.zeros(num_envs),
                    discount=torch.ones(num_envs),
                    observation={"image": torch.from_numpy(images.copy()), "x": torch.zeros(num_envs)},
                )
            )


@pytest.mark.parametrize("padding", ["repeat", "zero"])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("is_plain", [False, True])
def test_stacks_come_back_as_they_were(padding: str, axis: int, is_plain: bool) -> None:
    shape = [6, 6]
    shape.insert(axis, 4)
    spec = SPEC._replace(observation={"image": TensorSpec(shape, torch.uint8), "x": TensorSpec(())})
    options = {"num_earliest_frames_ignored": 3}
    whole = ReplayBuffer(spec, 3, 20, **options)
    stacked = {"stacked_fields": {"observation.image": axis}, "stack_padding": padding}
    if is_plain:
        with plain_torch():
            thin = ReplayBuffer(spec, 3, 20, **stacked)
    else:
        thin = ReplayBuffer(spec, 3, 20, **stacked)
    assert thin.num_earliest_frames_ignored == 3
    assert thin.keep_episodic_info
    play([whole, thin], 67, axis, padding, seed=axis)
    for length in (1, 4):
        torch.manual_seed(length)
        first, info = whole.get_batch(20, length)
        torch.manual_seed(length)
        second, other = thin.get_batch(20, length)
        assert torch.equal(info.positions, other.positions)
        assert second.observation["image"].shape == (20, length, *shape)
        assert torch.equal(first.observation["image"], second.observation["image"])
        name = "observation.image"
        one = whole.get_field(name, info.env_ids[:, None], info.positions[:, None])
        assert torch.equal(one, thin.get_field(name, info.env_ids[:, None], info.positions[:, None]))


def test_stacks_need_a_quarter_of_the_memory() -> None:
    spec = SPEC._replace(observation=TensorSpec((4, 84, 84), torch.uint8))
    whole = ReplayBuffer(spec, 1, 100)
    thin = ReplayBuffer(spec, 1, 100, stacked_fields={"observation": 0})
    assert thin.memory_bytes < 0.26 * whole.memory_bytes


def test_stacks_of_gymnasium() -> None:
    class Counter(gym.Env):
        observation_space = gym.spaces.Box(0, 255, (2,), np.uint8)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
            self.count = 10
            return np.full(2, self.count, np.uint8), {}

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
            self.count += 1
            return np.full(2, self.count, np.uint8), 0.0, self.count == 15, False, {}

    env = gym.wrappers.FrameStackObservation(Counter(), 3)
    spec = TimeStep(step_type=TensorSpec((), torch.int32), observation=TensorSpec((3, 2), torch.uint8))
    buffer = ReplayBuffer(spec, 1, 30, stacked_fields={"observation": 0})
    given = []
    for _ in range(3):
        observation, _ = env.reset()
        kind, is_over = StepType.FIRST, False
        while True:
            given.append(observation[:, 0].tolist())
            buffer.add_batch(
                TimeStep(
                    step_type=torch.tensor([kind], dtype=torch.int32),
                    observation=torch.from_numpy(observation.copy())[None],
                )
            )
            if is_over:
                break
            observation, _, is_over, _, _ = env.step(0)
            kind = StepType.LAST if is_over else StepType.MID
    read = buffer.get_field("observation", torch.tensor([0]), torch.arange(len(given)))
    assert read[:, :, 0].tolist() == given


def test_bad_stacks() -> None:
    with pytest.raises(ValueError, match="names 'image'"):
        ReplayBuffer(SPEC, 1, stacked_fields={"image": 0})
    with pytest.raises(ValueError, match="axis 3"):
        ReplayBuffer(SPEC, 1, stacked_fields={"observation.image": 3})
    with pytest.raises(ValueError, match="stack_padding"):
        ReplayBuffer(SPEC, 1, stack_padding="mirror")
    with pytest.raises(ValueError, match="need keep_episodic_info"):
        ReplayBuffer(SPEC, 1, stacked_fields={"observation.image": 0}, keep_episodic_info=False)
