"""Quick rollouts record what step-by-step ones record."""

import copy
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rein
import rein.zoo
from rein import nest
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.config import config, fresh_configs
from rein.data_structures import StepType, TimeStep
from rein.distributions import compute_log_probability
from rein.envs.metrics import EpisodeMetrics
from rein.framework.acting import rollout
from rein.framework.acting.quick_rollout import QuickRollout
from rein.runtime import summary
from rein.statistics import frozen_statistics
from rein.training.launch import configure, start_run
from rein.training.run_directory import RunDirectory
from rein.transforms import DataTransformer, FrameStacker, ObservationNormalizer, RewardClipping


def _collect(path: Path, entry: str, *overrides: str, length: int = 20) -> tuple[Any, Any]:
    configure(
        Path(rein.zoo.__file__).parent / "tasks" / f"{entry}.py",
        ["TrainerConfig.unroll_length=20", "TrainerConfig.mini_batch_size=8", *overrides],
    )
    trainer = start_run(RunDirectory.create(path), "test")
    with trainer.run, summary.record_if(lambda: False):
        return trainer, trainer.algorithm.unroll(length)


@pytest.mark.parametrize("entry", ["ppo_cartpole", "a2c_cartpole", "ppo_pendulum"])
def test_infos_belong_to_the_recorded_steps_and_actions(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    collect = QuickRollout.collect
    monkeypatch.setattr(QuickRollout, "collect", lambda *args, **named: used.append(1) or collect(*args, **named))
    with fresh_configs():
        trainer, experience = _collect(tmp_path / "run", entry)
    assert used == [1]
    info, step = experience.rollout_info, experience.time_step
    algorithm = trainer.algorithm
    batch = trainer.env.batch_size
    assert info.value.shape == (21, batch)
    assert info.value.requires_grad == bool(algorithm.on_policy)
    torch.testing.assert_close(info.log_prob, compute_log_probability(info.action_distribution, info.action))
    distribution, value, _ = algorithm._evaluate(step.observation[7], algorithm.train_state_spec)
    torch.testing.assert_close(value, info.value[7])
    torch.testing.assert_close(compute_log_probability(distribution, info.action[7]), info.log_prob[7])
    # The action of a step is the previous action of the next one, unless an episode begins there.
    follows = step.step_type[1:] != StepType.FIRST
    limits = nest.flatten(trainer.env.action_spec)[0]
    taken = info.action[:-1].clamp(torch.tensor(limits.minimum), torch.tensor(limits.maximum))
    assert torch.equal(taken[follows], step.prev_action[1:][follows])
    assert algorithm.env_steps == int((step.step_type[:20] != StepType.FIRST).sum())


def _greedy_steps(path: Path, is_quick: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The buffer and the transformer after two rollouts of a policy without chance, which sees stacked, normalized steps."""
    if not is_quick:
        monkeypatch.setattr(rollout.Rollout, "_find_quick_actor", lambda self: None)
    with fresh_configs():
        config(
            "TrainerConfig", data_transformer_ctor=[FrameStacker, ObservationNormalizer, RewardClipping], mutable=False
        )
        trainer, _ = _collect(
            path, "dqn_cartpole", "DqnAlgorithm.rollout_epsilon_greedy=0.0", "TrainerConfig.random_seed=3"
        )
        with trainer.run, summary.record_if(lambda: False):
            trainer.algorithm.unroll(15)
    assert (trainer.algorithm.rollout.quick() is not None) == is_quick
    return trainer.algorithm.learning.buffer, trainer.algorithm.data_transformer


def test_what_is_transformed_is_recorded_as_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, transformer = _greedy_steps(tmp_path / "quick", True, monkeypatch)
    slow, other = _greedy_steps(tmp_path / "slow", False, monkeypatch)
    assert quick.total_size == slow.total_size == 35 * quick.num_environments
    for mine, theirs in zip(nest.flatten(quick.gather_all()[0]), nest.flatten(slow.gather_all()[0]), strict=True):
        torch.testing.assert_close(mine, theirs)
    states = transformer.state_dict(), other.state_dict()
    assert len(states[0]) > 0
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name])


def _of_a_transformer(
    path: Path, entry: str, transforms_on_host: bool, monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> tuple[Any, list[Any]]:
    """The trainer and what it saw in some quick rollouts, observations normalized and rewards clipped."""
    if not transforms_on_host:
        monkeypatch.setattr(DataTransformer, "host_transform", lambda self: None)
    with fresh_configs():
        config("TrainerConfig", data_transformer_ctor=[ObservationNormalizer, RewardClipping], mutable=False)
        config("ObservationNormalizer", update_mode="rollout", clipping=1.5)
        config("RewardClipping", minmax=(-0.5, 0.5))
        trainer, first = _collect(path, entry, "TrainerConfig.random_seed=3")
    assert trainer.algorithm.rollout.quick() is not None
    with trainer.run, summary.record_if(lambda: False):
        return trainer, [first, *(trainer.algorithm.unroll(length) for length in lengths)]


def _tensors(experience: Any) -> list[torch.Tensor]:
    return [leaf for leaf in nest.flatten(experience) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize(("entry", "lengths"), [("ppo_cartpole", [20, 7]), ("dqn_cartpole", [1, 5, 1])])
def test_what_is_transformed_on_the_host_is_what_is_transformed_step_by_step(
    entry: str, lengths: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, quick = _of_a_transformer(tmp_path / "host", entry, True, monkeypatch, lengths)
    other, slow = _of_a_transformer(tmp_path / "steps", entry, False, monkeypatch, lengths)
    states = one.algorithm.data_transformer.state_dict(), other.algorithm.data_transformer.state_dict()
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-9, atol=1e-9)
    if entry == "dqn_cartpole":
        quick, slow = ([trainer.algorithm.learning.buffer.gather_all()[0]] for trainer in (one, other))
    for mine, theirs in zip(quick, slow, strict=True):
        for a, b in zip(_tensors(mine), _tensors(theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    if entry == "ppo_cartpole":
        assert quick[0].time_step.observation.abs().max() == 1.5
        assert quick[0].time_step.reward.max() == 0.5


def test_normalized_rollouts_go_on_exactly_where_they_were_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, _ = _of_a_transformer(tmp_path / "run", "ppo_cartpole", True, monkeypatch, [20])
    algorithm = trainer.algorithm
    saved = copy.deepcopy((algorithm.state_dict(), algorithm.rollout.state_dict(), torch.get_rng_state()))
    lasts = []
    for _ in range(2):
        algorithm.load_state_dict(saved[0])
        algorithm.rollout.load_state_dict(copy.deepcopy(saved[1]))
        torch.set_rng_state(saved[2])
        with trainer.run, summary.record_if(lambda: False):
            lasts.append([leaf.clone() for _ in range(2) for leaf in _tensors(algorithm.unroll(20))])
    for a, b in zip(*lasts, strict=True):
        assert torch.equal(a, b)


def test_an_algorithm_with_its_own_rollout_step_is_asked_at_each_step(tmp_path: Path) -> None:
    with fresh_configs():
        configure(Path(rein.zoo.__file__).parent / "tasks" / "ppo_cartpole.py", [])
        trainer = start_run(RunDirectory.create(tmp_path / "run"), "test")

    class Mine(type(trainer.algorithm)):  # type: ignore[misc]
        def rollout_step(self, inputs: Any, state: Any) -> Any:
            return ActorCriticAlgorithm.rollout_step(self, inputs, state)

    assert trainer.algorithm.quick_actor() is not None
    trainer.algorithm.__class__ = Mine
    assert trainer.algorithm.quick_actor() is None


def _random_stream(rng: np.random.Generator, length: int, batch: int, dims: tuple[int, ...]) -> TimeStep:
    """Steps of episodes that begin and end at random; the stream begins in the middle of some."""
    kinds = np.full((length, batch), int(StepType.MID), np.int32)
    kinds[rng.random((length, batch)) < 0.2] = int(StepType.LAST)
    kinds[1:][kinds[:-1] == int(StepType.LAST)] = int(StepType.FIRST)
    reward = rng.integers(-4, 5, (length, batch, *dims)).astype(np.float32)
    return TimeStep(step_type=torch.from_numpy(kinds), reward=torch.from_numpy(reward))


@pytest.mark.parametrize("has_infos", [False, True])
@pytest.mark.parametrize("dims", [(), (2,)])
@pytest.mark.parametrize("seed", range(5))
def test_metrics_of_many_steps_are_those_of_one_after_the_other(
    seed: int, dims: tuple[int, ...], has_infos: bool
) -> None:
    rng = np.random.default_rng(seed)
    reductions = {name: name for name in ("sum", "last", "max", "min")} if has_infos else {}
    one, many = (EpisodeMetrics(window=6, reductions=reductions) for _ in range(2))
    for _ in range(4):
        steps = _random_stream(rng, int(rng.integers(1, 12)), 3, dims)
        if has_infos:
            names = ("mean", "sum", "last", "max", "min")
            shape = steps.step_type.shape
            infos = {name: torch.from_numpy(rng.integers(-9, 9, shape).astype(np.float32)) for name in names}
            steps = steps._replace(env_info=infos)
        for step in range(len(steps.step_type)):
            one.update(nest.map_structure(lambda tensor, step=step: tensor[step], steps))
        many.update_all(steps)
        for key, value in one.state_dict().items():
            torch.testing.assert_close(many.state_dict()[key], value, rtol=0.0, atol=0.0, msg=key)


def test_a_quick_rollout_fills_a_replay_buffer_with_consecutive_steps(tmp_path: Path) -> None:
    with fresh_configs():
        small = ["TrainerConfig.unroll_length=7", "TrainerConfig.initial_collect_steps=1000", "hidden_layers=(32, 32)"]
        configure(Path(rein.zoo.__file__).parent / "tasks" / "dqn_cartpole.py", small)
        trainer = start_run(RunDirectory.create(tmp_path / "run"), "test")
        algorithm = trainer.algorithm
        assert algorithm.quick_actor() is not None
        with trainer.run, summary.record_if(lambda: False):
            for _ in range(6):
                algorithm.train_iter()
    data, _ = algorithm.replay_buffer.gather_all()
    step_type, action, previous = data.step_type[0], data.action[0], data.time_step.prev_action[0]
    assert len(step_type) == 42
    follows = step_type[1:] != StepType.FIRST
    assert torch.equal(action[:-1][follows], previous[1:][follows])
    assert torch.equal(data.rollout_info.action[0], action)
    assert algorithm.env_steps == int((step_type != StepType.FIRST).sum())


def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout.Rollout, "_find_quick_actor", lambda self: None)


_OFF_POLICY = {
    "sac_pendulum": [],
    "sac_cartpole": [],
    "qrsac_pendulum": [],
    "oac_pendulum": ["OacAlgorithm.explore=False"],
    "mpo_pendulum": [],
    "td3_pendulum": ["Td3Algorithm.rollout_random_action=0.0"],
    "ddpg_pendulum": ["DdpgAlgorithm.rollout_random_action=0.0"],
    "dqn_cartpole": ["DqnAlgorithm.rollout_epsilon_greedy=0.0"],
}


def _stored(path: Path, entry: str, length: int, total: int) -> Any:
    """The algorithm, with `total` steps of two worlds in its buffer, collected `length` at a time, from one seed."""
    with fresh_configs():
        overrides = ["TrainerConfig.random_seed=3", "create_environment.num_parallel_environments=2"]
        trainer, _ = _collect(path, entry, *overrides, *_OFF_POLICY[entry], length=length)
        torch.manual_seed(11)
        with trainer.run, summary.record_if(lambda: False):
            for _ in range(total // length - 1):
                trainer.algorithm.unroll(length)
    return trainer.algorithm


@pytest.mark.parametrize("entry", _OFF_POLICY)
def test_one_step_at_a_time_it_draws_what_the_algorithm_draws(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than an episode of Pendulum, so that what is carried begins anew.
    quick = _stored(tmp_path / "quick", entry, 1, 230)
    assert quick.rollout.quick() is not None
    _plain(monkeypatch)
    slow = _stored(tmp_path / "slow", entry, 1, 230)
    assert slow.rollout.quick() is None
    assert quick.learning.rollout_info_spec == slow.learning.rollout_info_spec
    assert quick.learning.experience_spec == slow.learning.experience_spec
    assert quick.env_steps == slow.env_steps
    mine, theirs = (one.learning.buffer.gather_all()[0] for one in (quick, slow))
    # Rounding grows from step to step, but for a while it is rounding.
    head = 12 if "cartpole" in entry else 40
    for a, b in zip(nest.flatten(mine), nest.flatten(theirs), strict=True):
        torch.testing.assert_close(a[:, :head], b[:, :head], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("entry", _OFF_POLICY)
def test_it_stores_consecutive_steps_and_the_same_run_twice_is_the_same(entry: str, tmp_path: Path) -> None:
    algorithm = _stored(tmp_path / "one", entry, 7, 21)
    assert algorithm.rollout.quick() is not None
    stored, _ = algorithm.learning.buffer.gather_all()
    follows = stored.step_type[:, 1:] != StepType.FIRST
    action, previous = stored.action[:, :-1], stored.time_step.prev_action[:, 1:]
    assert torch.equal(stored.rollout_info.action, stored.action)
    assert torch.equal(action[follows], previous[follows])
    assert algorithm.env_steps == int((stored.step_type != StepType.FIRST).sum())
    again, _ = _stored(tmp_path / "two", entry, 7, 21).learning.buffer.gather_all()
    for a, b in zip(nest.flatten(stored), nest.flatten(again), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("entry", ["ddpg_pendulum", "sac_pendulum", "dqn_cartpole"])
def test_what_it_gives_has_the_structure_of_a_step(
    entry: str, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = _stored(tmp_path / "quick", entry, length, 2 * length)
    last, given = algorithm.rollout.collect_for_replay(length, False), []
    monkeypatch.setattr(algorithm, "observe_rollout_for_replay" if length > 1 else "observe_for_replay", given.append)
    before = algorithm.rollout.actor.policy_state
    algorithm.rollout.collect_for_replay(length, False)
    looked_at = algorithm.rollout.peek()
    for one in (last, given[0]):
        nest.assert_same_structure(one, looked_at)
    states = nest.flatten(given[0].state)
    assert len(states) == (entry == "ddpg_pendulum")
    for state, start, end in zip(states, nest.flatten(before), nest.flatten(looked_at.state), strict=True):
        assert torch.equal(state if length == 1 else state[0], start)
        assert length == 1 or not torch.equal(state[-1], end)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("entry", ["ddpg_pendulum", "sac_pendulum"])
def test_it_goes_on_where_it_was_saved(entry: str, length: int, tmp_path: Path) -> None:
    algorithm = _stored(tmp_path / "run", entry, length, 2 * length)
    saved, generator = algorithm.rollout.state_dict(), torch.get_rng_state()
    lasts = []
    for _ in range(2):
        torch.set_rng_state(generator)
        algorithm.rollout.load_state_dict(saved)
        experiences = [algorithm.rollout.collect_for_replay(length, False) for _ in range(2)]
        lasts.append([leaf.clone() for leaf in nest.flatten(experiences[-1])])
    for a, b in zip(*lasts, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("is_quick", [False, True])
def test_noise_of_ddpg_is_carried_through_an_episode_and_begins_anew_with_the_next(
    is_quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_quick:
        _plain(monkeypatch)
    with fresh_configs():
        trainer, _ = _collect(
            tmp_path / "run",
            "ddpg_pendulum",
            "create_environment.num_parallel_environments=1",
            "DdpgAlgorithm.rollout_random_action=0.0",
            "DdpgAlgorithm.ou_stddev=0.0",
            "DdpgAlgorithm.ou_damping=0.25",
            "TrainerConfig.random_seed=3",
        )
        algorithm = trainer.algorithm
        assert (algorithm.rollout.quick() is not None) == is_quick
        # The first rollout took 20 steps of an episode of 200.
        algorithm.rollout.actor.policy_state.noise.fill_(64.0)
        with trainer.run, summary.record_if(lambda: False):
            algorithm.unroll(3)
            assert algorithm.rollout.actor.policy_state.noise.item() == 27.0
            algorithm.unroll(200)
            assert algorithm.rollout.actor.policy_state.noise.item() == 0.0


@pytest.mark.parametrize("entry", ["td3_pendulum", "ddpg_pendulum"])
def test_random_actions_come_as_often_as_without(entry: str, tmp_path: Path) -> None:
    name = {"td3_pendulum": "Td3Algorithm", "ddpg_pendulum": "DdpgAlgorithm"}[entry]
    quiet = {"td3_pendulum": "Td3Algorithm.rollout_noise=0.0", "ddpg_pendulum": "DdpgAlgorithm.ou_stddev=0.0"}[entry]
    shares = []
    for chance in (0.3, 1.0):
        with fresh_configs():
            overrides = ["create_environment.num_parallel_environments=20", "TrainerConfig.random_seed=3", quiet]
            path = tmp_path / f"{chance}"
            trainer, _ = _collect(path, entry, f"{name}.rollout_random_action={chance}", *overrides, length=100)
        assert trainer.algorithm.rollout.quick() is not None
        stored, _ = trainer.algorithm.learning.buffer.gather_all()
        with torch.no_grad():
            best = trainer.algorithm._actor_network(stored.time_step.observation)[0]
        is_random = (stored.action - best).abs().flatten() > 1e-4
        shares.append(is_random.float().mean().item())
        drawn = stored.action.flatten()[is_random]
        # Uniform in [-2, 2].
        assert abs(drawn.mean().item()) < 0.15
        assert drawn.std().item() == pytest.approx(4 / 12**0.5, rel=0.05)
    assert shares == pytest.approx([0.3, 1.0], abs=0.03)


def test_kept_rollout_states_do_not_hinder_a_policy_without_memory(tmp_path: Path) -> None:
    with fresh_configs():
        trainer, _ = _collect(tmp_path / "run", "sac_pendulum", "TrainerConfig.use_rollout_state=True")
        assert trainer.algorithm.rollout.quick() is not None
        with trainer.run, summary.record_if(lambda: False):
            trainer.algorithm.unroll(1)
    assert trainer.algorithm.learning.buffer.total_size == 21 * trainer.env.batch_size


def test_an_optimist_is_asked_at_each_step(tmp_path: Path) -> None:
    with fresh_configs():
        trainer, _ = _collect(tmp_path / "run", "oac_pendulum")
    assert trainer.algorithm.rollout.quick() is None


def test_rewards_of_parts_are_those_of_one_step_after_the_other(tmp_path: Path) -> None:
    with fresh_configs():
        trainer, experience = _collect(tmp_path / "quick", "ppo_rnd_mountaincar", "TrainerConfig.random_seed=3")
    algorithm, info = trainer.algorithm, experience.rollout_info
    assert algorithm.rollout.quick() is not None
    with fresh_configs():
        other, _ = _collect(tmp_path / "slow", "ppo_rnd_mountaincar", "TrainerConfig.random_seed=3")
    novelty = other.algorithm._irm
    # As it was before any step.
    novelty._reward_normalizer, novelty._observation_normalizer = (
        type(one)(*arguments, speed=8.0, **more)
        for one, arguments, more in (
            (novelty._reward_normalizer, (), {}),
            (novelty._observation_normalizer, (algorithm.observation_spec,), {"auto_update": False}),
        )
    )
    for step in range(21):
        row = nest.map_structure(lambda tensor, step=step: tensor[step], experience.time_step)
        # The last step was only looked at.
        with frozen_statistics() if step == 20 else nullcontext():
            torch.testing.assert_close(info.rewards["irm"][step], novelty.rollout_step(row).output)
    for name, value in algorithm._irm.state_dict().items():
        torch.testing.assert_close(value, novelty.state_dict()[name])
    overall = algorithm._overall_reward(experience.time_step.reward, info.rewards)
    torch.testing.assert_close(info.rl.reward, overall)
    torch.testing.assert_close(info.rl.log_prob, compute_log_probability(info.rl.action_distribution, info.rl.action))


@pytest.mark.parametrize(
    ("part", "is_quick"), [("entropy_target", True), ("rnd", True), ("encoding", False), ("icm", False)]
)
def test_which_agents_collect_quickly(part: str, is_quick: bool) -> None:
    agent = rein.make("ppo", env="CartPole-v1", parts=[part], seed=0)
    assert (agent.algorithm.rollout.quick() is not None) == is_quick
    agent.train(300)
    agent.close()
