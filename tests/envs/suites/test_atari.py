import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

from rein.envs.suites import load


def test_observation_is_the_shrunken_maximum_of_the_last_two_frames():
    import cv2

    env = load("BreakoutNoFrameskip-v4", noop_max=0, fire_reset=False)
    raw = load("BreakoutNoFrameskip-v4", noop_max=0, fire_reset=False, frame_skip=1).unwrapped
    observation, _ = env.reset(seed=0)
    raw.reset(seed=0)
    assert np.array_equal(
        observation[0], cv2.resize(raw.ale.getScreenGrayscale(), (84, 84), interpolation=cv2.INTER_AREA)
    )
    for action in (1, 2, 2, 3, 0, 3):
        observation, *_ = env.step(action)
        for _ in range(4):
            before = raw.ale.getScreenGrayscale()
            raw.step(action)
        screen = np.maximum(before, raw.ale.getScreenGrayscale())
        expected = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
        assert observation.shape == (1, 84, 84)
        assert np.array_equal(observation[0], expected)


@pytest.mark.parametrize(
    ("env_name", "chance"),
    [("ALE/Pong-v5", 0.25), ("Pong", 0.25), ("PongNoFrameskip-v4", 0.0), ("Pong-v0", 0.25)],
)
def test_ids_decide_how_sticky_actions_are(env_name, chance):
    assert load(env_name)._repeat_action_probability == chance
    assert load(env_name, repeat_action_probability=0.1)._repeat_action_probability == 0.1


class Recording:
    """An emulator that remembers the actions of all frames."""

    def __init__(self, ale):
        self.ale = ale
        self.codes = []

    def __getattr__(self, name):
        return getattr(self.ale, name)

    def act(self, code):
        self.codes.append(code)
        return self.ale.act(code)


def frames_of(chance, actions):
    env = load("Pong", repeat_action_probability=chance, noop_max=0, fire_reset=False)
    env.reset(seed=0)
    env._ale = Recording(env._ale)
    for action in actions:
        env.step(action)
    return [env._actions.index(code) for code in env._ale.codes]


def test_sticky_frames_repeat_the_frame_before():
    assert frames_of(0.0, [2, 3]) == [2] * 4 + [3] * 4
    assert frames_of(1.0, [2, 3]) == [0] * 8
    frames = np.array(frames_of(0.25, [2, 3] * 100)).reshape(200, 4)
    wanted = np.array([2, 3] * 100)
    # A frame that is not the agent's repeats the one before, which was the previous step's.
    late = (frames != wanted[:, None]).sum(axis=1)
    assert all((row[:n] != a).all() and (row[n:] == a).all() for row, n, a in zip(frames, late, wanted, strict=True))
    assert np.mean(late[1:] >= 1) == pytest.approx(0.25, abs=0.09)


def test_noop_starts_differ_by_game_and_stay_within_the_limit():
    env = load("BreakoutNoFrameskip-v4", noop_max=10, fire_reset=False)
    frames = set()
    for game in range(15):
        env.reset(seed=0 if game == 0 else None)
        frames.add(env.unwrapped.ale.getEpisodeFrameNumber())
    assert min(frames) >= 1
    assert max(frames) <= 10
    assert len(frames) > 3


def test_fire_reset_launches_the_ball():
    def changes(fire_reset):
        env = load("BreakoutNoFrameskip-v4", noop_max=0, fire_reset=fire_reset)
        first, _ = env.reset(seed=0)
        for _ in range(3):
            observation, *_ = env.step(0)
        return not np.array_equal(first, observation)

    assert changes(True)
    assert not changes(False)


def play_lives(env, limit=3000):
    """Plays at random; yields (lives, terminated, really over) at every end of an episode."""
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(limit):
        _, _, terminated, truncated, info = env.step(int(rng.integers(env.action_space.n)))
        if terminated or truncated:
            yield info["lives"], env.unwrapped.ale.game_over()
            if env.unwrapped.ale.game_over():
                return
            _, info = env.reset()


def test_episodic_life_ends_episodes_but_not_the_game():
    ends = list(play_lives(load("BreakoutNoFrameskip-v4", episodic_life=True)))
    assert [lives for lives, _ in ends] == [4, 3, 2, 1, 0]
    assert [over for _, over in ends] == [False] * 4 + [True]


def test_without_episodic_life_the_game_is_the_episode():
    assert list(play_lives(load("BreakoutNoFrameskip-v4"))) == [(0, True)]


def test_rewards_are_clipped_to_their_sign_only_on_request():
    rewards = {}
    for clip in (False, True):
        env = load("SpaceInvadersNoFrameskip-v4", clip_rewards=clip)
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        rewards[clip] = [env.step(int(rng.integers(6)))[1] for _ in range(200)]
    assert max(rewards[False]) > 1.0
    assert rewards[True] == np.sign(rewards[False]).tolist()


def test_frame_limit_truncates():
    env = load("PongNoFrameskip-v4", max_num_frames_per_episode=100, noop_max=0, fire_reset=False)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(25)]
    assert ends[-1] == (False, True)
    assert not any(any(end) for end in ends[:-1])


def test_color_and_other_sizes():
    env = load("Pong", grayscale=False, screen_size=64, full_action_space=True)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (3, 64, 64)
    assert env.action_space.n == 18
    assert len({channel.tobytes() for channel in observation}) == 3


def test_observations_are_not_overwritten_by_later_steps():
    env = load("BreakoutNoFrameskip-v4")
    observation, _ = env.reset(seed=0)
    copy = observation.copy()
    for _ in range(5):
        env.step(2)
    assert np.array_equal(observation, copy)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="frame_skip=0"):
        load("Pong", frame_skip=0)
