import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein.data_structures import StepType, TimeStep
from rein.envs.metrics import (
    AverageDiscountedReturnMetric,
    AverageEnvInfoMetric,
    AverageEpisodeLengthMetric,
    AverageReturnMetric,
    EnvironmentSteps,
    EpisodeMetrics,
    NumberOfEpisodes,
)

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


def step(types, rewards, **info):
    return TimeStep(
        step_type=torch.tensor(types, dtype=torch.int32),
        reward=torch.tensor(rewards, dtype=torch.float32),
        env_info={name: torch.tensor(value, dtype=torch.float32) for name, value in info.items()} if info else (),
    )


def feed(metrics, steps):
    for time_step in steps:
        metrics.update(time_step)
    return metrics


def test_returns_and_lengths_by_hand():
    metrics = feed(
        EpisodeMetrics(),
        [
            step([F, F], [0, 0]),
            step([M, M], [1, 10]),
            step([L, M], [2, 20]),
            step([F, M], [0, 30]),
            step([M, L], [5, 40]),
        ],
    )
    assert metrics.returns.tolist() == [3.0, 100.0]
    assert metrics.lengths.tolist() == [2, 4]
    result = metrics.result()
    assert result["AverageReturn"] == 51.5
    assert result["AverageEpisodeLength"] == 3.0
    assert result["EnvironmentSteps"] == 7.0
    assert result["NumberOfEpisodes"] == 2.0
    assert result["StepsPerSecond"] > 0.0


def test_averages_are_left_out_before_an_episode_has_ended():
    metrics = feed(EpisodeMetrics(), [step([F], [0]), step([M], [1])])
    assert set(metrics.result()) == {"EnvironmentSteps", "NumberOfEpisodes", "StepsPerSecond"}
    assert metrics.returns.shape == (0,)


def test_episode_without_a_first_step_is_counted_but_not_averaged():
    steps = [
        step([M, F], [100, 0]),
        step([L, M], [100, 1]),
        step([F, L], [0, 1]),
        step([L, F], [7, 0]),
    ]
    metrics = feed(EpisodeMetrics(), steps)
    assert metrics.returns.tolist() == [2.0, 7.0]
    assert metrics.number_of_episodes == 3


def test_first_without_last_drops_the_unfinished_episode():
    metrics = feed(EpisodeMetrics(), [step([F], [0]), step([M], [9]), step([F], [0]), step([L], [1])])
    assert metrics.returns.tolist() == [1.0]


def test_reward_vectors_are_summed_per_dimension():
    metrics = feed(
        EpisodeMetrics(),
        [step([F], [[0, 0]]), step([M], [[1, -1]]), step([L], [[2, -3]])],
    )
    result = metrics.result()
    assert (result["AverageReturn/0"], result["AverageReturn/1"]) == (3.0, -4.0)
    assert metrics.returns.tolist() == [[3.0, -4.0]]
    assert metrics.lengths.tolist() == [2]


def test_env_info_reductions():
    names = ("mean", "sum", "last", "max", "min")
    metrics = EpisodeMetrics(reductions={name: name for name in names if name != "mean"})
    for types, value in (([F], 50.0), ([M], 2.0), ([M], 7.0), ([L], 3.0)):
        metrics.update(step(types, [0.0], **{name: [value] for name in names}))
    result = metrics.result()
    found = [result[f"AverageEnvInfo/{name}"] for name in names]
    assert found == [4.0, 12.0, 3.0, 7.0, 2.0]
    assert metrics.env_infos["max"].tolist() == [7.0]


def test_unknown_reductions_are_refused():
    with pytest.raises(ValueError, match="median"):
        EpisodeMetrics(reductions={"x": "median"})
    with pytest.raises(ValueError, match="'x'"):
        EpisodeMetrics(reductions={"x": "max"}).update(step([F], [0.0], y=[1.0]))


def test_window_keeps_the_last_episodes_in_order():
    metrics = EpisodeMetrics(window=3)
    for value in range(5):
        feed(metrics, [step([F], [0]), step([L], [value])])
    assert metrics.returns.tolist() == [2.0, 3.0, 4.0]
    metrics.clear()
    assert metrics.returns.tolist() == []
    assert metrics.number_of_episodes == 5


def test_more_episodes_ending_at_once_than_the_window_holds():
    metrics = feed(EpisodeMetrics(window=2), [step([F] * 5, [0] * 5), step([L] * 5, [0, 1, 2, 3, 4])])
    assert sorted(metrics.returns.tolist()) == [3.0, 4.0]


def test_changed_number_of_environments_is_explained():
    metrics = feed(EpisodeMetrics(), [step([F, F], [0, 0]), step([L, M], [1, 1])])
    with pytest.raises(ValueError, match="forget_running_episodes"):
        metrics.update(step([F], [0]))
    metrics.forget_running_episodes()
    feed(metrics, [step([F], [0]), step([L], [5])])
    assert metrics.returns.tolist() == [1.0, 5.0]


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        EpisodeMetrics().update(step([[F], [F]], [[0], [0]]))


def test_loading_another_window_is_refused():
    state = feed(EpisodeMetrics(window=3), [step([F], [0]), step([L], [1])]).state_dict()
    with pytest.raises(ValueError, match="window"):
        EpisodeMetrics(window=4).load_state_dict(state)


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (AverageReturnMetric, "AverageReturn", 3.0),
        (AverageEpisodeLengthMetric, "AverageEpisodeLength", 2.0),
        (AverageEnvInfoMetric, "AverageEnvInfo/x", 1.5),
        (EnvironmentSteps, "EnvironmentSteps", 2.0),
        (NumberOfEpisodes, "NumberOfEpisodes", 1.0),
    ],
)
def test_single_metrics_report_only_themselves(cls, name, value):
    steps = [step([F], [0], x=[0.0]), step([M], [1], x=[1.0]), step([L], [2], x=[2.0])]
    assert feed(cls(), steps).result() == {name: value}


def random_stream(rng, length, batch, dim, begin_whole):
    """Yields time steps whose episodes end at random, with next-step resets."""
    ended = np.full(batch, begin_whole)
    for _ in range(length):
        types = np.where(ended, F, np.where(rng.random(batch) < 0.3, L, M))
        shape = (batch, dim) if dim else (batch,)
        rewards = rng.integers(-5, 6, shape).astype(np.float32)
        rewards[types == F] = 0
        yield step(types.tolist(), rewards.tolist(), x=rng.random(batch).tolist())
        ended = types == L


def naive(steps, window):
    """Returns (return, length, mean x) of whole episodes, one environment at a time."""
    batch = len(steps[0].step_type)
    found = []
    running = [None] * batch
    for time_step in steps:
        for env in range(batch):
            kind = int(time_step.step_type[env])
            if kind == F:
                running[env] = []
            elif running[env] is not None:
                running[env].append((time_step.reward[env].double().numpy(), float(time_step.env_info["x"][env])))
                if kind == L:
                    rewards, infos = zip(*running[env], strict=True)
                    found.append((np.sum(rewards, axis=0), len(rewards), np.mean(infos)))
                    running[env] = None
    return found[-window:]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 5),
    dim=st.sampled_from([0, 1, 3]),
    begin_whole=st.booleans(),
    window=st.integers(1, 30),
    cut=st.integers(1, 29),
)
def test_agrees_with_a_naive_loop_also_across_a_resume(seed, batch, dim, begin_whole, window, cut):
    steps = list(random_stream(np.random.default_rng(seed), 30, batch, dim, begin_whole))
    metrics = feed(EpisodeMetrics(window=window), steps[:cut])
    resumed = EpisodeMetrics(window=window)
    resumed.load_state_dict(metrics.state_dict())
    for candidate in (feed(metrics, steps[cut:]), feed(resumed, steps[cut:])):
        expected = naive(steps, window)
        assert len(candidate.returns) == len(expected)
        for row, (total, length, mean) in enumerate(expected):
            np.testing.assert_allclose(candidate.returns[row].numpy(), total)
            assert candidate.lengths[row] == length
            assert candidate.env_infos["x"][row] == pytest.approx(mean)
    assert metrics.environment_steps == resumed.environment_steps


def test_averages_right_after_loading_lack_only_the_entries_whose_names_come_with_the_next_step():
    metrics = feed(EpisodeMetrics(), [step([F], [0], x=[9]), step([L], [2], x=[4])])
    resumed = EpisodeMetrics()
    resumed.load_state_dict(metrics.state_dict())
    assert resumed.averages() == {"AverageReturn": 2.0, "AverageEpisodeLength": 1.0}
    feed(resumed, [step([F], [0], x=[0])])
    assert resumed.averages() == {"AverageReturn": 2.0, "AverageEpisodeLength": 1.0, "AverageEnvInfo/x": 4.0}


def test_state_is_copied_not_shared():
    metrics = feed(EpisodeMetrics(), [step([F], [0]), step([M], [1])])
    state = metrics.state_dict()
    feed(metrics, [step([M], [1])])
    assert state["running"][0, 0] == 1.0
    assert all(isinstance(value, torch.Tensor) for value in state.values())


def test_discounted_returns_by_hand():
    """With gamma 0.5 the returns of rewards 1, 2, 4 are 3, 4, 4: on average 11 / 3."""
    steps = [step([F, F], [0, 0]), step([M, M], [1, 1]), step([M, L], [2, 3]), step([L, F], [4, 0])]
    metrics = feed(AverageDiscountedReturnMetric(discount=0.5), steps)
    other = (2.5 + 3.0) / 2
    assert metrics.result() == {"AverageDiscountedReturn": pytest.approx((11 / 3 + other) / 2)}
    halved = feed(AverageDiscountedReturnMetric(discount=0.5, reward_transformer=lambda reward: reward / 2), steps)
    assert halved.result() == {"AverageDiscountedReturn": pytest.approx((11 / 3 + other) / 4)}
    plain = feed(AverageDiscountedReturnMetric(discount=1.0), steps).result()
    assert plain == {"AverageDiscountedReturn": pytest.approx(((7 + 6 + 4) / 3 + (4 + 3) / 2) / 2)}
    together = AverageDiscountedReturnMetric(discount=0.5)
    together.update_all(
        TimeStep(step_type=torch.stack([s.step_type for s in steps]), reward=torch.stack([s.reward for s in steps]))
    )
    assert together.result() == metrics.result()


def test_discounted_returns_of_vectors_go_on_after_loading():
    steps = [step([F], [[0, 0]]), step([M], [[1, 5]]), step([L], [[2, 6]], x=[1.0])]
    first, rest = AverageDiscountedReturnMetric(discount=0.5), AverageDiscountedReturnMetric(discount=0.5)
    feed(first, steps[:2])
    rest.load_state_dict(first.state_dict())
    expected = {"AverageDiscountedReturn/0": pytest.approx(2.0), "AverageDiscountedReturn/1": pytest.approx(7.0)}
    assert feed(rest, steps[2:]).result() == feed(first, steps[2:]).result() == expected
    with pytest.raises(ValueError, match="discount must be in"):
        AverageDiscountedReturnMetric(discount=1.5)
