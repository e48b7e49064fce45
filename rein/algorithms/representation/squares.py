"""Images of coloured squares on black, and which square each pixel is of: for who looks for objects."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from rein.config import configurable

_LEAST_GAP = 1 / 6
"""Between the hues of two squares of an image, of the circle of hues: from red to yellow, for example."""

_COLOURS = ((1.0, 0.2, 0.2), (0.2, 0.4, 1.0), (0.3, 1.0, 0.3), (1.0, 0.9, 0.2))


def squares(
    number: int, count: int = 3, side: int = 16, size: int = 5, draws_colours: bool = False
) -> tuple[Tensor, Tensor]:
    """Squares of different colours in places drawn at random, which do not overlap.

    Args:
        number: N, images.
        count: squares in each, at most 4.
        side: of an image, in pixels.
        size: side of a square, in pixels.
        draws_colours: whether the colours of each image are drawn anew, pure ones of any hue, no two hues within a sixth of
            the circle. Otherwise the first square is always red, then blue, green and yellow.

    Returns:
        Images [N, 3, side, side] in [0, 1], and the number of the square that each pixel is of, [N, side, side], -1 for
        none.
    """
    if not 1 <= count <= len(_COLOURS):
        raise ValueError(f"count is {count}: there are 1 to {len(_COLOURS)} squares")
    # A square then keeps others off one corner of the image at most, so that four always find room.
    if not 1 <= size <= (side + 1) // 3:
        raise ValueError(f"size is {size}: squares of 1 to {(side + 1) // 3} pixels always find room in {side}")
    images, owners = torch.zeros(number, 3, side, side), torch.full((number, side, side), -1)
    for image, owner in zip(images, owners, strict=True):
        colours = _pure_colours(_hues(count)) if draws_colours else torch.tensor(_COLOURS)
        for index in torch.randperm(count).tolist():
            place = _free_place(owner, side, size)
            owner[place] = index
            image[(slice(None), *place)] = colours[index][:, None, None]
    return images, owners


def _hues(count: int) -> Tensor:
    """[count] places on a circle of length one, in any order, no two within the least gap."""
    places = torch.rand(count).sort().values * (1 - count * _LEAST_GAP) + _LEAST_GAP * torch.arange(count)
    return ((places + torch.rand(())) % 1)[torch.randperm(count)]


def _pure_colours(hues: Tensor) -> Tensor:
    """[N, 3] of hues [N]: 0 is red, 1/3 green, 2/3 blue; one channel is 1 and one is 0."""
    distance = (hues.unsqueeze(1) - torch.arange(3) / 3 + 0.5) % 1 - 0.5
    return (2 - 6 * distance.abs()).clamp(0, 1)


def _free_place(owner: Tensor, side: int, size: int) -> tuple[slice, slice]:
    while True:
        top, left = torch.randint(side - size + 1, (2,)).tolist()
        place = (slice(top, top + size), slice(left, left + size))
        if (owner[place] < 0).all():
            return place


@configurable
def squares_data(
    batch_size: int = 32,
    num_examples: int = 8_000,
    count: int = 3,
    side: int = 16,
    size: int = 5,
    draws_colours: bool = False,
) -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    """Loaders of images of squares to train on, always the same, and of 512 others to test on; see `squares`.

    Args:
        batch_size: images of a training batch.
        num_examples: images to train on.
        count: squares in each.
        side: of an image, in pixels.
        size: side of a square, in pixels.
        draws_colours: whether the colours of each image are drawn anew.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        train, test = (
            TensorDataset(*squares(number, count, side, size, draws_colours)) for number in (num_examples, 512)
        )
    return DataLoader(train, min(batch_size, num_examples), shuffle=True), DataLoader(test, 512)
