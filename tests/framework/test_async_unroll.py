"""Asynchronous unrolls: what comes out is what a rollout gives, each setting does what it says, and no process stays."""

import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rein import nest
from rein.algorithms.losses import PPOLoss
from rein.algorithms.off_policy import DdpgAlgorithm, Td3Algorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.config import config, fresh_configs, load_config
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import BatchEnvironment, Environment, create_environment
from rein.envs.single import EnvFactory
from rein.framework import OffPolicyAlgorithm, RLAlgorithm, TrainerConfig
from rein.framework.asynchronous.unroll import AsyncUnrollError
from rein.nest import Nest
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.optimizers import SGD, Adam
from rein.runtime import Run
from rein.runtime.run import current_run
from rein.specs import TensorSpec
from rein.training import RunDirectory, Trainer
from rein.transforms import ObservationNormalizer, create_data_transformer

# Other processes cannot import tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

REPLAY: dict[str, Any] = dict(
    async_unroll=True,
    unroll_length=4,
    mini_batch_length=2,
    mini_batch_size=4,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=500,
)
FRESH: dict[str, Any] = dict(async_unroll=True, unroll_length=4, mini_batch_length=2, num_updates_per_train_iter=1)


class Counting(gym.Env[Any, Any]):
    """Shows how many steps and resets there were in its life, and when, in seconds; episodes of ten steps."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, log: str = "", fails_at: int = -1) -> None:
        self.log, self.fails_at, self.t, self.episode = log, fails_at, 0, 0
        self.born = time.monotonic()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t += self.t > 0
        self.episode = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.episode += 1
        if self.t == self.fails_at:
            raise RuntimeError("the world has a hole")
        if self.log:
            with open(self.log, "ab") as file:
                file.write(b".")
        return self._observe(), float(action), self.episode == 10, False, {}

    def _observe(self) -> Any:
        return np.array([self.t, time.monotonic() - self.born], np.float32)


class Watcher(OffPolicyAlgorithm):
    """Notes in its infos what it acted with; has one buffer that acting changes and one that learning changes."""

    def __init__(self, fails_at: int = -1, state_spec: Nest = (), **kwargs: Any) -> None:
        super().__init__(train_state_spec=state_spec, optimizer=SGD(lr=0.0), name="Watcher", **kwargs)
        self.w = nn.Parameter(torch.zeros(()))
        self.register_buffer("acted", torch.zeros((), dtype=torch.int64))
        self.register_buffer("learnt", torch.zeros((), dtype=torch.int64))
        self.fails_at = fails_at

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        self.acted += 1
        if int(self.acted) == self.fails_at:
            raise ValueError("the policy has no answer")
        size = inputs.step_type.shape
        try:
            counter = current_run().global_counter
        except RuntimeError:
            counter = -1
        info = {
            "w": self.w.detach().expand(size),
            "acted": self.acted.expand(size),
            "learnt": self.learnt.expand(size),
            "counter": torch.full(size, counter),
            "seen": inputs.observation[:, 0],
        }
        action = (inputs.observation[:, 0] % 3).long()
        return AlgStep(output=action, state=state + 1 if isinstance(state, torch.Tensor) else (), info=info)

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        return AlgStep(info=self.w.expand(inputs.step_type.shape), state=state)

    def calc_loss(self, info: Any) -> LossInfo:
        return LossInfo(loss=info)

    def after_update(self, root_inputs: Any, info: Any) -> None:
        self.learnt += 1


Make = Callable[..., Watcher]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[RLAlgorithm] = []

    def build(world: Any = Counting, batch: int = 1, cls: Any = Watcher, arguments: Any = None, **settings: Any) -> Any:
        env = create_environment(world, batch, backend=settings.pop("backend", "sync"), seed=0, strict=True)
        transformer = settings.pop("transformer", None)
        config_ = TrainerConfig("", **{**REPLAY, **settings})
        specs = dict(observation_spec=env.observation_spec, action_spec=env.action_spec, reward_spec=env.reward_spec)
        made.append(cls(env=env, config=config_, **specs, **(arguments or {})))
        if transformer is not None:
            made[-1].set_data_transformer(create_data_transformer(transformer, env.observation_spec))
        return made[-1]

    yield build
    for one in made:
        one.close_rollout()


def stored(algorithm: RLAlgorithm) -> Any:
    """All that the replay buffer has of the first environment, [T, ...]."""
    assert algorithm.replay_buffer is not None
    data, _ = algorithm.replay_buffer.gather_all()
    return nest.map_structure(lambda tensor: tensor[0], data)


def train(algorithm: RLAlgorithm, iterations: int) -> None:
    for _ in range(iterations):
        algorithm.train_iter()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class TestResults:
    def test_steps_arrive_once_in_order_with_what_was_decided(self, make: Make) -> None:
        algorithm = make(batch=2)
        for _ in range(6):
            algorithm.train_iter()
        data = stored(algorithm)
        assert data.time_step.observation[:, 0].tolist() == list(range(24))
        assert torch.equal(data.rollout_info["seen"], data.time_step.observation[:, 0])
        assert torch.equal(data.action, (data.time_step.observation[:, 0] % 3).long())
        # The reward at t + 1 is the action at t, except where an episode begins.
        begins = data.time_step.step_type[1:] == 0
        assert torch.equal(data.time_step.reward[1:][~begins], data.action[:-1][~begins].float())
        assert data.rollout_info["acted"].tolist() == list(range(1, 25))
        metrics = algorithm.metrics
        assert metrics.environment_steps == 2 * (24 - 3)
        assert metrics.number_of_episodes == 2 * 2
        assert metrics.lengths.tolist() == [10] * 4

    def test_a_fraction_is_taken_on_average(self, make: Make) -> None:
        algorithm = make(unroll_length=1.5)
        lengths = []
        for _ in range(4):
            before = algorithm.replay_buffer.total_size if algorithm.replay_buffer is not None else 0
            algorithm.train_iter()
            assert algorithm.replay_buffer is not None
            lengths.append(algorithm.replay_buffer.total_size - before)
        assert lengths == [1, 2, 1, 2]

    def test_recurrent_states_before_each_step_are_stored(self, make: Make) -> None:
        algorithm = make(arguments=dict(state_spec=TensorSpec(())), use_rollout_state=True)
        for _ in range(4):
            algorithm.train_iter()
        data = stored(algorithm)
        episodes = data.state.split(11)
        assert episodes[0].tolist() == list(range(11))
        assert episodes[1].tolist() == list(range(5))

    def test_the_action_of_the_environment_may_win(self, make: Make) -> None:
        algorithm = make(batch=1, arguments=dict(overwrite_policy_output=True))
        algorithm.train_iter()
        data = stored(algorithm)
        assert torch.equal(data.action[:-1], data.time_step.prev_action[1:])

    def test_the_environment_may_have_processes_of_its_own(self, make: Make) -> None:
        algorithm = make(batch=2, backend="process")
        for _ in range(3):
            algorithm.train_iter()
        assert stored(algorithm).time_step.observation[:, 0].tolist() == list(range(12))

    def test_no_more_steps_are_taken_once_the_budget_is_spent(self, make: Make) -> None:
        algorithm = make(num_env_steps=6)
        for _ in range(5):
            assert algorithm.train_iter() > 0
        assert algorithm.env_steps == 7

    def test_what_a_conf_defines_acts_there_with_its_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(CONF)
        with fresh_configs():
            load_config(tmp_path / "mine.py")
            directory = RunDirectory.create(tmp_path / "run")
            directory.start()
            trainer = Trainer(TrainerConfig(str(directory.path)), directory, tensorboard=False)
            trainer.train()
            trainer.close()
        assert stored(trainer.algorithm).action.tolist() == [1] * 8
        assert stored(trainer.algorithm).time_step.reward.max() == 3.0

    @pytest.mark.parametrize(("kind", "unroll_length"), [(Td3Algorithm, 0), (DdpgAlgorithm, 3)])
    def test_quick_steps_are_those_that_the_algorithm_takes(self, kind: Any, unroll_length: int, make: Make) -> None:
        class Quick(kind):  # type: ignore[misc]
            def quick_actor(self) -> Any:
                return super().quick_actor()

            def rollout_step(self, time_step: TimeStep, state: Any) -> AlgStep:
                raise AssertionError("not asked in a quick rollout")

        class Slow(kind):  # type: ignore[misc]
            def quick_actor(self) -> Any:
                return None

        found = []
        for cls in (Quick, Slow):
            torch.manual_seed(4)
            frozen = dict(actor_optimizer=SGD(lr=0.0), critic_optimizer=SGD(lr=0.0))
            settings = dict(unroll_length=unroll_length, max_unroll_length=8)
            with Run(seed=3):
                algorithm = make("Pendulum-v1", 2, cls, frozen, **settings)
                while algorithm.replay_buffer is None or algorithm.replay_buffer.total_size < 24:
                    algorithm.train_iter()
            found.append(stored(algorithm))
        for mine, theirs in zip(*map(nest.flatten, found), strict=True):
            torch.testing.assert_close(mine[:12], theirs[:12], rtol=1e-4, atol=1e-4)


CONF = """
import rein
import torch
from rein.algorithms.off_policy.dqn import DqnAlgorithm
from rein.envs.wrappers import FrameSkip
from rein.optimizers import Adam

@rein.configurable
def the_action(value=0):
    return value

@rein.configurable
class MyDqn(DqnAlgorithm):
    def rollout_step(self, inputs, state):
        step = super().rollout_step(inputs, state)
        return step._replace(output=torch.full_like(step.output, the_action()))

rein.config("the_action", value=1)
rein.config("FrameSkip", skip=3)
rein.config("create_environment", env_name="CartPole-v1", wrappers=[FrameSkip], backend="sync")
rein.config("MyDqn", q_optimizer=Adam(lr=1e-3))
rein.config(
    "TrainerConfig", algorithm_ctor=MyDqn, async_unroll=True, num_iterations=2, unroll_length=4, mini_batch_length=2,
    mini_batch_size=4, whole_replay_buffer_training=False, clear_replay_buffer=False, replay_buffer_length=100,
)
"""


class TestFreshRollouts:
    def test_a_rollout_ends_with_the_step_that_begins_the_next(self, make: Make) -> None:
        algorithm = make(cls=Watcher, **FRESH, whole_replay_buffer_training=True, clear_replay_buffer=True)
        seen = []
        for _ in range(3):
            experience = algorithm.unroll(4)
            assert experience is not None
            seen.append(experience.time_step.observation[:, 0, 0].tolist())
        assert seen == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [8, 9, 10, 11, 12]]
        # Steps 0 to 11 were acted on; two of them begin episodes.
        assert algorithm.env_steps == 10

    def test_any_length_is_a_multiple_of_sequences(self, make: Make) -> None:
        fresh = dict(FRESH, unroll_length=0, max_unroll_length=5, mini_batch_length=2, unroll_queue_size=9)
        algorithm = make(**fresh, whole_replay_buffer_training=True, clear_replay_buffer=True)
        seen: list[float] = []
        for _ in range(6):
            experience = algorithm.unroll(5)
            assert experience is not None
            steps = experience.time_step.observation[:, 0, 0].tolist()
            assert len(steps) in (3, 5)
            seen += steps[:-1]
        assert seen == list(range(len(seen)))

    @pytest.mark.parametrize("recurrent", [False, True])
    def test_ppo_learns_from_distributions_that_came_from_there(self, make: Make, recurrent: bool) -> None:
        arguments: dict[str, Any] = dict(loss_class=PPOLoss, optimizer=Adam(lr=1e-2))
        if recurrent:
            arguments["actor_network_ctor"] = partial(ActorDistributionRNNNetwork, lstm_hidden_size=4)
            arguments["value_network_ctor"] = partial(ValueRNNNetwork, lstm_hidden_size=4)
        algorithm: Any = make(
            world="CartPole-v1",
            batch=2,
            cls=PPOAlgorithm,
            arguments=arguments,
            **dict(FRESH, unroll_length=6, mini_batch_length=3),
            whole_replay_buffer_training=True,
            clear_replay_buffer=True,
            use_rollout_state=recurrent,
        )
        before = [parameter.clone() for parameter in algorithm.parameters()]
        assert [algorithm.train_iter() for _ in range(3)] == [12, 12, 12]
        assert not all(torch.equal(a, b) for a, b in zip(before, algorithm.parameters(), strict=True))


class TestSettings:
    def test_what_is_there_is_taken_up_to_the_most_and_maybe_nothing(self, make: Make, tmp_path: Path) -> None:
        world = partial(Counting, str(tmp_path / "log"))
        algorithm = make(world, unroll_length=0, max_unroll_length=6, unroll_queue_size=15, initial_collect_steps=2)
        while not algorithm.train_iter():
            pass
        unroller = algorithm.rollout.unroller  # type: ignore[attr-defined]
        taken = unroller._received
        wait_until(lambda: unroller._links.filled.get_value() == 15)
        assert len(unroller.gather_unroll_results(0, 6)) == 6
        os.kill(unroller.pid, signal.SIGSTOP)
        rest = unroller.gather_unroll_results(0, 1000)
        assert unroller.gather_unroll_results(0, 6) == []
        # Without anything new there is still something to train on.
        assert algorithm.train_iter() == 8
        os.kill(unroller.pid, signal.SIGCONT)
        steps = [int(one.time_step.observation[0, 0]) for one in rest]
        assert steps == list(range(taken + 6, taken + 6 + len(steps)))

    def test_an_iteration_waits_for_data_while_there_is_too_little_to_train_on(self, make: Make) -> None:
        algorithm = make(unroll_length=0, max_unroll_length=1, initial_collect_steps=5)
        trained = [algorithm.train_iter() for _ in range(5)]
        assert trained == [0, 0, 0, 0, 8]
        assert stored(algorithm).step_type.shape[0] == 5

    def test_a_full_queue_stops_the_environments(self, make: Make, tmp_path: Path) -> None:
        log = tmp_path / "log"
        algorithm = make(partial(Counting, str(log)), unroll_length=1, unroll_queue_size=7)
        algorithm.train_iter()
        wait_until(lambda: log.exists() and log.stat().st_size >= 8)
        time.sleep(0.3)
        assert log.stat().st_size == 8
        algorithm.train_iter()
        wait_until(lambda: log.stat().st_size == 9)

    def test_steps_keep_their_distance_in_time(self, make: Make) -> None:
        algorithm = make(unroll_length=12, unroll_step_interval=0.03)
        algorithm.train_iter()
        moments = stored(algorithm).time_step.observation[1:, 1]
        assert (moments[-1] - moments[0]).item() > 0.9 * 0.03 * (len(moments) - 1)

    def test_parameters_are_sent_at_their_period_only(self, make: Make) -> None:
        algorithm = make(unroll_length=3, unroll_queue_size=1, unroll_parameter_update_period=3)
        for iteration in range(12):
            with torch.no_grad():
                algorithm.w.fill_(iteration)
            algorithm.train_iter()
        values = stored(algorithm).rollout_info["w"].tolist()
        assert set(values) <= {0.0, 3.0, 6.0, 9.0}
        assert values == sorted(values)
        assert {0.0, 3.0, 6.0} <= set(values)
        # At most what was under way when they were sent, one in the queue and one being made, is older.
        assert values.index(3.0) <= 9 + 2

    def test_counters_for_schedules_are_sent_too(self, make: Make) -> None:
        with Run(seed=0) as run:
            algorithm = make(unroll_length=3, unroll_queue_size=1, unroll_parameter_update_period=1)
            for _ in range(4):
                algorithm.train_iter()
                run.increment_global_counter(10)
        counters = stored(algorithm).rollout_info["counter"].tolist()
        assert counters == sorted(counters)
        assert {0, 11, 22} <= set(counters) <= {0, 11, 22, 33}  # An iteration counts one.

    def test_settings_that_make_no_sense_are_refused_at_construction(self, make: Make) -> None:
        def refused(match: str, **settings: Any) -> None:
            with pytest.raises(ValueError, match=match):
                make(**settings)

        refused("on-policy: it differentiates", cls=partial(ActorCriticAlgorithm, optimizer=Adam(lr=1e-2)))
        refused("gradients do not cross processes", unroll_with_grad=True)
        refused("max_unroll_length is 0: set it", unroll_length=0)
        refused("set mini_batch_length", unroll_length=0, max_unroll_length=3, mini_batch_length=None)
        refused("unroll_queue_size is 0", unroll_queue_size=0)
        refused("unroll_parameter_update_period is 0", unroll_parameter_update_period=0)
        refused("must not be negative", unroll_step_interval=-1.0)
        fresh = dict(whole_replay_buffer_training=True, clear_replay_buffer=True)
        refused("at least 4", unroll_length=0, max_unroll_length=3, mini_batch_length=4, **fresh)

    def test_an_environment_that_cannot_be_made_there_is_refused(self) -> None:
        env: Environment = BatchEnvironment(EnvFactory(Counting), 1)
        with pytest.raises(ValueError, match="make it with create_environment"):
            Watcher(
                env=env,
                config=TrainerConfig("", **REPLAY),
                observation_spec=env.observation_spec,
                action_spec=env.action_spec,
            )


class TestBuffers:
    def test_each_side_has_what_the_other_changes(self, make: Make) -> None:
        algorithm = make(unroll_length=2, unroll_queue_size=1, unroll_parameter_update_period=1)
        for _ in range(10):
            algorithm.train_iter()
        data = stored(algorithm)
        # Acting goes on counting here, though parameters come from a copy that does not act ...
        assert data.rollout_info["acted"].tolist() == list(range(1, 21))
        # ... and knows what was learnt, but for the last iterations.
        assert data.rollout_info["learnt"].max() >= 6
        assert int(algorithm.learnt) == 10
        # The count comes back to where it is learnt from, up to what was under way.
        assert 14 <= int(algorithm.acted) <= 22

    def test_statistics_of_transformers_follow_the_rollout(self, make: Make) -> None:
        algorithm = make(
            unroll_length=4,
            unroll_queue_size=1,
            transformer=partial(ObservationNormalizer, update_mode="rollout"),
        )
        for _ in range(5):
            algorithm.train_iter()
        algorithm.rollout.state_dict()
        normalizer = algorithm.data_transformer
        mean = next(value for name, value in normalizer.state_dict().items() if "mean_0" in name)
        assert mean[0] > 1.0
        # The buffer has what the environment gave.
        assert stored(algorithm).time_step.observation[:, 0].tolist() == list(range(20))


class TestFailures:
    def test_what_the_policy_raises_comes_with_its_traceback(self, make: Make) -> None:
        algorithm = make(arguments=dict(fails_at=6))
        algorithm.train_iter()
        with pytest.raises(AsyncUnrollError, match=r"(?s)Traceback.*in rollout_step.*the policy has no answer"):
            algorithm.train_iter()

    def test_a_fault_of_the_environment_is_told_even_if_nothing_is_waited_for(self, make: Make) -> None:
        algorithm = make(partial(Counting, "", 6), unroll_length=0, max_unroll_length=4, initial_collect_steps=2)
        with pytest.raises(AsyncUnrollError, match=r"(?s)EnvironmentFaultError.*the world has a hole"):
            train(algorithm, 1_000_000)
        assert stored(algorithm).time_step.observation[:, 0].tolist() == list(range(5))

    def test_a_killed_process_is_noticed(self, make: Make) -> None:
        algorithm = make(unroll_queue_size=2)
        algorithm.train_iter()
        os.kill(algorithm.rollout.unroller.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        with pytest.raises(AsyncUnrollError, match="was killed by signal 9"):
            train(algorithm, 3)
        with pytest.raises(AsyncUnrollError, match="was killed by signal 9"):
            algorithm.rollout.state_dict()

    def test_what_cannot_travel_is_named(self, make: Make) -> None:
        algorithm: Any = make()
        algorithm.lock = threading.Lock()
        with pytest.raises(TypeError, match=r"Watcher and its environment cannot be sent .*async_unroll=False"):
            algorithm.train_iter()

    def test_closing_ends_the_process_and_may_be_repeated(self, make: Make) -> None:
        algorithm = make(unroll_queue_size=3)
        algorithm.train_iter()
        pid = algorithm.rollout.unroller.pid  # type: ignore[attr-defined]
        algorithm.close_rollout()
        algorithm.close_rollout()
        assert not is_running(pid)


SCRIPT = """
import sys, time
import cloudpickle
from rein.algorithms.off_policy.dqn import DqnAlgorithm
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.optimizers import Adam

if __name__ == "__main__":
    env = create_environment("CartPole-v1", 2, backend="process", num_workers=1, seed=0)
    config = TrainerConfig("", async_unroll=True, unroll_length=4, mini_batch_length=2, mini_batch_size=4,
        whole_replay_buffer_training=False, clear_replay_buffer=False)
    algorithm = DqnAlgorithm(env.observation_spec, env.action_spec, env=env, config=config, q_optimizer=Adam(lr=1e-3))
    algorithm.train_iter()
    print(algorithm.rollout.unroller.pid, flush=True)
    while sys.argv[1] == "on":
        algorithm.train_iter()
"""


def children(ancestor: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == ancestor:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


class TestNoOrphans:
    @pytest.mark.parametrize(
        "number",
        [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT, None))],
    )
    def test_no_process_outlives_the_trainer(self, tmp_path: Path, number: int | None) -> None:
        (tmp_path / "script.py").write_text(SCRIPT)
        command = [sys.executable, str(tmp_path / "script.py"), "off" if number is None else "on"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "the script failed"
            worker = int(line)
            family = [worker, *children(worker)]
            if number is not None:
                process.send_signal(number)
            process.wait(30)
        wait_until(lambda: not any(is_running(pid) for pid in family))


class TestResume:
    def trainer(self, path: Path, iterations: int, **settings: Any) -> Trainer:
        directory = RunDirectory.open(path) if (path / "run.json").exists() else RunDirectory.create(path)
        if not (path / "run.json").exists():
            directory.start()
        ctor = partial(Watcher)
        arguments = {**REPLAY, "random_seed": 1, "num_iterations": iterations, "async_eval": False, **settings}
        return Trainer(TrainerConfig(str(path), algorithm_ctor=ctor, **arguments), directory, tensorboard=False)

    @pytest.mark.parametrize("settings", [{}, dict(unroll_length=0, max_unroll_length=5)], ids=["fixed", "any"])
    def test_the_stream_goes_on_without_gap_or_repetition(self, tmp_path: Path, settings: Any) -> None:
        with fresh_configs():
            config("create_environment", env_name=Counting, num_parallel_environments=1, backend="sync")
            for iterations in (5, 9, 12):
                trainer = self.trainer(tmp_path / "run", iterations, **settings)
                trainer.train()
                trainer.close()
        algorithm: Any = trainer.algorithm
        data = stored(algorithm)
        length = len(data.step_type)
        assert data.time_step.observation[:, 0].tolist() == list(range(length))
        assert data.rollout_info["acted"].tolist() == list(range(1, length + 1))
        assert length == 48 or settings
        assert int(algorithm.acted) >= length
        assert trainer.run.env_steps == algorithm.env_steps

    def test_a_signal_is_for_the_trainer_which_saves_and_ends(self, tmp_path: Path) -> None:
        with fresh_configs():
            config("create_environment", env_name=Counting, num_parallel_environments=1, backend="sync")
            trainer = self.trainer(tmp_path / "run", 100_000)

            class Stop:
                def on_iteration(self, progress: Any) -> None:
                    if progress.iterations == 3:
                        # All of the process group get it, the server that forked the other process too.
                        server = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
                        unroller = trainer.algorithm.rollout.unroller  # type: ignore[attr-defined]
                        for pid in (server, unroller.pid, os.getpid()):
                            os.kill(pid, signal.SIGTERM)
                        pids.append(unroller.pid)

                def on_evaluation(self, progress: Any, result: Any) -> None: ...

            pids: list[int] = []
            trainer.observers.append(Stop())
            assert trainer.train().stopped_by == "SIGTERM"
            trainer.close()
            assert not is_running(pids[0])
            resumed = self.trainer(tmp_path / "run", 4)
            resumed.train()
            resumed.close()
        assert stored(resumed.algorithm).time_step.observation[:, 0].tolist() == list(range(16))

    def test_another_setting_is_refused(self, tmp_path: Path) -> None:
        with fresh_configs():
            config("create_environment", env_name=Counting, num_parallel_environments=1, backend="sync")
            trainer = self.trainer(tmp_path / "run", 2, async_unroll=False)
            trainer.train()
            trainer.close()
            with pytest.raises(ValueError, match="saved with async_unroll=False"):
                self.trainer(tmp_path / "run", 4)
