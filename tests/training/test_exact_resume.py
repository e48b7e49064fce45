"""A run that is stopped and resumed is the run that never stopped: parameters, metrics, records, bit by bit."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.agents import Agent
from rein.algorithms.losses import PPOLoss
from rein.algorithms.off_policy import DdpgAlgorithm, DqnAlgorithm, SacAlgorithm, Td3Algorithm
from rein.algorithms.on_policy import (
    ActorCriticAlgorithm,
    MerlinAlgorithm,
    PPGAlgorithm,
    PPOAlgorithm,
    TracAlgorithm,
)
from rein.algorithms.on_policy.merlin_codecs import merlin_decoder, merlin_encoder
from rein.algorithms.on_policy.ppg import PPGAuxOptions
from rein.algorithms.representation import AutoEncoder, ReconstructionLearner, VariationalAutoEncoder, Vqvae
from rein.algorithms.search import (
    LinearTdStepFunc,
    MuzeroAlgorithm,
    MuzeroRepresentationImpl,
    SimpleMCTSModel,
    create_control_mcts,
)
from rein.algorithms.search.simple_networks import create_simple_encoding_net
from rein.config import config, fresh_configs
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework import Algorithm, OffPolicyAlgorithm, RLAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionRNNNetwork, EncodingNetwork, ValueRNNNetwork
from rein.networks.layers import identity
from rein.optimizers import Adam
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.scalar_files import read_scalars
from rein.runtime.schedules import LinearScheduler
from rein.specs import TensorSpec
from rein.training import RunDirectory, Trainer
from rein.transforms import ObservationNormalizer, RewardNormalizer


class Drift(gym.Env[Any, Any]):
    """A random walk with random ends: all that happens depends on the state of its generator."""

    observation_space = gym.spaces.Box(-100, 100, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    env_info_space = gym.spaces.Dict({"height": gym.spaces.Box(-100, 100, (), np.float32)})

    def __init__(self) -> None:
        self.x = np.zeros(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=3)
        return self.x.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = self.x + self.np_random.normal(size=3) + (0.5 if action else -0.5)
        chance = self.np_random.random()
        info = {"height": float(self.x[2])}
        return self.x.astype(np.float32), float(-np.abs(self.x).sum()), chance < 0.1, chance > 0.95, info


class Steered(Drift):
    """The same with a continuous action."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(action.sum() > 0.0)


class QLearning(OffPolicyAlgorithm):
    """The smallest algorithm with a replay buffer: one-step Q-learning with chance in rollout and training."""

    def __init__(self, observation_spec: Any, action_spec: Any, reward_spec: Any, **kwargs: Any) -> None:
        super().__init__(
            observation_spec, action_spec, (), reward_spec=reward_spec, optimizer=Adam(lr=1e-2), name="Q", **kwargs
        )
        self.net = torch.nn.Linear(3, 2)

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        return AlgStep(output=self.net(inputs.observation).argmax(-1))

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        action = torch.randint(2, inputs.step_type.shape)
        return AlgStep(output=action, info={"action": action})

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Any) -> AlgStep:
        value = self.net(inputs.observation + 0.01 * torch.randn_like(inputs.observation))
        chosen = value.gather(-1, rollout_info["action"][:, None])[:, 0]
        info = {"chosen": chosen, "best": value.max(-1).values, "reward": inputs.reward, "discount": inputs.discount}
        return AlgStep(info=info)

    def calc_loss(self, info: Any) -> LossInfo:
        target = (info["reward"][1:] + 0.9 * info["discount"][1:] * info["best"][1:]).detach()
        error = torch.cat([info["chosen"][:-1] - target, torch.zeros_like(target[:1])])
        return LossInfo(loss=error.square(), priority=error.detach().abs().sum(0))


Settings = dict[str, Any]
FRESH: Settings = dict(unroll_length=6, mini_batch_length=3, mini_batch_size=2, num_updates_per_train_iter=2)
REPLAY: Settings = dict(
    unroll_length=2,
    initial_collect_steps=8,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=30,
)


def adam() -> Adam:
    return Adam(lr=LinearScheduler("percent", ((0.0, 1e-2), (1.0, 1e-3))))


def actor_and_critic() -> dict[str, Any]:
    return {"actor_optimizer": adam(), "critic_optimizer": adam()}


def ppo(**arguments: Any) -> Callable[..., RLAlgorithm]:
    return partial(PPOAlgorithm, loss_class=PPOLoss, optimizer=adam(), **arguments)


def recurrent() -> Callable[..., RLAlgorithm]:
    return ppo(
        actor_network_ctor=partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
        value_network_ctor=partial(ValueRNNNetwork, lstm_hidden_size=8),
    )


def ppg() -> Callable[..., RLAlgorithm]:
    return partial(
        PPGAlgorithm,
        policy_optimizer=adam(),
        aux_optimizer=Adam(lr=1e-2),
        encoding_network_ctor=partial(EncodingNetwork, fc_layer_params=(8,)),
        aux_options=PPGAuxOptions(interval=4, mini_batch_size=2, num_updates_per_train_iter=1),
    )


def trac() -> Callable[..., RLAlgorithm]:
    return partial(TracAlgorithm, ac_algorithm_cls=partial(ActorCriticAlgorithm, optimizer=Adam(lr=1e-1)))


def merlin() -> Callable[..., RLAlgorithm]:
    small = dict(latent_dim=4, lstm_size=(4,), memory_size=6)
    return partial(MerlinAlgorithm, encoders=merlin_encoder, decoders=merlin_decoder, optimizer=adam(), **small)


def vae(spec: TensorSpec) -> Algorithm:
    decoder = partial(EncodingNetwork, last_layer_size=spec.numel, last_activation=identity)
    return AutoEncoder(VariationalAutoEncoder(2, spec, target_kld_per_dim=0.1), decoder)


def vq_vae(spec: TensorSpec) -> Algorithm:
    layer = partial(EncodingNetwork, last_activation=identity)
    return Vqvae(spec, 4, 2, partial(layer, last_layer_size=2), partial(layer, last_layer_size=spec.numel))


def with_codes(codec: Callable[[TensorSpec], Algorithm]) -> Callable[..., RLAlgorithm]:
    learner = partial(ReconstructionLearner, codec_ctor=codec)
    return partial(Agent, representation_learner_cls=learner, optimizer=adam())


def muzero() -> Callable[..., RLAlgorithm]:
    mcts = partial(create_control_mcts, num_simulations=4)
    learner = partial(
        MuzeroRepresentationImpl,
        model_ctor=partial(
            SimpleMCTSModel,
            encoding_net_ctor=partial(create_simple_encoding_net, fc_layer_params=(8,)),
        ),
        num_unroll_steps=2,
        td_steps=3,
        reanalyze_algorithm_ctor=mcts,
        reanalyze_ratio=0.5,
        reanalyze_td_steps_func=LinearTdStepFunc(0.5),
        target_update_period=3,
    )
    return partial(
        MuzeroAlgorithm,
        discount=0.9,
        representation_learner_ctor=learner,
        mcts_algorithm_ctor=mcts,
        reward_transformer=RewardNormalizer(update_mode="rollout"),
        optimizer=adam(),
    )


NORMALIZED: Settings = dict(data_transformer_ctor=[ObservationNormalizer, RewardNormalizer])
CASES: dict[str, tuple[Callable[[], Callable[..., RLAlgorithm]], Settings]] = {
    "ppo": (ppo, FRESH),
    "ppo_fraction": (ppo, dict(unroll_length=3.5, num_updates_per_train_iter=2)),
    "ppo_normalized": (ppo, {**FRESH, **NORMALIZED}),
    "ppo_recurrent": (recurrent, {**FRESH, "use_rollout_state": True}),
    "ppo_from_a_buffer": (ppo, dict(unroll_length=6, num_updates_per_train_iter=2, clear_replay_buffer=False)),
    "a2c": (lambda: partial(ActorCriticAlgorithm, optimizer=adam()), dict(unroll_length=5)),
    "a2c_normalized": (lambda: partial(ActorCriticAlgorithm, optimizer=adam()), dict(unroll_length=5, **NORMALIZED)),
    "ppg_with_waiting_data": (ppg, FRESH),
    "trac": (trac, dict(unroll_length=5)),
    "merlin": (merlin, dict(unroll_length=5)),
    "vae": (partial(with_codes, vae), dict(unroll_length=5)),
    "vq_vae": (partial(with_codes, vq_vae), dict(unroll_length=5)),
    "replay": (lambda: QLearning, REPLAY),
    "replay_normalized": (lambda: QLearning, {**REPLAY, **NORMALIZED}),
    "muzero_reanalyzing_prioritized": (muzero, {**REPLAY, "priority_replay": True, "use_rollout_state": True}),
    "replay_prioritized": (lambda: QLearning, {**REPLAY, "priority_replay": True}),
    "dqn": (lambda: partial(DqnAlgorithm, q_optimizer=adam()), REPLAY),
    "sac_of_choices": (lambda: partial(SacAlgorithm, critic_optimizer=adam(), alpha_optimizer=adam()), REPLAY),
    "steered_sac": (lambda: partial(SacAlgorithm, **actor_and_critic()), REPLAY),
    "steered_ddpg": (lambda: partial(DdpgAlgorithm, rollout_random_action=0.2, **actor_and_critic()), REPLAY),
    "steered_ddpg_normalized": (lambda: partial(DdpgAlgorithm, **actor_and_critic()), {**REPLAY, **NORMALIZED}),
    "steered_td3": (lambda: partial(Td3Algorithm, **actor_and_critic()), {**REPLAY, "unroll_length": 1}),
}


def settings_of(name: str, iterations: int, **more: Any) -> Settings:
    make, settings = CASES[name]
    common = dict(
        random_seed=3,
        num_iterations=iterations,
        evaluate=True,
        eval_interval=2,
        num_eval_episodes=2,
        async_eval=False,
        summary_interval=1,
    )
    return {"algorithm_ctor": make(), **common, **settings, **more}


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    with fresh_configs():
        config("create_environment", env_name=Drift, num_parallel_environments=2, backend="sync")
        yield


def run(path: Path, settings: Settings, stop_after: int | None = None) -> Trainer:
    """Trains in `path`, from its checkpoint if there is one, to the end or until `stop_after` iterations."""

    class Stop:
        def on_iteration(self, progress: Any) -> None:
            if progress.iterations == stop_after:
                os.kill(os.getpid(), signal.SIGTERM)

        def on_evaluation(self, progress: Any, result: Any) -> None:
            pass

    if (path / "run.json").exists():
        directory = RunDirectory.open(path)
    else:
        directory = RunDirectory.create(path)
        directory.start()
    trainer = Trainer(TrainerConfig(str(path), **settings), directory, [Stop()], tensorboard=False)
    result = trainer.train()
    assert result.stopped_by == (None if stop_after is None else "SIGTERM")
    trainer.close()
    return trainer


def state_of(path: Path, step: int) -> dict[str, Any]:
    components = Checkpointer(path / "checkpoints").load(step).components
    components["trainer"] = {**components["trainer"], "seconds": 0.0}
    return dict(components)


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Paths at which two states differ."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return [] if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b) else [path]
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return [] if np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") else [path]
    if isinstance(a, dict) and isinstance(b, dict):
        found = [f"{path}/{key}" for key in a.keys() ^ b.keys()]
        # The class of the world is named differently where this file is run as a script.
        both = (a.keys() & b.keys()) - {"class"}
        return found + [d for key in both for d in differences(a[key], b[key], f"{path}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{path}/{i}")]
    return [] if a == b else [path]


def scalars_of(path: Path) -> dict[str, list[tuple[int, float]]]:
    series = read_scalars(path / "summaries")
    return {
        name: list(zip(one.step.tolist(), one.value.tolist(), strict=True))
        for name, one in series.items()
        if "PerSecond" not in name
    }


def evaluations_of(path: Path) -> list[Any]:
    return [(e["iterations"], e["env_steps"], e["returns"]) for e in RunDirectory(path).read_evaluations()]


@pytest.mark.parametrize("name", list(CASES))
def test_stopped_and_resumed_is_never_stopped(name: str, tmp_path: Path) -> None:
    iterations = 8
    if name.startswith("steered"):
        config("create_environment", env_name=Steered, replace=True)
    through = run(tmp_path / "through", settings_of(name, iterations))
    for stop_after in (2, 5):
        run(tmp_path / "resumed", settings_of(name, iterations), stop_after=stop_after)
        torch.manual_seed(stop_after)
        np.random.seed(stop_after)
        random.seed(stop_after)
    resumed = run(tmp_path / "resumed", settings_of(name, iterations))
    for (key, a), (_, b) in zip(
        through.algorithm.named_parameters(), resumed.algorithm.named_parameters(), strict=True
    ):
        assert torch.equal(a, b), key
    assert not differences(state_of(tmp_path / "through", iterations), state_of(tmp_path / "resumed", iterations))
    assert through.algorithm.metrics.result() == resumed.algorithm.metrics.result()
    assert evaluations_of(tmp_path / "through") == evaluations_of(tmp_path / "resumed")
    assert scalars_of(tmp_path / "through") == scalars_of(tmp_path / "resumed")


def test_what_a_preloaded_checkpoint_gave_is_trained_on_after_resuming(tmp_path: Path) -> None:
    """A pretrained part is loaded when a run begins; a run that is resumed has trained it since."""
    pretrained = run(tmp_path / "pretrained", settings_of("a2c", 2))
    checkpoint = f"alg@{tmp_path}/pretrained/checkpoints/ckpt-2"

    def settings() -> Settings:
        algorithm = partial(ActorCriticAlgorithm, optimizer=adam(), checkpoint=checkpoint)
        return settings_of("a2c", 6, algorithm_ctor=algorithm)

    through = run(tmp_path / "through", settings())
    run(tmp_path / "resumed", settings(), stop_after=3)
    resumed = run(tmp_path / "resumed", settings())
    parameters = zip(
        through.algorithm.parameters(), resumed.algorithm.parameters(), pretrained.algorithm.parameters(), strict=True
    )
    for a, b, old in parameters:
        assert torch.equal(a, b)
        assert not torch.equal(a, old)


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import importlib.util
spec = importlib.util.spec_from_file_location("resume_cases", {file!r})
cases = importlib.util.module_from_spec(spec)
sys.modules["resume_cases"] = cases
spec.loader.exec_module(cases)
from pathlib import Path
with cases.fresh_configs():
    cases.config("create_environment", env_name=cases.Drift, num_parallel_environments=2, backend="sync")
    print("ready", flush=True)
    trainer = cases.open_trainer(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    result = trainer.train()
    trainer.close()
    print("result", result.stopped_by, flush=True)
"""


def open_trainer(path: Path, name: str, iterations: int) -> Trainer:
    """For the processes that are killed: checkpoints often, and goes on where the last one was."""
    if (path / "run.json").exists():
        directory = RunDirectory.open(path)
    else:
        directory = RunDirectory(path)
        path.mkdir(exist_ok=True)
        directory.start()
    settings = settings_of(name, iterations, num_checkpoints=iterations // 5)
    return Trainer(TrainerConfig(str(path), **settings), directory, tensorboard=False)


class Child:
    """A process that trains."""

    def __init__(self, path: Path, name: str, iterations: int) -> None:
        script = SCRIPT.format(folder=str(Path(__file__).parent), file=__file__)
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(path), name, str(iterations)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> str:
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        return out


def killed_and_resumed(tmp_path: Path, name: str, iterations: int, kills: int, seed: int) -> None:
    path = tmp_path / "killed"
    chance = random.Random(seed)
    checkpointer = Checkpointer(path / "checkpoints")
    done = 0
    for _ in range(kills):
        child = Child(path, name, iterations)
        saved = checkpointer.latest_step()
        deadline = time.monotonic() + 60
        while checkpointer.latest_step() == saved and child.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.15))
        done += child.process.poll() is None
        child.process.kill()
        child.process.wait()
    assert done, "the runs ended before they could be killed: make them longer"
    Child(path, name, iterations).end()
    run(tmp_path / "through", settings_of(name, iterations, num_checkpoints=iterations // 5))
    assert not differences(state_of(tmp_path / "through", iterations), state_of(path, iterations))
    assert evaluations_of(tmp_path / "through") == evaluations_of(path)
    assert scalars_of(tmp_path / "through") == scalars_of(path)


@pytest.mark.parametrize("name", ["ppo_normalized"])
def test_killed_at_any_moment_the_run_ends_as_if_undisturbed(name: str, tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, name, iterations=60, kills=2, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["ppo_recurrent", "a2c", "ppg_with_waiting_data", "replay", "replay_prioritized"])
def test_killed_often(name: str, tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, name, iterations=200, kills=6, seed=1)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_a_signal_finishes_the_iteration_saves_and_exits_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "run"
    child = Child(path, "a2c", 10_000)
    checkpointer = Checkpointer(path / "checkpoints")
    scalars = path / "summaries" / "scalars.jsonl"
    deadline = time.monotonic() + 60
    while not (scalars.exists() and scalars.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.process.send_signal(number)
    assert child.end().strip() == f"result {number.name}"
    record = RunDirectory(path).record()
    assert record["status"] == "stopped"
    assert record["iterations"] == checkpointer.latest_step()
    assert 0 < record["iterations"] < 10_000
