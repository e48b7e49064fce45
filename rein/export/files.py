"""Exported policies as files: ONNX with the weights inside, or torch's .pt2 archive; each carries its signature."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rein.export.signature import Signature
from rein.export.tracing import ExportError, Traced, quietly

FORMATS = {"onnx": ".onnx", "torch": ".pt2"}
"""Formats and how the names of their files end."""

_KEY = "rein.json"
Step = Callable[[Sequence[NDArray[Any]]], list[NDArray[Any]]]
"""All inputs, [B, ...] each and in order, to all outputs."""


def format_of(path: Path) -> str:
    """The format that the name of a file asks for."""
    for name, suffix in FORMATS.items():
        if path.suffix.lower() == suffix:
            return name
    raise ValueError(f"{path.name} names no format: end it in {' or '.join(FORMATS.values())}, or give format=...")


def require_format(name: str) -> None:
    """Raises unless policies can be written in a format here."""
    if name not in FORMATS:
        raise ValueError(f"format is {name!r}: choose {' or '.join(FORMATS)}")
    if name == "onnx":
        _onnx_runtime()
        _require("onnxscript")


def write(traced: Traced, path: Path, name: str) -> None:
    """Writes a traced policy into a file, which is there whole or not at all.

    Args:
        traced: what to write.
        path: the file.
        name: of the format.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a directory of its own, since the name of the file gets into a torch archive.
    with TemporaryDirectory(prefix=".export-", dir=path.parent) as beside, quietly():
        partial = Path(beside) / (path.name if name == "onnx" else path.stem + FORMATS[name])
        (_write_onnx if name == "onnx" else _write_torch)(traced, partial)
        partial.replace(path)


def _write_onnx(traced: Traced, path: Path) -> None:
    signature = traced.signature
    try:
        program = torch.onnx.export(
            traced.program,
            input_names=[port.name for port in signature.inputs],
            output_names=[port.name for port in signature.outputs],
            dynamo=True,
            verbose=False,
        )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = " ".join(str(error).split())[:300]
        raise ExportError(f"the policy has no counterpart in ONNX ({reason}): use the format torch") from error
    assert program is not None
    model = program.model
    model.metadata_props[_KEY] = json.dumps(signature.to_json())
    values = [*model.graph.inputs, *model.graph.outputs, *(value for node in model.graph for value in node.outputs)]
    for value in values:
        shape = value.shape
        if shape is not None and len(shape) and not isinstance(shape[0], int) and not shape.frozen:
            shape[0] = "batch"
    program.save(str(path), external_data=False)


def _write_torch(traced: Traced, path: Path) -> None:
    torch.export.save(traced.program, path, extra_files={_KEY: json.dumps(traced.signature.to_json())})


def read(path: Path, trust: bool, name: str | None = None) -> tuple[Signature, Step]:
    """The signature of an exported policy and a function that computes its steps.

    Args:
        path: the file.
        trust: needed for the format torch, whose archives may hold pickles.
        name: of the format; None goes by the name of the file.
    """
    if not path.is_file():
        raise ValueError(f"there is no exported policy {path}: make one with `rein export RUN --output {path}`")
    return _read_onnx(path) if (name or format_of(path)) == "onnx" else _read_torch(path, trust)


def _read_onnx(path: Path) -> tuple[Signature, Step]:
    runtime = _onnx_runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    text = session.get_modelmeta().custom_metadata_map.get(_KEY)
    signature = _signature(path, text)
    names = [port.name for port in signature.inputs]
    taken = {one.name for one in session.get_inputs()}

    def step(inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        feed = {name: array for name, array in zip(names, inputs, strict=True) if name in taken}
        return list(session.run([port.name for port in signature.outputs], feed))

    return signature, step


def _read_torch(path: Path, trust: bool) -> tuple[Signature, Step]:
    if not trust:
        raise ValueError(
            f"{path} is a torch archive, which may hold code: load it with trust=True if you trust its author"
        )
    extra: dict[str, Any] = {_KEY: ""}
    with quietly():
        module = torch.export.load(path, extra_files=extra).module()
    signature = _signature(path, extra[_KEY])

    def step(inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        with torch.no_grad():
            outputs = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs))
        return [output.numpy() for output in outputs]

    return signature, step


def _signature(path: Path, text: str | None) -> Signature:
    if not text:
        raise ValueError(f"{path} was not written by `rein export`: it has no signature")
    return Signature.from_json(json.loads(text))


def _onnx_runtime() -> Any:
    return _require("onnxruntime")


def _require(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"ONNX needs {name}: pip install 'rein-rl[export]', or use the format torch") from error
