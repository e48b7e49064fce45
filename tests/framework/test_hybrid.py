"""Hybrid training: which updates are made on offline data, which on the run's own, and with what weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rein.config import config, fresh_configs
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import create_environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.optimizers import SGD
from rein.replay import ReplayBuffer
from rein.replay.files import save_replay_buffer
from rein.runtime import Run
from rein.training import RunDirectory, Trainer


class Counting(gym.Env[Any, Any]):
    """Observation and reward are `start + t`."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, start: float = 0.0) -> None:
        self.start = start
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.array([self.start], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.array([self.start + self.t], np.float32), 1.0, self.t == 20, False, {}


class Recorder(OffPolicyAlgorithm):
    """Records what it is asked to learn from; the gradient of each loss is its share of the data."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(train_state_spec=(), optimizer=SGD(lr=1.0), name="Recorder", **kwargs)
        self.w = nn.Parameter(torch.zeros(()))
        self.calls: list[tuple[str, float]] = []

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        action = torch.zeros(inputs.step_type.shape, dtype=torch.int64)
        return AlgStep(output=action, info={"seen": inputs.observation[:, 0]})

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        return AlgStep(info={"x": inputs.observation[:, 0], "w": self.w.expand(inputs.step_type.shape)})

    def train_step_offline(self, inputs: TimeStep, state: Nest, rollout_info: Nest, pre_train: bool = False) -> AlgStep:
        assert torch.equal(rollout_info["seen"], inputs.observation[:, 0])
        return self.train_step(inputs, state, rollout_info)

    def calc_loss(self, info: Any) -> LossInfo:
        self.calls.append(("online", info["x"].max().item()))
        return LossInfo(loss=info["w"])

    def calc_loss_offline(self, info: Any, pre_train: bool = False) -> LossInfo:
        self.calls.append(("pretrain" if pre_train else "offline", info["x"].min().item()))
        return LossInfo(loss=3 * info["w"])


SETTINGS: dict[str, Any] = dict(
    unroll_length=4,
    mini_batch_length=2,
    mini_batch_size=4,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=100,
)


def make(start: float = 0.0, cls: type[Recorder] = Recorder, **settings: Any) -> Recorder:
    env = create_environment(lambda: Counting(start), 1, backend="sync", seed=0)
    specs = dict(observation_spec=env.observation_spec, action_spec=env.action_spec, reward_spec=env.reward_spec)
    return cls(env=env, config=TrainerConfig("", **{**SETTINGS, **settings}), **specs)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A buffer whose observations are all at least 1000."""
    collector = make(1000.0, initial_collect_steps=10_0)
    for _ in range(10):
        collector.train_iter()
    assert collector.replay_buffer is not None
    save_replay_buffer(collector.replay_buffer, tmp_path / "buffer")
    return str(tmp_path / "buffer")


def hybrid(saved: Any, **settings: Any) -> Recorder:
    alg = make(offline_buffer_dir=saved, **settings)
    alg.load_offline_replay_buffer(alg.rollout.env.observation_spec)
    return alg


def kinds(alg: Recorder) -> list[str]:
    return [kind for kind, _ in alg.calls]


def test_offline_and_online_data_are_not_confused(saved: str) -> None:
    alg = hybrid(saved)
    alg.train_iter()
    assert alg.has_offline
    assert kinds(alg) == ["offline", "online"] * 2
    assert all((value >= 1000) == (kind != "online") for kind, value in alg.calls)


def test_pretraining_takes_no_steps(saved: str) -> None:
    alg = hybrid(saved, rl_train_after_update_steps=4)
    for _ in range(2):
        assert alg.train_iter() == 16
    assert kinds(alg) == ["pretrain"] * 4
    assert alg.env_steps == 0
    alg.calls.clear()
    alg.train_iter()
    assert kinds(alg) == ["offline", "online"] * 2
    assert alg.env_steps > 0


def test_online_updates_can_be_rarer(saved: str) -> None:
    alg = hybrid(saved, rl_train_every_update_steps=3, num_updates_per_train_iter=7)
    alg.train_iter()
    online = [i for i, kind in enumerate(kinds(alg)) if kind == "online"]
    assert len(online) == 3
    assert kinds(alg).count("offline") == 7


def test_both_losses_are_added(saved: str) -> None:
    alg = hybrid(saved, num_updates_per_train_iter=1)
    alg.train_iter()
    # The gradients are 3 and 1, less the share of LAST steps, which do not count.
    assert -4.0 <= alg.w.item() <= -2.0
    pretrained = hybrid(saved, num_updates_per_train_iter=1, rl_train_after_update_steps=1)
    pretrained.train_iter()
    assert -3.0 <= pretrained.w.item() <= -1.5


def test_online_training_waits_for_enough_data(saved: str) -> None:
    alg = hybrid(saved, initial_collect_steps=9)
    for _ in range(2):
        alg.train_iter()
    assert kinds(alg) == ["offline"] * 4
    alg.train_iter()
    assert "online" in kinds(alg)


def test_online_training_waits_until_there_is_a_sequence(saved: str) -> None:
    alg = hybrid(saved, unroll_length=1, mini_batch_length=3)
    for _ in range(4):
        alg.train_iter()
    assert kinds(alg)[:4] == ["offline"] * 4
    assert "online" in kinds(alg)


def test_several_buffers_and_a_limit(saved: str) -> None:
    alg = hybrid([saved, saved], offline_buffer_length=5)
    assert alg.offline_data is not None
    assert alg.offline_data.source.total_size == 10


def test_settings_that_would_never_train_are_refused(saved: str) -> None:
    with pytest.raises(ValueError, match="set whole_replay_buffer_training=False"):
        make(offline_buffer_dir=saved, whole_replay_buffer_training=True)
    alg = hybrid(saved, mini_batch_size=None)
    with pytest.raises(ValueError, match="mini_batch_size is None"):
        alg.train_iter()
    with pytest.raises(ValueError, match="offline_buffer_dir is not set"):
        make().load_offline_replay_buffer(())


def test_a_resumed_run_does_not_pretrain_again(saved: str, tmp_path: Path) -> None:
    def run(path: Path, iterations: int) -> Trainer:
        with fresh_configs():
            config("create_environment", env_name=Counting, num_parallel_environments=1, backend="sync")
            directory = RunDirectory.open(path) if path.exists() else RunDirectory.create(path)
            if not (path / "run.json").exists():
                directory.start()
            settings = dict(offline_buffer_dir=saved, rl_train_after_update_steps=6, random_seed=0, **SETTINGS)

            def algorithm(debug_summaries: bool, **kwargs: Any) -> Recorder:
                return Recorder(**kwargs)

            trainer = Trainer(
                TrainerConfig(str(path), algorithm_ctor=algorithm, num_iterations=iterations, **settings),
                directory,
                tensorboard=False,
            )
            trainer.train()
            return trainer

    through = run(tmp_path / "through", 6)
    first = run(tmp_path / "resumed", 4)
    second = run(tmp_path / "resumed", 6)
    assert isinstance(second.algorithm, Recorder)
    assert isinstance(first.algorithm, Recorder)
    assert isinstance(through.algorithm, Recorder)
    for one in (through.algorithm, first.algorithm, second.algorithm):
        one.calls.pop(0)  # Before training a batch is tried.
    assert first.algorithm.calls + second.algorithm.calls == through.algorithm.calls
    assert kinds(through.algorithm).count("pretrain") == 6


class Ranking(Recorder):
    """The priority of a sequence is its first observation, less where the data begins."""

    def rank(self, info: Any) -> torch.Tensor:
        return info["x"][0] % 1000 + 1

    def calc_loss(self, info: Any) -> LossInfo:
        return super().calc_loss(info)._replace(priority=self.rank(info))

    def calc_loss_offline(self, info: Any, pre_train: bool = False) -> LossInfo:
        return super().calc_loss_offline(info, pre_train)._replace(priority=self.rank(info))


def ranking(saved: str, **settings: Any) -> Ranking:
    alg = make(offline_buffer_dir=saved, priority_replay=True, cls=Ranking, **settings)
    assert isinstance(alg, Ranking)
    alg.load_offline_replay_buffer(alg.rollout.env.observation_spec)
    return alg


def test_both_buffers_get_the_priorities_of_what_was_learnt(saved: str) -> None:
    alg = ranking(saved, priority_replay_alpha=2.0, priority_replay_eps=0.5, num_updates_per_train_iter=40)
    alg.train_iter()
    assert alg.replay_buffer is not None
    assert alg.offline_data is not None
    for buffer, first in ((alg.replay_buffer, 0.0), (alg.offline_data.source, 1000.0)):
        priorities = buffer.priority_state()["priorities"]
        data, _ = buffer.gather_all()
        expected = (data.time_step.observation[0, :, 0] - first + 1 + 0.5) ** 2
        is_ranked = torch.isclose(priorities, expected)
        # Initial priorities are 1, and the newest step begins no sequence.
        assert is_ranked.sum() >= min(3, len(expected) - 1)
        assert ((priorities == 1.0) | (priorities == 0.0) | is_ranked).all()


def test_losses_are_weighted_by_importance(saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alg = ranking(saved, priority_replay_beta=0.5, num_updates_per_train_iter=6)
    alg.train_iter()
    sampled = []
    original = ReplayBuffer.get_batch

    def get_batch(self: ReplayBuffer, size: int, length: int) -> Any:
        data, batch_info = original(self, size, length)
        sampled.append((data.time_step.step_type, batch_info.importance_weights))
        return data, batch_info

    monkeypatch.setattr(ReplayBuffer, "get_batch", get_batch)
    with torch.no_grad():
        alg.w.zero_()
    alg.learning.settings = replace(alg.learning.settings, num_updates_per_train_iter=1)
    alg.train_iter()
    gradients = [((kinds != 2) * (weights**-0.5)[:, None]).mean().item() for kinds, weights in sampled]
    assert len(gradients) == 2
    assert any((weights != weights[0]).any() for _, weights in sampled)
    assert alg.w.item() == pytest.approx(-(3 * gradients[0] + gradients[1]), rel=1e-5)


def test_priorities_of_offline_data_are_resumed(saved: str) -> None:
    first, second = ranking(saved), ranking(saved)
    for _ in range(3):
        first.train_iter()
    assert first.offline_data is not None
    assert second.offline_data is not None
    state = first.offline_data.state_dict()
    second.offline_data.load_state_dict(state)
    assert second.offline_data.num_updates == 6
    assert torch.equal(second.offline_data.source.priority_state()["priorities"], state["priorities"])
    assert (state["priorities"] > 1.0).any()


@pytest.mark.parametrize("every", [False, True])
def test_the_counter_may_count_minibatches(saved: str, every: bool) -> None:
    with Run(seed=0) as run:
        alg = hybrid(saved, num_updates_per_train_iter=3, update_counter_every_mini_batch=every)
        for _ in range(2):
            alg.train_iter()
    assert run.global_counter == (6 if every else 2)
