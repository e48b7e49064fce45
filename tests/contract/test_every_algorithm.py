"""What every algorithm promises, checked on a tiny world that it need not learn.

To add an algorithm, add a `Case` to `CASES`. Algorithms whose module does not exist (yet) are skipped.
"""

import json
from collections import Counter
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rein import nest
from rein.data_structures import AlgStep, TimeStep
from rein.distributions import Distribution
from rein.envs import Environment, create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.runtime import Run, summary
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.writers import create_summary_writer
from rein.specs import check_matches

ON_POLICY, OFF_POLICY = "rein.algorithms.on_policy", "rein.algorithms.off_policy"

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
SPACES: dict[str, gym.Space[Any]] = {
    "discrete": Discrete(3),
    "multi_discrete": gym.spaces.MultiDiscrete([2, 3]),
    "continuous": Box(-1.0, 2.0, (2,), np.float32),
    "mixed": gym.spaces.Tuple((Discrete(3), Box(-1.0, 1.0, (2,), np.float32))),
}


class Tiny(gym.Env[Any, Any]):
    """Random observations; episodes of four steps, ended in turn by a terminal state and by a time limit."""

    observation_space = Box(-10, 10, (3,), np.float32)

    def __init__(self, actions: str, reward_dim: int | None = None) -> None:
        self.action_space = SPACES[actions]
        if reward_dim is not None:
            self.reward_space = Box(-10, 10, (reward_dim,), np.float32)
        self.reward_dim = reward_dim
        self.episodes = 0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self.steps += 1
        ends, terminates = self.steps == 4, self.episodes % 2 == 0
        reward = self.np_random.normal(size=self.reward_dim or ()).astype(np.float32)
        reward = float(reward) if self.reward_dim is None else reward
        return self._observation(), reward, ends and terminates, ends and not terminates, {}

    def _observation(self) -> Any:
        return self.np_random.normal(size=3).astype(np.float32)


# Settings of the ways to train.
FRESH = dict(unroll_length=8, mini_batch_length=4, mini_batch_size=2, num_updates_per_train_iter=2)
ROLLOUT = dict(unroll_length=8)
REPLAY = dict(
    unroll_length=3,
    initial_collect_steps=8,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=50,
)


class Case(NamedTuple):
    """An algorithm and how to build it."""

    name: str
    module: str
    cls: str
    actions: str
    settings: dict[str, Any]
    arguments: Any = dict
    """Called for constructor arguments beside the usual ones."""
    reward_dim: int | None = None


def optimizer() -> dict[str, Any]:
    return {"optimizer": Adam(lr=1e-2)}


def ppo(**arguments: Any) -> dict[str, Any]:
    from rein.algorithms.losses import PPOLoss

    return {"loss_class": PPOLoss, **optimizer(), **arguments}


def recurrent() -> dict[str, Any]:
    from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork

    return {
        "actor_network_ctor": partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
        "value_network_ctor": partial(ValueRNNNetwork, lstm_hidden_size=8),
    }


def ppg() -> dict[str, Any]:
    from rein.algorithms.on_policy.ppg import PPGAuxOptions
    from rein.networks import EncodingNetwork

    return {
        "policy_optimizer": Adam(lr=1e-2),
        "aux_optimizer": Adam(lr=1e-2),
        "aux_options": PPGAuxOptions(interval=2, mini_batch_size=4, num_updates_per_train_iter=1),
        "encoding_network_ctor": partial(EncodingNetwork, fc_layer_params=(16,)),
    }


def trac() -> dict[str, Any]:
    from rein.algorithms.on_policy import ActorCriticAlgorithm

    return {"ac_algorithm_cls": partial(ActorCriticAlgorithm, **optimizer())}


def trac_of_ppo() -> dict[str, Any]:
    from rein.algorithms.on_policy import PPOAlgorithm

    return {"ac_algorithm_cls": partial(PPOAlgorithm, **ppo())}


def actor_and_critic(**arguments: Any) -> dict[str, Any]:
    return {"actor_optimizer": Adam(lr=1e-2), "critic_optimizer": Adam(lr=1e-2), **arguments}


def sac() -> dict[str, Any]:
    return actor_and_critic(alpha_optimizer=Adam(lr=1e-2))


def sac_mixed() -> dict[str, Any]:
    from rein.networks import NestConcat, QNetwork

    return {**sac(), "q_network_cls": partial(QNetwork, preprocessing_combiner=NestConcat())}


def recurrent_ppo() -> dict[str, Any]:
    return ppo(**recurrent())


def recurrent_a2c() -> dict[str, Any]:
    return {**optimizer(), **recurrent()}


CASES = [
    Case("a2c_bfloat16", ON_POLICY, "ActorCriticAlgorithm", "mixed", {**ROLLOUT, "enable_amp": True}, recurrent_a2c),
    Case("ppo_bfloat16", ON_POLICY, "PPOAlgorithm", "mixed", {**FRESH, "enable_amp": True}, recurrent_ppo),
    Case("a2c_discrete", ON_POLICY, "ActorCriticAlgorithm", "discrete", ROLLOUT, optimizer),
    Case("a2c_continuous", ON_POLICY, "ActorCriticAlgorithm", "continuous", ROLLOUT, optimizer),
    Case("a2c_recurrent_mixed", ON_POLICY, "ActorCriticAlgorithm", "mixed", ROLLOUT, recurrent_a2c),
    Case("a2c_vector_reward", ON_POLICY, "ActorCriticAlgorithm", "discrete", ROLLOUT, optimizer, 2),
    Case("ppo_discrete", ON_POLICY, "PPOAlgorithm", "discrete", FRESH, ppo),
    Case("ppo_multi_discrete", ON_POLICY, "PPOAlgorithm", "multi_discrete", FRESH, ppo),
    Case("ppo_continuous", ON_POLICY, "PPOAlgorithm", "continuous", FRESH, ppo),
    Case("ppo_mixed", ON_POLICY, "PPOAlgorithm", "mixed", FRESH, ppo),
    Case("ppo_recurrent", ON_POLICY, "PPOAlgorithm", "discrete", FRESH, recurrent_ppo),
    Case("ppo_stored_states", ON_POLICY, "PPOAlgorithm", "mixed", {**FRESH, "use_rollout_state": True}, recurrent_ppo),
    Case("ppo_vector_reward", ON_POLICY, "PPOAlgorithm", "continuous", FRESH, ppo, 2),
    Case(
        "ppo_from_a_buffer",
        ON_POLICY,
        "PPOAlgorithm",
        "continuous",
        dict(unroll_length=8, mini_batch_size=2, num_updates_per_train_iter=2, clear_replay_buffer=False),
        ppo,
    ),
    Case("ppg_discrete", ON_POLICY, "PPGAlgorithm", "discrete", FRESH, ppg),
    Case("ppg_mixed", ON_POLICY, "PPGAlgorithm", "mixed", FRESH, ppg),
    Case("trac_continuous", ON_POLICY, "TracAlgorithm", "continuous", ROLLOUT, trac),
    Case("trac_of_ppo_mixed", ON_POLICY, "TracAlgorithm", "mixed", FRESH, trac_of_ppo),
    Case("ddpg", f"{OFF_POLICY}.ddpg", "DdpgAlgorithm", "continuous", REPLAY, actor_and_critic),
    Case("td3", f"{OFF_POLICY}.td3", "Td3Algorithm", "continuous", REPLAY, actor_and_critic),
    Case("sac_continuous", f"{OFF_POLICY}.sac", "SacAlgorithm", "continuous", REPLAY, sac),
    Case("sac_discrete", f"{OFF_POLICY}.sac", "SacAlgorithm", "discrete", REPLAY, sac),
    Case("sac_mixed", f"{OFF_POLICY}.sac", "SacAlgorithm", "mixed", REPLAY, sac_mixed),
    Case("oac", f"{OFF_POLICY}.oac", "OacAlgorithm", "continuous", REPLAY, sac),
]


def exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(params=[pytest.param(case, id=case.name) for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    if not exists(found.module):
        pytest.skip(f"{found.module} does not exist")
    return found


def build(case: Case, seed: int = 0, **settings: Any) -> RLAlgorithm:
    torch.manual_seed(seed)
    env = create_environment(partial(Tiny, case.actions, case.reward_dim), 2, backend="sync", seed=seed)
    cls = getattr(import_module(case.module), case.cls)
    return cls(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        reward_spec=env.reward_spec,
        env=env,
        config=TrainerConfig("", **{**case.settings, **settings}),
        **case.arguments(),
    )


def train(algorithm: RLAlgorithm, iterations: int) -> list[int]:
    return [algorithm.train_iter() for _ in range(iterations)]


def first_step(algorithm: RLAlgorithm) -> TimeStep:
    env: Environment = algorithm.rollout.env
    return nest.map_structure(torch.clone, env.current_time_step())


def predict(algorithm: RLAlgorithm, time_step: TimeStep) -> AlgStep:
    state = zero_state(algorithm.predict_state_spec, 2)
    with torch.no_grad():
        return algorithm.predict_step(time_step, state)


def tensors_of(state: Any, path: str = "") -> dict[str, Tensor]:
    """All tensors in a nest of mappings and sequences, by path."""
    if isinstance(state, Tensor):
        return {path: state}
    items: Any = ()
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    return {key: value for name, part in items for key, value in tensors_of(part, f"{path}/{name}").items()}


def same_state(first: Any, second: Any) -> list[str]:
    """Paths where two states differ."""
    a, b = tensors_of(first), tensors_of(second)
    different = sorted(set(a) ^ set(b))
    return different + [path for path in a.keys() & b.keys() if not torch.equal(a[path], b[path])]


def test_steps_return_what_the_specs_declare(case: Case) -> None:
    algorithm = build(case)
    time_step = first_step(algorithm)
    step = predict(algorithm, time_step)
    check_matches(step.output, algorithm.action_spec, 1, "the output of predict_step")
    check_matches(step.state, algorithm.predict_state_spec, 1, "the state of predict_step")
    state = zero_state(algorithm.rollout_state_spec, 2)
    step = algorithm.rollout_step(time_step, state)
    check_matches(step.output, algorithm.action_spec, 1, "the output of rollout_step")
    check_matches(step.state, algorithm.rollout_state_spec, 1, "the state of rollout_step")
    for path, leaf in nest.flatten_with_paths(step.info):
        size = leaf.batch_shape[0] if isinstance(leaf, Distribution) else leaf.shape[0]
        assert size == 2, f"{path} of the info of rollout_step does not begin with the batch"
    if case.module == ON_POLICY:
        state = algorithm.convert_train_state_to_predict_state(zero_state(algorithm.train_state_spec, 2))
        check_matches(state, algorithm.predict_state_spec, 1, "the converted state")


def test_every_parameter_has_one_optimizer(case: Case) -> None:
    algorithm = build(case)
    handled = Counter(p for o in algorithm.optimizers() for group in o.param_groups for p in group["params"])
    assert all(number == 1 for number in handled.values())
    unreported = set(algorithm.get_unoptimized_parameter_info().splitlines())
    for name, parameter in algorithm.named_parameters():
        if parameter.requires_grad and parameter not in handled:
            assert name in unreported, f"{name} has no optimizer and is not reported"
    for entry in json.loads(algorithm.get_optimizer_info()):
        assert entry["optimizer"] != "None", f"no optimizer handles {entry['parameters']}"


def test_every_optimized_parameter_learns(case: Case) -> None:
    algorithm = build(case)
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    assert sum(train(algorithm, 4)) > 0
    handled = {p for o in algorithm.optimizers(True, True) for g in o.param_groups for p in g["params"]}
    names = {name: p for name, p in algorithm.named_parameters() if p in handled}
    still = [name for name, p in names.items() if torch.equal(p, before[name])]
    assert not still, f"four iterations changed nothing in {still}"
    assert all(torch.isfinite(p).all() for p in names.values())
    assert algorithm.rollout_info_spec is not None
    assert algorithm.train_info_spec is not None or algorithm.on_policy
    actions = nest.flatten(predict(algorithm, first_step(algorithm)).output)
    for spec, action in zip(nest.flatten(algorithm.action_spec), actions, strict=True):
        assert (action.numpy() >= spec.minimum).all()
        assert (action.numpy() <= spec.maximum).all()


def test_the_same_seed_gives_the_same_training_with_and_without_summaries(case: Case, tmp_path: Path) -> None:
    silent, loud, other = build(case), build(case), build(case)
    torch.manual_seed(5)
    train(silent, 3)
    torch.manual_seed(5)
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        train(loud, 3)
    torch.manual_seed(6)
    train(other, 3)
    assert not same_state(silent.state_dict(), loud.state_dict())
    assert same_state(silent.state_dict(), other.state_dict())


def test_a_checkpoint_gives_the_same_state_and_action(case: Case, tmp_path: Path) -> None:
    first, second = build(case), build(case, seed=1)
    train(first, 3)
    train(second, 1)
    checkpointer = Checkpointer(tmp_path / "checkpoints")
    checkpointer.save(3, {"alg": dict(first.state_dict())})
    second.load_state_dict(checkpointer.load().components["alg"])
    assert not same_state(first.state_dict(), second.state_dict())
    time_step = first_step(first)
    actions = []
    for algorithm in (first, second):
        torch.manual_seed(0)
        actions.append(nest.flatten(predict(algorithm, time_step).output))
    assert all(torch.equal(a, b) for a, b in zip(*actions, strict=True))


def test_the_parameters_come_from_the_checkpoint_that_it_is_given(case: Case, tmp_path: Path) -> None:
    first = build(case)
    train(first, 3)
    Checkpointer(tmp_path / "checkpoints").save(3, {"alg": dict(first.state_dict())})
    checkpoint = f"alg@{tmp_path}/checkpoints/ckpt-3"
    given = case._replace(arguments=lambda: {**case.arguments(), "checkpoint": checkpoint})
    second = build(given, seed=1)
    assert same_state(dict(first.named_parameters()), dict(second.named_parameters()))
    second.preload_checkpoints()
    assert second.pre_loaded
    assert not same_state(dict(first.named_parameters()), dict(second.named_parameters()))


def test_summaries_can_be_written_at_every_update(case: Case, tmp_path: Path) -> None:
    settings = dict(debug_summaries=True, summarize_grads_and_vars=True, summarize_action_distributions=True)
    algorithm = build(case, **settings)
    for module in algorithm.modules():
        if hasattr(module, "_debug_summaries"):
            module._debug_summaries = True
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        train(algorithm, 3)
        writer.flush()
    lines = [json.loads(line) for file in tmp_path.glob("**/*.jsonl") for line in file.read_text().splitlines()]
    text = json.dumps(lines)
    assert "loss" in text
    assert "NaN" not in text
