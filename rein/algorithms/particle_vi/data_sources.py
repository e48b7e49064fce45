"""Labelled data as loaders: from arrays, and scikit-learn's digits as an example."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from rein.algorithms.particle_vi.labelled_data import DataCreator, Loader
from rein.config import configurable


class LabelledTensors(TensorDataset):
    """Examples and labels in memory; `classes` names the classes, None for regression."""

    def __init__(self, examples: Tensor, labels: Tensor) -> None:
        """Keeps the tensors.

        Args:
            examples: [M, ...].
            labels: [M, ...], of integers for classes 0, 1, ...
        """
        super().__init__(examples, labels)
        self.classes: list[int] | None = None
        if not labels.is_floating_point():
            self.classes = list(range(int(labels.max()) + 1)) if len(labels) else []


def loaders_from_arrays(
    examples: ArrayLike,
    labels: ArrayLike,
    test_examples: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    batch_size: int = 64,
    test_share: float = 0.2,
) -> tuple[Loader, Loader]:
    """Loaders of training and test data.

    Args:
        examples: [M, ...] of numbers.
        labels: [M] of integers for classes, or [M] or [M, O] of floats for regression.
        test_examples: the same, to test on; None holds back every so many of the examples.
        test_labels: their labels.
        batch_size: examples of a training batch.
        test_share: share of the examples that is held back if there are no others.
    """
    x, y = _tensors(examples, labels)
    if test_examples is None or test_labels is None:
        if not 0.0 < test_share < 1.0:
            raise ValueError(f"test_share is {test_share}: give a number between 0 and 1")
        is_test = torch.zeros(len(x), dtype=torch.bool)
        chosen = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))
        is_test[chosen[: max(1, round(test_share * len(x)))]] = True
        x, y, test_x, test_y = x[~is_test], y[~is_test], x[is_test], y[is_test]
    else:
        test_x, test_y = _tensors(test_examples, test_labels)
    return as_loaders(x, y, test_x, test_y, batch_size)


def as_loaders(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor, batch_size: int) -> tuple[Loader, Loader]:
    """Loaders of training data in random order, which follows torch's random numbers, and of test data in its order."""
    train = DataLoader(LabelledTensors(x, y), min(batch_size, len(x)), shuffle=True)
    return train, DataLoader(LabelledTensors(test_x, test_y), 512)


def _tensors(examples: ArrayLike, labels: ArrayLike) -> tuple[Tensor, Tensor]:
    arrays = np.asarray(examples), np.asarray(labels)
    for what, array in zip(("examples", "labels"), arrays, strict=True):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{what} are of type {array.dtype}: give numbers, such as 0, 1, ... for classes")
    x, y = map(torch.as_tensor, arrays)
    if len(x) != len(y) or not len(x):
        raise ValueError(f"there are {len(x)} examples and {len(y)} labels: give at least one, and as many of both")
    if not y.is_floating_point() and int(y.min()) < 0:
        raise ValueError(f"a label is {int(y.min())}: count classes from 0, or give labels of floats for a regression")
    return x.float(), y.float() if y.is_floating_point() else y.long()


def _digits(
    classes: Sequence[int], as_images: bool, validation_split: int | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test data of some of the digits; labels count from 0 in the order of `classes`."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError('the digits come with scikit-learn: pip install "rein-rl[data]"') from error
    found: Any = load_digits()
    wrong = [one for one in classes if one not in range(10)]
    if wrong or not len(classes):
        raise ValueError(f"classes are {list(classes)}: choose from 0 to 9")
    images = torch.from_numpy(found.images).float() / 16.0
    digits = torch.from_numpy(found.target).long()
    order = np.random.default_rng(0).permutation(len(digits))
    test, train = np.split(order, [len(digits) // 5])
    if validation_split is not None:
        test, train = np.split(np.random.default_rng(validation_split).permutation(train), [len(test)])
    parts = []
    for rows in (train, test):
        chosen = torch.zeros(len(digits), dtype=torch.bool)
        chosen[torch.from_numpy(rows)] = True
        chosen = chosen & torch.isin(digits, torch.tensor(list(classes)))
        x = images[chosen].unsqueeze(1) if as_images else images[chosen].flatten(1)
        places = torch.tensor([list(classes).index(int(d)) for d in digits[chosen]])
        parts += [x, places]
    return parts[0], parts[1], parts[2], parts[3]


@configurable
def digits(
    batch_size: int = 64,
    classes: Sequence[int] = tuple(range(10)),
    as_images: bool = True,
    validation_split: int | None = None,
) -> tuple[Loader, Loader]:
    """Scikit-learn's 8x8 digits, pixels in [0, 1]: 1,438 to train on and 359 to test on.

    Args:
        batch_size: examples of a training batch.
        classes: digits to use.
        as_images: [1, 8, 8] instead of [64].
        validation_split: for choosing settings without a look at the test images: 359 of those to train on, drawn with
            this seed, are tested on in their place.
    """
    return as_loaders(*_digits(classes, as_images, validation_split), batch_size)


@configurable
def outlier_digits(
    batch_size: int = 64,
    classes: Sequence[int] = (6, 7, 8, 9),
    as_images: bool = True,
    validation_split: int | None = None,
) -> tuple[Loader, Loader]:
    """Those of the digits that were not trained on, for `eval_uncertainty`; see `digits`."""
    return as_loaders(*_digits(classes, as_images, validation_split), batch_size)


class GivenLoaders:
    """Makes the same two loaders whenever it is called."""

    def __init__(self, train: Loader, test: Loader) -> None:
        """Keeps the loaders."""
        self.train, self.test = train, test

    def __call__(self) -> tuple[Loader, Loader]:
        """The loaders."""
        return self.train, self.test


def as_data_creator(data: Any, batch_size: int = 64) -> DataCreator:
    """A function that makes the loaders of training and test data.

    Args:
        data: "digits", as vectors of 64 pixels; such a function already; a loader, a data set, or a pair of either to train
            and to test on; arrays (examples, labels), a tuple of two such tuples, or (examples, labels, test examples,
            test labels).
        batch_size: of loaders that are made here.
    """
    if isinstance(data, str) and data == "digits":
        return partial(digits, as_images=False)
    if callable(data) and not isinstance(data, Dataset | DataLoader):
        return cast(DataCreator, data)
    parts = data if isinstance(data, tuple | list) else (data,)
    if len(parts) == 2 and all(isinstance(part, tuple) and len(part) == 2 for part in parts):
        parts = (*parts[0], *parts[1])
    if all(isinstance(part, DataLoader) for part in parts) and len(parts) <= 2:
        return GivenLoaders(parts[0], parts[-1])
    if all(isinstance(part, Dataset) for part in parts) and len(parts) <= 2:
        if len(parts) == 1:
            size = len(parts[0])
            parts = random_split(parts[0], [size - size // 5, size // 5], torch.Generator().manual_seed(0))
        train = DataLoader(parts[0], min(batch_size, len(parts[0])), shuffle=True)
        return GivenLoaders(train, DataLoader(parts[1], 512))
    if len(parts) in (2, 4) and not any(isinstance(part, str | Dataset | DataLoader) for part in parts):
        examples, labels, *test = parts
        test_examples, test_labels = test or (None, None)
        return GivenLoaders(*loaders_from_arrays(examples, labels, test_examples, test_labels, batch_size))
    raise TypeError(
        f"data is {type(data).__name__}: give arrays (examples, labels), a torch DataLoader or Dataset, a pair of those to "
        'train and to test on, a function that returns two loaders, or "digits"'
    )
