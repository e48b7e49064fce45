"""Damage is always noticed, named and never taken for a fresh start; hostile files never run."""

import hashlib
import io
import json
import logging
import os
import pickle
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rein.runtime.checkpoint import (
    Checkpointer,
    CheckpointError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
    load_partial,
    tensor_file,
)
from rein.runtime.checkpoint.manifest import (
    ComponentRecord,
    FileRecord,
    Manifest,
    dump_manifest,
    parse_manifest,
)

STATE = {
    "alg": {"w": torch.randn(20, 30), "b": torch.zeros(5, dtype=torch.bool), "name": "net"},
    "trainer": {"step": 3, "rng": np.arange(10), "done": (True, None, 0.5)},
}


def altered(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return data[: chance.randrange(len(data))]
    position, bit = chance.randrange(len(data)), chance.randrange(8)
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


def test_200_random_truncations_and_bit_flips_are_all_detected(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, STATE)
    path = checkpointer.save(2, STATE)
    chance = random.Random(0)
    for _ in range(200):
        file = chance.choice(sorted(path.iterdir()))
        original = file.read_bytes()
        file.write_bytes(altered(original, chance))
        with pytest.raises(DamagedCheckpointError):
            checkpointer.load(2)
        with pytest.raises(DamagedCheckpointError):
            checkpointer.verify(path)
        assert checkpointer.load().step == 1
        file.write_bytes(original)
    assert checkpointer.load().step == 2


def test_every_bit_of_a_manifest_counts(tmp_path):
    text = (Checkpointer(tmp_path).save(2, STATE) / "manifest.json").read_bytes()
    parse_manifest(text, "it")
    for position in range(len(text)):
        for bit in range(8):
            flipped = bytes([text[position] ^ (1 << bit)])
            with pytest.raises(DamagedCheckpointError):
                parse_manifest(text[:position] + flipped + text[position + 1 :], "it")
    for length in range(len(text)):
        with pytest.raises(DamagedCheckpointError):
            parse_manifest(text[:length], "it")


def test_every_bit_of_a_tensor_header_is_read_without_a_crash():
    data = b"".join(tensor_file.encode_file({"a": torch.ones(2, 3), "c": torch.ones(2) * 1j}))
    start = int.from_bytes(data[:8], "little") + 8
    for position in range(start):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            try:
                file = tensor_file.TensorFile(flipped, "it")
                file.tensor("a", "float32")
                file.tensor("c", "complex64")
            except DamagedCheckpointError:
                pass


def test_each_skipped_checkpoint_is_named_with_the_reason(tmp_path, caplog):
    checkpointer = Checkpointer(tmp_path)
    for step in (1, 2, 3, 10):
        checkpointer.save(step, STATE)
    os.truncate(tmp_path / "ckpt-10" / "alg.safetensors", 100)
    (tmp_path / "ckpt-3" / "manifest.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpointer.load().step == 2
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert "ckpt-10" in caplog.messages[0]
        assert "100 bytes" in caplog.messages[0]
        assert "ckpt-3" in caplog.messages[1]
        assert "lacks 'manifest.json'" in caplog.messages[1]
        assert checkpointer.latest_step() == 2


def test_damage_everywhere_is_an_error_and_not_a_fresh_start(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    assert checkpointer.latest_step() is None
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint"):
        checkpointer.load()
    for step in (1, 2):
        path = checkpointer.save(step, STATE)
        os.truncate(path / "trainer.json", 3)
    with pytest.raises(CheckpointError, match="none is intact") as caught:
        checkpointer.load()
    assert not isinstance(caught.value, CheckpointNotFoundError)
    assert "ckpt-1/trainer.json" in str(caught.value)
    assert "ckpt-2/trainer.json" in str(caught.value)
    with pytest.raises(CheckpointError, match="none is intact"):
        checkpointer.latest_step()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "alg.json").unlink(),
        lambda path: (path / "alg.safetensors").unlink(),
        lambda path: (path / "extra").write_text("x"),
        lambda path: (path / "extra").mkdir(),
        lambda path: shutil.copy(path / "alg.json", path / "trainer.json"),
        lambda path: shutil.copy(path.with_name("ckpt-1") / "manifest.json", path),
        lambda path: shutil.copy(path.with_name("ckpt-1") / "alg.safetensors", path),
        lambda path: [file.unlink() for file in path.iterdir()],
        lambda path: (path / "manifest.json").write_text(""),
        lambda path: (path / "manifest.json").write_text("{}"),
        lambda path: (path / "manifest.json").write_bytes(b"\xff\xfe"),
        lambda path: (path / "manifest.json").write_bytes(b" " * (17 << 20)),
    ],
)
def test_missing_extra_and_exchanged_files_are_detected(tmp_path, damage):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"alg": torch.randn(20, 30), "trainer": 0})
    path = checkpointer.save(2, STATE)
    damage(path)
    with pytest.raises(DamagedCheckpointError):
        checkpointer.load(2)
    assert checkpointer.load().step == 1


def write_checkpoint(path: Path, files: dict[str, bytes], step: int = 5, **body: Any) -> Path:
    """A checkpoint of any content whose manifest and hashes are right."""
    path.mkdir()
    record = {}
    for name, data in files.items():
        (path / name).write_bytes(data)
        record[name] = FileRecord(len(data), hashlib.sha256(data).hexdigest())
    components = {
        name.removesuffix(".json"): ComponentRecord(record[name], record.get(name.replace(".json", ".safetensors")))
        for name in files
        if name.endswith(".json")
    }
    envelope = json.loads(dump_manifest(Manifest(step, components)))
    envelope["body"].update(body)
    text = json.dumps(envelope["body"], indent=1, sort_keys=True) + "\n"
    envelope["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(envelope, indent=1, sort_keys=True) + "\n")
    return path


class Payload:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.canary}'",)


def safetensors_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}


def torch_file(value: Any, zipped: bool) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def numpy_file(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([value], dtype=object), allow_pickle=True)
    return file.getvalue()


FOUR = b"\0\0\x80\x3f"
HOSTILE_TENSORS = {
    "pickle": lambda canary: pickle.dumps(Payload(canary)),
    "torch zip": lambda canary: torch_file(Payload(canary), True),
    "old torch file": lambda canary: torch_file(Payload(canary), False),
    "numpy objects": lambda canary: numpy_file(Payload(canary)),
    "empty": lambda canary: b"",
    "seven bytes": lambda canary: b"\0" * 7,
    "no header": lambda canary: safetensors_file(b""),
    "endless header": lambda canary: safetensors_file({}, length=2**64 - 1),
    "header over the limit": lambda canary: safetensors_file({}, length=2**30),
    "header past the end": lambda canary: safetensors_file({}, length=3),
    "pickle as header": lambda canary: safetensors_file(pickle.dumps(Payload(canary))),
    "deep header": lambda canary: safetensors_file(b"[" * 100_000),
    "list as header": lambda canary: safetensors_file([]),
    "no such tensor": lambda canary: safetensors_file({}),
    "entry is text": lambda canary: safetensors_file({"a": "__import__('os')"}, FOUR),
    "entry lacks shape": lambda canary: safetensors_file({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, FOUR),
    "extra key": lambda canary: safetensors_file({"a": {**entry("F32", [1], 0, 4)["a"], "x": 1}}),
    "unknown type": lambda canary: safetensors_file(entry("OBJECT", [1], 0, 4), FOUR),
    "type is a list": lambda canary: safetensors_file(entry([], [1], 0, 4), FOUR),  # type: ignore[arg-type]
    "other type": lambda canary: safetensors_file(entry("I32", [1], 0, 4), FOUR),
    "negative offset": lambda canary: safetensors_file(entry("F32", [1], -4, 0), FOUR),
    "float offset": lambda canary: safetensors_file(entry("F32", [1], 0.0, 4.0), FOUR),
    "bool offset": lambda canary: safetensors_file(entry("F32", [1], False, 4), FOUR),
    "absurd offset": lambda canary: safetensors_file(entry("F32", [2**62], 0, 2**64), FOUR),
    "absurd shape": lambda canary: safetensors_file(entry("F32", [2**40, 2**40], 0, 4), FOUR),
    "impossible empty shape": lambda canary: safetensors_file(entry("F32", [0, 2**70], 0, 0)),
    "negative shape": lambda canary: safetensors_file(entry("F32", [-1, -1], 0, 4), FOUR),
    "shape is a number": lambda canary: safetensors_file(entry("F32", 1, 0, 4), FOUR),
    "too many dimensions": lambda canary: safetensors_file(entry("F32", [1] * 1000, 0, 4), FOUR),
    "gap before": lambda canary: safetensors_file(entry("F32", [1], 4, 8), FOUR * 2),
    "bytes left over": lambda canary: safetensors_file(entry("F32", [1], 0, 4), FOUR * 2),
    "overlap": lambda canary: safetensors_file({**entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)["a"]}, FOUR),
    "key twice": lambda canary: safetensors_file(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{}}', FOUR
    ),
}


@pytest.mark.parametrize("name", HOSTILE_TENSORS)
def test_hostile_tensor_files_are_refused_and_nothing_runs(tmp_path, name):
    canary = tmp_path / "canary"
    files = {
        "alg.json": b'{"dict":{"w":{"tensor":["a","float32"]}}}',
        "alg.safetensors": HOSTILE_TENSORS[name](canary),
    }
    path = write_checkpoint(tmp_path / "ckpt-5", files)
    refused_by_every_reader(path)
    assert not canary.exists()


def test_the_corpus_would_work_if_it_were_not_hostile(tmp_path):
    files = {
        "alg.json": b'{"dict":{"w":{"tensor":["a","float32"]}}}',
        "alg.safetensors": safetensors_file(entry("F32", [1], 0, 4), FOUR),
    }
    path = write_checkpoint(tmp_path / "ckpt-5", files)
    assert Checkpointer(tmp_path).load().components == {"alg": {"w": torch.ones(1)}}
    assert load_partial(str(path)) == {"w": torch.ones(1)}
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Payload(canary)))
    assert canary.exists()


def refused_by_every_reader(path: Path) -> None:
    checkpointer = Checkpointer(path.parent)
    with pytest.raises(CheckpointError):
        checkpointer.load(5)
    with pytest.raises(CheckpointError):
        checkpointer.load()
    with pytest.raises(CheckpointError):
        checkpointer.latest_step()
    with pytest.raises(CheckpointError):
        checkpointer.verify(path)
    with pytest.raises(CheckpointError):
        load_partial(f"alg@{path}")
    with pytest.raises(CheckpointError):
        load_partial(str(path.parent))


HOSTILE_STRUCTURES = [
    b"",
    b"\xff\xfe",
    b"nonsense",
    b"{",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b"[" * 150 + b"]" * 150,
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 5000,
    b"9223372036854775808",
    b"{}",
    b'{"dict":{},"tuple":[]}',
    b'{"dict":[]}',
    b'{"dict":{"a":1,"a":2}}',
    b'{"__reduce__":["os.system",["touch CANARY"]]}',
    b'{"py/object":"os.system","py/reduce":["touch CANARY"]}',
    b"{\"eval\":\"__import__('os').system('touch CANARY')\"}",
    b'{"pairs":[[1]]}',
    b'{"pairs":[[[],1]]}',
    b'{"pairs":[[1,1],[1,2]]}',
    b'{"ordered":[]}',
    b'{"ordered":[[[1,2]]]}',
    b'{"set":[[1]]}',
    b'{"size":["a"]}',
    b'{"size":[1e30]}',
    b'{"deque":[[1,2],1]}',
    b'{"deque":[[1],"a"]}',
    b'{"int":5}',
    b'{"int":"__import__"}',
    b'{"float":"3ff0000000000000"}',
    b'{"float":"00"}',
    b'{"float":"zz"}',
    b'{"complex":[1.0]}',
    b'{"complex":["a",1.0]}',
    b'{"bytes":"?"}',
    b'{"bytes":null}',
    b'{"dtype":"nn"}',
    b'{"dtype":["load"]}',
    b'{"number":["|O","0000000000000000"]}',
    b'{"number":["<f4","00"]}',
    b'{"number":["<f4","0000000000000000"]}',
    b'{"number":["<f4"]}',
    b'{"tensor":["a","float32"]}',
    b'{"array":["a","|O"]}',
    b'{"tensor":"a"}',
]


@pytest.mark.parametrize("text", HOSTILE_STRUCTURES, ids=range(len(HOSTILE_STRUCTURES)))
def test_hostile_structures_are_refused_and_nothing_runs(tmp_path, text):
    canary = tmp_path / "canary"
    files = {"alg.json": text.replace(b"CANARY", str(canary).encode())}
    refused_by_every_reader(write_checkpoint(tmp_path / "ckpt-5", files))
    assert not canary.exists()


@pytest.mark.parametrize(
    ("node", "code", "data"),
    [
        (b'{"tensor":["a","bool"]}', "BOOL", b"\x02"),
        (b'{"array":["a","|b1"]}', "BOOL", b"\xff"),
        (b'{"tensor":["a","complex64"]}', "F32", FOUR),
        (b'{"array":["a","|O"]}', "F32", FOUR),
        (b'{"array":["a","float32"]}', "F32", FOUR),
        (b'{"tensor":["a","load"]}', "F32", FOUR),
        (b'{"tensor":["b","float32"]}', "F32", FOUR),
    ],
)
def test_tensors_that_are_not_what_the_structure_says_are_refused(tmp_path, node, code, data):
    file = safetensors_file(entry(code, [1], 0, len(data)), data)
    path = write_checkpoint(tmp_path / "ckpt-5", {"alg.json": node, "alg.safetensors": file})
    refused_by_every_reader(path)


def test_unaligned_tensors_of_other_writers_are_copied_to_aligned_memory():
    # Torch crashes on complex numbers at an odd multiple of eight bytes.
    data = np.arange(40, dtype=np.complex128).tobytes()
    for padding in range(16):
        text = json.dumps(entry("F64", [4, 10, 2], 0, len(data))).encode() + b" " * padding
        file = tensor_file.TensorFile(bytearray(safetensors_file(text, data)), "it")
        assert file.tensor("a", "complex128").sum() == 780


def test_deep_nesting_is_refused_even_without_a_recursion_limit(tmp_path):
    limit = sys.getrecursionlimit()
    path = write_checkpoint(tmp_path / "ckpt-5", {"alg.json": b"[" * 10_000_000})
    try:
        sys.setrecursionlimit(10**9)
        refused_by_every_reader(path)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "body",
    [
        {"version": 0},
        {"version": "1"},
        {"version": None},
        {"step": 4},
        {"step": -5},
        {"step": "5"},
        {"step": True},
        {"step": 10**30},
        {"extra": 1},
        {"components": []},
        {"components": {"../../etc/passwd": None}},
        {"components": {"alg": None}},
        {"components": {"alg": {"structure": None, "tensors": None}}},
        {"components": {"alg": {"structure": {"size": 1}, "tensors": None}}},
        {"components": {"alg": {"structure": {"size": -1, "sha256": "0" * 64}, "tensors": None}}},
        {"components": {"alg": {"structure": {"size": 4, "sha256": 0}, "tensors": None}}},
        {"components": {"alg": {"structure": {"size": 2**80, "sha256": "0" * 64}, "tensors": None}}},
        {
            "components": {
                name: {"structure": {"size": 4, "sha256": "0" * 64}, "tensors": None} for name in ("alg", "../alg")
            }
        },
        {
            "components": {
                name: {"structure": {"size": 4, "sha256": "0" * 64}, "tensors": None} for name in ("alg", "/etc/passwd")
            }
        },
    ],
)
def test_hostile_manifests_are_refused(tmp_path, body):
    refused_by_every_reader(write_checkpoint(tmp_path / "ckpt-5", {"alg.json": b"null"}, **body))


def test_manifest_of_a_newer_format_is_refused_and_never_passed_over(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"alg": {}})
    write_checkpoint(tmp_path / "ckpt-5", {"alg.json": b"null"}, version=99, more=["new"])
    for load in (checkpointer.load, lambda: checkpointer.load(5), checkpointer.latest_step):
        with pytest.raises(CheckpointError, match=r"ckpt-5.*version 99.*up to 1.*Upgrade Rein"):
            load()
    with pytest.raises(CheckpointError, match="version 99"):
        checkpointer.save(5, {"alg": {}})
    assert checkpointer.load(1).step == 1


@pytest.mark.parametrize("name", ["manifest.json", "alg.json", "alg.safetensors"])
@pytest.mark.parametrize("kind", ["link outside", "link to a copy", "pipe", "directory"])
def test_files_that_are_not_regular_are_refused(tmp_path, name, kind):
    checkpoints = tmp_path / "checkpoints"
    path = Checkpointer(checkpoints).save(5, STATE)
    file = path / name
    data = file.read_bytes()
    file.unlink()
    if kind == "link outside":
        file.symlink_to("/etc/passwd")
    elif kind == "link to a copy":
        (tmp_path / "copy").write_bytes(data)
        file.symlink_to(tmp_path / "copy")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    refused_by_every_reader(path)


def test_step_that_is_a_link_or_a_file_is_refused(tmp_path):
    elsewhere = Checkpointer(tmp_path / "elsewhere").save(5, STATE)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "ckpt-5").symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="not a directory"):
        Checkpointer(tmp_path / "linked").load()
    canary = tmp_path / "canary"
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "ckpt-5").write_bytes(torch_file(Payload(canary), True))
    refused_by_every_reader(tmp_path / "pickled" / "ckpt-5")
    with pytest.raises(CheckpointError, match="can run code"):
        load_partial(f"alg@{tmp_path / 'pickled' / 'ckpt-5'}")
    assert not canary.exists()
