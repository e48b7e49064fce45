"""Runs from data: recorded, trained with and without an environment, resumed, loaded, and what is refused."""

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rein
from rein.api import AgentHandle
from rein.cli import main
from rein.cli.entry import make_parser
from rein.data_structures import StepType
from rein.replay.datasets import DataSet, DataSetError
from rein.training.recording import Manner, record_episodes, record_replay
from rein.training.run_directory import RunDirectory

WORLD = "rein/IdentityContinuous-v0"
SAMPLED = {"whole_replay_buffer_training": False, "clear_replay_buffer": False}
SMALL = {"hidden_layers": (8,), "num_updates_per_train_iter": 5, "mini_batch_size": 16}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> AgentHandle:
    """SAC that has collected a little, and learnt nothing."""
    settings = {"hidden_layers": (8,), "initial_collect_steps": 40, "replay_buffer_length": 40, "mini_batch_size": 8}
    path = tmp_path_factory.mktemp("runs") / "sac"
    made = rein.make("sac", env=WORLD, seed=0, directory=path, evaluate=False, **settings)
    made.train(64, progress=False)
    return made


@pytest.fixture(scope="module")
def data(agent: AgentHandle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "random.data"
    return record_episodes(agent.policy, path, 30, Manner("random")).path


@pytest.fixture(scope="module")
def discrete_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = rein.make("ppo", env="rein/Chain-v0", seed=0, evaluate=False, num_parallel_environments=1)
    path = tmp_path_factory.mktemp("data") / "discrete.data"
    return record_episodes(made.policy, path, 10, Manner("random")).path


# Recording.


def test_whole_episodes_are_recorded_and_say_where_they_come_from(agent: AgentHandle, data: Path) -> None:
    data_set = DataSet.open(data)
    data_set.verify()
    assert data_set.num_episodes == 30
    source = data_set.manifest.sources[0]
    assert (source["algorithm"], source["env"], source["policy"], source["seed"]) == (
        "SacAlgorithm",
        WORLD,
        "random",
        0,
    )
    assert data_set.specs.action == agent.algorithm.action_spec


def test_the_same_seed_records_the_same_data_and_disturbs_nothing(agent: AgentHandle, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    files = {}
    for name, seed, how in (
        ("a", 1, "stochastic"),
        ("b", 1, "stochastic"),
        ("c", 2, "stochastic"),
        ("d", 1, "noise=0.5"),
    ):
        torch.manual_seed(3)
        files[name] = record_episodes(agent.policy, tmp_path / name, 3, Manner.parse(how), seed).path
        assert torch.equal(torch.rand(1), expected)
    sums = {name: DataSet.open(path).manifest.checksums["action"] for name, path in files.items()}
    assert sums["a"] == sums["b"]
    assert len(set(sums.values())) == 3


def test_manners_differ_as_they_say(agent: AgentHandle, tmp_path: Path) -> None:
    def actions(how: str) -> np.ndarray:
        path = record_episodes(agent.policy, tmp_path / f"{how}.data", 5, Manner.parse(how)).path
        data_set = DataSet.open(path)
        taken = data_set.columns["action"][1:][data_set.columns["step_type"] != StepType.LAST]
        return taken[:, 0]

    quiet, noisy, lasting = (actions(how) for how in ("deterministic", "noise=0.05", "lasting_noise=0.05"))
    noise = noisy - quiet
    half = float(agent.algorithm.action_spec.maximum[0] - agent.algorithm.action_spec.minimum[0]) / 2
    assert 0.03 * half < noise.std() < 0.07 * half
    kept = lasting - quiet
    length = len(kept) // 5
    kept = kept[:length]
    assert np.corrcoef(kept[1:], kept[:-1])[0, 1] > 0.2  # Half of the noise of a step is that of the one before.
    for wrong in ("noise", "noise=x", "noise=-1", "deterministic=1", "loud"):
        with pytest.raises(ValueError, match=f"policy {wrong!r} is unknown"):
            Manner.parse(wrong)


def test_a_replay_buffer_becomes_a_data_set(agent: AgentHandle, tmp_path: Path) -> None:
    saved = agent.save(tmp_path / "saved")
    loaded = rein.load(saved)
    recorded = record_replay(loaded.policy, RunDirectory.open(saved), tmp_path / "replay.data")
    data_set = DataSet.open(recorded.path)
    data_set.verify()
    assert 30 <= recorded.transitions <= 40
    assert data_set.manifest.sources[0]["policy"] == "replay buffer"


# Learning.


@pytest.mark.parametrize("name", ["bc", "causal_bc", "iql"])
def test_an_agent_learns_from_a_file_alone(name: str, data: Path, tmp_path: Path) -> None:
    agent = rein.make(name, data=data, seed=0, directory=tmp_path / "run", **SMALL)
    assert agent.algorithm.has_offline
    before = [parameter.clone() for parameter in agent.algorithm.parameters()]
    result = agent.train(updates=12, progress=False)
    assert result.progress.env_steps == 0
    assert result.progress.iterations == 3  # Of five updates each.
    assert any(not torch.equal(a, b) for a, b in zip(before, agent.algorithm.parameters(), strict=True))
    action = agent.predict(np.zeros(agent.algorithm.observation_spec.shape, np.float32))
    with pytest.raises(ValueError, match="trained from data, without an environment"):
        agent.evaluate(2)
    saved = agent.save(tmp_path / "saved")
    data.rename(moved := data.with_suffix(".moved"))
    try:
        loaded = rein.load(saved)  # The data is not needed to act.
        np.testing.assert_array_equal(
            loaded.predict(np.zeros(agent.algorithm.observation_spec.shape, np.float32)), action
        )
        assert len(rein.load(saved, env=WORLD).evaluate(2).returns) == 2
    finally:
        moved.rename(data)


def test_cloning_finds_the_action_that_the_data_shows(agent: AgentHandle, tmp_path: Path) -> None:
    """In this world the best action is the observation; the data holds it with noise."""
    path = record_episodes(agent.policy, tmp_path / "x.data", 20, Manner("random")).path
    cloned = rein.make("bc", data=path, env=WORLD, seed=0, **{**SMALL, "hidden_layers": (16,)}, learning_rate=1e-2)
    cloned.train(updates=50, progress=False)
    assert math.isfinite(cloned.evaluate(5).mean)


@pytest.mark.parametrize("name", ["bc", "causal_bc", "iql"])
def test_equal_seeds_and_resumed_runs_give_equal_parameters(name: str, data: Path, tmp_path: Path) -> None:
    def parameters(agent: AgentHandle) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in agent.algorithm.parameters()]

    settings = {**SMALL, "priority_replay": name == "iql", "TrainerConfig.num_iterations": 4}
    if name == "iql":
        settings["IqlAlgorithm.calculate_priority"] = True
    whole = rein.make(name, data=data, seed=1, settings=settings)
    whole.train(updates=20, progress=False)
    same = rein.make(name, data=data, seed=1, settings=settings)
    same.train(updates=20, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(same), strict=True))
    half = rein.make(name, data=data, seed=1, directory=tmp_path / "half", settings=settings)
    half.train(updates=10, progress=False)
    resumed = rein.load(half.save(tmp_path / "saved"))
    resumed.train(updates=10, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(resumed), strict=True))


def test_several_files_are_learnt_from_together(data: Path, agent: AgentHandle, tmp_path: Path) -> None:
    other = record_episodes(agent.policy, tmp_path / "other.data", 5, Manner("deterministic")).path
    mixed = rein.make("iql", data=[data, other], seed=0, **SMALL)
    assert mixed.algorithm.offline_data is not None
    source = mixed.algorithm.offline_data.source
    assert source.total_size == DataSet.open(data).num_steps + DataSet.open(other).num_steps  # type: ignore[attr-defined]


def test_an_online_algorithm_learns_from_the_data_of_others_too(data: Path) -> None:
    """Hybrid: SAC, which notes more about a step than a data set holds."""
    settings = {**SMALL, "initial_collect_steps": 10, "replay_buffer_length": 100, "evaluate": False}
    hybrid = rein.make(
        "sac", env=WORLD, data=data, seed=0, rl_train_after_update_steps=10, rl_train_every_update_steps=2, **settings
    )
    hybrid.train(40, progress=False)
    assert hybrid.algorithm.offline_data is not None
    assert hybrid.algorithm.offline_data.num_updates >= 10
    assert hybrid.algorithm.env_steps >= 40


def test_an_online_algorithm_learns_from_data_alone(data: Path) -> None:
    alone = rein.make("td3", data=data, seed=0, settings={"TrainerConfig.num_iterations": 2}, **SMALL)
    alone.train(updates=10, progress=False)
    assert alone.algorithm.env_steps == 0


# Bad input.


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    message = capsys.readouterr().err.strip()
    assert "\n" not in message
    return message


def test_what_cannot_be_learnt_is_refused_in_one_line_before_training(
    data: Path, discrete_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train = ("train", "--algorithm")
    assert "its observation is" in (message := refused(capsys, *train, "bc", "--data", data, "--env", "Pendulum-v1"))
    assert "that of the environment is" in message
    for name in ("iql", "causal_bc"):
        assert "needs continuous actions" in refused(capsys, *train, name, "--data", discrete_data)
    assert "learns from data: add --data FILE" in refused(capsys, *train, "bc", "--env", WORLD)
    assert "there is no data set nothing.data" in refused(capsys, *train, "bc", "--data", "nothing.data")
    (tmp_path / "empty.data").touch()
    assert "is an empty file" in refused(capsys, *train, "bc", "--data", "empty.data")
    (tmp_path / "cut.data").write_bytes(data.read_bytes()[:-100])
    assert "is cut short" in refused(capsys, *train, "bc", "--data", "cut.data")
    content = bytearray(data.read_bytes())
    column = DataSet.open(data).columns["observation"]
    place = bytes(content).index(column[5:9].tobytes())
    content[place : place + 4] = np.float32(np.nan).tobytes()
    (tmp_path / "nan.data").write_bytes(content)
    assert "observation of episode 0 at its step 5: it is nan" in refused(capsys, *train, "bc", "--data", "nan.data")
    ppo = (*train, "ppo", "--env", WORLD, "--data", data)
    assert "only off-policy algorithms" in refused(capsys, *ppo)
    sampling = ("TrainerConfig.whole_replay_buffer_training=False", "TrainerConfig.clear_replay_buffer=False")
    assert "PPOAlgorithm cannot learn from this data" in refused(capsys, *ppo, *sampling)
    assert list(tmp_path.glob("runs/*")) == []


def test_schedules_that_never_train_are_refused(data: Path) -> None:
    settings = {**SMALL, "TrainerConfig.num_iterations": 2, "TrainerConfig.num_env_steps": 0}
    with pytest.raises(ValueError, match="the first on what it collects would be number 100"):
        rein.make(
            "sac",
            env=WORLD,
            data=data,
            settings={
                **settings,
                "TrainerConfig.rl_train_every_update_steps": 100,
                "TrainerConfig.rl_train_after_update_steps": 1,
            },
        )
    with pytest.raises(ValueError, match="lets it take no step: set num_iterations"):
        rein.make("sac", env=WORLD, data=data, rl_train_after_update_steps=2**62)
    with pytest.raises(ValueError, match="learn from data alone, but there is none"):
        rein.make("sac", env=WORLD, rl_train_after_update_steps=2**62)
    with pytest.raises(ValueError, match="without an environment there are no environment steps"):
        rein.make("sac", data=data)
    with pytest.raises(ValueError, match="on-policy: it cannot learn from offline data"):
        rein.make("a2c", data=data, num_iterations=3, **SAMPLED)
    with pytest.raises(ValueError, match="cannot learn from this data"):
        rein.make("ppo", data=data, num_iterations=3, mini_batch_size=4, **SAMPLED)


def test_words_that_do_not_fit_the_agent_are_refused(data: Path) -> None:
    with pytest.raises(ValueError, match='learns from data: add data="FILE"'):
        rein.make("iql", env=WORLD)
    agent = rein.make("bc", data=data, **SMALL)
    with pytest.raises(ValueError, match="takes no environment steps: give updates"):
        agent.train(100)
    with pytest.raises(ValueError, match="give num_env_steps, or updates"):
        agent.train()
    with pytest.raises(ValueError, match="updates is 0"):
        agent.train(updates=0)


def test_statistics_that_no_data_would_reach_are_refused(data: Path) -> None:
    from functools import partial

    from rein.transforms import ObservationNormalizer

    for mode in ("rollout", "replay"):
        with pytest.raises(ValueError, match='set update_mode="pretrain"'):
            rein.make(
                "bc",
                data=data,
                settings={"TrainerConfig.data_transformer_ctor": partial(ObservationNormalizer, update_mode=mode)},
                **SMALL,
            )
    normalized = partial(ObservationNormalizer, update_mode="pretrain")
    agent = rein.make("bc", data=data, settings={"TrainerConfig.data_transformer_ctor": normalized}, **SMALL)
    agent.train(updates=10, progress=False)


# The command line.


def test_from_a_run_to_a_policy_on_the_command_line(
    agent: AgentHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = agent.save(tmp_path / "expert")
    capsys.readouterr()

    def say(*words: str | Path) -> dict[str, Any]:
        assert main([*map(str, words), "--json"]) == 0
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    recorded = say("record", run, "--episodes", "4", "--policy", "deterministic", "--out", "a.data")
    assert recorded["episodes"] == 4
    say("record", run, "--replay", "--out", "b.data")
    joined = say("data", "join", "a.data", "b.data", "--out", "c.data")
    assert [source["policy"] for source in joined["sources"]] == ["deterministic", "replay buffer"]
    shown = say("data", "show", "c.data")
    assert shown["checksums"] == joined["checksums"]
    assert main(["data", "show", "c.data"]) == 0
    assert "returns: mean" in capsys.readouterr().out
    small = ["hidden_layers=(8,)", "TrainerConfig.num_iterations=2", "TrainerConfig.num_updates_per_train_iter=2"]
    trained = say("train", "--algorithm", "iql", "--data", "c.data", "--data", "a.data", *small)
    assert trained["updates"] == 4
    longer = say("resume", trained["directory"], "--updates", "8")
    assert longer["updates"] == 8
    assert "takes no environment steps" in refused(capsys, "resume", trained["directory"], "--env-steps", "8")
    assert "already made 8 updates" in refused(capsys, "resume", trained["directory"], "--updates", "8")
    assert trained["evaluation"] is None
    assert "--env ID" in refused(capsys, "evaluate", trained["directory"], "--episodes", "1")
    assert say("evaluate", trained["directory"], "--episodes", "2", "--env", WORLD)["episodes"] == 2
    seen = say("train", "--algorithm", "bc", "--data", "a.data", "--env", WORLD, *small, "TrainerConfig.num_evals=1")
    assert seen["evaluation"]["episodes"] > 0
    assert "give either --episodes N" in refused(capsys, "record", run, "--out", "d.data")
    assert "exists: give another name" in refused(capsys, "record", run, "--episodes", "1", "--out", "a.data")
    assert "needs --out" in refused(capsys, "data", "join", "a.data")


def test_the_list_says_which_algorithms_learn_from_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "algorithms", "--json"]) == 0
    listed = {one["name"]: one["learns_from"] for one in json.loads(capsys.readouterr().out)["algorithms"]}
    assert {name for name, source in listed.items() if source == "data"} == {"bc", "causal_bc", "iql"}


def test_a_damaged_file_is_not_joined(data: Path, tmp_path: Path) -> None:
    from rein.replay.datasets import join_data_sets

    (tmp_path / "bad.data").write_bytes(data.read_bytes()[:-1])
    with pytest.raises(DataSetError, match="cut short"):
        join_data_sets([data, tmp_path / "bad.data"], tmp_path / "joined.data")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.data"]


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    train, make = AgentHandle.train, rein.make
    monkeypatch.setattr(
        AgentHandle,
        "train",
        lambda self, steps=None, updates=None: train(self, 64, False) if updates is None else train(self, updates=4),
    )
    short = {
        "ppo": {"unroll_length": 8, "mini_batch_size": 32, "num_evals": 1},
        "bc": {"num_updates_per_train_iter": 2},
    }
    monkeypatch.setattr(rein, "make", lambda name, **options: make(name, **short[name], **options))
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "offline.md", "exec"), names)
    for line in re.findall(r"^\$ rein (.*)$", page, re.MULTILINE):
        name, *words = shlex.split(line)
        make_parser(name).parse_intermixed_args(words)
