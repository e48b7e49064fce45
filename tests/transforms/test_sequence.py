"""Sequences of transformers: specs and states passed on, the rules of order, and what the framework is told."""

from functools import partial

import pytest
import torch

from rein import config as rein_config
from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches, extract_spec
from rein.transforms import (
    DataTransformer,
    FrameStacker,
    HindsightExperienceTransformer,
    IdentityDataTransformer,
    ImageScaleTransformer,
    ObservationNormalizer,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    SequentialDataTransformer,
    SimpleDataTransformer,
    UntransformedTimeStep,
    create_data_transformer,
)

IMAGE = BoundedTensorSpec((1, 4, 4), torch.uint8, 0, 255)
GOALS = {"achieved_goal": TensorSpec((2,)), "desired_goal": TensorSpec((2,)), "camera": TensorSpec((3,))}


def time_step_of(spec, step_types, reward=None):
    batch = (len(step_types),)
    return TimeStep(
        step_type=torch.tensor(step_types, dtype=torch.int32),
        reward=torch.ones(batch) if reward is None else reward,
        discount=torch.ones(batch),
        observation=nest.map_structure(lambda s: s.sample(batch), spec),
    )


def zeros(transformer, batch_size):
    return nest.map_structure(lambda spec: spec.zeros((batch_size,)), transformer.state_spec)


def test_each_gets_the_spec_that_the_one_before_leaves():
    sequence = SequentialDataTransformer([partial(FrameStacker, stack_size=3), ImageScaleTransformer], IMAGE)
    assert sequence.transformed_observation_spec == BoundedTensorSpec((3, 4, 4), torch.float32, -1.0, 1.0)
    time_step, state = sequence.transform_timestep(time_step_of(IMAGE, [0, 0]), zeros(sequence, 2))
    check_matches(time_step.observation, sequence.transformed_observation_spec, 1, "observation")
    check_matches(state, sequence.state_spec, 1, "state")
    assert [type(t) for t in sequence.transformers] == [FrameStacker, ImageScaleTransformer]


def test_transformers_are_applied_in_order():
    ctors = [partial(RewardScaling, scale=2.0), partial(RewardShifting, bias=1.0), RewardClipping]
    sequence = SequentialDataTransformer(ctors, IMAGE)
    reward = torch.tensor([-2.0, -0.75, 0.25])
    time_step, _ = sequence.transform_timestep(time_step_of(IMAGE, [1, 1, 1], reward), zeros(sequence, 3))
    assert time_step.reward.tolist() == [-1.0, -0.5, 1.0]
    assert sequence.transformed_observation_spec == IMAGE


def test_acting_and_replay_show_the_same():
    torch.manual_seed(0)
    sequence = SequentialDataTransformer([UntransformedTimeStep, FrameStacker, ImageScaleTransformer], IMAGE)
    state, acted_on, buffer = zeros(sequence, 2), [], None
    for t in range(12):
        raw = time_step_of(IMAGE, [StepType.FIRST if t % 5 == 0 else StepType.MID] * 2)
        if buffer is None:
            stored_spec = extract_spec(Experience(time_step=raw))
            buffer = ReplayBuffer(stored_spec, 2, 10, num_earliest_frames_ignored=sequence.stack_size - 1)
        transformed, state = sequence.transform_timestep(raw, state)
        assert transformed.untransformed.observation is raw.observation
        acted_on.append(transformed.observation)
        buffer.add_batch(Experience(time_step=raw))
    data, info = buffer.gather_all(ignore_earliest_frames=True)
    replayed = sequence.transform_experience(data._replace(batch_info=info, replay_buffer=buffer))
    assert torch.equal(replayed.observation, torch.stack(acted_on[5:], 1))
    assert torch.equal(replayed.time_step.untransformed.observation, data.observation)
    assert replayed.time_step.untransformed.untransformed == ()


def test_a_sequence_reports_the_needs_of_all():
    plain = SequentialDataTransformer([RewardClipping, RewardClipping], IMAGE)
    assert not any([plain.reads_replay_buffer, plain.needs_replay_buffer, plain.needs_episodic_info])
    assert plain.stack_size == 1
    frames = SequentialDataTransformer([partial(FrameStacker, stack_size=3), RewardClipping], IMAGE)
    assert frames.reads_replay_buffer
    assert frames.needs_episodic_info
    assert not frames.needs_replay_buffer
    assert frames.stack_size == 3
    stacker = partial(FrameStacker, stack_size=2, fields=["camera"])
    nested = SequentialDataTransformer(
        [partial(SequentialDataTransformer, [HindsightExperienceTransformer, stacker]), RewardClipping], GOALS
    )
    assert nested.reads_replay_buffer
    assert nested.needs_replay_buffer
    assert nested.needs_episodic_info
    assert nested.stack_size == 2


@pytest.mark.parametrize(
    ("ctors", "spec", "message"),
    [
        ([ImageScaleTransformer, FrameStacker], IMAGE, "FrameStacker comes after ImageScaleTransformer"),
        (
            [ObservationNormalizer, HindsightExperienceTransformer],
            GOALS,
            "Hindsight.* comes after ObservationNormalizer",
        ),
        (
            [HindsightExperienceTransformer, RewardClipping, partial(FrameStacker, fields=["camera"])],
            GOALS,
            "must come before all others",
        ),
        ([FrameStacker, UntransformedTimeStep], IMAGE, "UntransformedTimeStep must be the first"),
        ([UntransformedTimeStep, UntransformedTimeStep], IMAGE, "UntransformedTimeStep must be the first"),
        ([FrameStacker, FrameStacker], IMAGE, "changes 'time_step.observation'"),
        (
            [partial(FrameStacker, fields=["desired_goal", "achieved_goal"]), HindsightExperienceTransformer],
            GOALS,
            "let each have its own fields",
        ),
        (
            [HindsightExperienceTransformer, partial(FrameStacker, fields=["desired_goal"])],
            GOALS,
            "let each have its own fields",
        ),
        (
            [RewardClipping, lambda spec: SequentialDataTransformer([FrameStacker, RewardClipping], spec)],
            IMAGE,
            "FrameStacker comes after RewardClipping",
        ),
    ],
)
def test_orders_that_would_mix_stored_with_transformed_data_are_refused(ctors, spec, message):
    with pytest.raises(ValueError, match=message):
        create_data_transformer(ctors, spec)


def test_orders_that_are_allowed():
    stacker = partial(FrameStacker, fields=["camera"])
    hindsight = HindsightExperienceTransformer
    for ctors in ([hindsight, stacker], [stacker, hindsight], [UntransformedTimeStep, stacker, hindsight]):
        create_data_transformer([*ctors, ObservationNormalizer, RewardClipping], GOALS)


def test_running_statistics_in_a_sequence_are_restored_exactly():
    torch.manual_seed(0)
    spec = TensorSpec((2,))
    ctors = [partial(ObservationNormalizer, update_mode="rollout"), partial(RewardNormalizer, update_mode="rollout")]
    first, second = (create_data_transformer(ctors, spec) for _ in range(2))
    for _ in range(5):
        first.transform_timestep(time_step_of(spec, [1] * 6, torch.randn(6)), zeros(first, 6))
    assert len(first.state_dict()) > 2
    second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
    time_step = time_step_of(spec, [1] * 6, torch.randn(6))
    one, other = (t.transform_timestep(time_step, zeros(t, 6))[0] for t in (first, second))
    assert torch.equal(one.observation, other.observation)
    assert torch.equal(one.reward, other.reward)


def test_all_are_told_the_source_of_data_and_the_reward_spec():
    transformer = create_data_transformer(
        [partial(SequentialDataTransformer, [ObservationNormalizer]), RewardNormalizer],
        TensorSpec((2,)),
        reward_spec=TensorSpec((3,)),
    )
    transformer.set_data_source("rollout")
    time_step = time_step_of(TensorSpec((2,)), [1, 1], torch.randn(2, 3))
    transformer.transform_timestep(time_step, zeros(transformer, 2))
    inner, reward_normalizer = transformer.transformers
    assert inner.transformers[0].normalizer.mean()[0].abs().min() > 0
    assert reward_normalizer.normalizer.mean().shape == (3,)
    assert reward_normalizer.normalizer.mean().abs().min() > 0
    assert transformer.data_source == "rollout"


def test_evaluation_moves_no_statistics():
    transformer = create_data_transformer(
        [partial(ObservationNormalizer, update_mode="rollout"), RewardClipping], IMAGE
    )
    transformer.eval()
    before = {name: value.clone() for name, value in transformer.state_dict().items()}
    transformer.transform_timestep(time_step_of(IMAGE, [1]), zeros(transformer, 1))
    assert all(torch.equal(before[name], value) for name, value in transformer.state_dict().items())


def test_the_untransformed_step_holds_no_further_one():
    once, _ = UntransformedTimeStep(IMAGE).transform_timestep(time_step_of(IMAGE, [0]), ())
    twice, _ = UntransformedTimeStep(IMAGE).transform_timestep(once, ())
    assert twice.untransformed.untransformed == ()


# Construction.


def test_one_constructor_gives_that_transformer_and_none_the_identity():
    assert isinstance(create_data_transformer(FrameStacker, IMAGE), FrameStacker)
    assert isinstance(create_data_transformer([FrameStacker], IMAGE), FrameStacker)
    for nothing in (None, []):
        identity = create_data_transformer(nothing, IMAGE)
        assert isinstance(identity, IdentityDataTransformer)
        assert identity.transformed_observation_spec is IMAGE
    time_step = time_step_of(IMAGE, [0])
    assert identity.transform_timestep(time_step, ()) == (time_step, ())
    experience = Experience(time_step=time_step)
    assert identity.transform_experience(experience).time_step is time_step


def test_constructors_are_configured_by_name():
    with rein_config.fresh_configs():
        rein_config.config("RewardScaling", scale=0.5)
        rein_config.config("FrameStacker", stack_size=2)
        transformer = create_data_transformer([FrameStacker, RewardScaling], IMAGE)
    assert transformer.stack_size == 2
    assert transformer.transformers[1](torch.tensor(3.0)) == 1.5


def test_a_constructor_may_name_its_parameter_otherwise_and_leave_the_spec_out():
    assert create_data_transformer(lambda spec: FrameStacker(spec), IMAGE).stack_size == 4
    transformer = create_data_transformer([lambda _: RewardScaling(2.0), lambda _: IdentityDataTransformer()], IMAGE)
    assert transformer.transformed_observation_spec == IMAGE


def test_statistics_move_to_the_device():
    transformer = create_data_transformer(ObservationNormalizer, TensorSpec((2,)), device="meta")
    assert transformer.normalizer.mean()[0].device.type == "meta"
    with pytest.raises(ValueError, match="names no device"):
        create_data_transformer(RewardClipping, IMAGE, device="gpu")


def test_what_is_no_transformer_is_refused():
    with pytest.raises(TypeError, match=r"data_transformer_ctors\[1\] returned a dict"):
        create_data_transformer([FrameStacker, lambda spec: {}], IMAGE)
    with pytest.raises(TypeError, match=r"data_transformer_ctors\[1\] is 3"):
        create_data_transformer([FrameStacker, 3], IMAGE)


def test_without_a_spec_the_transformed_one_is_unknown():
    with pytest.raises(ValueError, match="made without observation_spec"):
        UntransformedTimeStep().transformed_observation_spec  # noqa: B018


def test_subclasses_must_define_what_they_do():
    time_step = time_step_of(IMAGE, [0])
    with pytest.raises(NotImplementedError, match="must define _transform"):
        SimpleDataTransformer(IMAGE).transform_timestep(time_step, ())
    with pytest.raises(NotImplementedError, match="must define transform_experience"):
        DataTransformer(IMAGE, ()).transform_experience(Experience(time_step=time_step))


def test_transformers_can_be_named():
    spec = BoundedTensorSpec((1, 4, 4), torch.uint8, 0, 255)
    for given in ("ImageScaleTransformer", ["ImageScaleTransformer"], ["RewardClipping", "ImageScaleTransformer"]):
        made = create_data_transformer(given, spec)
        assert made.transformed_observation_spec.dtype == torch.float32
    with pytest.raises(ValueError, match="Did you mean 'ImageScaleTransformer'"):
        create_data_transformer("ImageScalTransformer", spec)
