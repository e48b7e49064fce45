"""Callbacks: what they are shown, how they end a run, what they keep, and that a resumed run has them as they were."""

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rein
from rein.api import AgentHandle
from rein.cli import main
from rein.config.errors import ConfigError, UntrustedCodeError
from rein.data_structures import LossInfo, StepType, TimeStep
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.scalar_files import read_scalars
from rein.training import EvaluationResult, RunDirectory, run_evaluation
from rein.training.callbacks import (
    Callback,
    CallbackError,
    KeepBest,
    RecordVideos,
    StopAtReturn,
    StopWithoutImprovement,
    Training,
)

SMALL: dict[str, Any] = {
    "unroll_length": 6,
    "num_updates_per_train_iter": 2,
    "settings": {
        "TrainerConfig.evaluate": True,
        "TrainerConfig.async_eval": False,
        "TrainerConfig.eval_interval": 1,
        "TrainerConfig.num_evals": None,
        "TrainerConfig.num_eval_episodes": 2,
        "TrainerConfig.summary_interval": 1,
        "create_environment.num_parallel_environments": 2,
    },
}
REPLAY = {"initial_collect_steps": 8, "mini_batch_size": 8, "replay_buffer_length": 64}


class Count(gym.Env[Any, Any]):
    """Shows how many steps the episode has, rewards with ten times that, and ends after four."""

    observation_space = gym.spaces.Box(-1, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.array([self.count], np.float32), 10.0 * self.count, self.count == 4, False, {}


def make(algorithm: str = "ppo", env: Any = Count, **more: Any) -> AgentHandle:
    settings = {**SMALL["settings"], **more.pop("settings", {})}
    batch = REPLAY if algorithm in ("dqn",) else {"mini_batch_size": 4} if algorithm == "ppo" else {}
    rest = {name: value for name, value in SMALL.items() if name != "settings"}
    return rein.make(algorithm, env=env, settings=settings, **{**rest, **batch, **more})


class Diary(Callback):
    """Writes down what it is shown, and draws a random number in every iteration."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.steps: list[TimeStep] = []
        self.losses: list[float] = []
        self.total = 0.0

    def on_start(self, training: Training) -> None:
        self.entries.append("start")

    def on_rollout(self, training: Training, steps: TimeStep) -> None:
        self.entries.append("rollout")
        self.steps.append(steps)
        training.log("diary/largest", steps.observation.max())

    def on_update(self, training: Training, name: str, losses: LossInfo) -> None:
        self.entries.append("update")
        self.losses.append(float(losses.loss))

    def on_iteration(self, training: Training) -> None:
        self.entries.append("iteration")
        self.total += float(np.random.normal()) + training.progress.iterations
        training.log("diary/total", self.total)

    def on_evaluation(self, training: Training, result: Any) -> None:
        self.entries.append("evaluation")

    def on_checkpoint(self, training: Training, path: Path) -> None:
        assert (path / "manifest.json").exists()
        self.entries.append("checkpoint")

    def on_end(self, training: Training) -> None:
        self.entries.append("end")

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.total = state["total"]


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "dqn"])
def test_hooks_come_in_order_and_show_every_step(algorithm: str) -> None:
    diary = Diary()
    with make(algorithm) as agent:
        agent.train(36, callbacks=[diary])
        curves = read_scalars(agent.directory / "summaries")
    entries = [one for one in diary.entries if one != "checkpoint"]
    assert entries[:2] == ["start", "rollout"]
    assert entries[-3:] == ["iteration", "evaluation", "end"]
    later = entries[2:]
    assert later.index("update") < later.index("iteration") or algorithm == "dqn"
    assert diary.entries[0] == "start"
    assert "checkpoint" in diary.entries
    assert np.isfinite(diary.losses).all()
    assert diary.losses
    whole = np.concatenate([one.observation[..., 0].numpy() for one in diary.steps])
    rewards = np.concatenate([one.reward.numpy() for one in diary.steps])
    types = np.concatenate([one.step_type.numpy() for one in diary.steps])
    assert whole.shape[1] == 2
    np.testing.assert_array_equal(whole[:10, 0], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(rewards, 10 * whole)
    np.testing.assert_array_equal(types == StepType.LAST, whole == 4)
    iterations = diary.entries.count("iteration")
    assert len(curves["diary/total"].step) == len(curves["diary/largest"].step) == iterations
    assert curves["diary/total"].step.tolist() == list(range(iterations))


def test_what_nobody_asks_for_costs_nothing() -> None:
    watched = []

    class Look(Callback):
        def on_iteration(self, training: Training) -> None:
            watched.append(training.run.watcher)

    class Losses(Look):
        def on_update(self, training: Training, name: str, losses: LossInfo) -> None: ...

    with make() as agent:
        agent.train(12, callbacks=[Look()])
        agent.train(12, callbacks=[Losses()])
        agent.train(12)
        assert watched[0] is None
        assert watched[-1] is not None
        assert agent._trainer.run.watcher is None


def test_callbacks_of_collectors_see_the_steps_of_all_of_them() -> None:
    diary = Diary()
    with make(scheme={"kind": "sync", "collectors": 2, "backend": "inline"}) as agent:
        agent.train(40, callbacks=[diary])
    assert diary.steps[0].observation.shape == (6, 4, 1)
    np.testing.assert_array_equal(diary.steps[0].observation[:, 3, 0], [0, 1, 2, 3, 4, 0])
    np.testing.assert_array_equal(diary.steps[0].reward[:, 3], [0, 10, 20, 30, 40, 0])


class StopAfter(Callback):
    """Ends a run as a user does, or with a reason."""

    def __init__(self, iterations: int, reason: str | None = None) -> None:
        self.iterations, self.reason = iterations, reason

    def on_iteration(self, training: Training) -> None:
        if training.progress.iterations == self.iterations:
            if self.reason is None:
                os.kill(os.getpid(), signal.SIGINT)
            else:
                training.stop(self.reason)


def test_an_early_stop_gives_its_reason_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    with make() as agent:
        result = agent.train(1000, callbacks=[StopAfter(3, "enough [of] it")], progress=True)
        assert result.stop_reason == "enough [of] it"
        assert result.stopped_by is None
        assert result.progress.iterations == 3
        record = RunDirectory.open(agent.directory).record()
        assert (record["status"], record["stop_reason"]) == ("stopped", "enough [of] it")
        assert RunDirectory.open(agent.directory).read_evaluations()[-1]["iterations"] == 3
        assert Checkpointer(agent.directory / "checkpoints").latest_step() == 3
        assert "stopped early: enough [of] it" in capsys.readouterr().out
        assert agent.train(12).stop_reason is None
        assert "stop_reason" not in RunDirectory.open(agent.directory).record()
    with pytest.raises(ValueError, match="needs a reason"):
        agent._trainer.callbacks.training.stop("")


def test_a_run_with_callbacks_resumes_exactly(tmp_path: Path) -> None:
    names = ["StopWithoutImprovement", "Diary", "KeepBest"]

    def callbacks() -> list[Callback]:
        return [StopWithoutImprovement(patience=100), Diary(), KeepBest()]

    with make("dqn", directory=tmp_path / "whole", seed=2) as agent:
        agent.train(80, callbacks=callbacks())
    with make("dqn", directory=tmp_path / "parts", seed=2) as agent:
        agent.train(80, callbacks=[*callbacks(), StopAfter(3)])
        done = agent.save(tmp_path / "saved")
    resumed = rein.load(done, env=Count)
    left = 80 - resumed._require_trainer().run.env_steps
    resumed.train(left, callbacks=callbacks())
    states = [_newest(tmp_path / "whole"), _newest(resumed.directory)]
    assert [sorted(one["callbacks"]) for one in states] == [sorted(names)] * 2
    assert states[0]["callbacks"] == states[1]["callbacks"]
    for name, value in states[0]["alg"].items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, states[1]["alg"][name]), name
    curves = [read_scalars(path / "summaries") for path in (tmp_path / "whole", resumed.directory)]
    for name in ("diary/total", "diary/largest"):
        np.testing.assert_array_equal(curves[0][name].value, curves[1][name].value)
        np.testing.assert_array_equal(curves[0][name].step, curves[1][name].step)
    best = [Checkpointer(path / "policies" / "best") for path in (tmp_path / "whole", resumed.directory)]
    assert best[0].steps() == best[1].steps() != []
    resumed.close()


def _newest(path: Path) -> dict[str, Any]:
    return dict(Checkpointer(path / "checkpoints").load().components)


def test_a_state_waits_for_its_callback(tmp_path: Path) -> None:
    diary = Diary()
    with make() as agent:
        agent.train(24, callbacks=[diary])
        agent.save(tmp_path / "agent")
    loaded = rein.load(tmp_path / "agent", env=Count)
    loaded.train(12)
    assert _newest(loaded.directory)["callbacks"]["Diary"]["total"] == diary.total
    again = Diary()
    loaded._require_trainer().callbacks.add([again])
    assert again.total == diary.total
    loaded.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Mean returns that the evaluations of a run have, one after the other."""
    returns: list[float] = []

    def evaluate(*arguments: Any, **named: Any) -> EvaluationResult:
        return EvaluationResult(np.array([returns.pop(0)]), np.array([1]))

    monkeypatch.setattr(run_evaluation, "evaluate", evaluate)
    return returns


def evaluations_until_stop(callback: Callback, returns: list[float]) -> tuple[int, str | None]:
    """How many evaluations a callback lets happen, 10 environment steps apart, and why no more."""
    reasons: list[str] = []
    for number, value in enumerate(returns, 1):
        progress = SimpleNamespace(env_steps=10 * number)
        training: Any = SimpleNamespace(progress=progress, stop=reasons.append)
        callback.on_evaluation(training, EvaluationResult(np.array([value]), np.array([1])))
        if reasons:
            return number, reasons[0]
    return len(returns), None


def test_stop_at_return() -> None:
    returns = [1.0, 5.0, 4.0, 6.0, 7.0, 8.0]
    reason = "an evaluation has reached 5, at least the target 5"
    assert evaluations_until_stop(StopAtReturn(5.0), returns) == (2, reason)
    number, reason = evaluations_until_stop(StopAtReturn(5.0, evaluations=2), returns)  # type: ignore[assignment]
    assert number == 5
    assert "second time in a row" in reason
    assert evaluations_until_stop(StopAtReturn(8.5), returns) == (6, None)


def test_stop_without_improvement() -> None:
    returns = [1, 2, 1.5, 2, 2.5, 2.4, 2.3, 2.2, 9]
    reason = "3 evaluations in a row were no better than 2.5"
    assert evaluations_until_stop(StopWithoutImprovement(3), returns) == (8, reason)
    assert evaluations_until_stop(StopWithoutImprovement(3, least=1.0), returns)[0] == 4
    assert evaluations_until_stop(StopWithoutImprovement(1, after=45), [1.0] * 9)[0] == 5
    assert evaluations_until_stop(StopWithoutImprovement(9), returns) == (9, None)
    with pytest.raises(CallbackError, match="patience must be at least 1"):
        StopWithoutImprovement(0)


def test_keep_best_keeps_the_policy_that_was_evaluated(scripted: list[float], tmp_path: Path) -> None:
    scripted[:] = [1.0, 3.0, 2.0, 2.5]
    observation = np.zeros((1, 1), np.float32)

    class Note(Callback):
        """The value of a parameter when each policy was evaluated."""

        def __init__(self) -> None:
            self.weights: list[float] = []

        def on_evaluation(self, training: Training, result: Any) -> None:
            self.weights.append(float(next(training.algorithm.parameters()).detach().double().sum()))

    note = Note()
    with make() as agent:
        agent.train(36, callbacks=[KeepBest(), note])
        agent.save(tmp_path / "agent")
        assert Checkpointer(agent.directory / "policies" / "best").steps() == [2]
    best = rein.load(tmp_path / "agent", env=Count, checkpoint="best")
    assert float(next(best.algorithm.parameters()).detach().double().sum()) == note.weights[1] != note.weights[-1]
    assert best.predict(observation).shape == (1,)
    with pytest.raises(ValueError, match="kept as 'best', to act only"):
        best.train(10)
    path = best.save(tmp_path / "copy")
    with pytest.raises(ValueError, match="to act only"):
        rein.load(path, env=Count).train(10)
    with pytest.raises(ValueError, match="has kept no policy as 'better'"):
        rein.load(tmp_path / "agent", env=Count, checkpoint="better")


@pytest.mark.slow
def test_keep_best_saves_what_another_process_evaluated(tmp_path: Path) -> None:
    settings = {"TrainerConfig.async_eval": True, "TrainerConfig.num_eval_episodes": 1}
    with make(env="CartPole-v1", settings=settings, directory=tmp_path / "run") as agent:
        agent.train(60, callbacks=["keep_best"])
    run = RunDirectory.open(tmp_path / "run")
    best = max(run.read_evaluations(), key=lambda one: one["mean_return"])
    assert Checkpointer(run.policies("best")).steps() == [best["iterations"]]
    assert main(["evaluate", str(run.path), "--checkpoint", "best", "--episodes", "1"]) == 0


def test_record_videos(tmp_path: Path) -> None:
    with make(env="CartPole-v1", directory=tmp_path / "run") as agent:
        agent.train(40, callbacks=[RecordVideos(every=20, form="gif")])
        videos = sorted(one.name for one in (agent.directory / "videos").iterdir())
    assert len(videos) == 2
    assert all(one.startswith("step-") and one.endswith(".gif") for one in videos)


def test_a_world_that_cannot_be_drawn_does_not_stop_the_run(caplog: pytest.LogCaptureFixture) -> None:
    with make() as agent:
        assert agent.train(40, callbacks=["record_videos=10"]).progress.fraction == 1.0
    assert [record.message for record in caplog.records if "RecordVideos" in record.message].__len__() == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("kep_best", "there is no callback 'kep_best'. Did you mean 'keep_best'?"),
        ("stop_at_return", "missing 1 required positional argument: 'target'. Its parameters: target"),
        ("stop_at_return='much'", "target is 'much': give a number"),
        ("stop_at_return(475, evaluations=0)", "evaluations is 0: give at least 1"),
        ("no_such_module:Class", "there is no module no_such_module, neither installed nor in the folder you are in"),
        ("json:JSONDecoder", "is no rein.training.callbacks.Callback"),
        ("json:JSONDecodr", "has no class JSONDecodr. Did you mean 'JSONDecoder'"),
        ("keep_best(name=open)", "name=open is no Python literal"),
        (3, "callback 3 is no rein.training.callbacks.Callback"),
        (Callback, None),
    ],
)
def test_what_callbacks_may_be(given: Any, message: str | None) -> None:
    with make() as agent:
        if message is None:
            agent.train(12, callbacks=[given])
            return
        with pytest.raises(ValueError, match=re.escape(message)):
            agent.train(12, callbacks=[given])


def test_a_callback_that_looks_at_evaluations_needs_some() -> None:
    with (
        make(settings={"TrainerConfig.evaluate": False}) as agent,
        pytest.raises(CallbackError, match=r"set TrainerConfig\.evaluate=True"),
    ):
        agent.train(12, callbacks=["keep_best"])


OWN = """
from rein.training.callbacks import Callback

class Own(Callback):
    def __init__(self, limit=2):
        self.limit = limit

    def on_iteration(self, training):
        training.log("own/limit", self.limit)
        if training.progress.iterations == self.limit:
            training.stop(f"own limit of {self.limit}")
"""


def test_callbacks_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_callbacks_for_test.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = ["--algorithm", "ppo", "--env", "CartPole-v1", "unroll_length=8", "mini_batch_size=16", "evaluate=False"]
    words += ["num_updates_per_train_iter=1", "num_parallel_environments=2", "num_env_steps=200"]
    words += ["--callback", "own_callbacks_for_test:Own(limit=3)", "--dir", "run"]
    assert main(["train", *words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["stop_reason"], shown["iterations"]) == ("stopped", "own limit of 3", 3)
    assert read_scalars(tmp_path / "run" / "summaries")["own/limit"].value.tolist() == [3.0] * 3
    monkeypatch.delitem(__import__("sys").modules, "own_callbacks_for_test")
    assert main(["resume", "run"]) == 2
    assert "would import the module own_callbacks_for_test: add --trust" in capsys.readouterr().err
    assert main(["resume", "run", "--trust", "--callback", "own_callbacks_for_test:Own(limit=5)"]) == 0
    assert "stopped early: own limit of 5" in capsys.readouterr().out


def test_callbacks_in_a_conf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "conf.py"
    conf.write_text(
        "import rein\n"
        "from rein.training.callbacks import KeepBest, StopAtReturn\n"
        "rein.import_config('tasks/ppo_cartpole.py')\n"
        "rein.config('create_callbacks', callbacks=[StopAtReturn(1.0), KeepBest, 'record_videos=100000'])\n"
        "rein.config('TrainerConfig', num_env_steps=512, num_updates_per_train_iter=1, num_eval_episodes=1)\n"
    )
    assert main(["train", str(conf), "--dir", str(tmp_path / "run"), "TrainerConfig.async_eval=False"]) == 0
    assert "stopped early: an evaluation has reached" in capsys.readouterr().out
    assert rein.load(tmp_path / "run", checkpoint="best").evaluate(1).mean > 0
    assert main(["resume", str(tmp_path / "run")]) == 0  # The saved values name what is ours: no trust is needed.


def test_a_supervised_run_has_callbacks_too() -> None:
    pytest.importorskip("sklearn")
    generator = np.random.default_rng(0)
    examples = generator.normal(size=(64, 3)).astype(np.float32)
    labels = (examples[:, 0] > 0).astype(np.int64)
    learner = rein.make("hypernetwork", data=(examples, labels))
    result = learner.train(30, callbacks=[StopAtReturn(0.0), KeepBest()])
    assert result.stop_reason is not None
    assert result.progress.fraction < 1.0
    assert (learner.directory / "policies" / "best").is_dir()
    learner.close()


def test_a_module_is_not_imported_by_a_text_alone() -> None:
    from rein.training.callbacks import create_callbacks

    with pytest.raises(UntrustedCodeError, match="would import the module antigravity"):
        create_callbacks(False, callbacks=["antigravity:Flight"])
    with pytest.raises(ConfigError, match="no module"):
        create_callbacks(True, callbacks=["no_such_module.below:Flight"])
