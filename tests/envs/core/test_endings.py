"""No worker outlives the run, however the run ends."""

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver

import pytest
import torch

from rein.envs import ProcessEnvironment
from rein.envs.single import EnvFactory

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")

SCRIPT = """
import gymnasium as gym
from rein.envs import ProcessEnvironment
from rein.envs.single import EnvFactory

def make():
    return gym.make("CartPole-v1")

if __name__ == "__main__":
    environment = ProcessEnvironment(EnvFactory(make), 2, seed=0)
    environment.reset()
    print(*environment.worker_pids, flush=True)
    {ending}
"""


def run_script(tmp_path, ending):
    """Runs a script that uses workers to its end; gives its error output, its exit code and the workers' ids."""
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(ending=ending))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    return done.stderr, done.returncode, pids


def step_forever(make, method, sender, output):
    """A run, in a process of its own."""
    os.setsid()
    forkserver._forkserver.__init__()  # The fork server of the test's process is not a child of this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stderr = open(output, "w")  # noqa: SIM115
    environment = ProcessEnvironment(EnvFactory(make), 2, seed=0, start_method=method)
    environment.reset()
    sender.send(environment.worker_pids)
    while True:
        environment.step(torch.zeros(2, dtype=torch.int64))


def start_run(make, tmp_path, method="forkserver"):
    """Starts a run that steps forever; gives its process and the ids of its workers.

    The run is a fork of this process, which saves it the loading of all libraries.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    run = context.Process(target=step_forever, args=(make, method, sender, str(tmp_path / "errors")))
    run.start()
    sender.close()
    assert receiver.poll(60)
    return run, receiver.recv()


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


def test_ctrl_c_ends_the_workers(worlds, tmp_path):
    run, pids = start_run(worlds.CountingEnv, tmp_path)
    os.killpg(run.pid, signal.SIGINT)  # As a terminal does: to the whole group.
    run.join(30)
    assert run.exitcode == 1
    errors = (tmp_path / "errors").read_text()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1, errors  # The workers say nothing.
    assert wait_until_gone(pids)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_killing_the_parent_ends_the_workers(worlds, tmp_path, method):
    run, pids = start_run(worlds.CountingEnv, tmp_path, method)
    assert all(is_running(pid) for pid in pids)
    run.kill()
    run.join(30)
    assert wait_until_gone(pids)


def test_killing_the_parent_ends_even_workers_that_hang(worlds, tmp_path):
    run, pids = start_run(functools.partial(worlds.FaultyEnv, "hang"), tmp_path)
    time.sleep(0.3)
    assert all(is_running(pid) for pid in pids)
    run.kill()
    run.join(30)
    assert wait_until_gone(pids)


def test_an_exception_ends_the_workers(tmp_path):
    errors, code, pids = run_script(tmp_path, 'raise SystemError("the run is broken")')
    assert code == 1
    assert "the run is broken" in errors
    assert wait_until_gone(pids)


@pytest.mark.slow
def test_leaving_without_closing_ends_the_workers(tmp_path):
    errors, code, pids = run_script(tmp_path, "pass")
    assert (errors, code) == ("", 0)
    assert wait_until_gone(pids)
