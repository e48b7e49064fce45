"""Weights, fragments, metrics and teams by themselves."""

import sys
from typing import Any

import numpy as np
import pytest
import torch

from rein.algorithms.off_policy.continuous_actions import OrnsteinUhlenbeckNoise
from rein.data_structures import Experience, StepType, TimeStep
from rein.distributed.backends import WorkerGoneError, process, warm
from rein.distributed.collector import CollectJob, Collector
from rein.distributed.fragments import cut_short
from rein.distributed.metrics import GroupedMetrics
from rein.distributed.team import Team
from rein.distributed.weights import SharedWeights, Weights
from rein.envs.metrics import EpisodeMetrics
from rein.runtime.schedules import ConstantScheduler


def test_workers_fork_from_a_server_that_has_loaded_what_the_updater_has(monkeypatch: Any) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(process, "start_context", lambda method, preload: asked.append(preload))
    monkeypatch.setitem(sys.modules, "rein.somewhere.__main__", sys)  # Loading it would run it.
    process.ProcessBackend(64)
    assert {"rein.distributed.collector", "rein.distributed.backends.process"} <= set(asked[0])
    assert all(name.startswith("rein.") and not name.endswith("__main__") for name in asked[0])
    assert asked[0][-1] == warm.__name__


def test_weights_travel_as_one_array(build: Any) -> None:
    one, other = build(seed=1), build(seed=2)
    flat = Weights(one).flat()
    assert flat.dtype == np.uint8
    assert flat.ndim == 1
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    Weights(other).load(flat, with_acting=True)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", ["sac", "ddpg"])
def test_collectors_step_quickly_by_the_weights_that_they_are_sent(name: str, build: Any) -> None:
    acting, learning = build(name, "Pendulum-v1", seed=1), build(name, "Pendulum-v1", seed=2)
    collector = Collector(acting, acting.rollout.env, 0, None)
    if name == "ddpg":
        acting._noise = OrnsteinUhlenbeckNoise(0.0, 0.0)
    assert collector._rollout.quick() is not None
    if name == "ddpg":
        acting._rollout_random_action = ConstantScheduler(0.0)
    for number, flat in ((1, None), (2, Weights(learning).flat())):
        torch.manual_seed(number)
        fragment = collector.collect(CollectJob(number, 8, 8, {}, {}), flat, number)
        experience = fragment.experience
        assert experience.step_type.shape == (8, 4)
        assert torch.equal(experience.rollout_info.action, experience.action)
        assert torch.equal(experience.action[:-1], experience.time_step.prev_action[1:])
        actor = (acting if number == 1 else learning)._actor_network
        with torch.no_grad():
            policy, _ = actor(experience.observation.flatten(0, 1))
        action = experience.action.flatten(0, 1)
        if name == "ddpg":
            torch.testing.assert_close(action, policy)
        else:
            torch.manual_seed(number)
            torch.testing.assert_close(action, policy.sample(), rtol=1e-4, atol=1e-4)


def test_shared_weights_are_read_whole() -> None:
    written = SharedWeights(100)
    written.write(np.arange(100, dtype=np.uint8), 7)
    seen = SharedWeights(100, written.block, written.versions)
    flat, version = seen.read()
    assert version == 7
    assert flat.tolist() == list(range(100))
    written.block.fill_(0)
    assert flat.tolist() == list(range(100))


def test_a_step_whose_successor_was_lost_ends_its_episode() -> None:
    step_type = torch.tensor([[StepType.MID, StepType.FIRST, StepType.LAST]], dtype=torch.int32)
    discount = torch.tensor([[1.0, 1.0, 0.0]])
    cut = cut_short(Experience(TimeStep(step_type=step_type, discount=discount))).time_step
    assert cut.step_type.tolist() == [[StepType.LAST, StepType.FIRST, StepType.LAST]]
    assert cut.discount.tolist() == discount.tolist()


def test_grouped_metrics_are_those_of_all_together() -> None:
    random = np.random.default_rng(0)
    kinds = random.choice([0, 1, 1, 1, 2], size=(40, 4)).astype(np.int32)
    steps = TimeStep(step_type=torch.from_numpy(kinds), reward=torch.from_numpy(random.random((40, 4))))
    plain, grouped = EpisodeMetrics(window=1000), GroupedMetrics(1000, 2)
    plain.update_all(steps)
    for begin in (0, 20):  # in another order, and saved in between
        for group in (1, 0):
            part = TimeStep(*(x[begin : begin + 20, 2 * group : 2 * group + 2] for x in steps[:2]))
            grouped.update_group(group, part)
        restored = GroupedMetrics(1000, 2)
        restored.load_state_dict(grouped.state_dict())
        grouped = restored
    assert grouped.environment_steps == plain.environment_steps
    assert grouped.number_of_episodes == plain.number_of_episodes
    assert sorted(grouped.returns.tolist()) == pytest.approx(sorted(plain.returns.tolist()))


class Mortal:
    """A backend whose workers die when they are told to."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.dying: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def start(self, task: str) -> Any:
        self.started.append(task)
        return [task, None]

    def ask(self, worker: Any, method: str, *arguments: Any) -> None:
        self.asked.append((worker[0], method))
        worker[1] = (method, *arguments)

    def wait(self, workers: list[Any], timeout: float) -> list[Any]:
        return [worker for worker in workers if worker[0] not in self.silent]

    def answer(self, worker: Any) -> Any:
        if worker[0] in self.dying:
            raise WorkerGoneError("died")
        return (worker[0], worker[1])

    def stop(self, worker: Any) -> None:
        pass


def make_team(backend: Any, count: int = 2, max_restarts: int = 2) -> Team:
    tasks: Any = [f"worker {index}" for index in range(count)]
    return Team(backend, tasks, 1.0, max_restarts, lambda index, restarts: f"worker {index}, {restarts}")  # type: ignore[arg-type, return-value]


def test_workers_that_die_or_hang_are_replaced_and_asked_again() -> None:
    backend = Mortal()
    team = make_team(backend)
    backend.dying, backend.silent = {"worker 0"}, set()
    assert team.ask_all("collect", 3) == [("worker 0, 1", ("collect", 3)), ("worker 1", ("collect", 3))]
    assert (team.replaced, team.lost) == (1, {0})
    backend.silent = {"worker 1", "worker 0, 1"}
    answers = team.ask_all("collect", 4)
    assert [answer[1] for answer in answers] == [("collect", 4)] * 2
    assert team.lost == {0, 1}


def test_a_worker_that_only_dies_is_given_up() -> None:
    backend = Mortal()
    backend.dying = {"worker 0", *(f"worker 0, {restarts}" for restarts in range(9))}
    team = make_team(backend, count=1)
    team.ask(0, "collect")
    with pytest.raises(WorkerGoneError, match="3 times in a row"):
        team.next_answer()
