"""See `rein.compat.sb3.records`."""

from rein.compat.sb3.records import (
    CSVOutputFormat,
    HumanOutputFormat,
    JSONOutputFormat,
    Logger,
    TensorBoardOutputFormat,
    configure,
)

__all__ = [
    "CSVOutputFormat",
    "HumanOutputFormat",
    "JSONOutputFormat",
    "Logger",
    "TensorBoardOutputFormat",
    "configure",
]
