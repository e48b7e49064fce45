"""Records of tensors in memory that two processes share."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_ALIGNMENT = 64


class Field(NamedTuple):
    """One tensor of a record."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def fields_of(tensors: Sequence[Tensor]) -> list[Field]:
    """The fields of records that hold such tensors."""
    return [Field(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


class SharedRecords:
    """N records, all with the same fields; whoever gets `block` sees the same ones."""

    def __init__(self, fields: Sequence[Field], count: int = 1, block: Tensor | None = None) -> None:
        """Makes the records, or finds them in the memory where another process made them.

        Args:
            fields: shapes and dtypes of the tensors of a record.
            count: number of records, N.
            block: memory of records with the same fields; None makes new memory, of zeros.
        """
        starts, size = [], 0
        for field in fields:
            starts.append(size)
            length = field.dtype.itemsize * torch.Size(field.shape).numel()
            size += -(-length // _ALIGNMENT) * _ALIGNMENT
        if block is None:
            block = torch.zeros(count, max(size, _ALIGNMENT), dtype=torch.uint8, device="cpu")
            block.share_memory_()  # type: ignore[no-untyped-call]
        self.block = block
        """[N, bytes] uint8; sent to another process, it is shared and not copied."""
        self._records = [
            [_view(row, start, field) for start, field in zip(starts, fields, strict=True)] for row in block.unbind(0)
        ]

    def __len__(self) -> int:
        return len(self._records)

    def write(self, index: int, tensors: Sequence[Tensor]) -> None:
        """Copies tensors, from whatever device, into a record."""
        for target, tensor in zip(self._records[index], tensors, strict=True):
            target.copy_(tensor)

    def read(self, index: int) -> list[Tensor]:
        """Copies of the tensors of a record, on the host."""
        return [tensor.clone() for tensor in self._records[index]]

    def views(self, index: int) -> list[Tensor]:
        """The tensors of a record themselves, on the host; the other process may write to them."""
        return self._records[index]


def _view(row: Tensor, start: int, field: Field) -> Tensor:
    length = field.dtype.itemsize * torch.Size(field.shape).numel()
    return row[start : start + length].view(field.dtype).view(field.shape)
