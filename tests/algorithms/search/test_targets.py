"""Targets of models from stored episodes: by hand, at ends, across sequence lengths, and reanalyzed."""

import pytest
import torch

from rein.algorithms.search import LinearTdStepFunc, MCTSInfo, MCTSState
from rein.algorithms.search.reanalysis import Reanalysis, sample_ages
from rein.algorithms.search.target_maker import TargetMaker, TargetSettings
from rein.algorithms.search.targets import read_span, steps_to_end, uniform_actions
from rein.data_structures import AlgStep, BatchInfo, Experience, TimeStep
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec, TensorSpec

EPISODES = ("FMMMLFMMLFMMMM", "FMMMMMLFMMMMLF")
ACTION = BoundedTensorSpec((), torch.int64, 0, 99)


def filled(time_limits=(), path="", keep_episodic_info=True, sparse=False, steps=EPISODES):
    """A buffer of the two rows of steps: reward = position, value = position / 2, observation = position + 100 env."""
    info = MCTSInfo(value=TensorSpec(()), candidate_action_policy=TensorSpec((2,)))
    time_step = TimeStep(
        step_type=TensorSpec((), torch.int32),
        reward=TensorSpec(()),
        discount=TensorSpec(()),
        observation=TensorSpec(()),
        prev_action=ACTION,
        env_id=TensorSpec((), torch.int64),
    )
    nested = {path: info} if path else info
    spec = Experience(time_step=time_step, rollout_info=nested, state=MCTSState(steps=TensorSpec((), torch.int64)))
    buffer = ReplayBuffer(spec, 2, 32, keep_episodic_info=keep_episodic_info)
    for t in range(len(steps[0])):
        kinds = torch.tensor(["FML".index(row[t]) for row in steps], dtype=torch.int32)
        last = kinds == 2
        limited = torch.tensor([(e, t) in time_limits for e in range(2)])
        position = torch.full((2,), float(t))
        infos = MCTSInfo(value=position / 2, candidate_action_policy=torch.stack([position, -position], 1))
        step = TimeStep(
            step_type=kinds,
            reward=torch.where(last, position, 0.0) if sparse else position,
            discount=1.0 - (last & ~limited).float(),
            observation=position + torch.tensor([0.0, 100.0]),
            prev_action=torch.full((2,), t),
            env_id=torch.arange(2),
        )
        state = MCTSState(steps=torch.full((2,), t))
        buffer.add_batch(Experience(time_step=step, rollout_info={path: infos} if path else infos, state=state))
    return buffer


def make(buffer, positions, env_ids=None, length=1, reanalysis=None, path="", **settings):
    options = dict(
        action_spec=ACTION,
        num_unroll_steps=4,
        td_steps=2,
        discount=0.5,
        learns_rewards=True,
        learns_policy=True,
        learns_repr=False,
        random_after_end=False,
        reward_transformer=None,
    )
    maker = TargetMaker(TargetSettings(**{**options, **settings}), lambda: None, reanalysis)
    positions = torch.tensor(positions)
    env_ids = torch.zeros_like(positions) if env_ids is None else torch.tensor(env_ids)
    return maker.make(length, BatchInfo(env_ids=env_ids, positions=positions, replay_buffer=buffer), path)


@pytest.mark.parametrize("keep", [True, False])
def test_values_by_hand(keep):
    buffer = filled(keep_episodic_info=keep)
    _, target = make(buffer, [0, 13, 4])
    torch.testing.assert_close(target.value[:, 0], torch.tensor([[2.25, 3.875, 5.0, 4.0, 0.0], [6.5] * 5, [0.0] * 5]))
    _, target = make(filled(keep_episodic_info=keep, sparse=True), [0], learns_rewards=False)
    torch.testing.assert_close(target.value[0, 0], torch.tensor([0.25, 0.375, 2.0, 4.0, 4.0]))
    # Rewards before the end do not count then, whatever they are.
    _, target = make(buffer, [0], learns_rewards=False)
    torch.testing.assert_close(target.value[0, 0], torch.tensor([0.25, 0.375, 2.0, 4.0, 4.0]))
    for learns_rewards, last in ((True, 0.0), (False, 4.0)):
        _, target = make(buffer, [0], td_steps=-1, learns_rewards=learns_rewards)
        torch.testing.assert_close(target.value[0, 0], torch.tensor([0.5, 1.0, 2.0, 4.0, last]))


def test_unfinished_episodes_are_bootstrapped():
    _, target = make(filled(), [9, 13], td_steps=-1)
    # The newest step is 13, with value 6.5: (13 + 0.5 * 6.5) seen from 12, and halved for each step before.
    torch.testing.assert_close(target.value[0, 0], torch.tensor([2.03125, 4.0625, 8.125, 16.25, 6.5]))
    torch.testing.assert_close(target.value[1, 0], torch.full((5,), 6.5))
    assert target.is_partial_trajectory.tolist() == [[True], [True]]
    assert not target.game_over.any()
    limited = filled(time_limits={(0, 4)})
    _, target = make(limited, [0])
    torch.testing.assert_close(target.value[0, 0], torch.tensor([2.25, 3.875, 5.5, 5.0, 2.0]))
    assert target.is_partial_trajectory.tolist() == [[True]]
    assert not target.game_over.any()


def test_everything_else_by_hand():
    action, target = make(filled(), [2])
    assert target.reward[0, 0].tolist() == [2.0, 3.0, 4.0, 0.0, 0.0]
    assert target.beyond_episode_end[0, 0].tolist() == [False, False, False, True, True]
    assert target.game_over[0, 0].tolist() == [False, False, True, True, True]
    assert target.is_partial_trajectory.tolist() == [[False]]
    assert target.action == ()
    assert target.action_policy[0, 0, :, 0].tolist() == [2.0, 3.0, 4.0, 4.0, 4.0]
    assert action[0, 0].tolist() == [3, 4, 4, 4]
    assert target.observation == ()
    _, target = make(filled(), [2], env_ids=[1], learns_repr=True)
    assert target.observation[0, 0].tolist() == [102.0, 103.0, 104.0, 105.0, 106.0]
    _, target = make(filled(), [2], learns_repr=True, learns_policy=False)
    assert target.observation[0, 0].tolist() == [2.0, 3.0, 4.0, 4.0, 4.0]
    assert target.action_policy == ()


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("td_steps", [0, 2, 5, -1])
def test_sequences_of_all_lengths_agree(length, td_steps):
    buffer = filled(time_limits={(1, 6)})
    starts = list(range(14 - length + 1))
    for env in (0, 1):
        action, target = make(buffer, starts, [env] * len(starts), length, td_steps=td_steps)
        for offset in range(length):
            positions = [start + offset for start in starts]
            one_action, one = make(buffer, positions, [env] * len(starts), td_steps=td_steps)
            assert torch.equal(action[:, offset], one_action[:, 0])
            for name in (
                "value",
                "reward",
                "game_over",
                "beyond_episode_end",
                "action_policy",
                "is_partial_trajectory",
            ):
                torch.testing.assert_close(getattr(target, name)[:, offset], getattr(one, name)[:, 0], msg=name)


def test_ends_are_found_with_and_without_an_index():
    row = "F" + "M" * 40 + "L" + "FMML" + "FMMFMMM"
    for steps in (EPISODES, (row[:30], row[20:50]), (row[-30:], row[:30])):
        buffers = [filled(keep_episodic_info=keep, steps=steps) for keep in (True, False)]
        ids = torch.tensor([[0], [1]])
        positions = torch.arange(len(steps[0])).expand(2, -1)
        known, found = (steps_to_end(buffer, "time_step.step_type", ids, positions) for buffer in buffers)
        assert torch.equal(known, found)
        limited = steps_to_end(buffers[1], "time_step.step_type", ids, positions, limit=7)
        assert torch.equal(limited, known.clamp_max(7))


def test_what_is_stored_may_lie_deeper():
    _, target = make(filled(path="rl"), [0], path="rl")
    torch.testing.assert_close(target.value[0, 0], torch.tensor([2.25, 3.875, 5.0, 4.0, 0.0]))
    with pytest.raises(ValueError, match="without one: set train_policy=False"):
        make_without_policy()


def make_without_policy():
    from rein.algorithms.search import MuzeroInfo

    spec = Experience(
        time_step=TimeStep(
            step_type=TensorSpec((), torch.int32),
            reward=TensorSpec(()),
            discount=TensorSpec(()),
            observation=TensorSpec(()),
            prev_action=ACTION,
            env_id=TensorSpec((), torch.int64),
        ),
        rollout_info=MuzeroInfo(value=TensorSpec(())),
    )
    buffer = ReplayBuffer(spec, 1, 8)
    step = TimeStep(
        step_type=torch.zeros(1, dtype=torch.int32),
        reward=torch.zeros(1),
        discount=torch.ones(1),
        observation=torch.zeros(1),
        prev_action=torch.zeros(1, dtype=torch.int64),
        env_id=torch.zeros(1, dtype=torch.int64),
    )
    buffer.add_batch(Experience(time_step=step, rollout_info=MuzeroInfo(value=torch.zeros(1))))
    return make(buffer, [0])


def test_rewards_are_transformed_by_statistics_that_stay():
    from rein.transforms import RewardNormalizer

    normalizer = RewardNormalizer(update_mode="rollout")
    normalizer(torch.tensor([1.0, 3.0]))
    before = {name: value.clone() for name, value in normalizer.state_dict().items()}
    _, target = make(filled(), [0], reward_transformer=normalizer)
    assert normalizer.training
    after = normalizer.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with torch.no_grad():
        expected = normalizer.eval()(torch.arange(5.0))
    torch.testing.assert_close(target.reward[0, 0], expected)


def test_actions_after_the_end_may_be_random():
    torch.manual_seed(0)
    action, _ = make(filled(), [2] * 500, random_after_end=True)
    assert action[:, 0, :2].unique(dim=0).tolist() == [[3, 4]]
    assert len(action[:, 0, 2].unique()) > 60
    box = BoundedTensorSpec((2,), torch.float32, -1.0, (1.0, 3.0))
    drawn = uniform_actions(box, torch.Size((1000,)), torch.device("cpu"))
    torch.testing.assert_close(drawn.mean(0), torch.tensor([0.0, 1.0]), atol=0.15, rtol=0)


class Oracle:
    """Says of each observation: value 1000 + it, policy (it, step of its state)."""

    rollout_state_spec = MCTSState(steps=TensorSpec((), torch.int64), next_predicted_reward=TensorSpec(()))

    def __init__(self):
        self.rows = []

    def rollout_step(self, time_step, state):
        latent = time_step.observation.latent
        self.rows.append(len(latent))
        policy = torch.stack([latent, state.steps.float()], 1)
        return AlgStep(info=MCTSInfo(value=1000 + latent, candidate_action_policy=policy))

    def initial_representation(self, observation):
        return observation

    def initial_inference(self, observation):
        return MCTSInfo(value=5000 + observation)


def test_reanalysis_by_hand():
    oracle = Oracle()
    reanalysis = Reanalysis(oracle, oracle, 1.0, td_steps=1)
    _, target = make(filled(), [9], reanalysis=reanalysis, num_unroll_steps=2)
    # Steps 9 to 11 are searched, 12 is only valued: reward of the next step, and half its value.
    torch.testing.assert_close(target.value[0, 0], torch.tensor([10 + 505.0, 11 + 505.5, 12 + 2506.0]))
    assert target.action_policy[0, 0].tolist() == [[9.0, 9.0], [10.0, 10.0], [11.0, 11.0]]
    assert oracle.rows == [3]
    full = Reanalysis(oracle, oracle, 1.0, td_steps=1, searches_all=True, batch_size=3)
    _, target = make(filled(), [9], reanalysis=full, num_unroll_steps=2)
    torch.testing.assert_close(target.value[0, 0], torch.tensor([10 + 505.0, 11 + 505.5, 12 + 506.0]))
    assert oracle.rows == [3, 3, 1]


def test_a_share_is_reanalyzed():
    torch.manual_seed(0)
    oracle = Oracle()
    buffer = filled()
    _, target = make(buffer, [9] * 8, reanalysis=Reanalysis(oracle, oracle, 0.25, td_steps=1), num_unroll_steps=2)
    _, stored = make(buffer, [9], num_unroll_steps=2)
    new = target.value[:, 0, 0] > 100
    assert new.sum() == 2
    torch.testing.assert_close(target.value[~new], stored.value.expand(6, -1, -1))
    torch.testing.assert_close(target.action_policy[~new], stored.action_policy.expand(6, -1, -1, -1))
    assert (target.action_policy[new][:, 0, :, 1] == torch.tensor([9.0, 10.0, 11.0])).all()
    assert Reanalysis(oracle, oracle, 0.01, td_steps=1).rows(read_span(buffer, _info(buffer), 3)) is None


def _info(buffer):
    return BatchInfo(env_ids=torch.tensor([0, 1]), positions=torch.tensor([0, 13]), replay_buffer=buffer)


def test_ages_and_the_steps_that_go_with_them():
    buffer = filled()
    ages = sample_ages(buffer, read_span(buffer, _info(buffer), 3), progress=0.7)
    torch.testing.assert_close(ages, torch.tensor([0.7 * 13 / 14, 0.0]))
    steps = LinearTdStepFunc(max_bootstrap_age=0.5, min_td_steps=1)(torch.tensor([0.0, 0.25, 0.5, 0.9]), 5, 0.9)
    assert steps.tolist() == [5, 3, 1, 1]
    assert steps.dtype == torch.int64
    with pytest.raises(ValueError, match="must be positive"):
        LinearTdStepFunc(0.0)
