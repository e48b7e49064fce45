import subprocess
import sys
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest

from rein.envs import suites
from rein.envs.suites import MissingSuiteError, available_suites, load, suite_of
from rein.envs.suites.suite import Suite
from rein.envs.video import render_frame

ONE_OF_EACH = {
    "rein/BouncingSquares-v0": "toy",
    "CartPole-v1": "classic",
    "FrozenLake-v1": "toy_text",
    "LunarLander-v3": "box2d",
    "Hopper-v5": "mujoco",
    "boards/tic_tac_toe": "boards",
    "pettingzoo/tictactoe_v3": "pettingzoo",
    "boards/connect_four": "boards",
    "boards/go": "boards",
    "dm_control/cartpole-swingup": "dm_control",
    "MiniGrid-Empty-5x5-v0": "minigrid",
    "ALE/Breakout-v5": "atari",
    "PongNoFrameskip-v4": "atari",
}


@pytest.mark.parametrize(("env_name", "suite"), ONE_OF_EACH.items())
def test_one_id_of_each_suite_steps_and_renders_headless(env_name, suite):
    assert suite_of(env_name).name == suite
    env = load(env_name, render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(10):
        assert env.observation_space.contains(observation)
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert np.isfinite(reward)
        if terminated or truncated:
            observation, _ = env.reset()
    frame = render_frame(env)
    assert frame.dtype == np.uint8
    assert frame.std() > 0
    env.close()


@pytest.mark.parametrize(
    "env_name",
    [name for name in ONE_OF_EACH if name != "boards/connect_four"],
)
def test_the_same_seed_gives_the_same_trajectory(env_name):
    runs = []
    for _ in range(2):
        env = load(env_name)
        env.action_space.seed(3)
        run = [env.reset(seed=5)[0]]
        for _ in range(15):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            run.append((observation, reward, terminated))
            if terminated or truncated:
                run.append(env.reset()[0])
        runs.append(run)
        env.close()
    assert str(runs[0]) == str(runs[1])


def test_listing_names_every_suite_and_ids_that_load():
    infos = {info.name: info for info in available_suites()}
    assert set(ONE_OF_EACH.values()) | {"registered"} == set(infos)
    for env_name, suite in ONE_OF_EACH.items():
        if env_name != "PongNoFrameskip-v4":
            assert env_name in infos[suite].ids
    assert all(not env_id.endswith("-v4") for env_id in infos["mujoco"].ids)
    assert infos["atari"].extra == "atari"
    assert infos["toy"].installed


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Hopper-v4", "Hopper-v5"),
        ("HalfCheetah-v2", "HalfCheetah-v5"),
        ("LunarLander-v2", "LunarLander-v3"),
        ("CartPole", "CartPole-v1"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("rein/Chain-v7", "rein/Chain-v0"),
    ],
)
def test_other_versions_are_refused_with_the_one_to_use(asked, answer):
    with pytest.raises(ValueError, match=f"use {answer}"):
        load(asked)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("halfcheetah-v5", "HalfCheetah-v5"),
        ("ALE/Brakout-v5", "ALE/Breakout-v5"),
        ("breakout", "ALE/Breakout-v5"),
        ("boards/conect_four", "boards/connect_four"),
        ("dm_control/cheeta-run", "dm_control/cheetah-run"),
        ("rein/Chian-v0", "rein/Chain-v0"),
        ("MiniGrid-Emty-5x5-v0", "MiniGrid-Empty-5x5-v0"),
    ],
)
def test_typos_get_the_nearest_name(asked, meant):
    with pytest.raises(ValueError, match=f"Did you mean .*'{meant}'"):
        load(asked)


def test_names_that_resemble_nothing_and_non_strings():
    with pytest.raises(ValueError, match="no environment 'Qwxyzzy-v1'"):
        load("Qwxyzzy-v1")
    with pytest.raises(TypeError, match="string"):
        load(3)


@pytest.mark.parametrize(
    ("env_name", "module", "extra"),
    [
        ("ALE/Pong-v5", "ale_py", "atari"),
        ("PongNoFrameskip-v4", "ale_py", "atari"),
        ("Pong", "cv2", "atari"),
        ("Hopper-v5", "mujoco", "mujoco"),
        ("LunarLander-v3", "Box2D", "box2d"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "grid"),
        ("dm_control/cheetah-run", "dm_control", "dm_control"),
    ],
)
def test_a_missing_package_names_the_extra(monkeypatch, env_name, module, extra):
    monkeypatch.setattr("rein.envs.suites.suite.find_spec", lambda name: None if name == module else 1)
    with pytest.raises(MissingSuiteError, match=rf"{module}: pip install 'rein-rl\[{extra}\]'"):
        load(env_name)
    found = {info.name: info for info in available_suites()}[suite_of(env_name).name]
    assert (found.installed, found.ids) == (False, ())


def test_rendering_classic_control_needs_pygame_but_stepping_does_not(monkeypatch):
    monkeypatch.setattr("rein.envs.suites.suite.find_spec", lambda name: None if name == "pygame" else 1)
    load("CartPole-v1").reset(seed=0)
    with pytest.raises(ImportError, match=r"Rendering 'CartPole-v1' needs pygame.*rein-rl\[classic\]"):
        load("CartPole-v1", render_mode="rgb_array")


def test_open_spiel_missing_still_leaves_tic_tac_toe(monkeypatch):
    monkeypatch.setattr("rein.envs.suites.boards.find_spec", lambda name: None)
    load("boards/tic_tac_toe")
    with pytest.raises(MissingSuiteError, match=r"rein-rl\[boards\]"):
        load("boards/go")


class Counter(gym.Env):
    observation_space = gym.spaces.Discrete(100)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, start=0):
        self.count = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.count, {}

    def step(self, action):
        self.count += 1
        return self.count, 0.0, False, False, {}


def test_ids_that_the_user_registers_load_with_arguments_and_are_listed():
    # A name that the Atari suite would claim otherwise.
    gym.register("Breakout-v5", Counter, max_episode_steps=3)
    try:
        env = load("Breakout-v5", start=7)
        assert env.reset(seed=0)[0] == 7
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
        registered = next(info for info in available_suites() if info.name == "registered")
        assert "Breakout-v5" in registered.ids
    finally:
        del gym.registry["Breakout-v5"]


def test_module_syntax_imports_the_module_that_registers():
    env = load("rein.envs.toy:rein/Chain-v0", num_states=3)
    assert env.reset(seed=0)[0].shape == (3,)


@pytest.mark.parametrize("env_name", ["MiniGrid-Empty-5x5-v0", "ALE/Pong-v5"])
def test_module_syntax_for_ids_that_a_suite_knows_gives_what_the_suite_does(env_name):
    module = {"minigrid": "minigrid", "atari": "ale_py"}[suite_of(env_name).name]
    assert suite_of(f"{module}:{env_name}") is suite_of(env_name)
    with closing(load(env_name)) as plain, closing(load(f"{module}:{env_name}")) as named:
        assert named.observation_space == plain.observation_space


def test_time_limits_can_be_given():
    env = load("Pendulum-v1", max_episode_steps=2)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert env.step(env.action_space.sample())[3]


def test_suites_are_not_imported_before_use():
    heavy = ["ale_py", "cv2", "minigrid", "dm_control", "mujoco", "pyspiel", "pygame", "torch"]
    code = (
        "import sys; from rein.envs import suites; suites.load('CartPole-v1').reset(); "
        "suites.load('rein/Reach-v0').reset(); suites.load('boards/tic_tac_toe').reset(); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_suite_table_has_unique_names():
    names = [suite.name for suite in suites._SUITES]
    assert len(set(names)) == len(names)
    assert all(isinstance(suite, Suite) for suite in suites._SUITES)


def test_warnings_of_mujoco_are_logged_once_and_not_printed(caplog, monkeypatch):
    from rein.envs import mujoco_warnings

    monkeypatch.setattr(mujoco_warnings, "_KINDS_TOLD", set())
    for message in ("Nan in QACC at DOF 0. Time = 1.2.", "Nan in QACC at DOF 3. Time = 4.", "'x' is deprecated"):
        mujoco_warnings._tell(message)
    assert [record.levelname for record in caplog.records if record.levelname != "DEBUG"] == ["WARNING"]


def test_mujoco_is_silent(capfd, tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    load("HalfCheetah-v5").close()
    assert "settotalmass" not in "".join(capfd.readouterr())
    assert not list(tmp_path.iterdir())
