"""Signals end a run in time, with the right exit code, status and a checkpoint that loads."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rein
from rein.runtime.checkpoint import Checkpointer
from rein.training.evaluation import evaluate
from rein.training.signals import StopNowError, StopRequest, exit_code
from tests.contract import discovery

CONF = """
import time
import gymnasium as gym
from rein.config import config, import_config
import_config("tasks/ppo_cartpole.py")


class Slow(gym.Wrapper):
    def step(self, action):
        if not hasattr(self, "count"):
            self.count = 0
        self.count += 1
        if self.count > {after}:
            open({mark!r}, "w").close()
            time.sleep({seconds})
        return super().step(action)


config(
    "create_environment",
    num_parallel_environments=2,
    backend="sync",
    wrappers=[Slow],
)
config("TrainerConfig", unroll_length=8, mini_batch_size=16, num_env_steps=10**9, evaluate={evaluate})
"""


def _train(tmp_path, seconds, after, evaluates=False):
    conf, mark, run = tmp_path / "slow.py", tmp_path / "mark", tmp_path / "run"
    conf.write_text(CONF.format(after=after, mark=str(mark), seconds=seconds, evaluate=evaluates))
    command = [sys.executable, "-m", "rein.cli", "train", str(conf), "--dir", str(run)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while not mark.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert mark.exists(), process.communicate()[0].decode()
    return process, run


def _status(run):
    return json.loads((run / "run.json").read_text())["status"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_is_no_finished_one(tmp_path, number, code):
    process, run = _train(tmp_path, 0.001, 20)
    process.send_signal(number)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == code, output
    assert _status(run) == "stopped"
    assert Checkpointer(run / "checkpoints").load().step > 0


def test_a_second_interrupt_stops_at_once(tmp_path):
    process, run = _train(tmp_path, 10**6, 20)
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 130, output
    assert _status(run) == "stopped"


def test_a_hung_step_ends_with_a_checkpoint_that_loads(tmp_path):
    process, run = _train(tmp_path, 10**6, 20)
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 143, output
    assert _status(run) == "stopped"
    assert Checkpointer(run / "checkpoints").load().step >= 0
    assert time.monotonic() - sent < 60  # 20 on a machine that has nothing else to do.
    assert not list(Path(run).rglob(".saving-*"))


def test_a_request_is_noticed_once_and_then_insisted_on():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.reason == "SIGTERM"
        with pytest.raises(StopNowError) as error:
            os.kill(os.getpid(), signal.SIGINT)
        assert error.value.number == signal.SIGINT
    assert [exit_code(name) for name in (None, "SIGINT", "SIGTERM")] == [0, 130, 143]


def test_an_interrupt_that_lost_its_signal_gets_it_back():
    with StopRequest() as stop:
        plain = KeyboardInterrupt()
        assert stop.named(plain) is plain
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.named(plain).number == signal.SIGTERM
        insisted = StopNowError(signal.SIGINT)
        assert stop.named(insisted) is insisted


def test_a_hang_is_interrupted(monkeypatch):
    monkeypatch.setattr("rein.training.signals.GRACE_SECONDS", 0.2)
    with StopRequest(), pytest.raises(StopNowError):
        _hang()


def _hang():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(300)


def test_what_ended_in_time_is_not_interrupted(monkeypatch):
    monkeypatch.setattr("rein.training.signals.GRACE_SECONDS", 0.1)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.disarm()
        time.sleep(0.4)


def test_an_endless_episode_is_cut():
    algorithm = next(iter(discovery.cases().values())).build()
    result = evaluate(algorithm, algorithm.rollout.env, 3, max_episode_steps=2)  # Episodes of this world have four.
    assert result.lengths.tolist() == [2] * min(3, algorithm.rollout.env.batch_size)


def test_an_endless_world_is_evaluated_once_for_ten_thousand_steps_at_most(monkeypatch, tmp_path):
    monkeypatch.setattr("rein.training.evaluation._LONG_EPISODE", 30)
    settings = {"TrainerConfig.num_evals": 2, "TrainerConfig.num_eval_environments": 1}
    with rein.make("a2c", env=Endless, directory=tmp_path / "run", settings=settings) as agent:
        agent.train(200, progress=False)
    for line in (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines():
        assert json.loads(line)["lengths"] == [30]


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_a_long_episode_is_told_of_once_before_it_is_cut(monkeypatch, caplog):
    monkeypatch.setattr("rein.training.evaluation._LONG_EPISODE", 3)
    algorithm = next(iter(discovery.cases().values())).build()
    evaluate(algorithm, algorithm.rollout.env, 6)
    told = [record.getMessage() for record in caplog.records if "has not ended after 3 steps" in record.getMessage()]
    assert len(told) == 1
    assert "it is cut after 200000" in told[0]


CHILD = """
import subprocess, sys, time
from rein.training.run_directory import RunDirectory
from rein.training.async_evaluation import AsyncEvaluator
evaluator = AsyncEvaluator(RunDirectory(sys.argv[1]))
print(evaluator._process.pid, flush=True)
time.sleep(300)
"""


def test_the_evaluation_process_dies_with_its_trainer(tmp_path):
    trainer = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = int(trainer.stdout.readline())
    time.sleep(0.5)
    trainer.kill()
    trainer.wait()
    deadline = time.monotonic() + 60
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
