"""What every toy world must do, and the best returns that they promise."""

import copy
import itertools
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rein.envs.sampling import sample_space
from rein.envs.toy import TOY_ENTRY_POINTS, register
from rein.envs.toy.balance import BalanceEnv
from rein.envs.toy.bandits import ContextualBanditEnv, IdentityContinuousEnv, IdentityEnv
from rein.envs.toy.catch import CatchEnv
from rein.envs.toy.chain import ChainEnv
from rein.envs.toy.goals import BitFlipEnv, ReachEnv
from rein.envs.toy.moving import BRAKE, MovingEnv
from rein.envs.toy.objectives import DeepSeaTreasureEnv, TwoRewardsEnv
from rein.envs.toy.random_spaces import RandomSpacesEnv, checksum
from rein.envs.toy.recall import RecallEnv
from rein.envs.toy.room import SparseRoomEnv
from rein.envs.toy.squares import BouncingSquaresEnv

TOY_IDS = sorted(TOY_ENTRY_POINTS)


def make(env_id):
    """Returns the world itself; for the wrapped CartPole, the wrapper that is the world."""
    env = gym.make(env_id, disable_env_checker=True)
    return env if "CartPole" in env_id else env.unwrapped


def play(env, policy, seed=0):
    """Returns the sum of rewards and the number of steps of one episode."""
    observation, _ = env.reset(seed=seed)
    total, steps, done = 0.0, 0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total, steps, done = total + reward, steps + 1, terminated or truncated
    return total, steps


def trajectory(env, actions):
    return [env.step(action)[:4] for action in actions]


def assert_same(a, b):
    assert str(a) == str(b)


@pytest.mark.parametrize("env_id", TOY_IDS)
def test_passes_gymnasium_checker(env_id):
    env = make(env_id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("env_id", TOY_IDS)
def test_renders_a_frame_of_one_size(env_id):
    env = gym.make(env_id, render_mode="rgb_array", disable_env_checker=True)
    env.reset(seed=0)
    before = env.render()
    env.step(env.action_space.sample())
    after = env.render()
    assert before.dtype == np.uint8
    assert before.ndim == 3
    assert before.shape == after.shape
    assert before.std() > 0


@pytest.mark.parametrize("env_id", TOY_IDS)
def test_snapshots_continue_exactly_and_observations_are_not_shared(env_id):
    env = make(env_id)
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    actions = [sample_space(env.action_space, rng) for _ in range(8)]
    first, *_ = env.step(actions[0])
    kept = copy.deepcopy(first)
    if env_id == "rein/ContextualBandit-v0":
        env.reset()
    clones = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    expected = trajectory(env, actions[1:])
    assert_same(first, kept)
    for clone in clones:
        assert_same(trajectory(clone, actions[1:]), expected)


@pytest.mark.parametrize("env_id", sorted(set(TOY_IDS) - {"rein/CartPoleNoVelocity-v1"}))
def test_state_is_plain_attributes(env_id):
    env = gym.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    before = {k for k, v in env.__dict__.items() if k != "spec" and not k.startswith("_np")}
    env.step(sample_space(env.action_space, np.random.default_rng(0)))
    plain = (int, float, str, bool, np.ndarray, np.generic, type(None), gym.Space, dict)
    for name in before:
        assert isinstance(env.__dict__[name], plain), name


@pytest.mark.parametrize("env_id", sorted(set(TOY_IDS) - {"rein/CartPoleNoVelocity-v1"}))
def test_refuses_actions_outside_the_space(env_id):
    env = gym.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="not in"):
        env.step("nonsense")


@pytest.mark.parametrize("name", ["Balance", "Reach", "BitFlip", "SparseRoom", "Moving", "TwoRewards", "RandomSpaces"])
def test_env_info_is_reported_at_every_step(name):
    env = gym.make(f"rein/{name}-v0", disable_env_checker=True)
    space = env.get_wrapper_attr("env_info_space")
    _, info = env.reset(seed=0)
    infos = [info, env.step(env.action_space.sample())[4]]
    for info in infos:
        assert all(space[name].contains(np.asarray(info[name])) for name in space)


def test_registering_again_is_harmless_and_versions_are_kept():
    register()
    assert gym.spec("rein/CartPoleNoVelocity-v1").max_episode_steps == 500


def test_refuses_an_unknown_render_mode():
    with pytest.raises(ValueError, match="human"):
        ChainEnv(render_mode="human")


def test_identity_best_policy_earns_the_promised_return():
    env = IdentityEnv(num_values=5, episode_length=7)
    assert play(env, lambda shown: int(shown.argmax())) == (env.optimal_return, 7)
    assert play(env, lambda shown: int((shown.argmax() + 1) % 5))[0] == 0.0


def test_continuous_identity_punishes_by_squared_distance():
    env = IdentityContinuousEnv(dim=2, episode_length=3)
    assert play(env, lambda shown: shown)[0] == 0.0
    shown, _ = env.reset(seed=1)
    wrong = np.clip(shown + 0.5, -1, 1)
    assert env.step(wrong)[1] == pytest.approx(-np.mean((wrong - shown) ** 2))


def test_contextual_bandit_best_policy_reaches_the_optimum_on_average():
    env = ContextualBanditEnv(noise=0.0)
    best = env.mean_rewards.argmax(axis=1)
    env.reset(seed=0)
    returns = [play(env, lambda c: int(best[c.argmax()]), seed=s)[0] for s in range(400)]
    assert np.mean(returns) == pytest.approx(env.optimal_return, abs=0.03)
    assert np.array_equal(env.mean_rewards, ContextualBanditEnv().mean_rewards)


def hold_up(shown):
    """Torque against angle and speed."""
    return np.clip([-20.0 * shown[1] - 5.0 * shown[2]], -2.0, 2.0).astype(np.float32)


def test_balance_moves_and_pays_as_pendulum_does():
    env, pendulum = BalanceEnv(), gym.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    pendulum.reset(seed=0)
    pendulum.state = np.array([env._angle, env._speed])
    rng = np.random.default_rng(1)
    for _ in range(100):
        action = rng.uniform(-2.0, 2.0, 1).astype(np.float32)
        ours, theirs = env.step(action), pendulum.step(action)
        assert ours[0] == pytest.approx(theirs[0], abs=1e-4)
        assert ours[1] == pytest.approx(theirs[1], abs=1e-4)


def test_balance_is_held_up_and_pushes_cost():
    calm = [play(BalanceEnv(), hold_up, seed)[0] for seed in range(5)]
    pushed = [play(BalanceEnv(push=0.3), hold_up, seed)[0] for seed in range(5)]
    assert min(calm) > -1.0
    assert -2.0 < np.mean(pushed) < np.mean(calm) - 0.3


def test_balance_is_lost_once_it_has_fallen():
    env = BalanceEnv(max_steps=400)
    _, info = env.reset(seed=0)
    assert info["is_success"] == 1.0
    heights, held = [], []
    for _ in range(400):
        shown, *_, info = env.step(np.full(1, 2.0, np.float32))
        heights.append(shown[0])
        held.append(info["is_success"])
    first = int(np.argmax(np.array(heights) < 0.0))
    assert held == [1.0] * first + [0.0] * (400 - first)
    assert max(heights[first:]) > 0.0


def test_balance_pushes_last_for_two_steps():
    env = BalanceEnv(push=0.1)
    env.reset(seed=0)
    torques, rest = [], np.zeros(1, np.float32)
    for _ in range(100_000):
        env._angle = env._speed = 0.0
        env.step(rest)
        torques.append(env._speed / 0.15)
    torques = np.array(torques)
    assert torques.std() == pytest.approx(0.2 * 2**0.5, rel=0.02)
    assert np.mean(torques[1:] * torques[:-1]) == pytest.approx(0.04, rel=0.05)
    assert np.mean(torques[2:] * torques[:-2]) == pytest.approx(0.0, abs=0.002)


def test_chain_goes_right_for_the_documented_return():
    total, steps = play(ChainEnv(), lambda _: 1)
    assert total == pytest.approx(0.96)
    assert steps == 4
    assert ChainEnv().optimal_return() == pytest.approx(0.96)


def test_chain_going_left_is_truncated_not_terminated():
    env = ChainEnv(num_states=3, max_steps=2)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[2:4] == (False, True)


@pytest.mark.parametrize("left_reward", [0.0, 0.1, 0.5])
def test_chain_optimum_equals_brute_force(left_reward):
    env = ChainEnv(num_states=3, step_cost=0.05, left_reward=left_reward, max_steps=5)

    def value(plan):
        plan = iter(plan)
        return play(env, lambda _: next(plan))[0]

    best = max(value(plan) for plan in itertools.product((0, 1), repeat=5))
    assert env.optimal_return() == pytest.approx(best)


def test_chain_slips_at_the_given_rate():
    env = ChainEnv(num_states=2, slip=0.3, max_steps=1)
    returns = [play(env, lambda _: 1, seed=s)[0] for s in range(500)]
    assert np.mean(np.array(returns) > 0) == pytest.approx(0.7, abs=0.06)
    assert env.optimal_return() == pytest.approx(0.7 - 0.01)


@pytest.mark.parametrize("delay", [1, 3])
def test_recall_needs_memory(delay):
    env = RecallEnv(num_cues=3, delay=delay)
    questions, cues = [], []
    for seed in range(30):
        cue, _ = env.reset(seed=seed)
        cues.append(int(cue.argmax()))
        for _ in range(delay):
            observation, reward, terminated, *_ = env.step(0)
            assert (reward, terminated) == (0.0, False)
        questions.append(observation)
        assert env.step(cues[-1])[1:3] == (1.0, True)
    assert set(cues) == {0, 1, 2}
    # The question is the same whatever the cue was: nothing but memory can answer it.
    assert all(np.array_equal(question, questions[0]) for question in questions)


def test_recall_wrong_answer_pays_nothing():
    env = RecallEnv()
    cue, _ = env.reset(seed=0)
    env.step(0)
    assert env.step(1 - int(cue.argmax()))[1:3] == (0.0, True)


@pytest.mark.parametrize("body", ["point", "arm"])
def test_reach_rewards_and_vectorised_relabelling_agree(body):
    env = ReachEnv(body=body)
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    achieved, desired, rewards = [], [], []
    for step in range(50):
        observation, reward, terminated, truncated, info = env.step(rng.uniform(-1, 1, 2).astype(np.float32))
        assert not terminated
        assert truncated == (step == 49)
        assert info["is_success"] == (reward == 0.0)
        achieved.append(observation["achieved_goal"])
        desired.append(observation["desired_goal"])
        rewards.append(reward)
    batch = env.compute_reward(np.stack(achieved), np.stack(desired), {})
    assert batch.shape == (50,)
    assert batch.tolist() == rewards
    own = env.compute_reward(np.stack(achieved), np.stack(achieved), {})
    assert (own == 0.0).all()
    grid = env.compute_reward(np.stack(achieved).reshape(5, 10, 2), np.zeros(2), {})
    assert grid.shape == (5, 10)


def test_reach_greedy_policy_arrives_and_stays():
    env = ReachEnv()

    def greedy(observation):
        gap = observation["desired_goal"] - observation["achieved_goal"]
        return np.clip(gap / env.speed, -1.0, 1.0).astype(np.float32)

    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        gap = observation["desired_goal"] - observation["achieved_goal"]
        fastest = int(np.ceil(np.abs(gap).max() / env.speed))
        total, _ = play(env, greedy, seed)
        assert -fastest <= total <= 0.0
        assert total > -15


def test_reach_arm_tip_follows_the_joint_angles():
    env = ReachEnv(body="arm")
    env.reset(seed=0)
    env._pose = np.array([np.pi / 2, -np.pi / 2])
    assert env._tip(env._pose) == pytest.approx([0.5, 0.5])


def test_bit_flip_best_policy_needs_the_hamming_distance():
    env = BitFlipEnv(num_bits=6)
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        distance = int((observation["observation"] != observation["desired_goal"]).sum())
        assert distance > 0
        total, steps = play(env, lambda o: int((o["achieved_goal"] != o["desired_goal"]).argmax()), seed)
        assert (total, steps) == (-(distance - 1.0), distance)


def test_bit_flip_relabels_batches():
    env = BitFlipEnv(num_bits=3)
    a = np.array([[[1, 0, 1], [0, 0, 0]]], np.float32)
    b = np.array([[[1, 0, 1], [0, 1, 0]]], np.float32)
    assert env.compute_reward(a, b, {}).tolist() == [[0.0, -1.0]]


def test_deep_sea_front_is_reached_by_going_right_then_down():
    env = DeepSeaTreasureEnv()
    for column, expected in enumerate(env.pareto_front):
        plan = iter([3] * column + [1] * 20)
        total, _ = play(env, lambda _, plan=plan: next(plan))
        assert total.tolist() == expected.tolist()
    front = env.pareto_front
    assert (np.diff(front[:, 0]) > 0).all()
    assert (np.diff(front[:, 1]) < 0).all()
    assert front[-1].tolist() == [124.0, -19.0]


def test_deep_sea_walls_hold():
    env = DeepSeaTreasureEnv(max_steps=3)
    env.reset(seed=0)
    for action in (0, 2):
        observation, *_ = env.step(action)
        assert observation.tolist() == [0.0, 0.0]
    assert env.step(0)[2:4] == (False, True)


def test_two_rewards_constant_speed_is_the_constrained_optimum():
    env = TwoRewardsEnv()
    total, _ = play(env, lambda _: np.zeros(1, np.float32))
    assert total == pytest.approx(env.optimal_return)
    assert total == pytest.approx([5.0, -2.5])
    fast, _ = play(env, lambda _: np.ones(1, np.float32))
    assert fast == pytest.approx([10.0, -10.0])
    speeds = iter([-1.0, 1.0] * 5)
    spread, _ = play(env, lambda _: np.array([next(speeds)], np.float32))
    assert spread[0] == pytest.approx(5.0)
    assert spread[1] < env.optimal_return[1]


def test_moving_scripted_policy_attains_the_documented_optimum():
    env = MovingEnv()
    returns = []
    for seed in range(300):
        env.reset(seed=seed)
        best = env.optimal_return()
        total, steps = play(env, lambda _: env.scripted_action(), seed)
        assert total == pytest.approx(best, abs=1e-5)
        assert steps < env.max_steps
        returns.append(total)
    assert np.mean(returns) == pytest.approx(1.85, abs=0.04)


def test_moving_no_random_episode_beats_the_optimum():
    env = MovingEnv()
    rng = np.random.default_rng(0)
    totals = []
    for seed in range(100):
        env.reset(seed=seed)
        best = env.optimal_return()
        total, _ = play(env, lambda _: sample_space(env.action_space, rng), seed)
        assert total <= best + 1e-6
        totals.append(total)
    assert np.mean(totals) == pytest.approx(-0.55, abs=0.2)


def test_moving_braking_outside_pays_only_the_step_cost():
    env = MovingEnv()
    env.reset(seed=0)
    _, reward, terminated, *_ = env.step((BRAKE, np.zeros(2, np.float32)))
    assert reward == pytest.approx(-env.step_cost)
    assert not terminated


def test_moving_refuses_speeds_that_jump_over_the_disc():
    with pytest.raises(ValueError, match="jump over"):
        MovingEnv(max_speed=0.5, radius=0.1)


def test_room_wall_blocks_the_straight_way_and_the_gap_leads_through():
    env = SparseRoomEnv()
    total, steps = play(env, lambda _: np.array([1.0, 0.0], np.float32))
    assert (total, steps) == (0.0, env.max_steps)

    def around(position):
        x, y = position
        if x < 0.5:
            move = (1.0, 0.0) if y > 0.75 else (0.0, 1.0)
        else:
            move = (0.85 - x, 0.15 - y)
        return np.clip(np.array(move) * 20, -1, 1).astype(np.float32)

    total, steps = play(env, around)
    assert total == env.optimal_return
    assert steps < 60


def test_squares_bounce_and_stay_inside():
    env = BouncingSquaresEnv(num_squares=4)
    env.reset(seed=0)
    corners = []
    for _ in range(100):
        env.step(0)
        corners.append(env._corners.copy())
    corners = np.array(corners)
    assert corners.min() >= 0
    assert corners.max() <= env.image_size - env.square_size
    assert set(np.abs(np.diff(corners[:, 0], axis=0)).ravel()) == {1}


def test_squares_chasing_pays():
    env = BouncingSquaresEnv()

    def chase(_):
        gap = env._corners[0] - env._player
        axis = int(np.abs(gap).argmax())
        if gap[axis] == 0:
            return 0
        return 1 + 2 * axis + int(gap[axis] > 0)

    total, _ = play(env, chase)
    assert total > 60


@pytest.mark.parametrize(("column", "drift"), itertools.product(range(12), (-1, 0, 1)))
def test_a_ball_is_caught_by_following_it(column, drift):
    env = CatchEnv()
    image, _ = env.reset(seed=0)
    env._column, env._drift = column, drift
    for step in range(11):
        image, reward, terminated, _, _ = env.step(1 + int(np.sign(env._column - env._paddle)))
        assert (image == 255).sum() == 1
        assert terminated == (step == 10)
    assert reward == 1.0


def test_a_ball_that_is_missed_costs():
    env = CatchEnv()
    env.reset(seed=0)
    env._column, env._drift = 0, 0
    rewards = [env.step(2)[1] for _ in range(11)]
    assert rewards == [0.0] * 10 + [-1.0]
    assert (env._observe()[-1, :, 0] == [255, *[0] * 8, 128, 128, 128]).all()
    with pytest.raises(ValueError, match="must be odd"):
        CatchEnv(paddle_size=2)


@pytest.mark.parametrize("spaces_seed", range(60))
def test_random_spaces_are_determined_by_their_seeds(spaces_seed):
    rng = np.random.default_rng(7)
    envs = [RandomSpacesEnv(spaces_seed=spaces_seed, reward_dim=spaces_seed % 3) for _ in range(2)]
    assert envs[0].observation_space == envs[1].observation_space
    actions = [sample_space(envs[0].action_space, rng) for _ in range(5)]
    runs = []
    for env in envs:
        observation, _ = env.reset(seed=5)
        assert env.observation_space.contains(observation)
        runs.append([observation, *trajectory(env, actions)])
    assert_same(*runs)
    assert envs[0].action_space.contains(actions[0])


def test_random_spaces_reward_reveals_a_changed_action():
    env = RandomSpacesEnv(spaces_seed=1)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    values = {checksum(sample_space(env.action_space, rng)) for _ in range(10)}
    assert len(values) > 1
    assert checksum({"a": np.array([1.0, 0.5]), "b": 1}) != checksum({"a": np.array([0.5, 1.0]), "b": 1})


def test_random_spaces_cover_all_kinds():
    kinds = set()

    def visit(space):
        kinds.add(type(space).__name__)
        children = getattr(space, "spaces", ())
        for child in children.values() if isinstance(children, dict) else children:
            visit(child)

    for seed in range(60):
        env = RandomSpacesEnv(spaces_seed=seed)
        visit(env.observation_space)
        visit(env.action_space)
    assert kinds == {"Dict", "Tuple", "Box", "Discrete", "MultiDiscrete", "MultiBinary"}


def test_cart_pole_without_velocities_shows_position_and_angle_only():
    env = gym.make("rein/CartPoleNoVelocity-v1")
    observation, _ = env.reset(seed=0)
    assert observation.shape == (2,)
    assert np.array_equal(observation, np.asarray(env.unwrapped.state, np.float32)[[0, 2]])
