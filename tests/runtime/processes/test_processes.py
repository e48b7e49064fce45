"""Starting worker processes, sending to them, and their end."""

import os
import subprocess
import sys
import threading
import time
from datetime import date
from typing import Any

import pytest

from rein.runtime.processes.sending import pack, unpack
from rein.runtime.processes.starting import start_context


def test_nothing_here_loads_torch() -> None:
    names = ("living", "nursery", "sending", "starting")
    modules = ", ".join(f"rein.runtime.processes.{name}" for name in names)
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_functions_travel_and_what_is_left_out_arrives_as_none() -> None:
    factor = 3
    function, gone, text = unpack(pack((lambda x: factor * x, date.today(), "kept"), leave_out=(date,)))
    assert (function(2), gone, text) == (6, None, "kept")


def test_what_cannot_travel_is_named() -> None:
    with pytest.raises(TypeError, match=r"the lock cannot be sent to worker processes .*; or leave it here"):
        pack(threading.Lock(), "the lock", "leave it here")


def test_unknown_start_methods_are_refused() -> None:
    with pytest.raises(ValueError, match="start_method is 'teleport': this platform offers"):
        start_context("teleport")
    assert start_context("spawn").get_start_method() == "spawn"


_PARENT = """
import multiprocessing, os, signal, time
from rein.runtime.processes.living import die_with_parent

def work(parent):
    die_with_parent(parent)
    time.sleep(60)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work, args=(os.getpid(),))
    child.start()
    print(child.pid, flush=True)
    time.sleep({patience})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_ends_with_a_parent_that_was_killed(tmp_path: Any) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT.format(patience=1.5))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    child = int(result.stdout)
    for _ in range(200):
        if not _is_running(child):
            return
        time.sleep(0.1)
    pytest.fail("the worker lives on")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return os.path.isdir("/proc/self") is False
