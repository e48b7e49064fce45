"""The machine: Python, torch, cores, memory, disk, compiler."""

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from rein.doctor.finding import Finding
from rein.runtime.cores import allowed_cores, time_quota, usable_cores
from rein.training.hardware import memory_limit, total_memory
from rein.version import __version__

_GIB = 2**30
_LEAST_DISK = 2 * _GIB
_LEAST_SHARED = _GIB // 4
_LEAST_MEMORY = 2 * _GIB
_COMPILERS = ("g++", "clang++", "c++")


def python() -> Iterator[Finding]:
    """Rein and the interpreter."""
    home = Path(__file__).parents[1]
    yield Finding("rein", "ok", f"{__version__} in {home}")
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{version} in {sys.prefix}")


def torch_version() -> Iterator[Finding]:
    """Torch and what it computes on."""
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        yield Finding("torch", "ok", f"{torch.__version__}, GPU: {names}")
    elif torch.version.cuda is not None:
        yield Finding(
            "torch",
            "problem",
            f"{torch.__version__} is built for CUDA {torch.version.cuda}, but finds no GPU",
            "check `nvidia-smi` and the driver, or install the CPU build to save gigabytes",
        )
    else:
        yield Finding("torch", "ok", f"{torch.__version__}, CPU only")


def cores() -> Iterator[Finding]:
    """Cores that may be used, and the threads that are set for them."""
    usable, quota = usable_cores(), time_quota()
    limits = [f"{os.cpu_count()} in the machine", f"{allowed_cores()} by affinity"]
    limits += [] if quota is None else [f"{quota:g} by the control group"]
    yield Finding("cores", "ok", f"{usable} usable: {', '.join(limits)}")
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > usable:
        yield Finding(
            "threads",
            "problem",
            f"OMP_NUM_THREADS={given} for {usable} usable cores: threads will wait for each other",
            f"export OMP_NUM_THREADS={usable}, or unset it",
        )
    else:
        yield Finding("threads", "ok", f"{torch.get_num_threads()} by torch, OMP_NUM_THREADS {given or 'not set'}")


def memory() -> Iterator[Finding]:
    """Main memory and its limit."""
    total, limit = total_memory(), memory_limit()
    text = f"{limit / _GIB:.1f} GiB" + ("" if limit == total else f" by the control group, of {total / _GIB:.1f} GiB")
    if limit < _LEAST_MEMORY:
        yield Finding("memory", "problem", text, "small replay buffers only: set TrainerConfig.replay_buffer_length")
    else:
        yield Finding("memory", "ok", text)


def shared_memory(path: Path = Path("/dev/shm")) -> Iterator[Finding]:
    """What worker processes exchange observations through."""
    if not path.is_dir():
        yield Finding("shared memory", "missing", f"there is no {path}", "environments work without in one process")
        return
    free = shutil.disk_usage(path).free
    text = f"{free / _GIB:.2f} GiB free in {path}"
    if free < _LEAST_SHARED:
        yield Finding(
            "shared memory", "problem", text, "docker run --shm-size=1g, or environments in one process: num_workers=1"
        )
    else:
        yield Finding("shared memory", "ok", text)


def disk() -> Iterator[Finding]:
    """Room for runs and for temporary files."""
    places = {Path.cwd(): "runs go to DIR elsewhere with --dir DIR", Path(tempfile.gettempdir()): "set TMPDIR=DIR"}
    for place, fix in places.items():
        free = shutil.disk_usage(place).free
        text = f"{free / _GIB:.1f} GiB free in {place}"
        if not os.access(place, os.W_OK):
            yield Finding("disk", "problem", f"{place} cannot be written to", fix)
        elif free < _LEAST_DISK:
            yield Finding("disk", "problem", text, f"remove old runs, or {fix}")
        else:
            yield Finding("disk", "ok", text)


def compiler() -> Iterator[Finding]:
    """What compiled updates need."""
    found = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if found is None:
        yield Finding(
            "compiler", "missing", "no C++ compiler, which TrainerConfig.compile=True needs", "apt install g++"
        )
    elif not header.exists():
        yield Finding(
            "compiler",
            "missing",
            f"{found}, but no {header}, which TrainerConfig.compile=True needs",
            "apt install python3-dev",
        )
    else:
        yield Finding("compiler", "ok", found)
