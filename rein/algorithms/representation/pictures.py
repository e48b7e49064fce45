"""Pictures of what a representation keeps: reconstructions, what each part of a code means, and slots."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein.algorithms.representation.monet import MoNetAlgorithm
from rein.algorithms.representation.reconstruction_learner import Codec
from rein.algorithms.representation.vq_vae import Vqvae
from rein.runtime.png import write_png
from rein.specs import BoundedTensorSpec

Picture = NDArray[np.uint8]
"""[H, W, 3]."""

_LEAST_SIDE = 48
_GAP = 2
_MOST_ROWS = 12


@torch.no_grad()
def write_pictures(codec: Codec, inputs: Tensor, folder: Path, num_examples: int = 8) -> list[Path]:
    """Writes all pictures that make sense for a codec, and returns their paths.

    Args:
        codec: what encodes and decodes, such as `AutoEncoder`, `Vqvae` or `MoNetAlgorithm`.
        inputs: examples [B, C, H, W], or [B, D], which are drawn as rows of pixels.
        folder: made if it is not there.
        num_examples: of the inputs, at most.
    """
    shown = inputs[:num_examples]
    pictures = {
        "reconstructions": reconstructions(codec, shown),
        "traversals": traversals(codec, shown[:1]),
    }
    if isinstance(codec, MoNetAlgorithm):
        pictures["slots"] = slots(codec, shown)
    paths = []
    for name, picture in pictures.items():
        path = folder / f"{name}.png"
        write_png(path, picture)
        paths.append(path)
    return paths


@torch.no_grad()
def reconstructions(codec: Codec, inputs: Tensor) -> Picture:
    """Inputs [B, ...] in the first row, what their codes are decoded to in the second."""
    if isinstance(codec, MoNetAlgorithm):
        decoded = codec.reconstruct(inputs)
    else:
        decoded = codec.decode(codec.encode(inputs))
    return _grid(torch.stack([inputs, decoded]), inputs)


@torch.no_grad()
def traversals(codec: Codec, inputs: Tensor, num_steps: int = 8, span: float = 2.0) -> Picture:
    """What an example [1, ...] becomes when one part of its code is changed; a row for each part.

    Args:
        codec: what encodes and decodes.
        inputs: one example.
        num_steps: values of each part; of a discrete one as many as there are, at most.
        span: continuous parts go from minus to plus this.
    """
    code = codec.encode(inputs)[0]
    codes = _varied(codec, code, num_steps, span)
    decoded = codec.decode(codes.flatten(0, 1))
    return _grid(decoded.reshape(*codes.shape[:2], *decoded.shape[1:]), inputs)


@torch.no_grad()
def slots(monet: MoNetAlgorithm, inputs: Tensor) -> Picture:
    """A row for each image [B, C, H, W]: it, its reconstruction, then mask and masked image of each slot."""
    found = monet.slots(inputs)
    masks = found.log_masks.exp().unsqueeze(2)
    low, high = inputs.min(), inputs.max()
    gray = (low + (high - low) * masks).expand_as(found.images)
    masked = low + (found.images - low) * masks
    parts = torch.stack([gray, masked], 2).flatten(1, 2)
    return _grid(torch.cat([inputs.unsqueeze(1), found.whole.unsqueeze(1), parts], 1), inputs)


def _varied(codec: Codec, code: Tensor, num_steps: int, span: float) -> Tensor:
    """[rows, steps, *code] codes in which one part is changed."""
    spec: Any = codec.output_spec
    if isinstance(codec, Vqvae):
        values = codec.codebook[:num_steps].detach()
        return _replaced(code.reshape(-1, values.shape[1]), values).reshape(-1, len(values), *code.shape)
    if isinstance(spec, BoundedTensorSpec) and spec.ndim == 2:  # one-hot
        return _replaced(code, torch.eye(spec.shape[1], device=code.device)[:num_steps])
    flat = code.flatten()
    values = torch.linspace(-span, span, num_steps, device=code.device).unsqueeze(1)
    return _replaced(flat.unsqueeze(1), values).reshape(-1, num_steps, *code.shape)


def _replaced(parts: Tensor, values: Tensor) -> Tensor:
    """[min(N, 12), V, N, D]: parts [N, D] with one of them replaced by each of the values [V, D]."""
    rows = min(len(parts), _MOST_ROWS)
    codes = parts.expand(rows, len(values), *parts.shape).clone()
    for row in range(rows):
        codes[row, :, row] = values
    return codes


def _grid(images: Tensor, like: Tensor) -> Picture:
    """Images [rows, columns, ...] beside and below each other, in the range of values of `like`."""
    low, high = like.min(), like.max()
    unit = ((images - low) / (high - low).clamp_min(1e-8)).clamp(0, 1)
    pixels = _as_images(unit).mul(255).round().to(torch.uint8).cpu().numpy()
    rows, columns, _, height, width = pixels.shape
    scale = max(1, -(-_LEAST_SIDE // max(height, width)))
    pixels = pixels.transpose(0, 1, 3, 4, 2).repeat(scale, 2).repeat(scale, 3)
    cells = np.full((rows, columns, height * scale + _GAP, width * scale + _GAP, 3), 128, np.uint8)
    cells[:, :, _GAP:, _GAP:] = pixels
    picture = cells.transpose(0, 2, 1, 3, 4).reshape(rows * cells.shape[2], columns * cells.shape[3], 3)
    return np.pad(picture, ((0, _GAP), (0, _GAP), (0, 0)), constant_values=128)


def _as_images(values: Tensor) -> Tensor:
    """[rows, columns, 3, H, W] of images with any number of channels, or of vectors, which become a row of pixels."""
    if values.ndim < 5:
        values = values.flatten(2)[:, :, None, None]
    channels = values.shape[2]
    # Of a stack of frames the newest is shown.
    return values[:, :, -3:] if channels >= 3 and channels % 3 == 0 else values[:, :, -1:].expand(-1, -1, 3, -1, -1)
