"""Every operation of the replay buffer against a slow and obvious model, over thousands of random histories."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from rein.data_structures import StepType, TimeStep
from rein.replay import ReplayBuffer, plain_torch
from rein.specs import TensorSpec

SPEC = TimeStep(
    step_type=TensorSpec((), torch.int32),
    reward=TensorSpec(()),
    discount=TensorSpec(()),
    observation={"a": TensorSpec((3,)), "b": TensorSpec((2, 2), torch.uint8), "c": TensorSpec((), torch.bool)},
    env_id=TensorSpec((), torch.int64),
)


class Model:
    """Plain lists of everything that was ever added; what is stored is a window on them."""

    def __init__(self, num_envs: int, max_length: int, ignored: int, gamma: float, default: float) -> None:
        self.max_length, self.ignored, self.gamma, self.default = max_length, ignored, gamma, default
        self.steps: list[list[dict[str, Any]]] = [[] for _ in range(num_envs)]
        self.size = [0] * num_envs
        self.priority: dict[tuple[int, int], float] = {}
        self.length = 1

    def end(self, env: int) -> int:
        return len(self.steps[env])

    def earliest(self, env: int) -> int:
        return self.end(env) - self.size[env]

    def stored(self) -> list[tuple[int, int]]:
        return [(e, p) for e in range(len(self.steps)) for p in range(self.earliest(e), self.end(e))]

    def starts(self, length: int) -> list[tuple[int, int]]:
        return [(e, p) for e, p in self.stored() if p >= self.earliest(e) + self.ignored and p + length <= self.end(e)]

    def initial(self) -> float:
        starts = self.starts(self.length)
        return max([1.0, *(self.priority[start] for start in starts if start in self.priority)])

    def add(self, env: int, step: dict[str, Any], initial: float) -> None:
        fresh = self.size[env] == 0
        previous = self.steps[env][-1] if self.steps[env] else None
        position = self.end(env)
        begins = fresh or step["step_type"] == StepType.FIRST or previous["step_type"] == StepType.LAST
        step["begin"] = position if begins else previous["begin"]
        if fresh or step["discount"] == 0:
            step["disc_0"] = position
        else:
            step["disc_0"] = previous["disc_0"]
        step["return"] = self.default
        self.steps[env].append(step)
        self.size[env] = min(self.size[env] + 1, self.max_length)
        if step["discount"] == 0:
            total = 0.0
            for p in range(position, max(step["begin"], self.earliest(env)), -1):
                total = self.steps[env][p]["reward"] + self.gamma * self.steps[env][p]["discount"] * total
                self.steps[env][p - 1]["return"] = total
        start = (env, position + 1 - self.length)
        if start in self.starts(self.length):
            self.priority[start] = initial

    def episode_end(self, env: int, position: int) -> int:
        begin = self.steps[env][position]["begin"]
        return max(p for p in range(position, self.end(env)) if self.steps[env][p]["begin"] == begin)

    def set_length(self, length: int) -> None:
        initial = self.initial()
        before = set(self.starts(self.length))
        for start in self.starts(length):
            if start not in before:
                self.priority[start] = initial
        self.length = length

    def expected_priorities(self) -> dict[tuple[int, int], float]:
        return {start: self.priority[start] for start in self.starts(self.length)}


class History:
    """One random history played on a compiled buffer, a plain torch buffer and the model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.num_envs = self.random.randint(1, 4)
        self.max_length = self.random.choice([1, 2, 3, 5, 8, 17])
        ignored = self.random.choice([0, 0, 1, 2])
        options = {
            "num_earliest_frames_ignored": ignored,
            "prioritized_sampling": True,
            "keep_episodic_info": True,
            "record_episodic_return": True,
            "gamma": 0.5,
            "default_return": -7.0,
        }
        self.fast = ReplayBuffer(SPEC, self.num_envs, self.max_length, **options)
        with plain_torch():
            self.plain = ReplayBuffer(SPEC, self.num_envs, self.max_length, **options)
        self.model = Model(self.num_envs, self.max_length, ignored, 0.5, -7.0)
        self.mean_length = self.random.choice([2, 5, 40])
        self.last_type = [StepType.LAST] * self.num_envs
        self.count = 0

    def play(self, num_operations: int) -> None:
        operations = [self.add] * 8 + [self.update] * 2 + [self.sample] * 2 + [self.remove, self.reload]
        for _ in range(num_operations):
            self.random.choice(operations)()
            self.compare()

    def make_step(self, env: int) -> dict[str, Any]:
        self.count += 1
        if self.last_type[env] == StepType.LAST:
            kind = StepType.FIRST
        elif self.random.random() < 1 / self.mean_length:
            kind = self.random.choice([StepType.LAST, StepType.LAST, StepType.FIRST])
        else:
            kind = StepType.MID
        self.last_type[env] = kind
        discount = float(self.random.random() > (0.7 if kind == StepType.LAST else 0.1))
        return {"step_type": kind, "discount": discount, "reward": float(self.random.randint(-3, 3)), "id": self.count}

    def add(self) -> None:
        chosen = [env for env in range(self.num_envs) if self.random.random() < 0.6]
        self.random.shuffle(chosen)
        if not chosen:
            chosen = list(range(self.num_envs))
        steps = [self.make_step(env) for env in chosen]
        batch = to_batch(steps, chosen)
        is_all = chosen == list(range(self.num_envs)) and self.random.random() < 0.5
        for buffer in (self.fast, self.plain):
            buffer.add_batch(batch, None if is_all else torch.tensor(chosen))
        initial = self.model.initial()
        for env, step in zip(chosen, steps, strict=True):
            self.model.add(env, step, initial)

    def update(self) -> None:
        known = [(env, position) for env in range(self.num_envs) for position in range(self.model.end(env))]
        if not known:
            return
        pairs = [self.random.choice(known) for _ in range(self.random.randint(1, 6))]
        values = [float(self.random.choice([0, 0.25, 1, 2, 5])) for _ in pairs]
        if sum(values) == 0:
            values[0] = 1.0
        env_ids, positions = torch.tensor(pairs).T
        for buffer in (self.fast, self.plain):
            buffer.update_priority(env_ids, positions, torch.tensor(values))
        starts = set(self.model.starts(self.model.length))
        for pair, value in zip(pairs, values, strict=True):
            if pair in starts:
                self.model.priority[pair] = value

    def sample(self) -> None:
        length = self.random.choice([1, 1, 2, 4])
        starts = self.model.starts(length)
        if not starts:
            for buffer in (self.fast, self.plain):
                with pytest.raises(ValueError, match="no environment"):
                    buffer.get_batch(3, length)
            return
        self.model.set_length(length)
        if sum(self.model.expected_priorities().values()) == 0:
            for buffer in (self.fast, self.plain):
                with pytest.raises(ValueError, match="all priorities"):
                    buffer.get_batch(3, length)
            return
        state = torch.get_rng_state()
        batch, info = self.fast.get_batch(5, length)
        torch.set_rng_state(state)
        other_batch, other_info = self.plain.get_batch(5, length)
        assert_equal(batch, other_batch)
        assert_equal(info._replace(replay_buffer=()), other_info._replace(replay_buffer=()))
        assert info.env_ids.tolist() == sorted(info.env_ids.tolist())
        priorities = self.model.expected_priorities()
        average = sum(priorities.values()) / sum(value > 0 for value in priorities.values())
        for i, start in enumerate(zip(info.env_ids.tolist(), info.positions.tolist(), strict=True)):
            assert priorities[start] > 0
            assert float(info.importance_weights[i]) == pytest.approx(priorities[start] / average, rel=1e-5)
            for t in range(length):
                step = self.model.steps[start[0]][start[1] + t]
                assert float(batch.observation["a"][i, t, 0]) == step["id"]
                assert float(info.discounted_return[i, t]) == pytest.approx(step["return"])

    def remove(self) -> None:
        n = self.random.choice([1, 2, self.max_length])
        env = self.random.randrange(self.num_envs)
        ids = torch.tensor([env])
        if n <= self.model.size[env] and self.random.random() < 0.7:
            results = [buffer.dequeue(ids, n) for buffer in (self.fast, self.plain)]
            assert_equal(*results)
            first = self.model.earliest(env)
            expected = [step["id"] for step in self.model.steps[env][first : first + n]]
            assert results[0].observation["a"][0, :, 0].tolist() == expected
        else:
            for buffer in (self.fast, self.plain):
                buffer.remove_up_to(n, ids)
        self.model.size[env] = max(0, self.model.size[env] - n)

    def reload(self) -> None:
        state = self.fast.state_dict()
        self.fast.clear()
        self.plain.load_state_dict(state)
        self.fast.load_state_dict(self.plain.state_dict())

    def compare(self) -> None:
        model = self.model
        pairs = model.stored()
        for buffer in (self.fast, self.plain):
            assert buffer.current_pos.tolist() == [model.end(e) for e in range(self.num_envs)]
            assert buffer.current_size.tolist() == model.size
            assert buffer.total_size == len(pairs)
            assert buffer.initial_priority == model.initial()
            tree = buffer._priorities.tree
            expected = np.zeros((self.num_envs, self.max_length), np.float32)
            for (env, position), value in model.expected_priorities().items():
                expected[env, position % self.max_length] = value
            assert tree.leaves.numpy().tolist() == expected.reshape(-1).tolist()
            assert float(tree.summary()) == pytest.approx(float(expected.sum()), rel=1e-6)
            assert tree.nnz == np.count_nonzero(expected)
            if not pairs:
                continue
            env_ids, positions = torch.tensor(pairs).T
            steps = [model.steps[e][p] for e, p in pairs]
            ids, kinds = buffer.get_field(("observation.a", "step_type"), env_ids, positions)
            assert ids[:, 0].tolist() == [step["id"] for step in steps]
            assert kinds.tolist() == [step["step_type"] for step in steps]
            begins = buffer.get_episode_begin_position(positions, env_ids)
            assert begins.tolist() == [step["begin"] for step in steps]
            zeros = buffer.get_disc_0_begin_position(positions, env_ids)
            assert zeros.tolist() == [step["disc_0"] for step in steps]
            to_end = buffer.steps_to_episode_end(positions, env_ids)
            assert to_end.tolist() == [model.episode_end(e, p) - p for e, p in pairs]


def to_batch(steps: list[dict[str, Any]], env_ids: list[int]) -> TimeStep:
    numbers = torch.tensor([float(step["id"]) for step in steps])
    return TimeStep(
        step_type=torch.tensor([step["step_type"] for step in steps], dtype=torch.int32),
        reward=torch.tensor([step["reward"] for step in steps]),
        discount=torch.tensor([step["discount"] for step in steps]),
        observation={
            "a": numbers[:, None] + torch.tensor([0.0, 0.25, 0.5]),
            "b": (numbers.to(torch.int64) % 256).to(torch.uint8)[:, None, None].repeat(1, 2, 2),
            "c": numbers % 2 == 0,
        },
        env_id=torch.tensor(env_ids),
    )


def assert_equal(first: Any, second: Any) -> None:
    from rein import nest

    for (path, a), b in zip(nest.flatten_with_paths(first), nest.flatten(second), strict=True):
        assert torch.equal(a, b), path


@pytest.mark.parametrize("block", range(20))
def test_random_histories_agree_with_the_model(block: int) -> None:
    for seed in range(block * 5, block * 5 + 5):
        History(seed).play(25)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_thousands_of_random_histories_agree_with_the_model(block: int) -> None:
    for seed in range(1000 + block * 100, 1000 + block * 100 + 100):
        History(seed).play(30)
