"""Distributions represented by quantiles."""

from __future__ import annotations

import torch
from torch import Tensor


def quantile_midpoints(
    num_quantiles: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Gives the levels at which N quantiles approximate a distribution best.

    Dabney et al. (2018), "Distributional Reinforcement Learning with Quantile Regression", lemma 2.

    Args:
        num_quantiles: N.
        device: where to create the tensor.
        dtype: dtype of the tensor; torch's default if None.

    Returns:
        [N] levels (2 i + 1) / (2 N).
    """
    if num_quantiles < 1:
        raise ValueError(f"num_quantiles must be at least 1, got {num_quantiles}")
    dtype = dtype or torch.get_default_dtype()
    index = torch.arange(num_quantiles, device=device, dtype=dtype)
    return (index + 0.5) / num_quantiles
