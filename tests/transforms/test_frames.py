"""Frame stacking: by hand, and that stacking while acting equals stacking from the replay buffer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches, extract_spec
from rein.transforms import FrameStacker, FrameStackState

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


def step(step_types, observation):
    return TimeStep(step_type=torch.tensor(step_types, dtype=torch.int32), observation=observation)


def zeros(stacker, batch_size):
    return nest.map_structure(lambda spec: spec.zeros((batch_size,)), stacker.state_spec)


def numbered(*values):
    """One-element frames [B, 1] that hold the values."""
    return torch.tensor(values, dtype=torch.float32)[:, None]


def replayed(buffer, batch):
    data, info = batch
    return data._replace(batch_info=info, replay_buffer=buffer)


def filled_buffer(step_types, max_length, num_ignored, **kwargs):
    """A buffer of one environment whose frames are numbered by position."""
    first = Experience(time_step=step([F], numbered(0)))
    buffer = ReplayBuffer(extract_spec(first), 1, max_length, num_earliest_frames_ignored=num_ignored, **kwargs)
    for position, step_type in enumerate(step_types):
        buffer.add_batch(Experience(time_step=step([step_type], numbered(position))))
    return buffer


def test_stacks_show_the_newest_frame_last_and_repeat_the_first_of_an_episode():
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    state = zeros(stacker, 2)
    shown = []
    for types, frames in [([F, M], (0, 10)), ([M, L], (1, 11)), ([M, F], (2, 12)), ([M, M], (3, 13))]:
        stacked, state = stacker.transform_timestep(step(types, numbered(*frames)), state)
        shown.append(stacked.observation.tolist())
    # The second environment begins in mid-episode: zeros as state are the beginning too.
    assert shown[0] == [[0, 0, 0], [10, 10, 10]]
    assert shown[1] == [[0, 0, 1], [10, 10, 11]]
    assert shown[2] == [[0, 1, 2], [12, 12, 12]]
    assert shown[3] == [[1, 2, 3], [12, 12, 13]]
    assert state.steps.tolist() == [4, 2]


def test_the_state_survives_that_the_environment_writes_over_its_tensors():
    stacker = FrameStacker(TensorSpec((1,)), stack_size=2)
    frame = numbered(1)
    _, state = stacker.transform_timestep(step([F], frame), zeros(stacker, 1))
    frame.fill_(2)
    stacked, _ = stacker.transform_timestep(step([M], frame), state)
    assert stacked.observation.tolist() == [[1, 2]]


@pytest.mark.parametrize(("axis", "shape"), [(0, (6, 4, 5)), (1, (2, 12, 5)), (2, (2, 4, 15)), (-1, (2, 4, 15))])
def test_frames_are_joined_along_the_stack_axis(axis, shape):
    spec = BoundedTensorSpec((2, 4, 5), torch.uint8, 0, 255)
    stacker = FrameStacker(spec, stack_size=3, stack_axis=axis)
    assert stacker.transformed_observation_spec == BoundedTensorSpec(shape, torch.uint8, 0, 255)
    frames = [spec.sample((1,)) for _ in range(3)]
    state = zeros(stacker, 1)
    for step_type, frame in zip([F, M, M], frames, strict=True):
        stacked, state = stacker.transform_timestep(step([step_type], frame), state)
    assert torch.equal(stacked.observation[0], torch.cat([frame[0] for frame in frames], axis))
    check_matches(stacked.observation, stacker.transformed_observation_spec, 1, "stacked")
    check_matches(state, stacker.state_spec, 1, "state")


def test_only_the_named_fields_are_stacked():
    spec = {"eye": {"left": TensorSpec((2,)), "right": TensorSpec((2,))}, "speed": TensorSpec(())}
    stacker = FrameStacker(spec, stack_size=2, fields=["eye.left"])
    expected = {"eye": {"left": TensorSpec((4,)), "right": TensorSpec((2,))}, "speed": TensorSpec(())}
    assert stacker.transformed_observation_spec == expected
    observation = nest.map_structure(lambda s: s.ones((3,)), spec)
    stacked, _ = stacker.transform_timestep(step([F] * 3, observation), zeros(stacker, 3))
    check_matches(stacked.observation, expected, 1, "stacked")
    assert observation["eye"]["left"].shape == (3, 2)


def test_numbers_become_vectors_when_acting_and_in_replay():
    spec = {"eye": TensorSpec((2,)), "speed": BoundedTensorSpec((), minimum=-1, maximum=9)}
    stacker = FrameStacker(spec, stack_size=3, fields=["speed"])
    expected = {"eye": TensorSpec((2,)), "speed": BoundedTensorSpec((3,), minimum=-1, maximum=9)}
    assert stacker.transformed_observation_spec == expected
    raw = [
        Experience(time_step=step([kind], {"eye": torch.zeros(1, 2), "speed": torch.tensor([float(number)])}))
        for number, kind in enumerate([F, M, M, L, F])
    ]
    buffer = ReplayBuffer(extract_spec(raw[0]), 1, 8, keep_episodic_info=True)
    state, shown = zeros(stacker, 1), []
    for one in raw:
        stacked, state = stacker.transform_timestep(one.time_step, state)
        check_matches(stacked.observation, expected, 1, "stacked")
        shown.append(stacked.observation["speed"][0].tolist())
        buffer.add_batch(one)
    assert shown == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [4, 4, 4]]
    from_buffer = stacker.transform_experience(replayed(buffer, buffer.gather_all()))
    assert from_buffer.observation["speed"][0].tolist() == shown


def test_bounds_that_differ_by_element_are_repeated_with_the_frames():
    spec = BoundedTensorSpec((2,), minimum=[0, -1], maximum=[1, 5])
    stacked = FrameStacker(spec, stack_size=2).transformed_observation_spec
    assert stacked.minimum.tolist() == [0, -1, 0, -1]
    assert stacked.maximum.tolist() == [1, 5, 1, 5]


def test_replayed_stacks_by_hand_across_episodes_and_the_end_of_the_ring():
    #                        0  1  2  3  4  5  6  7  8
    buffer = filled_buffer([F, M, M, L, F, M, L, F, M], max_length=6, num_ignored=2)
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    # Stored are 3..8, and 5..8 may be sampled.
    stacked = stacker.transform_experience(replayed(buffer, buffer.gather_all(ignore_earliest_frames=True)))
    assert stacked.observation[0].tolist() == [[4, 4, 5], [4, 5, 6], [7, 7, 7], [7, 7, 8]]


def test_an_episode_that_lost_its_beginning_is_stacked_from_what_is_left():
    buffer = filled_buffer([F] + [M] * 8, max_length=5, num_ignored=2)
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    stacked = stacker.transform_experience(replayed(buffer, buffer.gather_all(ignore_earliest_frames=True)))
    assert stacked.observation[0].tolist() == [[4, 5, 6], [5, 6, 7], [6, 7, 8]]


def test_the_oldest_stored_step_needs_nothing_before_it_if_its_episode_begins_there():
    buffer = filled_buffer([F, M, L, F, M, M], max_length=3, num_ignored=0, keep_episodic_info=True)
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    stacked = stacker.transform_experience(replayed(buffer, buffer.gather_all()))
    assert stacked.observation[0].tolist() == [[3, 3, 3], [3, 3, 4], [3, 4, 5]]


def test_frames_that_are_gone_are_asked_for_with_an_error():
    buffer = filled_buffer([F] + [M] * 8, max_length=5, num_ignored=2)
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    with pytest.raises(ValueError, match=r"position 2 of environment 0 is no longer.*num_earliest_frames_ignored=2"):
        stacker.transform_experience(replayed(buffer, buffer.gather_all()))


def test_without_a_replay_buffer_the_error_says_so():
    stacker = FrameStacker(TensorSpec((1,)), stack_size=3)
    with pytest.raises(ValueError, match="set its batch_info and replay_buffer"):
        stacker.transform_experience(Experience(time_step=step([[F, M]], torch.zeros(1, 2, 1))))


def test_a_stack_of_one_changes_nothing():
    stacker = FrameStacker(TensorSpec((1,)), stack_size=1)
    time_step = step([F, M], numbered(1, 2))
    stacked, _ = stacker.transform_timestep(time_step, zeros(stacker, 2))
    assert torch.equal(stacked.observation, time_step.observation)
    assert stacker.transformed_observation_spec == TensorSpec((1,))
    assert stacker.stack_size == 1


def random_history(generator, num_envs, num_steps):
    """step types [num_steps][num_envs]: episodes of 1 to 7 steps, some cut without a LAST step."""
    left = torch.zeros(num_envs, dtype=torch.int64)
    rows = []
    is_new = torch.ones(num_envs, dtype=torch.bool)
    for _ in range(num_steps):
        lengths = torch.randint(1, 8, (num_envs,), generator=generator)
        left = torch.where(is_new, lengths, left)
        is_last = (left == 1) & (torch.rand(num_envs, generator=generator) < 0.8)
        types = torch.where(is_new, F, torch.where(is_last, L, M))
        rows.append(types.tolist())
        left = left - 1
        is_new = left == 0
    return rows


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    stack_size=st.integers(1, 5),
    axis=st.integers(0, 1),
    length=st.integers(1, 6),
    num_steps=st.integers(12, 50),
    max_length=st.integers(12, 20),
)
def test_stacks_from_the_buffer_equal_the_stacks_that_were_acted_on(
    seed, stack_size, axis, length, num_steps, max_length
):
    generator = torch.Generator().manual_seed(seed)
    num_envs = 3
    spec = {"image": BoundedTensorSpec((2, 3), torch.uint8, 0, 255), "more": (TensorSpec((2, 1)), TensorSpec(()))}
    stacker = FrameStacker(spec, stack_size, axis, fields=["image", "more.0"])
    state = zeros(stacker, num_envs)
    buffer, acted_on = None, []
    for types in random_history(generator, num_envs, num_steps):
        observation = nest.map_structure(lambda s: s.sample((num_envs,), generator=generator), spec)
        time_step = step(types, observation)
        stacked, state = stacker.transform_timestep(time_step, state)
        acted_on.append(stacked.observation)
        stored = Experience(time_step=time_step)
        if buffer is None:
            buffer = ReplayBuffer(
                extract_spec(stored),
                num_envs,
                max_length,
                num_earliest_frames_ignored=stack_size - 1,
                keep_episodic_info=True,
            )
        buffer.add_batch(stored)
    before = nest.map_structure(torch.clone, buffer.buffer)
    experience = replayed(buffer, buffer.get_batch(8, length))
    sampled = nest.map_structure(torch.clone, experience.observation)
    stacked = stacker.transform_experience(experience)
    check_matches(stacked.observation, stacker.transformed_observation_spec, 2, "stacked")
    history = nest.stack_nests(acted_on, dim=1)
    times = experience.batch_info.positions[:, None] + torch.arange(length)
    expected = nest.index_nest(history, (experience.batch_info.env_ids[:, None], times))
    for got, wanted in zip(nest.flatten(stacked.observation), nest.flatten(expected), strict=True):
        assert torch.equal(got, wanted)
    assert all(map(torch.equal, nest.flatten(before), nest.flatten(buffer.buffer)))
    assert all(map(torch.equal, nest.flatten(sampled), nest.flatten(experience.observation)))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"observation_spec": TensorSpec((1,)), "stack_size": 0}, "stack_size is 0"),
        ({"observation_spec": TensorSpec(()), "stack_axis": 1}, r"stack_axis is 1, but the observation has shape \(\)"),
        ({"observation_spec": TensorSpec((1,)), "stack_axis": 1}, "stack_axis is 1"),
        ({"observation_spec": {"a": TensorSpec((1,))}}, r"observation is a nest: choose from \['a'\]"),
        ({"observation_spec": {"a": TensorSpec((1,))}, "fields": ["b"]}, "names 'b'"),
        ({"observation_spec": {"a": TensorSpec((1,))}, "fields": ["a", "a"]}, "both 'a' and 'a'"),
        ({"observation_spec": {"a": {"b": TensorSpec((1,))}}, "fields": ["a"]}, r"is a nest: choose from \['a.b'\]"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        FrameStacker(**kwargs)


def test_fields_as_one_string_is_refused():
    with pytest.raises(TypeError, match=r"give a list, \['image'\]"):
        FrameStacker({"image": TensorSpec((1,))}, fields="image")


def test_the_state_is_the_documented_tuple():
    assert FrameStackState._fields == ("steps", "prev_frames")
    assert isinstance(FrameStacker(TensorSpec((1,))).state_spec, FrameStackState)
