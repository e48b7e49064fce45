"""No worker outlives the run, however the run ends."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

SCRIPT = """
import sys
import time
import gymnasium as gym
import torch
from rein.envs import ProcessEnvironment
from rein.envs.single import EnvFactory

class Hanging(gym.Wrapper):
    def step(self, action):
        if {hang}:
            time.sleep(1000)
        return self.env.step(action)

def make():
    return Hanging(gym.make("CartPole-v1"))

if __name__ == "__main__":
    environment = ProcessEnvironment(EnvFactory(make), 2, seed=0, start_method={method!r})
    environment.reset()
    print(*environment.worker_pids, flush=True)
    {ending}
"""
STEPPING = """
    while True:
        environment.step(torch.zeros(2, dtype=torch.int64))
"""


def start(tmp_path, ending, hang=False, method="forkserver"):
    script = tmp_path / "run.py"
    script.write_text(
        SCRIPT.format(hang=hang, method=method, ending=textwrap.dedent(ending).strip().replace("\n", "\n    "))
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2, process.stderr.read()
    return process, pids


def is_running(pid):
    """Whether a process exists and is not a zombie of another parent's."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(is_running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")


def test_ctrl_c_ends_the_workers(tmp_path):
    process, pids = start(tmp_path, STEPPING)
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to the whole group.
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert errors.count("Traceback") == 1, errors  # The workers say nothing.
    assert wait_until_gone(pids)


def test_an_exception_ends_the_workers(tmp_path):
    process, pids = start(tmp_path, 'raise SystemError("the run is broken")')
    _, errors = process.communicate(timeout=30)
    assert "the run is broken" in errors
    assert wait_until_gone(pids)


@pytest.mark.parametrize(
    "method",
    ["forkserver", pytest.param("spawn", marks=pytest.mark.slow), pytest.param("fork", marks=pytest.mark.slow)],
)
def test_killing_the_parent_ends_the_workers(tmp_path, method):
    process, pids = start(tmp_path, STEPPING, method=method)
    process.kill()
    process.communicate(timeout=30)
    assert wait_until_gone(pids)


def test_killing_the_parent_ends_even_workers_that_hang(tmp_path):
    process, pids = start(tmp_path, STEPPING, hang=True)
    time.sleep(0.2)
    process.kill()
    process.communicate(timeout=30)
    assert wait_until_gone(pids)


@pytest.mark.slow
def test_leaving_without_closing_ends_the_workers(tmp_path):
    process, pids = start(tmp_path, "pass")
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert wait_until_gone(pids)
