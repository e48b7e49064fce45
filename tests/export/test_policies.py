"""Exported policies do what `predict` does: transformers, memory, choice and bounds included."""

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rein import api
from rein.cli import main
from rein.export import ExportedPolicy, ExportError
from rein.export.parity import compare
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.transforms import FrameStacker, ObservationNormalizer

SMALL: dict[str, Any] = {"unroll_length": 8, "mini_batch_size": 8, "num_updates_per_train_iter": 1}
QUIET: dict[str, Any] = {"TrainerConfig.evaluate": False}


def remembering() -> api.AgentHandle:
    """A recurrent PPO with stacked and normalized observations, trained a little so that the statistics have moved."""
    transformers = [partial(FrameStacker, stack_size=3), partial(ObservationNormalizer, clipping=5.0)]
    memory = {
        "PPOAlgorithm.actor_network_ctor": ActorDistributionRNNNetwork,
        "PPOAlgorithm.value_network_ctor": ValueRNNNetwork,
        "TrainerConfig.data_transformer_ctor": transformers,
        "TrainerConfig.use_rollout_state": True,
    }
    agent = api.make("ppo", env="CartPole-v1", settings={**QUIET, **memory}, mini_batch_length=8, **SMALL)
    agent.train(128)
    return agent


@pytest.fixture(scope="module")
def memory() -> Any:
    with remembering() as agent:
        yield agent


@pytest.fixture(scope="module")
def onnx_file(memory: api.AgentHandle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return memory.export(tmp_path_factory.mktemp("onnx") / "policy.onnx", check_steps=0).path


def test_transformers_and_memory_go_along(memory: api.AgentHandle, tmp_path: Path) -> None:
    export = memory.export(tmp_path / "policy.pt2", check_steps=60)
    assert export.parity is not None
    assert export.parity.holds
    assert export.parity.steps == 120
    kinds = [port.kind for port in export.signature.inputs]
    assert kinds[:2] == ["observation", "is_first"]
    paths = {port.path for port in export.signature.inputs if port.kind == "state"}
    assert any(path.startswith("transformer.") for path in paths)
    assert any(path.startswith("policy.") for path in paths)


def test_an_onnx_file_is_whole_and_acts_alike(memory: api.AgentHandle, onnx_file: Path) -> None:
    assert list(onnx_file.parent.iterdir()) == [onnx_file]  # The weights are inside.
    parity = compare(memory.policy, ExportedPolicy(onnx_file), 60)
    assert parity.holds
    assert parity.steps == 120


def test_an_exported_policy_acts_in_batches_and_from_the_beginning(memory: api.AgentHandle, onnx_file: Path) -> None:
    policy = ExportedPolicy(onnx_file)
    observations = np.random.default_rng(0).normal(size=(6, 5, 4)).astype(np.float32)
    memory.predict(observations[0, :1])  # Another batch size: the next call begins episodes.
    for batch in observations:
        np.testing.assert_array_equal(policy.act(batch), memory.predict(batch))
    policy.forget()
    one = [policy.act(row) for row in observations[:, 0]]
    memory.predict(observations[0])
    assert one == [memory.predict(row) for row in observations[:, 0]]


def test_a_policy_without_memory_needs_only_the_observation(tmp_path: Path) -> None:
    with api.make("sac", env="Pendulum-v1", settings=QUIET) as agent:
        before = agent.predict(np.zeros(3, np.float32))
        export = agent.export(tmp_path / "policy.pt2", check_steps=20)
        assert agent.predict(np.zeros(3, np.float32)) == before
        assert agent.algorithm.training
    assert [port.name for port in export.signature.inputs] == ["observation"]
    assert [port.name for port in export.signature.outputs] == ["action"]
    names = zipfile.ZipFile(export.path).read("policy/data/weights/model_weights_config.json").decode()
    assert "actor" in names
    assert "critic" not in names


@pytest.mark.parametrize(("env", "draw"), [("CartPole-v1", "uniform"), ("Pendulum-v1", "normal")])
def test_actions_that_are_drawn_take_their_noise_as_input(env: str, draw: str, tmp_path: Path) -> None:
    with api.make("ppo", env=env, settings=QUIET) as agent:
        export = agent.export(tmp_path / "policy.pt2", check_steps=30, deterministic=False)
        assert export.parity is not None
        assert export.parity.holds
        (noise,) = (port for port in export.signature.inputs if port.kind == "noise")
        assert noise.draw == draw
        policy = ExportedPolicy(export.path, trust=True)
        observation = np.zeros((200, *agent.policy.observation_spec.shape), np.float32)
        assert len(np.unique(policy.act(observation))) > 1


def test_the_comparison_notices_another_policy(tmp_path: Path) -> None:
    with api.make("ddpg", env="Pendulum-v1", settings=QUIET) as agent:
        export = agent.export(tmp_path / "policy.pt2", check_steps=5)
        assert export.parity is not None
        assert export.parity.holds
        with torch.no_grad():
            for parameter in agent.algorithm.parameters():
                parameter.add_(0.05)
        changed = compare(agent.policy, ExportedPolicy(export.path, trust=True), 5)
    assert not changed.holds
    assert changed.largest_difference > 1e-3


def test_planners_are_refused_with_the_reason(tmp_path: Path) -> None:
    with (
        api.make("mbrl_cem", env="Pendulum-v1", settings=QUIET) as agent,
        pytest.raises(ExportError, match="MbrlAlgorithm cannot be exported: it plans every action"),
    ):
        agent.export(tmp_path / "policy.pt2")
    assert not list(tmp_path.iterdir())


def test_bad_requests_are_refused(memory: api.AgentHandle, onnx_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"names no format: end it in .onnx or .pt2"):
        memory.export(tmp_path / "policy.bin")
    with pytest.raises(ValueError, match="choose onnx or torch"):
        memory.export(tmp_path / "policy.onnx", format="tflite")
    with pytest.raises(ValueError, match="trust=True"):
        ExportedPolicy(onnx_file, format="torch")
    with pytest.raises(ValueError, match="there is no exported policy"):
        ExportedPolicy(tmp_path / "missing.onnx")


def test_the_command_exports_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with api.make("ppo", env="CartPole-v1", settings=QUIET, directory=tmp_path / "run", **SMALL) as agent:
        agent.train(64)
        agent.save(tmp_path / "agent")
    assert main(["export", str(tmp_path / "agent"), "--format", "torch", "--steps", "10", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["parity"]["holds"]
    assert Path(data["file"]) == tmp_path / "agent" / "policy.pt2"
    assert main(["export", str(tmp_path / "agent"), "--steps", "-1"]) == 2
