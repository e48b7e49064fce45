"""Convert nests between numpy and torch, devices and gradients."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein.nest.structure import Nest, flatten, map_structure, pack_sequence_as


def to_numpy(nest: Nest) -> Nest:
    """Numpy arrays over the memory of the tensors, where they are on the CPU; a copy otherwise."""
    return map_structure(_leaf_to_numpy, nest)


def from_numpy(nest: Nest) -> Nest:
    """Tensors over the memory of the arrays; Python numbers become 0-d tensors."""
    return map_structure(torch.as_tensor, nest)


def convert_device(nest: Nest, device: torch.device | str) -> Nest:
    """`nest` with its tensors on `device`; those already there are not copied."""
    return map_structure(lambda leaf: leaf.to(device) if isinstance(leaf, Tensor | torch.nn.Module) else leaf, nest)


def detach(nest: Nest) -> Nest:
    """`nest` with its tensors cut from the graph that computed them."""
    return map_structure(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, nest)


def zeros_like(nest: Nest) -> Nest:
    """Zeros of the shapes, dtypes and devices of the tensors of `nest`."""
    return map_structure(torch.zeros_like, nest)


def grad(nest: Nest, objective: Tensor, retain_graph: bool | None = None) -> Nest:
    """The gradient of a scalar with respect to every tensor of `nest`."""
    gradients = torch.autograd.grad(objective, flatten(nest), retain_graph=retain_graph)
    return pack_sequence_as(nest, gradients)


def _leaf_to_numpy(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
