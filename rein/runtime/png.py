"""PNG files without further packages."""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Writes an image; folders are made, and a file that is there is replaced.

    Args:
        path: ends in .png.
        pixels: [H, W, 3], red, green and blue.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"pixels must be uint8 of shape [H, W, 3], got {pixels.dtype} of {pixels.shape}")
    height, width = pixels.shape[:2]
    # Each row begins with the number of its filter, 0 for none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(_SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks))
    partial.replace(path)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
