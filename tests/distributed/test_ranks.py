"""Ranks that average their gradients."""

import os
import signal
import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist

from rein.distributed.gradient_workers import _share
from rein.framework import Batch
from rein.framework.updating.data_parallel import GradientMean


def vector(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()


def test_two_ranks_with_halves_make_the_update_of_one_with_the_whole(build: Any, tmp_path: Any) -> None:
    one, *ranks = (build("dqn") for _ in range(3))
    for rank in ranks:
        rank.load_state_dict(one.state_dict())
    while not one.learning.has_enough():
        one.unroll(8)
    store = str(tmp_path / "store")
    groups: dict[int, Any] = {}

    def in_both(function: Any) -> None:
        threads = [threading.Thread(target=function, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def meet(index: int) -> None:
        groups[index] = dist.ProcessGroupGloo(dist.FileStore(store, 2), index, 2)

    in_both(meet)
    for _ in range(3):
        batch = Batch(one.learning.sample(one.replay_buffer))
        one.apply_gradients(one.compute_gradients(batch.experience))
        gradients = [rank.compute_gradients([_share(batch, index, 2)]) for index, rank in enumerate(ranks)]
        means: dict[int, Any] = {}

        def average(index: int, gradients: Any = gradients, means: Any = means) -> None:
            parameters = ranks[index].learning.optimized()[1]
            means[index] = GradientMean(groups[index])(gradients[index].values, parameters)

        in_both(average)
        for index, rank in enumerate(ranks):
            rank.apply_gradients(gradients[index]._replace(values=means[index]))
    assert torch.equal(vector(ranks[0]), vector(ranks[1]))
    torch.testing.assert_close(vector(ranks[0]), vector(one), rtol=0, atol=1e-6)


def test_ranks_train_stay_equal_and_are_started_anew(build: Any) -> None:
    algorithm = build("ppo", kind="ddppo", collectors=2)
    algorithm.require_config().ddp_paras_check_interval = 1
    ranks = algorithm.train_iter.__self__
    ranks._check_interval = 1
    before = vector(algorithm)
    algorithm.train_iter()
    assert not torch.equal(vector(algorithm), before)
    # 16 steps of 4 environments of both ranks; first steps of episodes do not count.
    assert 2 * 64 - 8 - algorithm.metrics.number_of_episodes <= algorithm.env_steps <= 2 * 64
    assert algorithm.learning.settings.mini_batch_size == 8
    first = ranks._workers[0].process.pid
    os.kill(first, signal.SIGKILL)
    ranks._workers[0].process.join(10)
    algorithm.train_iter()
    assert ranks.restarts == 1
    assert ranks._workers[0].process.pid != first
    algorithm.close_rollout()
    assert not dist.is_initialized()


def test_activation_without_a_group_says_so(build: Any) -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        build("ppo").activate_ddp(0)
