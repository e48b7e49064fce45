"""Agreement of two ways to divide the same elements into groups."""

import torch
import torch.nn.functional as F
from torch import Tensor


def adjusted_rand_index(found: Tensor, true: Tensor, is_counted: Tensor | None = None) -> Tensor:
    """The share of pairs of elements on which two groupings agree, 0 by chance and 1 if they are the same.

    Hubert & Arabie (1985), "Comparing partitions", eq. 5. Names of groups do not matter.

    Args:
        found: [B, N] of integers, the group of each element, from 0.
        true: [B, N] the same for another grouping.
        is_counted: [B, N] of booleans, which elements to look at; None for all.

    Returns:
        [B]; 1 where neither grouping divides anything, or both divide everything.
    """
    counted = torch.ones_like(found, dtype=torch.bool) if is_counted is None else is_counted
    weight = counted.unsqueeze(-1).double()
    # Elements that do not count may have any group, such as -1.
    groups = [F.one_hot(torch.where(counted, group, 0).long()).double() * weight for group in (found, true)]
    table = groups[0].transpose(1, 2) @ groups[1]
    together = _pairs(table).sum((1, 2))
    of_found, of_true = _pairs(table.sum(2)).sum(1), _pairs(table.sum(1)).sum(1)
    by_chance = of_found * of_true / _pairs(table.sum((1, 2))).clamp_min(1.0)
    at_most = 0.5 * (of_found + of_true)
    divisor = at_most - by_chance
    return torch.where(divisor.abs() < 1e-9, 1.0, (together - by_chance) / divisor).float()


def _pairs(count: Tensor) -> Tensor:
    return 0.5 * count * (count - 1)
