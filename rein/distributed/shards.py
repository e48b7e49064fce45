"""Replay shards: workers that hold parts of the replay buffer, and sample from them.

Environments are dealt out to the shards in turn. A batch takes from every shard in proportion to what it holds: sequences,
or their priorities. A shard that dies is replaced by an empty one: what it held is lost, and nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import BatchInfo
from rein.distributed.rate_limiter import RateLimiter
from rein.distributed.team import Team
from rein.framework import Batch, ReplayTraining
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.runtime.seeding import draw_seed


class ShardTask(NamedTuple):
    """What a shard is made of; it travels once."""

    settings: Mapping[str, Any]
    """Arguments of `ReplayBuffer`."""
    seed: int

    def make(self) -> "Shard":
        """The shard, in a process of its own."""
        torch.set_num_threads(1)
        return self.make_here()

    def make_here(self) -> "Shard":
        """The shard."""
        return Shard(self.settings, self.seed)


class Standing(NamedTuple):
    """What a shard says of itself with every answer."""

    sizes: Tensor
    """int64, steps of each of its environments."""
    total: float
    """Priorities, added up; without priorities 0."""
    nonzero: int
    """Priorities that are not 0."""


class Shard:
    """A replay buffer behind questions and answers."""

    def __init__(self, settings: Mapping[str, Any], seed: int) -> None:
        """Is empty.

        Args:
            settings: of the buffer.
            seed: of what is sampled.
        """
        self._buffer = ReplayBuffer(**settings, generator=torch.Generator().manual_seed(seed))

    def insert(self, rollout: Nest, env_ids: Tensor) -> Standing:
        """Adds steps [T, B, ...]."""
        self._buffer.add_rollout(rollout, env_ids)
        return self._standing()

    def sample(self, size: int, length: int) -> tuple[Nest, Nest, Standing]:
        """Sequences [size, length, ...] and where they come from; `()` twice where there are none that long."""
        if int(self._buffer.current_size.max()) < length:
            return (), (), self._standing()
        data, info = self._buffer.get_batch(size, length)
        return data, info._replace(replay_buffer=()), self._standing()

    def update_priority(self, env_ids: Tensor, positions: Tensor, priorities: Tensor) -> Standing:
        """See `ReplayBuffer`; what a predecessor held is passed over."""
        known = positions < self._buffer.current_pos[env_ids]
        self._buffer.update_priority(env_ids[known], positions[known], priorities[known])
        return self._standing()

    def save(self) -> dict[str, Any]:
        """What it holds."""
        return self._buffer.state_dict()

    def restore(self, state: dict[str, Any]) -> Standing:
        """Holds what `save` gave."""
        self._buffer.load_state_dict(state)
        return self._standing()

    def _standing(self) -> Standing:
        total, count = self._buffer.priority_total() if self._buffer.prioritized_sampling else (0.0, 0)
        return Standing(self._buffer.current_size, total, count)

    def close(self) -> None:
        """There is nothing to close."""


class ShardedReplay:
    """Stands where a replay buffer does, and asks the shards."""

    def __init__(
        self,
        start: Callable[[Callable[[int, int], ShardTask], int], Team],
        shards: int,
        limiter: RateLimiter | None,
        num_environments: int,
        **settings: Any,
    ) -> None:
        """Starts the shards.

        Args:
            start: makes a team of so many workers from their tasks.
            shards: how many.
            limiter: is told what is inserted and sampled.
            num_environments: of all shards together.
            settings: of each buffer, see `ReplayBuffer`.
        """
        self._num_envs, self._prioritized = num_environments, bool(settings.get("prioritized_sampling"))
        self._shards, self.limiter = min(shards, num_environments), limiter

        def task(index: int, restarts: int = 0) -> ShardTask:
            envs = len(range(index, num_environments, self._shards))
            return ShardTask({**settings, "num_environments": envs}, draw_seed() + restarts)

        self._team = start(task, self._shards)
        self._standings = [self._nothing(index) for index in range(self._shards)]

    def _nothing(self, index: int) -> Standing:
        return Standing(torch.zeros(len(range(index, self._num_envs, self._shards)), dtype=torch.int64), 0.0, 0)

    # Storing.

    def add_batch(self, batch: Nest, env_ids: Tensor | None = None) -> None:
        """Adds a step [B, ...]."""
        self.add_rollout(nest.map_structure(lambda tensor: tensor.unsqueeze(0), batch), env_ids)

    def add_rollout(self, rollout: Nest, env_ids: Tensor | None = None) -> None:
        """Adds steps [T, B, ...]."""
        ids = torch.arange(self._num_envs) if env_ids is None else env_ids.cpu()
        asked = []
        for index in range(self._shards):
            rows = (ids % self._shards == index).nonzero().squeeze(-1)
            if len(rows):
                part = nest.map_structure(lambda tensor, rows=rows: tensor[:, rows].detach().cpu(), rollout)
                self._team.ask(index, "insert", part, ids[rows] // self._shards)
                asked.append(index)
        for _ in asked:
            index, standing = self._team.next_answer()
            self._standings[index] = standing
        if self.limiter is not None:
            self.limiter.inserted += len(ids) * nest.get_nest_size(rollout, 0)

    # Sampling.

    def get_batch(self, batch_size: int, batch_length: int) -> tuple[Nest, BatchInfo]:
        """Sequences of all shards, see `ReplayBuffer.get_batch`."""
        counts = self._counts(batch_size, batch_length)
        answers: dict[int, Any] = {}
        for index, count in enumerate(counts):
            if count:
                self._team.ask(index, "sample", count, batch_length)
        for _ in range(sum(1 for count in counts if count)):
            index, (data, info, standing) = self._team.next_answer()
            self._standings[index] = standing
            if not nest.is_empty(data):
                answers[index] = (data, info)
        if len(answers) < sum(1 for count in counts if count):
            return self.get_batch(batch_size, batch_length)  # A shard has died: others have to fill in.
        if self.limiter is not None:
            self.limiter.sampled += batch_size
        parts = [answers[index][0] for index in sorted(answers)]
        infos = [self._whole_info(index, answers[index][1]) for index in sorted(answers)]
        data = nest.map_structure(lambda *tensors: torch.cat(tensors), *parts)
        whole: BatchInfo = nest.map_structure(lambda *tensors: torch.cat(tensors), *infos)
        return data, whole._replace(replay_buffer=self)

    def _counts(self, batch_size: int, length: int) -> list[int]:
        """How many sequences each shard gives: shares are kept on average, and as nearly as whole numbers can."""
        if self._prioritized:
            shares = torch.tensor([one.total for one in self._standings], dtype=torch.float64)
        else:
            shares = torch.stack([(one.sizes - length + 1).clamp_min(0).sum() for one in self._standings]).double()
        long_enough = torch.tensor([int(one.sizes.max()) >= length for one in self._standings])
        shares = shares * long_enough
        if float(shares.sum()) <= 0:
            raise ValueError(f"no shard holds {length} steps of an environment: collect more first")
        ends = (torch.cumsum(shares / shares.sum(), 0) * batch_size + torch.rand(())).floor().long()
        ends[-1] = max(int(ends[-1]), batch_size) if int(ends[-1]) < batch_size else batch_size
        counts = torch.diff(ends, prepend=torch.zeros(1, dtype=torch.int64))
        # Rounding must not ask a shard that has nothing.
        surplus = int((counts * ~long_enough).sum())
        counts = counts * long_enough
        counts[int(torch.argmax(shares))] += surplus
        found: list[int] = counts.tolist()
        return found

    def _whole_info(self, index: int, info: BatchInfo) -> BatchInfo:
        """With environments of all shards, and weights relative to the mean priority of all."""
        info = info._replace(env_ids=info.env_ids * self._shards + index)
        if not isinstance(info.importance_weights, Tensor):
            return info
        total, count = (sum(getattr(one, name) for one in self._standings) for name in ("total", "nonzero"))
        own = self._standings[index]
        factor = (own.total / max(own.nonzero, 1)) / max(total / max(count, 1), 1e-30)
        return info._replace(importance_weights=info.importance_weights * factor)

    def update_priority(self, env_ids: Tensor, positions: Tensor, priorities: Tensor) -> None:
        """See `ReplayBuffer.update_priority`."""
        asked = 0
        for index in range(self._shards):
            rows = env_ids % self._shards == index
            if bool(rows.any()):
                self._team.ask(
                    index, "update_priority", env_ids[rows] // self._shards, positions[rows], priorities[rows].detach()
                )
                asked += 1
        for _ in range(asked):
            index, standing = self._team.next_answer()
            self._standings[index] = standing

    # What is there.

    @property
    def current_size(self) -> Tensor:
        """int64 [num_environments]: steps stored of each environment."""
        sizes = torch.zeros(self._num_envs, dtype=torch.int64)
        for index, one in enumerate(self._standings):
            sizes[index :: self._shards] = one.sizes
        return sizes

    @property
    def total_size(self) -> int:
        """Steps stored of all environments together."""
        return int(self.current_size.sum())

    def state_dict(self) -> dict[str, Any]:
        """What all shards hold, and the counts of the limiter."""
        limiter = self.limiter
        counts = [] if limiter is None else [limiter.inserted, limiter.sampled]
        return {"shards": self._team.ask_all("save"), "counts": counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        if len(state["shards"]) != self._shards:
            raise ValueError(f"saved with {len(state['shards'])} shards, resumed with {self._shards}: give as many")
        for index, part in enumerate(state["shards"]):
            self._team.ask(index, "restore", part)
        for _ in range(self._shards):
            index, standing = self._team.next_answer()
            self._standings[index] = standing
        if self.limiter is not None and state["counts"]:
            self.limiter.inserted, self.limiter.sampled = (int(count) for count in state["counts"])


def limit_updates(learning: ReplayTraining, limiter: RateLimiter) -> None:
    """Lets a learner make as many updates as are due, in the place of a number for each iteration."""

    def train(update_global_counter: bool = False) -> int:
        trained, size = 0, learning.settings.require_mini_batch_size()
        while learning.has_enough() and limiter.may_sample(size):
            trained += learning.update([Batch(learning.sample(learning.buffer))])
        return trained

    learning.train_from_buffer = train  # type: ignore[method-assign]
