"""Transformers of the observation: images to floats, and running normalization."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import TimeStep
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import AdaptiveNormalizer, EMNormalizer, Normalizer, WindowNormalizer
from rein.transforms.base import SimpleDataTransformer
from rein.transforms.fields import check_fields, tensor_fields
from rein.transforms.host import HostTransform
from rein.transforms.running import FollowsData

__all__ = ["ImageScaleTransformer", "ObservationNormalizer"]


@configurable
class ImageScaleTransformer(SimpleDataTransformer):
    """Turns uint8 images into float32 ones, 0 becoming `min` and 255 `max`."""

    def __init__(
        self,
        observation_spec: Nest,
        min: float = -1.0,
        max: float = 1.0,
        fields: Sequence[str] | None = None,
    ) -> None:
        """Works out what the scaled observation looks like.

        Args:
            observation_spec: specs of the observation.
            min: what 0 becomes.
            max: what 255 becomes.
            fields: dotted paths of the images; None if the observation is one image.
        """
        if not min < max:
            raise ValueError(f"min is {min} and max {max}: min must be less")
        transformed = observation_spec
        images = tensor_fields(fields, observation_spec, "ImageScaleTransformer")
        for field, spec in images.items():
            if spec.dtype != torch.uint8:
                name = f"field {field!r}" if field else "the observation"
                raise ValueError(f"ImageScaleTransformer scales uint8 images, but {name} is {spec}")
            scaled = BoundedTensorSpec(spec.shape, torch.float32, min, max)
            transformed = nest.set_field(transformed, field, scaled)
        super().__init__(transformed)
        self._fields = tuple(images)
        self._min = float(min)
        self._unit = _unit(self._min, float(max))

    def _transform(self, time_step: TimeStep) -> TimeStep:
        observation = time_step.observation
        for field in self._fields:
            observation = nest.transform_nest(observation, field, self._scale)
        return time_step._replace(observation=observation)

    def _scale(self, image: Tensor) -> Tensor:
        if image.dtype != torch.uint8:
            raise TypeError(f"ImageScaleTransformer scales uint8 images, but got {image.dtype}")
        return image.to(torch.float32).mul_(self._unit).add_(self._min)


@configurable
class ObservationNormalizer(FollowsData):
    """Shifts and scales observations by their running mean and deviation.

    The statistics are part of the `state_dict`. Which data they follow is told at `update_mode`.
    """

    def __init__(
        self,
        observation_spec: Nest,
        fields: Sequence[str] | None = None,
        clipping: float = 0.0,
        window_size: int = 10000,
        update_rate: float = 1e-4,
        speed: float = 8.0,
        zero_mean: bool = True,
        update_mode: str = "replay",
        mode: str = "adaptive",
    ) -> None:
        """Starts without data; until then observations stay as they are.

        Args:
            observation_spec: specs of the observation.
            fields: dotted paths of the parts to normalize; None for all.
            clipping: if > 0, normalized values are limited to [-clipping, clipping].
            window_size: for mode "window", number of updates that count.
            update_rate: for mode "em", weight of each new batch.
            speed: for mode "adaptive", how fast old data is forgotten.
            zero_mean: whether to subtract the mean.
            update_mode: what the statistics follow: "replay" (the data that is learned from), "rollout" (each step when
                it is new) or "pretrain" (offline data before the run acts).
            mode: "adaptive", "window" or "em".
        """
        chosen = ("",) if fields is None else check_fields(fields, observation_spec, "ObservationNormalizer")
        specs = [nest.get_field(observation_spec, field) for field in chosen]
        transformed = observation_spec
        for field in chosen:
            transformed = nest.transform_nest(
                transformed, field, lambda part: nest.map_structure(lambda spec: _normalized(spec, clipping), part)
            )
        super().__init__(transformed)
        self._set_update_mode(update_mode, ("replay", "rollout", "pretrain"))
        self._fields = chosen
        self._clipping = float(clipping)
        self._normalizer = _make_normalizer(specs, mode, window_size, update_rate, speed, zero_mean)

    @property
    def normalizer(self) -> Normalizer:
        """The running statistics: a nest with one entry per field."""
        return self._normalizer

    def _host_transform(self) -> HostTransform | None:
        host = self._normalizer.on_host(self._clipping) if self._fields == ("",) else None
        if host is None:
            return None
        host.begin(self._takes_in_steps)
        return HostTransform(observation=host)

    def _parts(self, time_step: TimeStep) -> list[Nest]:
        return [nest.get_field(time_step.observation, field) for field in self._fields]

    def _update(self, time_step: TimeStep) -> None:
        self._normalizer.update(self._parts(time_step))

    def _transform(self, time_step: TimeStep) -> TimeStep:
        observation = time_step.observation
        parts = self._normalizer.normalize(self._parts(time_step), self._clipping)
        for field, part in zip(self._fields, parts, strict=True):
            observation = nest.set_field(observation, field, part)
        return time_step._replace(observation=observation)


def _unit(low: float, high: float) -> float:
    """What one of 255 levels is worth from `low` to `high`, rounded so that white does not come out above `high`."""
    unit = torch.tensor((high - low) / 255.0, dtype=torch.float32)
    while unit * 255.0 + low > torch.tensor(high, dtype=torch.float32):
        unit = torch.nextafter(unit, torch.zeros(()))
    return unit.item()


def _normalized(spec: TensorSpec, clipping: float) -> TensorSpec:
    """The spec of a normalized tensor: floats, and other bounds than before."""
    dtype = spec.dtype if spec.dtype.is_floating_point else torch.get_default_dtype()
    if clipping > 0:
        return BoundedTensorSpec(spec.shape, dtype, -clipping, clipping)
    return TensorSpec(spec.shape, dtype)


def _make_normalizer(
    specs: list[Nest], mode: str, window_size: int, update_rate: float, speed: float, zero_mean: bool
) -> Normalizer:
    make: dict[str, Callable[[], Normalizer]] = {
        "adaptive": lambda: AdaptiveNormalizer(specs, speed=speed, auto_update=False, zero_mean=zero_mean),
        "window": lambda: WindowNormalizer(specs, window_size=window_size, auto_update=False, zero_mean=zero_mean),
        "em": lambda: EMNormalizer(specs, update_rate=update_rate, auto_update=False, zero_mean=zero_mean),
    }
    if mode not in make:
        raise ValueError(f"mode of ObservationNormalizer is {mode!r}: give one of {tuple(make)}")
    return make[mode]()
