"""The manifest of a checkpoint: what must be there, and how each byte of it is checked."""

import hashlib
import re
from typing import Any, NamedTuple

from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.errors import CheckpointError, DamagedCheckpointError

MANIFEST = "manifest.json"
FORMAT = "rein-checkpoint"
VERSION = 1
MAX_MANIFEST_BYTES = 16 << 20
MAX_STEP = 10**18

_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileRecord(NamedTuple):
    """What a file must hold: its size in bytes and the SHA-256 of them, in hexadecimal."""

    size: int
    sha256: str


class ComponentRecord(NamedTuple):
    """The files of a component; `tensors` is None if it has no tensor."""

    structure: FileRecord
    tensors: FileRecord | None


class Manifest(NamedTuple):
    """The content of a checkpoint: its step and the files of its components.

    The names of the files follow from the names of the components, so that a manifest cannot point
    anywhere else.
    """

    step: int
    components: dict[str, ComponentRecord]

    def files(self) -> dict[str, FileRecord]:
        """The record of each file but the manifest, by file name."""
        found = {}
        for name, record in self.components.items():
            found[structure_file(name)] = record.structure
            if record.tensors is not None:
                found[tensor_file(name)] = record.tensors
        return found


def structure_file(component: str) -> str:
    """The name of the file that holds the structure of `component`."""
    return f"{component}.json"


def tensor_file(component: str) -> str:
    """The name of the file that holds the tensors of `component`."""
    return f"{component}.safetensors"


def check_component_names(names: list[Any]) -> None:
    """Raises ValueError unless `names` can be file names on any system, next to the manifest."""
    for name in names:
        if not isinstance(name, str) or not _COMPONENT.fullmatch(name) or name.lower() == "manifest":
            raise ValueError(
                f"{name!r:.120} cannot name a component of a checkpoint; use 1 to 100 letters, "
                "digits, '_' and '-', and not 'manifest'"
            )
    if len({name.lower() for name in names}) != len(names):
        raise ValueError(f"component names must differ in more than case: {sorted(names)}")


def dump_manifest(manifest: Manifest) -> bytes:
    """The text of `manifest`, which carries its own hash."""
    body = {
        "version": VERSION,
        "step": manifest.step,
        "components": {
            name: {
                "structure": record.structure._asdict(),
                "tensors": None if record.tensors is None else record.tensors._asdict(),
            }
            for name, record in manifest.components.items()
        },
    }
    return strict_json.dump_canonical({"format": FORMAT, "body": body, "sha256": _digest(body)})


def parse_manifest(text: bytes, what: str) -> Manifest:
    """The manifest written in `text`.

    Args:
        text: not trusted.
        what: names the manifest in error messages.

    Raises:
        DamagedCheckpointError: altered, or not a manifest.
        CheckpointError: written by a newer Rein.
    """
    envelope = strict_json.load_canonical(text, what)
    if not isinstance(envelope, dict) or envelope.get("format") != FORMAT:
        raise DamagedCheckpointError(f"{what} is not the manifest of a checkpoint")
    # The envelope stays the same in all versions, so damage is never taken for a newer version.
    body = envelope.get("body")
    if envelope.keys() != {"format", "body", "sha256"} or envelope["sha256"] != _digest(body):
        raise DamagedCheckpointError(f"{what} was altered: it does not match its own hash")
    if not isinstance(body, dict) or type(body.get("version")) is not int:
        raise DamagedCheckpointError(f"{what} has no version")
    if body["version"] > VERSION:
        raise CheckpointError(
            f"{what} has format version {body['version']}; this Rein reads versions up to "
            f"{VERSION}. Upgrade Rein, or name an older checkpoint"
        )
    try:
        return _parse_body(body)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(f"{what} is not a manifest: {error!r}") from error


def _digest(body: Any) -> str:
    return hashlib.sha256(strict_json.dump_canonical(body)).hexdigest()


def _parse_body(body: dict[str, Any]) -> Manifest:
    step, components = body["step"], body["components"]
    if body.keys() != {"version", "step", "components"} or body["version"] != VERSION:
        raise ValueError(f"unexpected entries {sorted(body)} or version {body['version']}")
    if type(step) is not int or not 0 <= step <= MAX_STEP or not isinstance(components, dict):
        raise ValueError(f"step {step!r:.50} or components are wrong")
    check_component_names(list(components))
    records = {}
    for name, entry in components.items():
        if not isinstance(entry, dict) or entry.keys() != {"structure", "tensors"}:
            raise ValueError(f"{name} has unexpected entries")
        tensors = None if entry["tensors"] is None else _parse_record(entry["tensors"])
        records[name] = ComponentRecord(_parse_record(entry["structure"]), tensors)
    return Manifest(step, records)


def _parse_record(entry: Any) -> FileRecord:
    record = FileRecord(**entry)
    if type(record.size) is not int or record.size < 0 or not _DIGEST.fullmatch(record.sha256):
        raise ValueError(f"{entry!r:.150} is not the size and hash of a file")
    return record
