"""Symmetries of board games: a position, its moves and what is known of them, mirrored or turned.

A game that is the same game after its board was mirrored gives a model twice as much to learn from; one that may be turned
as well, eight times (Silver et al. 2017, doi:10.1038/nature24270, methods).
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.search.model_structures import ModelTarget
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec

SymmetryKind: TypeAlias = Literal["mirror", "square"]
"""Left and right changed; or all eight of a square."""

_BOARD, _MASK = "board", "valid_action_mask"


class BoardSymmetries:
    """Shows positions as one of their images, drawn by chance."""

    def __init__(self, kind: SymmetryKind, observation_spec: Nest, action_spec: BoundedTensorSpec) -> None:
        """Finds the images of cells and of moves.

        Args:
            kind: "mirror" changes left and right, "square" mirrors and turns.
            observation_spec: of a board [planes, rows, columns], or of a dictionary whose field `board` is one.
            action_spec: as many moves as columns, as cells, or as cells and one more, which stays what it is (a pass).
        """
        board = observation_spec[_BOARD] if isinstance(observation_spec, dict) else observation_spec
        if kind not in ("mirror", "square"):
            raise ValueError(f"symmetry is {kind!r}: give 'mirror' or 'square'")
        if not isinstance(board, TensorSpec) or board.ndim != 3:
            raise ValueError(f"symmetry={kind!r} needs a board [planes, rows, columns], got {observation_spec}")
        if action_spec.ndim != 0 or not action_spec.is_discrete:
            raise ValueError(f"symmetry={kind!r} needs moves of one discrete number, got {action_spec}")
        rows, columns = board.shape[1:]
        if kind == "square" and rows != columns:
            raise ValueError(f"symmetry='square' turns boards, and this one has {rows} rows and {columns} columns")
        self._cells = _images_of_cells(kind, rows, columns)
        self._moves = _images_of_moves(kind, self._cells, columns, action_spec.num_values)

    def draw(self, num_rows: int, device: torch.device) -> Tensor:
        """Which image each of `num_rows` rows becomes, int64 [B]."""
        return torch.randint(len(self._cells), (num_rows,), device=device)

    def observation(self, drawn: Tensor, observation: Nest) -> Nest:
        """Images of observations [B, ...]: of their board, and of their mask of legal moves if they have one.

        Args:
            drawn: [B], see `draw`.
            observation: [B, ..., planes, rows, columns], or a dictionary with that.
        """
        if not isinstance(observation, dict):
            return _reordered(observation.flatten(-2), self._cells.to(drawn.device)[drawn]).view_as(observation)
        images: dict[str, Any] = {**observation, _BOARD: self.observation(drawn, observation[_BOARD])}
        if _MASK in observation:
            images[_MASK] = self.of_moves(drawn, observation[_MASK])
        return images

    def moves(self, drawn: Tensor, moves: Tensor) -> Tensor:
        """Images of moves [B, ...]."""
        # An image that undoes its own: where the number of a move stands in the order of `of_moves`.
        places = self._moves.argsort(1).to(drawn.device)[drawn]
        return places.gather(1, moves.reshape(len(moves), -1).long()).view_as(moves).to(moves.dtype)

    def of_moves(self, drawn: Tensor, values: Tensor) -> Tensor:
        """Values of all moves [B, ..., moves], in the order of their images."""
        return _reordered(values, self._moves.to(drawn.device)[drawn])

    def target(self, drawn: Tensor, target: ModelTarget) -> ModelTarget:
        """Images of targets [B, ...]; rewards, values and ends stay what they are."""
        if isinstance(target.action, Tensor):
            target = target._replace(action=self.moves(drawn, target.action))
        elif isinstance(target.action_policy, Tensor):
            target = target._replace(action_policy=self.of_moves(drawn, target.action_policy))
        if not nest.is_empty(target.observation):
            target = target._replace(observation=self.observation(drawn, target.observation))
        return target


def _images_of_cells(kind: str, rows: int, columns: int) -> Tensor:
    """For each image, which cell stands in each place; [S, rows * columns]."""
    cells = torch.arange(rows * columns).view(rows, columns)
    turned = [cells.rot90(turns) for turns in range(4 if kind == "square" else 1)]
    return torch.stack([image.flatten() for board in turned for image in (board, board.flip(1))])


def _images_of_moves(kind: str, cells: Tensor, columns: int, num_moves: int) -> Tensor:
    """For each image, which move stands in the place of each move; [S, moves]."""
    num_cells = cells.shape[1]
    if num_moves == columns and kind == "mirror":
        return cells[:, :columns]  # The lowest row: its cells have the numbers of the columns.
    if num_moves == num_cells:
        return cells
    if num_moves == num_cells + 1:
        return torch.cat([cells, torch.full((len(cells), 1), num_cells)], 1)
    raise ValueError(
        f"symmetry={kind!r} knows moves that are columns (for 'mirror'), cells, or cells and a pass: with {columns} columns "
        f"and {num_cells} cells there are {num_moves}"
    )


def _reordered(values: Tensor, order: Tensor) -> Tensor:
    """Entries of the last dimension of [B, ..., n] in the order [B, n]."""
    index = order.view(len(order), *(1,) * (values.ndim - 2), -1).expand(values.shape)
    return values.gather(-1, index)
