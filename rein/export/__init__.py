"""Trained policies for use elsewhere: as ONNX or torch files that need no Rein, and as a folder for a model hub."""

from rein.export.exported import ExportedPolicy
from rein.export.parity import Parity
from rein.export.policies import Export, export_policy
from rein.export.signature import Port, Signature
from rein.export.tracing import ExportError

__all__ = [
    "Export",
    "ExportError",
    "ExportedPolicy",
    "Parity",
    "Port",
    "Signature",
    "export_policy",
]
