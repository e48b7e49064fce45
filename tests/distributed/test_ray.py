"""The same on Ray, which is started once."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80 * 2**20,
    )
    yield
    ray.shutdown()


def vector(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()


def test_actors_collect_and_one_that_dies_is_replaced(cluster: None, build: Any) -> None:
    algorithm = build("dqn", collectors=2, backend="ray", fragment_steps=64)
    rollout = algorithm.rollout
    before = vector(algorithm)
    for _ in range(3):
        algorithm.train_iter()
    ray.kill(rollout._team._workers[1].actor)
    for _ in range(4):
        algorithm.train_iter()
    assert rollout._team.replaced == 1
    assert rollout.delivered == 2 * rollout.version
    assert not torch.equal(before, vector(algorithm))
    algorithm.close_rollout()
    assert ray.is_initialized()


@pytest.mark.slow
def test_actors_share_batches(cluster: None, build: Any) -> None:
    algorithm = build("ppo", kind="async", collectors=2, backend="ray", gradient_workers=2, gradients="async")
    before = vector(algorithm)
    for _ in range(4):
        algorithm.train_iter()
    assert not torch.equal(before, vector(algorithm))


def test_a_cluster_says_what_it_has(cluster: None, capsys: Any) -> None:
    from rein.cli import main

    assert main(["cluster", "check"]) == 0
    shown = capsys.readouterr().out
    assert ": 4 cores" in shown
    assert "Rein runs there" in shown
