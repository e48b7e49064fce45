"""Hindsight relabelling: by hand on numbered goals, and with the built-in reaching task."""

import warnings
from functools import partial

import pytest
import torch

from rein import nest
from rein.data_structures import BatchInfo, Experience, StepType, TimeStep
from rein.envs.toy.goals import ReachEnv
from rein.replay import ReplayBuffer
from rein.specs import TensorSpec, extract_spec
from rein.transforms import HindsightExperienceTransformer, l2_dist_close_reward_fn

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST
SPEC = {"achieved_goal": TensorSpec((1,)), "desired_goal": TensorSpec((1,)), "observation": TensorSpec((2,))}


def goal_step(step_type, achieved, desired=-1.0, reward=-1.0, discount=1.0):
    """One step of one environment, [1, ...]."""
    return Experience(
        time_step=TimeStep(
            step_type=torch.tensor([step_type], dtype=torch.int32),
            reward=torch.as_tensor(reward, dtype=torch.float32)[None],
            discount=torch.tensor([discount]),
            observation={
                "achieved_goal": torch.as_tensor(achieved, dtype=torch.float32).reshape(1, -1),
                "desired_goal": torch.as_tensor(desired, dtype=torch.float32).reshape(1, -1),
                "observation": torch.zeros(1, 2),
            },
        )
    )


def numbered_buffer(step_types, max_length=32, **kwargs):
    """A buffer of one environment where the goal achieved at each step is its position."""
    reward = kwargs.pop("reward", -1.0)
    steps = [
        goal_step(kind, position, reward=torch.zeros_like(torch.as_tensor(reward)) if kind == F else reward)
        for position, kind in enumerate(step_types)
    ]
    buffer = ReplayBuffer(extract_spec(steps[0]), 1, max_length, keep_episodic_info=True, **kwargs)
    for step in steps:
        buffer.add_batch(step)
    return buffer


def at(buffer, start, length, times):
    """The same sequence of the buffer, `times` times."""
    positions = torch.full((times,), start)
    env_ids = torch.zeros(times, dtype=torch.int64)
    data = buffer.get_field(
        nest.map_structure_with_path(lambda path, _: path, buffer.data_spec),
        env_ids[:, None],
        positions[:, None] + torch.arange(length),
    )
    return data._replace(batch_info=BatchInfo(env_ids, positions, (), buffer), replay_buffer=buffer)


def goals_of(experience):
    return experience.observation["desired_goal"].squeeze(-1)


def test_the_new_goal_is_achieved_from_the_last_step_of_the_sequence_to_the_end_of_the_episode():
    torch.manual_seed(0)
    buffer = numbered_buffer([F, M, L, F, M, M, M, L, F, M])
    transformer = HindsightExperienceTransformer(SPEC, her_proportion=1.0)
    experience = at(buffer, start=4, length=2, times=400)
    relabelled = transformer.transform_experience(experience)
    goals = goals_of(relabelled)
    assert torch.equal(goals[:, 0], goals[:, 1])
    counts = torch.bincount(goals[:, 0].to(torch.int64), minlength=10)
    assert counts.nonzero().squeeze(1).tolist() == [5, 6, 7]
    assert (counts[5:8] - 400 / 3).abs().max() < 50  # five standard deviations
    # Step 4 achieved 4 and step 5 achieved 5, so only goal 5 is reached, at the second step.
    assert relabelled.reward[:, 0].eq(-1).all()
    assert torch.equal(relabelled.reward[:, 1], torch.where(goals[:, 1] == 5, 0.0, -1.0))
    assert torch.equal(relabelled.step_type, experience.step_type)
    assert torch.equal(relabelled.discount, experience.discount)


def test_an_episode_that_goes_on_offers_what_is_recorded_so_far():
    torch.manual_seed(0)
    buffer = numbered_buffer([F, M, L, F, M, M, M])
    transformer = HindsightExperienceTransformer(SPEC, her_proportion=1.0)
    goals = goals_of(transformer.transform_experience(at(buffer, start=3, length=2, times=200)))
    assert goals.unique().tolist() == [4, 5, 6]


def test_each_episode_in_a_sequence_gets_a_goal_of_its_own():
    torch.manual_seed(0)
    buffer = numbered_buffer([F, M, M, L, F, L, F, M, M, M, L])
    transformer = HindsightExperienceTransformer(SPEC, her_proportion=1.0)
    relabelled = transformer.transform_experience(at(buffer, start=1, length=7, times=300))
    goals = goals_of(relabelled)  # of positions 1 to 7
    assert goals[:, :3].unique().tolist() == [3]
    assert goals[:, 3:5].unique().tolist() == [5]
    assert goals[:, 5:].unique().tolist() == [7, 8, 9, 10]
    assert torch.equal(goals[:, 5], goals[:, 6])
    # FIRST steps (positions 4 and 6) keep reward 0; LAST ones achieve their own goal.
    assert relabelled.reward[:, :6].unique(dim=0).tolist() == [[-1, -1, 0, 0, 0, 0]]
    assert torch.equal(relabelled.reward[:, 6], torch.where(goals[:, 6] == 7, 0.0, -1.0))


def test_an_episode_may_end_without_a_last_step():
    buffer = numbered_buffer([F, M, M, F, M])
    transformer = HindsightExperienceTransformer(SPEC, her_proportion=1.0)
    goals = goals_of(transformer.transform_experience(at(buffer, start=1, length=4, times=20)))
    assert goals.unique(dim=0).tolist() == [[2, 2, 4, 4]]


def test_episodes_whose_beginning_or_ring_is_overwritten_are_relabelled_alike():
    torch.manual_seed(0)
    buffer = numbered_buffer([F] + [M] * 11 + [L, F, M], max_length=8)  # stored: 7 to 14
    transformer = HindsightExperienceTransformer(SPEC, her_proportion=1.0)
    goals = goals_of(transformer.transform_experience(at(buffer, start=7, length=2, times=300)))
    assert goals.unique().tolist() == [8, 9, 10, 11, 12]


def test_nothing_is_written_into_what_was_sampled_or_stored():
    buffer = numbered_buffer([F, M, M, M, L])
    stored = nest.map_structure(torch.clone, buffer.buffer)
    experience = at(buffer, start=0, length=5, times=4)
    sampled = nest.map_structure(torch.clone, experience.time_step)
    HindsightExperienceTransformer(SPEC, her_proportion=1.0).transform_experience(experience)
    assert all(map(torch.equal, nest.flatten(stored), nest.flatten(buffer.buffer)))
    assert all(map(torch.equal, nest.flatten(sampled), nest.flatten(experience.time_step)))


def test_about_the_given_share_is_relabelled_and_the_rest_left_alone():
    torch.manual_seed(0)
    buffer = numbered_buffer([F, M, M, M, L])
    experience = at(buffer, start=1, length=2, times=2000)
    relabelled = HindsightExperienceTransformer(SPEC, her_proportion=0.3).transform_experience(experience)
    is_new = goals_of(relabelled)[:, 0] != -1
    assert abs(float(is_new.float().mean()) - 0.3) < 0.05
    assert goals_of(relabelled)[~is_new].eq(-1).all()
    assert torch.equal(relabelled.reward[~is_new], experience.reward[~is_new])
    unchanged = HindsightExperienceTransformer(SPEC, her_proportion=0.0).transform_experience(experience)
    assert unchanged is experience


def test_the_same_seed_relabels_alike():
    buffer = numbered_buffer([F, M, M, M, L])
    transformer = HindsightExperienceTransformer(SPEC)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(transformer.transform_experience(at(buffer, start=1, length=2, times=50)))
    assert torch.equal(goals_of(results[0]), goals_of(results[1]))


def test_recorded_returns_of_relabelled_sequences_become_unknown():
    torch.manual_seed(0)
    steps = [goal_step(F, 0, reward=0.0), goal_step(M, 1), goal_step(L, 2, discount=0.0)]
    buffer = ReplayBuffer(extract_spec(steps[0]), 1, 8, record_episodic_return=True, gamma=0.5, default_return=-77.0)
    for step in steps:
        buffer.add_batch(step)
    data, info = buffer.get_batch(64, 2)
    recorded = info.discounted_return.clone()
    assert recorded[:, 0].unique().tolist() == [-1.5, -1.0]
    experience = data._replace(batch_info=info, replay_buffer=buffer)
    relabelled = HindsightExperienceTransformer(SPEC, her_proportion=0.5).transform_experience(experience)
    is_new = goals_of(relabelled)[:, 0] != -1
    assert 0 < int(is_new.sum()) < 64
    assert relabelled.batch_info.discounted_return[is_new].eq(-77.0).all()
    assert torch.equal(relabelled.batch_info.discounted_return[~is_new], info.discounted_return[~is_new])
    assert torch.equal(info.discounted_return, recorded)
    assert relabelled.batch_info.replay_buffer is buffer


def test_vector_rewards_come_from_a_vector_reward_function():
    def both(achieved, desired):
        close = l2_dist_close_reward_fn(achieved, desired)
        return torch.stack([close, 2 * close], -1)

    buffer = numbered_buffer([F, M, L], reward=[-1.0, -2.0])
    experience = at(buffer, start=1, length=2, times=5)
    relabelled = HindsightExperienceTransformer(SPEC, 1.0, reward_fn=both).transform_experience(experience)
    assert relabelled.reward.unique(dim=0).tolist() == [[[-1, -2], [0, 0]]]
    with pytest.raises(
        ValueError, match=r"reward_fn returned \(5, 2\) where the stored rewards have shape \(5, 2, 2\)"
    ):
        HindsightExperienceTransformer(SPEC, 1.0).transform_experience(experience)


# The built-in reaching task.


def reach_buffer(num_episodes, max_steps, max_length):
    """ReachEnv with random actions in a buffer; returns also all steps by position."""
    env = ReachEnv(max_steps=max_steps)
    env.action_space.seed(0)
    steps = []
    for episode in range(num_episodes):
        seen, _ = env.reset(seed=episode)
        steps.append((F, seen, 0.0))
        is_over = False
        while not is_over:
            seen, reward, _, is_over, _ = env.step(env.action_space.sample())
            steps.append((L if is_over else M, seen, reward))
    stored = []
    for kind, seen, reward in steps:
        observation = {name: torch.from_numpy(value)[None].clone() for name, value in seen.items()}
        time_step = TimeStep(
            torch.tensor([kind], dtype=torch.int32), torch.tensor([reward]), torch.ones(1), observation
        )
        stored.append(Experience(time_step=time_step))
    buffer = ReplayBuffer(extract_spec(stored[0]), 1, max_length, keep_episodic_info=True)
    for step in stored:
        buffer.add_batch(step)
    return env, buffer, stored


def test_relabelled_goals_and_rewards_of_the_reaching_task():
    torch.manual_seed(0)
    max_steps = 9
    env, buffer, stored = reach_buffer(num_episodes=8, max_steps=max_steps, max_length=45)
    spec = stored[0].time_step.observation
    rule = partial(l2_dist_close_reward_fn, threshold=env.tolerance)
    transformer = HindsightExperienceTransformer(extract_spec(spec), her_proportion=0.8, reward_fn=rule)
    data, info = buffer.get_batch(40, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the rule is that of the environment, so there is nothing to warn of
        relabelled = transformer.transform_experience(data._replace(batch_info=info, replay_buffer=buffer))
    episode_length = max_steps + 1
    num_relabelled = num_reached = 0
    for row in range(40):
        for time in range(3):
            position = int(info.positions[row]) + time
            original = stored[position].time_step
            episode = position // episode_length
            goal = relabelled.observation["desired_goal"][row, time]
            achieved = relabelled.observation["achieved_goal"][row, time]
            assert torch.equal(achieved, original.observation["achieved_goal"][0])
            if torch.equal(goal, original.observation["desired_goal"][0]):
                assert relabelled.reward[row, time] == original.reward[0]
                continue
            num_relabelled += 1
            last = min(int(info.positions[row]) + 2, (episode + 1) * episode_length - 1)
            candidates = range(last, (episode + 1) * episode_length)
            assert any(torch.equal(goal, stored[p].time_step.observation["achieved_goal"][0]) for p in candidates)
            expected = 0.0 if original.step_type[0] == F else float(env.compute_reward(achieved.numpy(), goal.numpy()))
            assert float(relabelled.reward[row, time]) == expected
            num_reached += expected == 0.0
    assert 60 < num_relabelled < 120
    assert num_reached > 10


def test_a_reward_rule_that_is_not_that_of_the_environment_is_told():
    steps = [goal_step(F, 0.0, desired=0.0, reward=0.0), goal_step(M, 0.08, desired=0.0, reward=0.0)]
    buffer = ReplayBuffer(extract_spec(steps[0]), 1, 8, keep_episodic_info=True)
    for step in steps:
        buffer.add_batch(step)
    transformer = HindsightExperienceTransformer(SPEC)
    experience = at(buffer, start=0, length=2, times=3)
    with pytest.warns(UserWarning, match="other rewards than the environment gave in 3 of 6 sampled steps"):
        transformer.transform_experience(experience)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transformer.transform_experience(experience)


# The default reward function.


def test_close_goals_are_rewarded_with_zero_others_with_minus_one():
    goal = torch.zeros(1, 3, 2)
    achieved = torch.tensor([[[0.03, 0.03], [0.04, 0.04], [0.0, 0.0]]])
    assert l2_dist_close_reward_fn(achieved, goal).tolist() == [[0, -1, 0]]
    assert l2_dist_close_reward_fn(achieved, goal, threshold=0.06).tolist() == [[0, 0, 0]]
    assert l2_dist_close_reward_fn(torch.tensor([[0.5]]), torch.tensor([[0.25]]), threshold=0.25).tolist() == [[-1]]


def test_goals_of_any_shape_and_type():
    assert l2_dist_close_reward_fn(torch.zeros(2, 3), torch.zeros(2, 3)).shape == (2, 3)
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    assert l2_dist_close_reward_fn(images, images + 1).eq(-1).all()
    assert l2_dist_close_reward_fn(images, images).dtype == torch.float32


# What it asks for.


def test_while_acting_nothing_changes():
    transformer = HindsightExperienceTransformer(SPEC)
    time_step = goal_step(F, 0).time_step
    assert transformer.transform_timestep(time_step, ()) == (time_step, ())
    assert transformer.transformed_observation_spec is SPEC
    assert transformer.state_spec == ()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"her_proportion": 1.5}, "her_proportion is 1.5"),
        ({"achieved_goal_field": "time_step.observation.achieved"}, "achieved_goal_field is .* has achieved_goal"),
        ({"desired_goal_field": "time_step.observation.observation"}, "the goals do not match"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        HindsightExperienceTransformer(SPEC, **kwargs)


def test_a_buffer_that_knows_no_episodes_is_refused():
    step = goal_step(F, 0)
    buffer = ReplayBuffer(extract_spec(step), 1, 8)
    buffer.add_batch(step)
    with pytest.raises(ValueError, match="keep_episodic_info=True"):
        HindsightExperienceTransformer(SPEC, 1.0).transform_experience(at(buffer, start=0, length=1, times=2))
