"""Which parts of an observation a transformer works on."""

from collections.abc import Sequence

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec

__all__ = ["check_fields", "tensor_fields"]


def check_fields(fields: Sequence[str], observation_spec: Nest, who: str) -> tuple[str, ...]:
    """The dotted paths, each known to exist in the observation and none lying in another.

    Args:
        fields: dotted paths such as "sensors.camera".
        observation_spec: specs of the observation.
        who: whose fields they are, for messages.
    """
    if isinstance(fields, str):
        raise TypeError(f"fields of {who} is {fields!r}: give a list, [{fields!r}]")
    for index, field in enumerate(fields):
        if not isinstance(field, str) or not field:
            raise TypeError(f"fields of {who} has {field!r}: give paths such as 'sensors.camera'")
        try:
            nest.get_field(observation_spec, field)
        except ValueError as error:
            raise ValueError(f"fields of {who} names {field!r}, which is not in the observation: {error}") from None
        for other in fields[:index]:
            if f"{field}.".startswith(f"{other}.") or f"{other}.".startswith(f"{field}."):
                raise ValueError(f"fields of {who} has both {other!r} and {field!r}: give each part once")
    return tuple(fields)


def tensor_fields(fields: Sequence[str] | None, observation_spec: Nest, who: str) -> dict[str, TensorSpec]:
    """The specs of single tensors of the observation, by dotted path.

    Args:
        fields: dotted paths; None if the observation is one tensor, whose path is "".
        observation_spec: specs of the observation.
        who: whose fields they are, for messages.
    """
    if fields is None:
        if not isinstance(observation_spec, TensorSpec):
            paths = [path for path, _ in nest.flatten_with_paths(observation_spec)]
            raise ValueError(f"{who} was given no fields, but the observation is a nest: choose from {paths}")
        return {"": observation_spec}
    specs = {}
    for field in check_fields(fields, observation_spec, who):
        spec = nest.get_field(observation_spec, field)
        if not isinstance(spec, TensorSpec):
            inside = [f"{field}.{path}" for path, _ in nest.flatten_with_paths(spec)]
            raise ValueError(f"fields of {who} names {field!r}, which is a nest: choose from {inside}")
        specs[field] = spec
    return specs
