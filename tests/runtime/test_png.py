import struct
import zlib

import numpy as np
import pytest

from rein.runtime.png import write_png


def read(path):
    """The pixels of a PNG as `write_png` makes it."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    width, height, depth, color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, color) == (8, 2)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 3)


def test_what_is_written_can_be_read(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    path = tmp_path / "new" / "picture.png"
    write_png(path, pixels)
    assert np.array_equal(read(path), pixels)
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"]
    image = pytest.importorskip("PIL.Image")
    assert np.array_equal(np.asarray(image.open(path)), pixels)


def test_other_arrays_are_refused(tmp_path):
    with pytest.raises(ValueError, match="uint8"):
        write_png(tmp_path / "a.png", np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match=r"\[H, W, 3\]"):
        write_png(tmp_path / "a.png", np.zeros((2, 2), np.uint8))
