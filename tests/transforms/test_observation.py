"""Image scaling and observation normalization, by hand."""

import pytest
import torch

from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches
from rein.transforms import ImageScaleTransformer, ObservationNormalizer

IMAGE = BoundedTensorSpec((1, 2, 2), torch.uint8, 0, 255)


def rollout(transformer, observation):
    batch = nest.flatten(observation)[0].shape[0]
    time_step = TimeStep(step_type=torch.full((batch,), StepType.MID, dtype=torch.int32), observation=observation)
    return transformer.transform_timestep(time_step, ())[0].observation


def replay(transformer, observation):
    step_type = torch.full(nest.flatten(observation)[0].shape[:2], StepType.MID, dtype=torch.int32)
    experience = Experience(time_step=TimeStep(step_type=step_type, observation=observation))
    return transformer.transform_experience(experience).observation


def column(*values):
    return torch.tensor(values, dtype=torch.float32)[:, None]


# Images.


def test_images_go_from_bytes_to_the_range():
    scaler = ImageScaleTransformer(IMAGE)
    image = torch.tensor([[[[0, 255], [51, 102]]]], dtype=torch.uint8)
    scaled = rollout(scaler, image)
    torch.testing.assert_close(scaled, torch.tensor([[[[-1.0, 1.0], [-0.6, -0.2]]]]))
    assert image.flatten().tolist() == [0, 255, 51, 102]
    assert torch.equal(replay(scaler, image[None])[0], scaled)
    assert scaler.transformed_observation_spec == BoundedTensorSpec((1, 2, 2), torch.float32, -1.0, 1.0)
    assert scaler.state_spec == ()


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (0.0, 0.3), (0.0, 7.0), (-1.0, 0.3), (-0.1, 2.0), (-3.0, 0.9)]
)
def test_black_and_white_are_the_ends_of_the_range_and_never_outside(low, high):
    scaler = ImageScaleTransformer(TensorSpec((2,), torch.uint8), low, high)
    black, white = rollout(scaler, torch.tensor([[0, 255]]).byte())[0].numpy()
    spec = scaler.transformed_observation_spec
    assert black == spec.minimum[0]
    assert spec.maximum[0] - 1e-6 * (high - low) < white <= spec.maximum[0]


def test_only_the_named_images_are_scaled():
    spec = {"eye": {"left": IMAGE, "right": IMAGE}, "speed": TensorSpec(())}
    scaler = ImageScaleTransformer(spec, min=0.0, fields=["eye.right"])
    observation = nest.map_structure(lambda s: s.ones((3,)), spec)
    scaled = rollout(scaler, observation)
    check_matches(scaled, scaler.transformed_observation_spec, 1, "scaled")
    assert scaled["eye"]["left"].dtype == torch.uint8
    assert scaled["eye"]["right"].unique().item() == pytest.approx(1 / 255)


def test_what_is_no_byte_image_is_refused():
    with pytest.raises(ValueError, match=r"scales uint8 images, but field 'a' is TensorSpec"):
        ImageScaleTransformer({"a": TensorSpec((1,))}, fields=["a"])
    with pytest.raises(ValueError, match="observation is a nest"):
        ImageScaleTransformer({"a": IMAGE})
    with pytest.raises(ValueError, match="min must be less"):
        ImageScaleTransformer(IMAGE, min=1.0)
    with pytest.raises(TypeError, match=r"but got torch.float32"):
        rollout(ImageScaleTransformer(IMAGE), torch.zeros(1, 1, 2, 2))


# Normalization.


def test_normalization_by_hand():
    normalizer = ObservationNormalizer(TensorSpec((1,)), mode="window", update_mode="rollout")
    # mean 2, variance 1
    torch.testing.assert_close(rollout(normalizer, column(1, 3)), column(-1, 1))
    # batches weigh the same: mean (2 + 6) / 2 = 4, mean square ((1 + 9) / 2 + 36) / 2 = 20.5, variance 4.5
    torch.testing.assert_close(rollout(normalizer, column(6, 6)), column(2, 2) / 4.5**0.5)


def test_clipping_limits_what_comes_out():
    normalizer = ObservationNormalizer(TensorSpec((1,)), clipping=0.5, mode="window", update_mode="rollout")
    assert rollout(normalizer, column(1, 3)).tolist() == [[-0.5], [0.5]]
    assert normalizer.transformed_observation_spec == BoundedTensorSpec((1,), torch.float32, -0.5, 0.5)


def test_without_zero_mean_values_are_only_scaled():
    normalizer = ObservationNormalizer(TensorSpec((1,)), zero_mean=False, mode="window", update_mode="rollout")
    # root of the mean square of 3 and 4
    torch.testing.assert_close(rollout(normalizer, column(3, 4)), column(3, 4) / 12.5**0.5)


def test_only_the_named_parts_are_normalized_each_by_itself():
    spec = {"a": {"x": TensorSpec((1,)), "n": BoundedTensorSpec((), torch.int64, 0, 9)}, "b": TensorSpec((1,))}
    normalizer = ObservationNormalizer(spec, fields=["a"], mode="window", update_mode="rollout")
    observation = {"a": {"x": column(1, 3), "n": torch.tensor([0, 8])}, "b": column(5, 6)}
    result = rollout(normalizer, observation)
    torch.testing.assert_close(result["a"]["x"], column(-1, 1))
    torch.testing.assert_close(result["a"]["n"], torch.tensor([-1.0, 1.0]))
    assert result["b"] is observation["b"]
    check_matches(result, normalizer.transformed_observation_spec, 1, "normalized")


def is_moved_by(normalizer, call):
    before = [buffer.clone() for buffer in normalizer.buffers()]
    call(normalizer)
    return not all(map(torch.equal, before, normalizer.buffers()))


def acts(normalizer):
    rollout(normalizer, column(1, 3))


def learns(normalizer):
    replay(normalizer, torch.tensor([[[1.0], [3.0]]]))


@pytest.mark.parametrize(
    ("update_mode", "source", "when_acting", "when_learning"),
    [
        ("replay", "replay", False, True),
        ("replay", "rollout", True, False),
        ("replay", "pretrain", False, False),
        ("rollout", "replay", True, False),
        ("rollout", "rollout", True, False),
        ("rollout", "pretrain", True, False),
        ("pretrain", "pretrain", False, True),
        ("pretrain", "replay", False, False),
        ("pretrain", "rollout", False, False),
    ],
)
def test_when_statistics_move(update_mode, source, when_acting, when_learning):
    normalizer = ObservationNormalizer(TensorSpec((1,)), update_mode=update_mode)
    normalizer.set_data_source(source)
    assert is_moved_by(normalizer, acts) == when_acting
    assert is_moved_by(normalizer, learns) == when_learning
    normalizer.eval()
    assert not is_moved_by(normalizer, acts)
    assert not is_moved_by(normalizer, learns)


@pytest.mark.parametrize("mode", ["adaptive", "window", "em"])
def test_statistics_are_restored_exactly(mode):
    torch.manual_seed(0)
    spec = {"a": TensorSpec((3,)), "b": TensorSpec(())}
    make = lambda: ObservationNormalizer(spec, mode=mode, window_size=4, update_mode="rollout")  # noqa: E731
    first, second = make(), make()
    batches = [{"a": torch.randn(5, 3) * 4 + 1, "b": torch.randn(5)} for _ in range(12)]
    for batch in batches[:6]:
        rollout(first, batch)
    second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
    for batch in batches[6:]:
        one, other = rollout(first, batch), rollout(second, batch)
        assert all(map(torch.equal, nest.flatten(one), nest.flatten(other)))


def test_each_mode_gets_its_own_setting():
    window = ObservationNormalizer(TensorSpec((1,)), mode="window", window_size=1, update_mode="rollout")
    rollout(window, column(100, 300))
    torch.testing.assert_close(rollout(window, column(1, 3)), column(-1, 1))
    moving = ObservationNormalizer(TensorSpec((1,)), mode="em", update_rate=1.0, update_mode="rollout")
    rollout(moving, column(100, 300))
    torch.testing.assert_close(rollout(moving, column(1, 3)), column(-1, 1))


def test_unknown_modes_and_fields_are_refused():
    with pytest.raises(ValueError, match="update_mode of ObservationNormalizer is 'never'"):
        ObservationNormalizer(TensorSpec((1,)), update_mode="never")
    with pytest.raises(ValueError, match="mode of ObservationNormalizer is 'mean'"):
        ObservationNormalizer(TensorSpec((1,)), mode="mean")
    with pytest.raises(ValueError, match="names 'c', which is not in the observation"):
        ObservationNormalizer({"a": TensorSpec((1,))}, fields=["c"])
    with pytest.raises(ValueError, match=r"both 'a' and 'a\.b'"):
        ObservationNormalizer({"a": {"b": TensorSpec((1,))}}, fields=["a", "a.b"])
    with pytest.raises(ValueError, match="data source is 'disk'"):
        ObservationNormalizer(TensorSpec((1,))).set_data_source("disk")
