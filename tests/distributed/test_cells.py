"""Every cell of the scheme, on every backend: central or parallel, synchronous or asynchronous, twice."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rein.distributed import SchemeError
from rein.distributed.address import check_address

COLLECTING = [("sync", 1), ("sync", 2), ("async", 1), ("async", 2)]
GRADIENTS = [("sync", 1), ("sync", 2), ("async", 2)]


def vector(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    if not ray.is_initialized():
        size = 80 * 2**20
        ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False, object_store_memory=size)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "env"), [("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")])
@pytest.mark.parametrize(("gradients", "workers"), GRADIENTS)
@pytest.mark.parametrize(("kind", "collectors"), COLLECTING)
@pytest.mark.parametrize("backend", ["inline", "process", "ray"])
def test_every_cell_trains(
    request: Any,
    build: Any,
    backend: str,
    kind: str,
    collectors: int,
    gradients: str,
    workers: int,
    name: str,
    env: str,
) -> None:
    if backend == "ray":
        request.getfixturevalue("cluster")
    algorithm = build(
        name, env, kind=kind, collectors=collectors, backend=backend, gradient_workers=workers, gradients=gradients,
        fragment_steps=48,
    )  # fmt: skip
    before = vector(algorithm)
    for _ in range(9):
        algorithm.train_iter()
    after = vector(algorithm)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)
    algorithm.close_rollout()
    if (kind, collectors, workers) == ("sync", 1, 1):
        plain = build(name, env)
        for _ in range(9):
            plain.train_iter()
        assert torch.equal(vector(plain), after)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["process", "ray"])
def test_early_stops_and_shards_on_other_backends(request: Any, build: Any, backend: str) -> None:
    if backend == "ray":
        request.getfixturevalue("cluster")
    algorithm = build(
        "dqn", collectors=3, backend=backend, fragment_steps=64, shards=2, fraction_workers=0.4, fraction_samples=0.5
    )
    lengths, take = [], algorithm.rollout._take
    algorithm.rollout._take = lambda fragment: (lengths.append(len(fragment.episodes.step_type)), take(fragment))
    for _ in range(9):
        algorithm.train_iter()
    assert all(8 <= length <= 16 for length in lengths)
    assert algorithm.replay_buffer.total_size > 0
    algorithm.close_rollout()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["process", "ray"])
def test_collectors_that_are_killed_again_and_again(request: Any, build: Any, backend: str) -> None:
    """The short form of `benchmarks/distributed_faults.py`."""
    if backend == "ray":
        request.getfixturevalue("cluster")
    algorithm = build("ppo", kind="async", collectors=2, backend=backend)
    rollout = algorithm.rollout
    for number in range(4):
        for _ in range(3):
            algorithm.train_iter()
        worker = rollout._team._workers[number % 2]
        if backend == "process":
            os.kill(worker.process.pid, signal.SIGKILL)
        else:
            import ray

            ray.kill(worker.actor)
    for _ in range(4):
        algorithm.train_iter()
    # Fragments are checked as they come: each number once, each version one that was published.
    assert rollout._team.replaced >= 3
    assert rollout.delivered == 16
    algorithm.close_rollout()


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if parent == pid:
                found += [int(entry.name), *children_of(int(entry.name))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["process", "ray", "ddp"])
def test_a_terminated_run_saves_and_leaves_no_process(tmp_path: Path, backend: str) -> None:
    before = set(os.listdir("/dev/shm"))
    folder = tmp_path / "run"
    words = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "--collectors", "2", "--backend", backend]
    command = [sys.executable, "-m", "rein.cli", *words, "--dir", str(folder), "--threads", "1"]
    run = subprocess.Popen(
        [*command, "TrainerConfig.num_env_steps=100000000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert run.stdout is not None
        assert any("steps/s" in line for line in run.stdout)
        workers = children_of(run.pid)
        assert workers
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=120)
    finally:
        run.kill()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert list(folder.rglob("*ckpt*")) or list(folder.rglob("checkpoint*"))
    assert not {
        name for name in set(os.listdir("/dev/shm")) - before if name.startswith(("torch_", "sem.rein", "plasma"))
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_joins_a_cluster_that_somebody_has_started(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tempfile.mkdtemp(prefix="ray")
    words = ["--block", f"--port={address.split(':')[1]}", "--include-dashboard=false", "--num-cpus=3"]
    words += [f"--temp-dir={folder}", f"--object-store-memory={80 * 2**20}"]
    head = subprocess.Popen(
        [str(Path(sys.executable).with_name("ray")), "start", "--head", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(1)
            with contextlib.suppress(SchemeError):
                check_address(address)
                break
        rein = [sys.executable, "-m", "rein.cli"]
        checked = subprocess.run([*rein, "cluster", "check", "--address", address], capture_output=True, text=True)
        assert "Rein runs there" in checked.stdout, checked.stderr
        run = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "--collectors", "2", "--backend", "ray"]
        sizes = ["TrainerConfig.num_env_steps=4096", "TrainerConfig.evaluate=False", "Scheme.max_restarts=2"]
        subprocess.run([*rein, *run, "--address", address, "--dir", str(tmp_path / "run"), *sizes], check=True)
        assert head.poll() is None
    finally:
        head.terminate()
        head.wait(120)
        shutil.rmtree(folder, ignore_errors=True)
