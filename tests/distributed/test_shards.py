"""Replay in shards: what is sampled, how often, and what is left when one dies."""

from typing import Any

import pytest
import torch

from rein.distributed.backends.inline import InlineBackend
from rein.distributed.rate_limiter import RateLimiter
from rein.distributed.shards import ShardedReplay
from rein.distributed.team import Team
from rein.specs import TensorSpec


def make(shards: int, envs: int = 5, **settings: Any) -> ShardedReplay:
    backend = InlineBackend()

    def start(task: Any, count: int) -> Team:
        return Team(backend, [task(index, 0) for index in range(count)], 10.0, 1, task)

    return ShardedReplay(start, shards, None, envs, data_spec=TensorSpec(()), max_length=8, **settings)


def fill(replay: ShardedReplay, steps: int = 6, envs: int = 5) -> None:
    """Step t of environment e is 10 e + t."""
    replay.add_rollout(torch.arange(steps).float().unsqueeze(1) + 10.0 * torch.arange(envs))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_sequences_come_from_all_environments_alike(shards: int) -> None:
    torch.manual_seed(0)
    replay = make(shards)
    fill(replay)
    assert replay.current_size.tolist() == [6] * 5
    data, info = replay.get_batch(2000, 2)
    assert torch.equal(data[:, 1], data[:, 0] + 1)
    assert torch.equal(data[:, 0], 10.0 * info.env_ids + info.positions)
    counts = torch.bincount(info.env_ids, minlength=5) / 2000
    assert counts.tolist() == pytest.approx([0.2] * 5, abs=0.03)
    assert len(data) == 2000


@pytest.mark.parametrize("shards", [1, 2])
def test_priorities_count_over_all_shards(shards: int) -> None:
    torch.manual_seed(0)
    replay = make(shards, prioritized_sampling=True)
    fill(replay, steps=2)
    replay.get_batch(4, 1)
    ids, zeros = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    replay.update_priority(ids, zeros, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    replay.update_priority(ids, zeros + 1, torch.full((5,), 1.0))
    _, info = replay.get_batch(4000, 1)
    expected = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0]) / 20
    assert (torch.bincount(info.env_ids, minlength=5) / 4000).tolist() == pytest.approx(expected.tolist(), abs=0.03)
    # The mean priority is 2; a weight is the priority divided by it.
    chosen = (info.env_ids == 3) & (info.positions == 0)
    assert info.importance_weights[chosen].tolist() == pytest.approx([2.0] * int(chosen.sum()))


def test_a_shard_that_is_gone_leaves_the_others() -> None:
    torch.manual_seed(0)
    replay = make(2)
    fill(replay)
    replay._team._questions[0] = ("save",)
    replay._team._replace(0, "was killed")
    replay._team.next_answer()
    _, info = replay.get_batch(16, 2)
    assert set((info.env_ids % 2).tolist()) == {1}
    assert replay.current_size.tolist() == [0, 6, 0, 6, 0]
    fill(replay)
    assert (replay.get_batch(64, 2)[1].env_ids % 2 == 0).any()


def test_what_is_saved_is_restored() -> None:
    replay, other = make(2, prioritized_sampling=True), make(2, prioritized_sampling=True)
    fill(replay)
    other.load_state_dict(replay.state_dict())
    assert torch.equal(other.current_size, replay.current_size)
    assert len(other.get_batch(8, 2)[0]) == 8
    with pytest.raises(ValueError, match="2 shards, resumed with 1"):
        make(1, prioritized_sampling=True).load_state_dict(replay.state_dict())


def test_the_limiter_holds_the_ratio_whoever_is_faster() -> None:
    for slow in ("learner", "collector"):
        limiter, random = RateLimiter(4.0, begin=100), torch.Generator().manual_seed(0)
        for _ in range(3000):
            wants_insert = float(torch.rand((), generator=random)) < (0.9 if slow == "learner" else 0.1)
            if wants_insert and limiter.may_insert(8, batch=32):
                limiter.inserted += 8
            elif not wants_insert and limiter.may_sample(32):
                limiter.sampled += 32
        assert limiter.inserted > 1000
        assert limiter.ratio == pytest.approx(4.0, rel=0.05)
    with pytest.raises(ValueError, match="samples per insert"):
        RateLimiter(0.0)


@pytest.mark.parametrize(("name", "kind"), [("apex", "apex"), ("r2d2", "r2d2")])
def test_presets_train_from_shards(build: Any, name: str, kind: str) -> None:
    algorithm = build(name, kind=kind, collectors=2, fragment_steps=64, shards=2)
    before = torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()
    rates = [worker.service.target._algorithm._rollout_epsilon_greedy() for worker in algorithm.rollout._team._workers]
    assert rates == pytest.approx([0.4, 0.4**8])
    for _ in range(8):
        algorithm.train_iter()
    assert isinstance(algorithm.replay_buffer, ShardedReplay)
    assert algorithm.replay_buffer.total_size == 8 * 8 * 4
    assert not torch.equal(before, torch.nn.utils.parameters_to_vector(algorithm.parameters()))


def test_samples_per_insert_decide_how_often_to_update(build: Any) -> None:
    algorithm = build("dqn", collectors=2, fragment_steps=64, shards=2, samples_per_insert=3.0)
    for _ in range(24):
        algorithm.train_iter()
    limiter = algorithm.replay_buffer.limiter
    assert limiter.inserted == 24 * 8 * 4
    assert limiter.ratio == pytest.approx(3.0, rel=0.05)
