"""Data loaders of labelled examples, and what they say about the task."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from rein import nest
from rein.specs import TensorSpec

Loader = DataLoader[Any]
DataCreator = Callable[[], tuple[Loader, Loader]]
"""Makes the loaders of training and test examples."""


class LabelledData:
    """Loaders of (example, label) batches for training, for testing, and of examples of another kind."""

    def __init__(self, owner: str) -> None:
        """Starts without loaders.

        Args:
            owner: name of the algorithm, for messages.
        """
        self._owner = owner
        self.train: Loader | None = None
        self.test: Loader | None = None
        self.outlier_test: Loader | None = None

    @classmethod
    def create(
        cls, owner: str, data_creator: DataCreator | None, outlier_creator: DataCreator | None
    ) -> "LabelledData":
        """The loaders that the creators make; none for None."""
        data = cls(owner)
        if data_creator is not None:
            data.set(*data_creator(), outlier_creator() if outlier_creator is not None else None)
        return data

    def set(self, train: Loader, test: Loader | None, outliers: tuple[Loader, Loader] | None) -> None:
        """Takes loaders; None leaves the test or outlier loader as it is.

        Args:
            train: of training examples.
            test: of test examples.
            outliers: (train, test) of examples of another kind.
        """
        outlier_test = None if outliers is None else outliers[1]
        for what, loader in (("train_loader", train), ("test_loader", test), ("outlier_data_loaders", outlier_test)):
            if loader is not None:
                _check_has_labels(self._owner, what, loader)
        self.train = train
        self.test = self.test if test is None else test
        self.outlier_test = self.outlier_test if outlier_test is None else outlier_test

    def need(self, what: str) -> Loader:
        """The loader "train", "test" or "outlier_test"; an error that says what to do if there is none."""
        loader: Loader | None = getattr(self, what)
        if loader is None:
            kind, creator = {
                "train": ("training data", "data_creator"),
                "test": ("test data", "data_creator"),
                "outlier_test": ("outlier data", "data_creator_outlier"),
            }[what]
            raise ValueError(f"{self._owner}: there is no {kind}: give {creator}, or call set_data_loader()")
        return loader

    def input_spec(self) -> TensorSpec:
        """Spec of one example, as the first one is."""
        example = torch.as_tensor(self.need("train").dataset[0][0])
        return TensorSpec(tuple(example.shape), example.dtype)

    def num_classes(self) -> int | None:
        """Number of classes, if the data set says it."""
        dataset: Any = self.need("train").dataset
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        classes = getattr(dataset, "classes", None)
        return None if classes is None else len(classes)

    def batch_size(self) -> int:
        """Number of examples of a training batch; 0 if it is not known."""
        return 0 if self.train is None else self.train.batch_size or 0

    def batch_share(self) -> float:
        """Share of the training examples that is in one batch."""
        loader = self.need("train")
        if loader.batch_size is None:
            return 1.0 / len(loader)
        return min(1.0, loader.batch_size / len(loader.dataset))  # type: ignore[arg-type]

    def state(self) -> dict[str, Tensor]:
        """State of the loaders' own random generators; those without one follow torch's."""
        return {name: generator.get_state() for name, generator in self._generators()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what `state` gave."""
        for name, generator in self._generators():
            if name in state:
                generator.set_state(state[name])

    def _generators(self) -> Iterator[tuple[str, torch.Generator]]:
        for name in ("train", "test", "outlier_test"):
            loader = getattr(self, name)
            for part, holder in (("loader", loader), ("sampler", getattr(loader, "sampler", None))):
                generator = getattr(holder, "generator", None)
                if isinstance(generator, torch.Generator):
                    yield f"{name}_{part}", generator


def batches(loader: Loader) -> Iterator[tuple[Tensor, Tensor]]:
    """The (examples, labels) batches of a loader, on the default device."""
    device = torch.get_default_device()
    for batch in loader:
        examples, labels = batch
        yield nest.convert_device((examples, labels), device)


def task_sizes(
    name: str, data: LabelledData, input_spec: TensorSpec | None, output_dim: int | None, num_train_classes: int
) -> tuple[TensorSpec, int]:
    """Spec of an example and size of the output, as given or as the data says."""
    if data.train is None:
        if input_spec is None or output_dim is None:
            raise ValueError(f"{name}: give data_creator, or input_tensor_spec and output_dim")
        return input_spec, output_dim
    size = output_dim or data.num_classes() or num_train_classes
    return data.input_spec() if input_spec is None else input_spec, size


def _check_has_labels(owner: str, what: str, loader: Loader) -> None:
    if not hasattr(loader.dataset, "__getitem__") or len(loader) == 0:
        raise ValueError(f"{owner}: {what} has no examples that can be looked up: give a map-style data set")
    example = loader.dataset[0]
    if not isinstance(example, tuple | list) or len(example) != 2:
        raise ValueError(
            f"{owner}: {what} gives {type(example).__name__} without labels: its data set must give (example, label) "
            "pairs, such as torch.utils.data.TensorDataset(examples, labels)"
        )
