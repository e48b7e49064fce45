"""Worlds that come with Gymnasium, and any other id registered with it."""

import re
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from rein.envs.headless import prepare_headless
from rein.envs.mujoco_warnings import log_mujoco_warnings
from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import Suite

_VERSIONED = re.compile(r"^(?P<name>.+)-v(?P<version>\d+)$")
_FRAME_SIZE = 240

# Smallest version that still works, by name; older ones need packages that are gone.
_MUJOCO = (
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "HumanoidStandup",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Pusher",
    "Reacher",
    "Swimmer",
    "Walker2d",
)
_BOX2D = (
    "BipedalWalker",
    "BipedalWalkerHardcore",
    "CarRacing",
    "LunarLander",
    "LunarLanderContinuous",
)
_CLASSIC = ("Acrobot", "CartPole", "MountainCar", "MountainCarContinuous", "Pendulum")
_TOY_TEXT = (
    "Blackjack",
    "CliffWalking",
    "CliffWalkingSlippery",
    "FrozenLake",
    "FrozenLake8x8",
    "Taxi",
)
_OLDEST_MUJOCO = 5


def split_version(env_name: str) -> tuple[str, int | None]:
    """Returns the name without version, and the version; None if there is none."""
    match = _VERSIONED.match(env_name)
    return (match["name"], int(match["version"])) if match else (env_name, None)


def registered_versions(name: str) -> list[int]:
    """Returns the usable versions of a name in Gymnasium's registry, oldest first."""
    versions = [split_version(env_id)[1] for env_id in gym.registry if split_version(env_id)[0] == name]
    oldest = _OLDEST_MUJOCO if name in _MUJOCO else 0
    return sorted(version for version in versions if version is not None and version >= oldest)


def offered_version(env_name: str) -> str:
    """The name itself, or if its version is not offered, with the newest version that is."""
    name, version = split_version(env_name)
    versions = registered_versions(name)
    return f"{name}-v{versions[-1]}" if version is not None and versions and version not in versions else env_name


def check_version(env_name: str) -> None:
    """Raises ValueError if the name is known, but not in this version; suggests the one to use."""
    name, version = split_version(env_name)
    versions = registered_versions(name)
    if not versions or version in versions:
        return
    problem = "lacks a version" if version is None else "is a version that is not offered"
    offered = ", ".join(f"{name}-v{known}" for known in versions)
    hint = ""
    if version is not None and version < versions[-1] and env_name in gym.registry:
        hint = f" (for the old one, pass the function `lambda: gymnasium.make({env_name!r})`)"
    raise ValueError(f"{env_name!r} {problem}: use {name}-v{versions[-1]}{hint}. Known versions: {offered}.")


def make_registered(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Returns the world that Gymnasium has registered under the id.

    Args:
        env_name: an id; "module:id" to import the module that registers it first; or "module:Name" of a class or function
            in the module that makes a world.
        **kwargs: for `gymnasium.make`: the world's own arguments, `render_mode`, `max_episode_steps`.
    """
    prepare_headless(kwargs.get("render_mode"))
    check_version(env_name)
    if ":" not in env_name and env_name not in gym.registry:
        raise unknown_name(env_name, gym.registry, "environment")
    kwargs.setdefault("disable_env_checker", True)
    if ":" in env_name and (maker := _maker(env_name)) is not None:
        return gym.make(EnvSpec(id=env_name.partition(":")[2], entry_point=maker), **kwargs)
    return gym.make(env_name, **kwargs)


def _maker(env_name: str) -> Any:
    """The class or function that `module:Name` names; None if the module has none of that name."""
    module, _, name = env_name.partition(":")
    try:
        maker = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ValueError(
            f"{env_name!r}: there is no module {module!r}: run in the folder where it is (a saved run with --trust), or "
            "set PYTHONPATH"
        ) from error
    if callable(maker):
        return maker
    if name not in gym.registry:
        raise ValueError(f"{env_name!r}: {module} neither has a {name} nor registers an environment of that id")
    return None


def _make_mujoco(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    prepare_headless(kwargs.get("render_mode"))
    log_mujoco_warnings()
    if kwargs.get("render_mode") in ("rgb_array", "rgb_array_list"):
        # Software rendering of the default 480 x 480 takes 0.2 s per frame.
        kwargs.setdefault("width", _FRAME_SIZE)
        kwargs.setdefault("height", _FRAME_SIZE)
    return make_registered(env_name, **kwargs)


def _builtin(
    name: str,
    description: str,
    names: tuple[str, ...],
    extra: str,
    modules: tuple[str, ...] = (),
    make: Any = make_registered,
    renders_with: tuple[str, ...] = (),
) -> Suite:
    def list_ids() -> list[str]:
        return [f"{base}-v{version}" for base in names for version in registered_versions(base)]

    return Suite(
        name=name,
        description=description,
        extra=extra,
        modules=modules,
        claims=lambda env_name: split_version(env_name)[0] in names,
        make=make,
        list_ids=list_ids,
        renders_with=renders_with,
    )


CLASSIC = _builtin(
    "classic",
    "Gymnasium's classic control",
    _CLASSIC,
    extra="classic",
    renders_with=("pygame",),
)
TOY_TEXT = _builtin("toy_text", "Gymnasium's toy text", _TOY_TEXT, extra="classic", renders_with=("pygame",))
BOX2D = _builtin(
    "box2d",
    "Gymnasium's Box2D worlds",
    _BOX2D,
    extra="box2d",
    modules=("Box2D",),
    renders_with=("pygame",),
)
MUJOCO = _builtin(
    "mujoco",
    "Gymnasium's MuJoCo worlds, version 5",
    _MUJOCO,
    extra="mujoco",
    modules=("mujoco",),
    make=_make_mujoco,
)


_KNOWN_PACKAGES = ("gymnasium.", "ale_py", "minigrid", "rein.", "<function _raise")


def is_users_own(env_name: str) -> bool:
    """Whether the id is registered by someone else than the packages that the suites know."""
    spec = gym.registry.get(env_name)
    return spec is not None and not str(spec.entry_point).startswith(_KNOWN_PACKAGES)


REGISTERED = Suite(
    name="registered",
    description="ids that you registered with Gymnasium",
    extra="",
    modules=(),
    claims=lambda env_name: ":" in env_name or env_name in gym.registry,
    make=make_registered,
    list_ids=lambda: [env_id for env_id in gym.registry if is_users_own(env_id)],
)
