"""Atari games with the preprocessing of the DQN papers; frames are left unstacked (a transform stacks).

Machado et al. (2018), "Revisiting the Arcade Learning Environment", section 5, discusses the choices; the defaults
here are Mnih et al. (2015) except that episodes end with the game, not with a life.
"""

import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import Suite

Image = NDArray[np.uint8]

# fmt: off
ATARI_57 = (
    "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist", "BattleZone",
    "BeamRider", "Berzerk", "Bowling", "Boxing", "Breakout", "Centipede", "ChopperCommand",
    "CrazyClimber", "Defender", "DemonAttack", "DoubleDunk", "Enduro", "FishingDerby",
    "Freeway", "Frostbite", "Gopher", "Gravitar", "Hero", "IceHockey", "Jamesbond", "Kangaroo",
    "Krull", "KungFuMaster", "MontezumaRevenge", "MsPacman", "NameThisGame", "Phoenix",
    "Pitfall", "Pong", "PrivateEye", "Qbert", "Riverraid", "RoadRunner", "Robotank", "Seaquest",
    "Skiing", "Solaris", "SpaceInvaders", "StarGunner", "Surround", "Tennis", "TimePilot",
    "Tutankham", "UpNDown", "Venture", "VideoPinball", "WizardOfWor", "YarsRevenge", "Zaxxon",
)
# fmt: on

_ALE = "ALE/"
_OLD_ID = re.compile(r"^(?P<game>[A-Za-z]+?)(?P<plain>NoFrameskip|Deterministic)?-v(?P<version>[04])$")


@configurable
class DeepMindAtari(gym.Wrapper[Image, int, Any, Any], gym.utils.RecordConstructorArgs):
    """An Atari game as agents usually see it: few actions per second, small gray images.

    Observations are uint8 [1, screen_size, screen_size] ([3, ...] in color): the pixelwise maximum of the
    last two of the `frame_skip` frames, shrunk by area. `info["lives"]` is always there.

    Args:
        env: an `ale_py.AtariEnv` made with `frameskip=1`; only its emulator is used.
        frame_skip: frames per action.
        noop_max: each game starts with 1 to `noop_max` frames of doing nothing; 0 for none.
        screen_size: height and width of the observation, in pixels.
        grayscale: whether observations have one channel instead of three.
        episodic_life: whether the loss of a life ends the episode (a termination); the game goes on in
            the next episode until it is over. For training only: returns are then per life.
        fire_reset: whether to press FIRE at the start of games, and of lives, that wait for it.
        clip_rewards: whether rewards are replaced by their signs.
        repeat_action_probability: of each frame repeating the action of the frame before instead of taking the agent's
            (sticky actions). Done here rather than by the emulator, which would not tell which action it repeats, so
            that a saved game goes on exactly.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        frame_skip: int = 4,
        noop_max: int = 30,
        screen_size: int = 84,
        grayscale: bool = True,
        episodic_life: bool = False,
        fire_reset: bool = True,
        clip_rewards: bool = False,
        repeat_action_probability: float = 0.0,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self,
            frame_skip=frame_skip,
            noop_max=noop_max,
            screen_size=screen_size,
            grayscale=grayscale,
            episodic_life=episodic_life,
            fire_reset=fire_reset,
            clip_rewards=clip_rewards,
            repeat_action_probability=repeat_action_probability,
        )
        gym.Wrapper.__init__(self, env)
        if frame_skip < 1 or noop_max < 0 or screen_size < 1:
            raise ValueError(
                "Need frame_skip >= 1, noop_max >= 0 and screen_size >= 1; "
                f"got {frame_skip=}, {noop_max=}, {screen_size=}."
            )
        import cv2

        self._resize = cv2.resize
        self._interpolation = cv2.INTER_AREA
        game: Any = env.unwrapped
        self._ale = game.ale
        self._actions = list(game._action_set)
        meanings = game.get_action_meanings()
        self._fire = meanings.index("FIRE") if fire_reset and "FIRE" in meanings[1:2] else None
        self._frame_skip = frame_skip
        self._noop_max = noop_max
        self._screen_size = screen_size
        self._episodic_life = episodic_life
        self._clip_rewards = clip_rewards
        self._repeat_action_probability = repeat_action_probability
        self._held_action = 0
        shape = self._ale.getScreenDims() + (() if grayscale else (3,))
        self._frames = np.zeros((2, *shape), np.uint8)
        self._grayscale = grayscale
        channels = 1 if grayscale else 3
        self.observation_space = spaces.Box(0, 255, (channels, screen_size, screen_size), np.uint8)
        self._lives = 0
        self._game_over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Starts a new game, or with `episodic_life` the next life of a game that is not over."""
        if seed is not None or self._game_over or not self._episodic_life:
            self._new_game(seed, options)
        else:
            self._advance(0)
            if self._ale.game_over():
                self._new_game(None, options)
        if self._fire is not None:
            self._advance(self._fire)
            if self._ale.game_over():
                self._new_game(None, options)
        self._lives = self._ale.lives()
        self._game_over = False
        return self._observe(), {"lives": self._lives}

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Repeats the action for `frame_skip` frames."""
        reward = self._advance(action)
        lives = self._ale.lives()
        terminated = self._ale.game_over(with_truncation=False)
        truncated = self._ale.game_truncated()
        self._game_over = terminated or truncated
        if self._episodic_life and 0 < lives < self._lives:
            terminated = True
        self._lives = lives
        if self._clip_rewards:
            reward = float(np.sign(reward))
        return self._observe(), reward, terminated, truncated and not terminated, {"lives": lives}

    def _new_game(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.env.reset(seed=seed, options=options)
        self._held_action = 0
        noops = int(self.env.np_random.integers(1, self._noop_max + 1)) if self._noop_max else 0
        for _ in range(noops):
            self._ale.act(self._actions[0])
            if self._ale.game_over():
                self._ale.reset_game()
        self._fetch_last()

    def _advance(self, action: int) -> float:
        """Acts for `frame_skip` frames or until the game is over; keeps the last two screens."""
        act, actions, action = self._ale.act, self._actions, int(action)
        chance = self._repeat_action_probability
        repeats = self.env.np_random.random(self._frame_skip) < chance if chance > 0.0 else None
        reward = 0.0
        for frame in range(self._frame_skip):
            if repeats is None or not repeats[frame]:
                self._held_action = action
            reward += act(actions[self._held_action])
            if self._ale.game_over():
                self._fetch_last()
                break
            remaining = self._frame_skip - 1 - frame
            if remaining < 2:
                self._fetch(self._frames[remaining])
        if self._frame_skip == 1:
            self._frames[1] = self._frames[0]
        return reward

    def _fetch(self, screen: Image) -> None:
        if self._grayscale:
            self._ale.getScreenGrayscale(screen)
        else:
            self._ale.getScreenRGB(screen)

    def _fetch_last(self) -> None:
        self._fetch(self._frames[0])
        self._frames[1] = self._frames[0]

    def _observe(self) -> Image:
        screen = np.maximum(self._frames[0], self._frames[1])
        size = (self._screen_size, self._screen_size)
        small = self._resize(screen, size, interpolation=self._interpolation)
        if small.ndim == 2:
            return small[None]
        return np.ascontiguousarray(small.transpose(2, 0, 1))


@configurable
class DMAtariPreprocessing(DeepMindAtari):
    """`DeepMindAtari` under its documented name and parameters, for a game of `suite_gym.load`.

    FIRE is pressed after a reset and also after a lost life, which does not end the episode.

    Args:
        env: an `ale_py.AtariEnv` made with `frameskip=1`; only its emulator is used.
        frame_skip: frames per action.
        noop_max: each game starts with 1 to `noop_max` frames of doing nothing; 0 for none.
        screen_size: height and width of the observation, in pixels.
        gray_scale: whether observations have one channel instead of three.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        frame_skip: int = 4,
        noop_max: int = 30,
        screen_size: int = 84,
        gray_scale: bool = True,
    ) -> None:
        super().__init__(env, frame_skip, noop_max, screen_size, gray_scale, False, True, False, 0.0)

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Repeats the action for `frame_skip` frames, and presses FIRE if that has cost a life."""
        before = self._lives
        result = super().step(action)
        if self._fire is None or self._game_over or self._lives >= before:
            return result
        reward = result[1] + self._advance(self._fire)
        over = self._ale.game_over(with_truncation=False)
        truncated = self._ale.game_truncated() and not over
        self._game_over, self._lives = over or truncated, self._ale.lives()
        return self._observe(), reward, over, truncated, {"lives": self._lives}


def _game_of(env_name: str) -> tuple[str, float | None]:
    """Returns the game's name and the chance of repeated actions that the id stands for (None: the default)."""
    if env_name.startswith(_ALE):
        return env_name.removeprefix(_ALE).removesuffix("-v5"), None
    match = _OLD_ID.match(env_name)
    if match:
        return match["game"], 0.25 if match["version"] == "0" else 0.0
    return env_name.removesuffix("-v5"), None


def _claims(env_name: str) -> bool:
    if env_name.startswith(_ALE):
        return True
    match = _OLD_ID.match(env_name)
    if match and match["plain"]:
        return True
    return _game_of(env_name)[0] in ATARI_57


def _list_ids() -> list[str]:
    import ale_py

    # Otherwise the emulator prints a banner in every process.
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)
    return [env_id for env_id in gym.registry if env_id.startswith(_ALE)]


def make_emulator(
    env_name: str,
    full_action_space: bool = False,
    max_num_frames_per_episode: int = 108_000,
    render_mode: str | None = None,
    mode: int | None = None,
    difficulty: int | None = None,
    obs_type: str = "rgb",
) -> gym.Env[Any, Any]:
    """Returns a game without any preprocessing: each step is one frame, and no action is repeated by chance.

    Args:
        env_name: "ALE/Breakout-v5", "BreakoutNoFrameskip-v4", "Breakout-v4" or "Breakout".
        full_action_space: all 18 actions instead of those that do something.
        max_num_frames_per_episode: a truncation, in emulator frames.
        render_mode: None, "rgb_array" or "human".
        mode: variant of the game.
        difficulty: of the game.
        obs_type: "rgb" or "grayscale" screens.
    """
    known = _list_ids()
    env_id = f"{_ALE}{_game_of(env_name)[0]}-v5"
    if env_id not in known:
        raise unknown_name(env_name, [*known, *ATARI_57], "Atari game")
    env = gym.make(
        env_id,
        frameskip=1,
        obs_type=obs_type,
        repeat_action_probability=0.0,
        full_action_space=full_action_space,
        max_num_frames_per_episode=max_num_frames_per_episode,
        render_mode=render_mode,
        mode=mode,
        difficulty=difficulty,
        disable_env_checker=True,
    )
    return env.unwrapped


_OF_THE_EMULATOR = ("full_action_space", "max_num_frames_per_episode", "render_mode", "mode", "difficulty")


def _make(env_name: str, repeat_action_probability: float | None = None, **kwargs: Any) -> gym.Env[Any, Any]:
    """Returns a game with DeepMind preprocessing.

    Args:
        env_name: see `make_emulator`. Ids of version 5 (and plain names) repeat the previous action with probability
            0.25, version 4 never.
        repeat_action_probability: overrides what the id stands for.
        **kwargs: for `make_emulator` and for `DeepMindAtari`.
    """
    emulator = {name: kwargs.pop(name) for name in _OF_THE_EMULATOR if name in kwargs}
    env = make_emulator(env_name, obs_type="grayscale", **emulator)
    if repeat_action_probability is None:
        chance = _game_of(env_name)[1]
        repeat_action_probability = 0.25 if chance is None else chance
    return DeepMindAtari(env, repeat_action_probability=repeat_action_probability, **kwargs)


ATARI = Suite(
    name="atari",
    description="Atari 2600 games with DeepMind preprocessing",
    extra="atari",
    modules=("ale_py", "cv2"),
    claims=_claims,
    make=_make,
    list_ids=_list_ids,
)
