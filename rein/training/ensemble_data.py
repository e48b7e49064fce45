"""What the data of a learner says about its settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from rein.algorithms.particle_vi.data_sources import GivenLoaders, as_data_creator
from rein.specs import TensorSpec


class EnsembleSettings(NamedTuple):
    """Settings by name, and facts for run.json."""

    settings: dict[str, Any]
    facts: dict[str, Any]


def ensemble_settings(algorithm: str, data: Any, outliers: Any = None) -> EnsembleSettings:
    """What to set for data: where it comes from, its shape, and whether labels are classes or values.

    Args:
        algorithm: class name of the learner.
        data: see `as_data_creator`; None leaves it to the conf.
        outliers: the same.
    """
    if data is None:
        return EnsembleSettings({}, {})
    given = GivenLoaders(*as_data_creator(data)())
    dataset: Any = given.train.dataset
    example, label = (torch.as_tensor(part) for part in _pair(dataset))
    settings: dict[str, Any] = {
        f"{algorithm}.data_creator": given,
        f"{algorithm}.input_tensor_spec": TensorSpec(tuple(example.shape), example.dtype),
    }
    if label.is_floating_point():
        settings |= {f"{algorithm}.loss_type": "regression", f"{algorithm}.output_dim": max(1, label.numel())}
    elif getattr(dataset, "classes", None):
        settings[f"{algorithm}.output_dim"] = len(dataset.classes)
    if outliers is not None:
        settings[f"{algorithm}.data_creator_outlier"] = GivenLoaders(*as_data_creator(outliers)())
    return EnsembleSettings(settings, {"example_shape": list(example.shape)})


def _pair(dataset: Any) -> tuple[Any, Any]:
    example = dataset[0]
    if not isinstance(example, tuple | list) or len(example) != 2:
        raise ValueError("the data has no labels: its data set must give (example, label) pairs")
    return example[0], example[1]


def ensemble_supply(record: Mapping[str, Any], not_saved: Sequence[str], data: Any) -> dict[str, Any]:
    """Values for the settings of a run that could not be saved: its data, or none of it, and the shape of an example.

    Args:
        record: run.json.
        not_saved: names of those settings.
        data: given again; None to predict only.
    """
    supply: dict[str, Any] = {}
    for name in not_saved:
        if name.endswith(".data_creator"):
            supply[name] = None if data is None else GivenLoaders(*as_data_creator(data)())
        elif name.endswith(".data_creator_outlier"):
            supply[name] = None
        elif name.endswith(".input_tensor_spec") and "example_shape" in record:
            supply[name] = TensorSpec(tuple(record["example_shape"]))
    return supply
