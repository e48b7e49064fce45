"""What the data of a learner says about its settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

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
        outliers: the same, or an array of examples alone.
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
    elif (classes := _num_classes(dataset)) is not None:
        settings[f"{algorithm}.output_dim"] = classes
    if outliers is not None:
        settings[f"{algorithm}.data_creator_outlier"] = GivenLoaders(*_outlier_loaders(outliers))
    return EnsembleSettings(settings, {"example_shape": list(example.shape)})


def _num_classes(dataset: Any) -> int | None:
    """Number of classes by their names, or by the labels where these are in memory; None if neither is there."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    if getattr(dataset, "classes", None):
        return len(dataset.classes)
    labels = dataset.tensors[1] if isinstance(dataset, TensorDataset) else getattr(dataset, "targets", None)
    return None if labels is None else int(torch.as_tensor(labels).max()) + 1


def _outlier_loaders(outliers: Any) -> Sequence[Any]:
    """Loaders of outliers; examples that are given alone are all tested on."""
    if not isinstance(outliers, np.ndarray | Tensor):
        return as_data_creator(outliers)()
    examples = torch.as_tensor(outliers).float()
    return [DataLoader(TensorDataset(examples, torch.zeros(len(examples), dtype=torch.long)), 512)] * 2


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
