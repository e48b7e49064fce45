"""The same seed gives the same trajectory on every backend that steps Gymnasium worlds."""

import pytest
import torch

from rein import nest
from rein.envs import create_environment
from rein.envs.single import row_seed

NAMES = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", "rein/Recall-v0"]


def trajectory(name, backend, seed, num_steps=60, batch_size=3, reseed=None, **kwargs):
    generator = torch.Generator().manual_seed(1)
    with create_environment(name, batch_size, backend=backend, seed=seed, **kwargs) as environment:
        if reseed is not None:
            environment.reset()
            environment.seed(reseed)
        steps = [nest.map_structure(torch.clone, environment.reset())]
        for _ in range(num_steps):
            action = nest.map_structure(lambda spec: spec.sample((batch_size,), generator), environment.action_spec)
            steps.append(nest.map_structure(torch.clone, environment.step(action)))
    return nest.stack_nests(steps)


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_backends_agree_on_the_trajectory_of_a_seed(name):
    num_steps = 210 if name == "Pendulum-v1" else 60
    wanted = trajectory(name, "sync", 7, num_steps)
    for backend in ("process", "thread", "auto"):
        assert same(trajectory(name, backend, 7, num_steps), wanted), backend
    assert (wanted.step_type == 2).any(), "no episode ended, so the test shows little"


@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_the_way_processes_start_does_not_matter(start_method):
    wanted = trajectory("CartPole-v1", "sync", 7)
    assert same(trajectory("CartPole-v1", "process", 7, start_method=start_method), wanted)


def test_the_number_of_workers_does_not_matter():
    wanted = trajectory("CartPole-v1", "sync", 7)
    for num_workers in (1, 2, 3, 9):
        assert same(trajectory("CartPole-v1", "process", 7, num_workers=num_workers), wanted)


@pytest.mark.parametrize("backend", ["sync", "process", "thread", "vector"])
def test_seeding_later_is_like_seeding_at_once(backend):
    assert same(trajectory("CartPole-v1", backend, 3, reseed=11), trajectory("CartPole-v1", backend, 11))


def test_other_seeds_and_other_rows_differ():
    one, two = trajectory("CartPole-v1", "sync", 1), trajectory("CartPole-v1", "sync", 2)
    assert not torch.equal(one.observation, two.observation)
    assert not torch.equal(one.observation[0, 0], one.observation[0, 1])


def test_the_seed_of_a_row_does_not_depend_on_the_batch_size():
    wide, narrow = trajectory("Pendulum-v1", "sync", 5, 1, 4), trajectory("Pendulum-v1", "sync", 5, 1, 2)
    assert torch.equal(wide.observation[0, :2], narrow.observation[0])


def test_seeds_of_rows_and_restarts_are_all_different():
    seeds = {row_seed(0, row, restart) for row in range(50) for restart in range(5)}
    assert len(seeds) == 250


def test_without_a_seed_batches_differ():
    assert not torch.equal(
        trajectory("Pendulum-v1", "sync", None, 1).observation, trajectory("Pendulum-v1", "sync", None, 1).observation
    )
