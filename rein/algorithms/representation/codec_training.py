"""Training of a codec on data alone, for runs with `ml_type="sl"`: an iteration is a pass over the data."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.representation.monet import MoNetAlgorithm
from rein.algorithms.representation.reconstruction_learner import Codec
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm, TrainerConfig
from rein.nest import Nest
from rein.ops import adjusted_rand_index
from rein.runtime import summary
from rein.specs import TensorSpec

Batches = Iterable[Any]
"""Of tensors [B, ...], or of sequences that begin with one, such as (examples, labels)."""


@configurable
class CodecTraining(Algorithm):
    """Trains what encodes and decodes, such as `AutoEncoder`, `Vqvae` or `MoNetAlgorithm`, on examples."""

    def __init__(
        self,
        codec_ctor: Callable[[TensorSpec], Any],
        data_creator: Callable[[], tuple[Batches, Batches]],
        optimizer: Any | None = None,
        config: TrainerConfig | None = None,
        name: str = "CodecTraining",
    ) -> None:
        """Makes the data and, for what it looks like, the codec.

        Args:
            codec_ctor: called as `ctor(spec of an example)`; makes an algorithm that is a `Codec`.
            data_creator: makes the training and the test data, such as two `torch.utils.data.DataLoader`; each pass goes
                through them from the start. Labels are left aside, but for images in slots: see `evaluate`.
            optimizer: of all of it.
            config: settings of the run.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, config=config, name=name)
        self._train_data, self._test_data = data_creator()
        example = next((_examples(batch) for batch in self._train_data), None)
        if example is None:
            raise ValueError(f"{name}: the training data has no batch: lower its batch_size")
        self._codec = codec_ctor(TensorSpec.from_tensor(example, from_dim=1))
        self._last_pass: dict[str, float] = {}

    @property
    def codec(self) -> Codec:
        """What is trained."""
        return self._codec  # type: ignore[no-any-return]

    def predict_step(self, inputs: Tensor, state: Nest = ()) -> AlgStep:
        """The code of examples [B, ...]."""
        return AlgStep(output=self.codec.encode(inputs), state=state)

    def train_step(self, inputs: Any, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The reconstruction of a batch, and the loss."""
        output, info, _ = self.codec.learn(_examples(inputs))
        return AlgStep(output=output, state=state, info=info)

    def train_iter(self) -> int:
        """One pass over the training data; returns the number of examples."""
        count, total = 0, 0.0
        loss_info, params = LossInfo(), None
        for batch in self._train_data:
            step = self.train_step(batch)
            loss_info, params = self.update_with_gradient(self.calc_loss(step.info))
            self.after_update(batch, step.info)
            size = len(_examples(batch))
            count += size
            total += size * float(loss_info.loss.detach())
        self._last_pass = {"loss": total / count}
        if summary.should_record_summaries():
            summary.scalar("train_epoch/loss", total / count)
            self.summarize_train((), (), loss_info, params)
        return count

    def progress_metrics(self) -> dict[str, float]:
        """The mean loss of the last pass."""
        return dict(self._last_pass)

    @property
    def has_outliers(self) -> bool:
        """Whether there is uncertainty to judge by examples of another kind: never, codecs have none."""
        return False

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """How well the test data is encoded, averaged over it.

        `test_error` is the squared error of reconstructions, per number; of images in slots by the masks of attention.
        If the codec has slots and the test data says which object each pixel is of, [B, H, W] with -1 for the background,
        `foreground_ari` is the adjusted Rand index of the slots and the objects, over the pixels of objects.
        """
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        for batch in self._test_data:
            x = _examples(batch)
            found = {"test_error": (_reconstructed(self.codec, x) - x).square()}
            if isinstance(self.codec, MoNetAlgorithm) and (owners := _owners(batch)) is not None:
                found["foreground_ari"] = _foreground_ari(self.codec, x, owners)
            for name, values in found.items():
                totals[name] = totals.get(name, 0.0) + float(values.sum())
                counts[name] = counts.get(name, 0) + values.numel()
        if not counts:
            raise ValueError(f"{self.name}: there is no test data")
        numbers = {name: total / counts[name] for name, total in totals.items()}
        for name, value in numbers.items():
            summary.scalar(f"eval/{name}", value)
        return numbers

    def test_examples(self) -> Tensor:
        """The first batch of the test data, [B, ...], to look at."""
        return _examples(next(iter(self._test_data)))


def _examples(batch: Any) -> Tensor:
    return batch if isinstance(batch, Tensor) else batch[0]


def _reconstructed(codec: Codec, examples: Tensor) -> Tensor:
    if isinstance(codec, MoNetAlgorithm):
        return codec.reconstruct(examples)
    return codec.decode(codec.encode(examples))


def _owners(batch: Any) -> Tensor | None:
    """Which object each pixel of a batch of images is of, [B, H, W]; None if the data does not tell."""
    if isinstance(batch, Tensor) or len(batch) < 2:
        return None
    labels = batch[1]
    return labels if isinstance(labels, Tensor) and labels.ndim == 3 else None


def _foreground_ari(monet: MoNetAlgorithm, images: Tensor, owners: Tensor) -> Tensor:
    """Agreement of slots and objects for each image, [B]."""
    slot = monet.log_masks(images).argmax(1)
    owners = owners.flatten(1)
    return adjusted_rand_index(slot.flatten(1), owners, owners >= 0)
