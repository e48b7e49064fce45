"""How a predicted representation is compared with the one that the encoder gives for what was observed."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable


@configurable
class MeanSquaredLoss:
    """Squared differences, averaged over all dimensions but the first."""

    def __init__(self, batch_dims: int = 1) -> None:
        """Keeps the number of dimensions that stay.

        Args:
            batch_dims: leading dimensions of the result.
        """
        self._batch_dims = batch_dims

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"batch_dims": self._batch_dims}

    def __repr__(self) -> str:
        return f"MeanSquaredLoss(batch_dims={self._batch_dims})"

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """Losses of the first `batch_dims` dimensions."""
        return (pred - target).square().flatten(self._batch_dims).mean(-1)


@configurable
class AsymmetricSimSiamLoss(nn.Module):
    """Minus the cosine between a prediction from one projection and another projection (Ye et al. 2021, EfficientZero).

        loss = -cosine(predict(project(x)), project(y)),

    where no gradient goes through project(y). A representation of several dimensions is flattened.
    """

    def __init__(
        self,
        input_size: int,
        proj_hidden_sizes: Sequence[int] = (256,),
        pred_hidden_sizes: Sequence[int] = (128,),
        output_size: int = 256,
        fixed_weight_norm: bool = False,
        eps: float = 1e-5,
    ) -> None:
        """Makes the two networks.

        Args:
            input_size: numbers in a representation.
            proj_hidden_sizes: hidden layers of the projection.
            pred_hidden_sizes: hidden layers of the prediction.
            output_size: numbers that are compared.
            fixed_weight_norm: not supported; must be False.
            eps: smallest length to divide by.
        """
        super().__init__()
        if fixed_weight_norm:
            raise ValueError("fixed_weight_norm is not supported: leave it False, and normalise the layers instead")
        self._eps = eps
        self.projection = _layers(input_size, proj_hidden_sizes, output_size)
        self.prediction = _layers(output_size, pred_hidden_sizes, output_size)

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        """Losses [B, T] of predicted and target representations [B, T, ...]."""
        predicted = self.prediction(self.projection(pred.flatten(2)))
        with torch.no_grad():
            projected = self.projection(target.flatten(2))
        return -F.cosine_similarity(predicted, projected, dim=-1, eps=self._eps)


def _layers(input_size: int, hidden_sizes: Sequence[int], output_size: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    size = input_size
    for hidden in hidden_sizes:
        layers += [nn.Linear(size, hidden), nn.LayerNorm(hidden), nn.ReLU()]
        size = hidden
    return nn.Sequential(*layers, nn.Linear(size, output_size))
