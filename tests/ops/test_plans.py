"""Plans, elites and particles: by hand, and all environments at once against a loop over them."""

import pytest
import torch
from torch import Tensor

from rein.ops import (
    actions_by_step,
    advance_plans,
    best_plans,
    elite_moments,
    mean_over_particles,
    normal_plans,
    spread_over_particles,
    uniform_plans,
)

B, M, H, A = 3, 7, 4, 2


@pytest.fixture
def plans() -> Tensor:
    return torch.randn(B, M, H, A, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def cost() -> Tensor:
    return torch.randn(B, M, generator=torch.Generator().manual_seed(1))


def test_uniform_plans_fill_the_bounds_of_each_element() -> None:
    torch.manual_seed(0)
    plans = uniform_plans(torch.tensor([-1.0, 2.0]), torch.tensor([1.0, 6.0]), 2, 500, 3)
    assert plans.shape == (2, 500, 3, 2)
    low, high = plans.flatten(0, 2).aminmax(dim=0)
    assert (low >= torch.tensor([-1.0, 2.0])).all()
    assert (high <= torch.tensor([1.0, 6.0])).all()
    torch.testing.assert_close(low, torch.tensor([-1.0, 2.0]), atol=0.02, rtol=0)
    torch.testing.assert_close(high, torch.tensor([1.0, 6.0]), atol=0.02, rtol=0)


def test_normal_plans_have_the_moments_of_their_environment() -> None:
    torch.manual_seed(0)
    mean = torch.tensor([0.0, 5.0]).reshape(2, 1, 1).expand(2, 3, 1)
    variance = torch.tensor([4.0, 0.0]).reshape(2, 1, 1).expand(2, 3, 1)
    plans = normal_plans(mean, variance, 4000)
    assert plans.shape == (2, 4000, 3, 1)
    torch.testing.assert_close(plans[0].mean(0), mean[0], atol=0.15, rtol=0)
    torch.testing.assert_close(plans[0].var(0), variance[0], atol=0.4, rtol=0)
    assert (plans[1] == 5.0).all()


def test_best_plans_are_those_that_a_loop_finds(plans: Tensor, cost: Tensor) -> None:
    best = best_plans(plans, cost)
    for b in range(B):
        m = min(range(M), key=lambda i, b=b: float(cost[b, i]))
        assert torch.equal(best[b], plans[b, m])


def test_plans_that_are_not_a_number_lose(plans: Tensor, cost: Tensor) -> None:
    spoilt = cost.clone()
    spoilt[0, :3] = torch.nan
    assert torch.equal(best_plans(plans, spoilt)[0], best_plans(plans[:1, 3:], cost[:1, 3:])[0])
    mean, variance = elite_moments(plans, spoilt, 2)
    expected = elite_moments(plans[:1, 3:], cost[:1, 3:], 2)
    torch.testing.assert_close((mean[:1], variance[:1]), expected)


def test_elite_moments_are_those_of_a_loop(plans: Tensor, cost: Tensor) -> None:
    mean, variance = elite_moments(plans, cost, 3)
    for b in range(B):
        order = sorted(range(M), key=lambda i, b=b: float(cost[b, i]))[:3]
        elites = [plans[b, i] for i in order]
        average = sum(elites) / 3
        torch.testing.assert_close(mean[b], average)
        torch.testing.assert_close(variance[b], sum((e - average) ** 2 for e in elites) / 2)


def test_elite_moments_by_hand() -> None:
    plans = torch.tensor([1.0, 3.0, 100.0]).reshape(1, 3, 1, 1)
    mean, variance = elite_moments(plans, torch.tensor([[0.0, 1.0, 2.0]]), 2)
    assert mean.item() == 2.0
    assert variance.item() == 2.0


@pytest.mark.parametrize("size", [0, 1, 8])
def test_elites_without_a_variance_or_beyond_the_population_are_refused(size: int, plans: Tensor, cost: Tensor) -> None:
    with pytest.raises(ValueError, match=f"elite_size is {size} of a population of 7"):
        elite_moments(plans, cost, size)


def test_advanced_plans_begin_with_the_second_action() -> None:
    plans = torch.arange(6.0).reshape(1, 3, 2)
    advanced = advance_plans(plans, torch.tensor([8.0, 9.0]))
    assert advanced.tolist() == [[[2.0, 3.0], [4.0, 5.0], [8.0, 9.0]]]


def test_rows_are_environment_then_plan_then_particle(plans: Tensor) -> None:
    particles = 2
    starts = torch.arange(float(B)).unsqueeze(1)
    rows, actions = spread_over_particles(starts, M, particles), actions_by_step(plans, particles)
    assert rows.shape == (B * M * particles, 1)
    assert actions.shape == (H, B * M * particles, A)
    row = 0
    for b in range(B):
        for m in range(M):
            for _ in range(particles):
                assert rows[row].item() == b
                for h in range(H):
                    assert torch.equal(actions[h, row], plans[b, m, h])
                row += 1


@pytest.mark.parametrize("replicas", [None, 4])
def test_particles_are_averaged_for_each_plan(replicas: int | None) -> None:
    shape = (B * M * 2,) if replicas is None else (B * M * 2, replicas)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    mean = mean_over_particles(x, B, M)
    for b in range(B):
        for m in range(M):
            first = (b * M + m) * 2
            torch.testing.assert_close(mean[b, m], x[first : first + 2].mean())


def test_rows_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="20 rows are not the same number of particles for each of 3 x 7 plans"):
        mean_over_particles(torch.zeros(20), B, M)
