"""Data sets: recorded episodes in one file, to learn from without an environment.

A file is in the safetensors format, with a manifest in its header; `docs/offline.md` tells what is where. It is written
episode by episode and read through the memory map of the system, so that it may be larger than memory. Loading one
never runs code from it.
"""

from rein.replay.datasets.buffers import DataSetBuffer, make_offline_buffer
from rein.replay.datasets.manifest import DataSetError, Specs
from rein.replay.datasets.reader import DataSet, is_data_set
from rein.replay.datasets.writer import DataSetWriter, join_data_sets

__all__ = [
    "DataSet",
    "DataSetBuffer",
    "DataSetError",
    "DataSetWriter",
    "Specs",
    "is_data_set",
    "join_data_sets",
    "make_offline_buffer",
]
