"""One constructor: what it chooses, what it refuses."""

import functools
import logging
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.envs import BatchEnvironment, ProcessEnvironment, ThreadEnvironment, VectorEnvironment, create_environment
from rein.envs.create import _choose_backend
from rein.envs.faults import FaultPolicy
from rein.envs.single import EnvFactory
from rein.envs.vectorised import ClassicControlEnvironment


def test_auto_takes_the_compiled_batch_and_says_so(caplog):
    with caplog.at_level(logging.INFO, logger="rein.envs"), create_environment("CartPole-v1", 4, seed=0) as environment:
        assert isinstance(environment, ClassicControlEnvironment)
    assert "backend 'vector'" in caplog.text
    assert "because" in caplog.text


def test_auto_keeps_cheap_worlds_in_the_process(worlds):
    with create_environment(worlds.CountingEnv, 3, seed=0) as environment:
        assert isinstance(environment, BatchEnvironment)


def test_auto_takes_processes_for_worlds_that_wait(worlds, monkeypatch):
    class Slow(worlds.CountingEnv):
        def step(self, action):
            time.sleep(0.01)
            return super().step(action)

    monkeypatch.setattr("rein.envs.create._MEASURE_SECONDS", 0.05)
    backend, reason = _choose_backend(EnvFactory(Slow), 4, 4, None, FaultPolicy())
    assert backend == "process"
    assert "us in workers" in reason


def test_auto_does_not_look_for_company_for_a_single_world(worlds):
    assert _choose_backend(EnvFactory(worlds.CountingEnv), 1, None, None, FaultPolicy())[0] == "sync"


@pytest.mark.parametrize(
    ("backend", "kind"),
    [("sync", BatchEnvironment), ("process", ProcessEnvironment), ("thread", ThreadEnvironment)],
)
def test_backends_by_name(worlds, backend, kind):
    with create_environment(worlds.CountingEnv, 2, backend=backend, num_workers=1) as environment:
        assert type(environment) is kind


def test_wrappers_and_keyword_arguments_reach_each_world(worlds):
    doubled = functools.partial(gym.wrappers.TransformReward, func=lambda reward: 2 * reward)
    with create_environment(
        worlds.CountingEnv, 2, backend="process", wrappers=[doubled], env_kwargs={"length": 2}
    ) as environment:
        environment.reset()
        action = torch.zeros(2, dtype=torch.int64)
        assert environment.step(action).reward.tolist() == [2.0, 2.0]
        step = environment.step(action)
        assert step.reward.tolist() == [4.0, 4.0]
        assert step.is_last().all()


def test_native_vector_environments_by_id_where_arguments_rule_out_the_compiled_batch():
    with create_environment(
        "CartPole-v1", 3, backend="vector", env_kwargs={"sutton_barto_reward": True}, seed=0
    ) as environment:
        assert isinstance(environment, VectorEnvironment)
        environment.reset()
        assert environment.step(torch.zeros(3, dtype=torch.int64)).reward.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("backend", ["sync", "process", "thread", "vector"])
def test_rendering_gives_one_frame_per_world(backend):
    pytest.importorskip("pygame")
    kwargs = {} if backend == "vector" else {"env_kwargs": {"render_mode": "rgb_array"}}
    with create_environment("CartPole-v1", 2, backend=backend, seed=0, **kwargs) as environment:
        environment.reset()
        frames = environment.render()
    assert frames.shape == (2, 400, 600, 3)
    assert frames.dtype == np.uint8
    assert len(np.unique(frames)) > 2


@pytest.mark.parametrize("backend", ["sync", "process"])
def test_rendering_without_a_render_mode_says_what_to_do(backend, worlds):
    class Dark(worlds.CountingEnv):
        def render(self):
            return None

    with create_environment(Dark, 2, backend=backend) as environment:
        environment.reset()
        with pytest.raises(ValueError, match="render_mode='rgb_array'"):
            environment.render()


def test_impossible_arguments_are_refused(worlds):
    with pytest.raises(ValueError, match="num_parallel_environments is 0"):
        create_environment("CartPole-v1", 0)
    with pytest.raises(ValueError, match="backend is 'gpu'"):
        create_environment("CartPole-v1", 1, backend="gpu")
    with pytest.raises(ValueError, match="num_slots is 1"):
        create_environment("CartPole-v1", 1, num_slots=1)
    with pytest.raises(TypeError, match="env_name is 3"):
        create_environment(3)
    with pytest.raises(ValueError, match="wrappers"):
        create_environment("CartPole-v1", 1, backend="vector", wrappers=[lambda env: env])
    with pytest.raises(ValueError, match="no vector environment"):
        create_environment("FrozenLake-v1", 1, backend="vector")
    with pytest.raises(TypeError, match=r"must be a gymnasium\.Env"):
        create_environment(lambda: 5, 1, backend="sync")
    with pytest.raises(ValueError, match="num_workers is 0"):
        create_environment(worlds.CountingEnv, 2, backend="thread", num_workers=0)
    with pytest.raises(ValueError, match="start_method is 'telepathy'"):
        create_environment(worlds.CountingEnv, 1, backend="process", start_method="telepathy")


def test_worlds_with_different_spaces_are_refused(worlds):
    sizes = iter([2, 2, 3])

    def growing():
        return worlds.EchoEnv(gym.spaces.Discrete(next(sizes)))

    with pytest.raises(ValueError, match="environment 1 has the observation space Discrete"):
        create_environment(growing, 2, backend="sync")


def test_workers_do_not_load_torch():
    code = "import sys, rein.envs.process_worker, rein.envs.suites; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
