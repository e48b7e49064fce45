"""The DeepMind Control Suite as Gymnasium worlds; ids are `dm_control/<domain>-<task>`."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import Frame
from rein.envs.headless import prepare_headless
from rein.envs.mujoco_warnings import log_mujoco_warnings
from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import Suite

_PREFIX = "dm_control/"


@configurable
class DmControlEnv(gym.Env[Any, NDArray[np.float32]]):
    """A task of the control suite.

    Episodes end by the suite's time limit (1,000 control steps for most tasks), a truncation; a discount of 0 is
    a termination. Rewards lie in [0, 1].

    Args:
        domain: such as "cheetah".
        task: such as "run".
        flatten: whether the observation is one float32 vector; otherwise a dict of them.
        task_kwargs: for the task, such as `time_limit` in seconds.
        environment_kwargs: for the control environment.
        render_mode: None or "rgb_array".
        width: of frames, in pixels.
        height: of frames, in pixels.
        camera_id: index or name of the camera.
        visualize_reward: whether colors of the scene show the reward.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (Gymnasium's name)

    def __init__(
        self,
        domain: str,
        task: str,
        flatten: bool = True,
        task_kwargs: Mapping[str, Any] | None = None,
        environment_kwargs: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        width: int = 240,
        height: int = 240,
        camera_id: int | str = 0,
        visualize_reward: bool = False,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"dm_control renders only 'rgb_array'; got {render_mode!r}.")
        suite = _control_suite()
        self._control: Any = suite.load(
            domain,
            task,
            task_kwargs=dict(task_kwargs or {}),
            environment_kwargs=dict(environment_kwargs or {}),
            visualize_reward=visualize_reward,
        )
        self.render_mode = render_mode
        self._flatten = flatten
        self._frame_options = {"width": width, "height": height, "camera_id": camera_id}
        action = self._control.action_spec()
        self.action_space = spaces.Box(
            action.minimum.astype(np.float32), action.maximum.astype(np.float32), dtype=np.float32
        )
        shapes: dict[str, Any] = {
            name: spaces.Box(-np.inf, np.inf, spec.shape, np.float32)
            for name, spec in self._control.observation_spec().items()
        }
        self.observation_space: Any = spaces.Dict(shapes)
        if flatten:
            size = sum(int(np.prod(space.shape)) for space in shapes.values())
            self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": round(1.0 / self._control.control_timestep()),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; a seed also seeds the task's own generator."""
        super().reset(seed=seed)
        if seed is not None:
            task_seed = int(self.np_random.integers(2**31))
            self._control.task._random = np.random.RandomState(task_seed)
        return self._observe(self._control.reset().observation), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Runs one control step."""
        result = self._control.step(np.asarray(action, np.float64))
        ended = bool(result.last())
        terminated = ended and result.discount == 0.0
        observation = self._observe(result.observation)
        return observation, float(result.reward), terminated, ended and not terminated, {}

    def render(self) -> Frame | None:  # type: ignore[override]
        """Returns a frame, or None unless made with `render_mode="rgb_array"`."""
        if self.render_mode is None:
            return None
        frame: Frame = self._control.physics.render(**self._frame_options)
        return frame

    def close(self) -> None:
        """Frees the simulation."""
        self._control.close()

    def _observe(self, parts: Mapping[str, Any]) -> Any:
        arrays = {name: np.asarray(part, np.float32) for name, part in parts.items()}
        if not self._flatten:
            return arrays
        return np.concatenate([array.ravel() for array in arrays.values()])


def _control_suite() -> Any:
    """Returns `dm_control.suite`, made to work with a MuJoCo that is newer than it."""
    prepare_headless()
    log_mujoco_warnings()
    import mujoco
    from dm_control import suite
    from dm_control.mujoco.wrapper.mjbindings import sizes

    # dm_control lists the arrays of MuJoCo's structs, and stops at one that MuJoCo has dropped (in 4.0
    # some of deformable bodies, which no task has). Listing only what is there is all it needs.
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    for name, struct in (("mjmodel", model), ("mjdata", mujoco.MjData(model))):
        listed = sizes.array_sizes[name]
        for removed in [field for field in listed if not hasattr(struct, field)]:
            del listed[removed]
    return suite


def _list_ids() -> list[str]:
    return [f"{_PREFIX}{domain}-{task}" for domain, task in _control_suite().ALL_TASKS]


def _make(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    prepare_headless(kwargs.get("render_mode"))
    known = _list_ids()
    if env_name not in known:
        raise unknown_name(env_name, known, "dm_control task")
    domain, task = env_name.removeprefix(_PREFIX).split("-", maxsplit=1)
    return DmControlEnv(domain, task, **kwargs)


DM_CONTROL = Suite(
    name="dm_control",
    description="DeepMind Control Suite",
    extra="dm_control",
    modules=("dm_control",),
    claims=lambda env_name: env_name.startswith(_PREFIX),
    make=_make,
    list_ids=_list_ids,
)
