"""MiniGrid and BabyAI worlds, with observations that tensors can hold."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.suites.gymnasium_ids import make_registered
from rein.envs.suites.suite import Suite

_PREFIXES = ("MiniGrid-", "BabyAI-")


@configurable
class GridObservation(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Replaces MiniGrid's observation (with its text) by arrays.

    Args:
        env: a MiniGrid world.
        view: "partial" gives `{"image": [3, 7, 7], "direction": int}`, what the agent sees (object, color,
            state); "image" only that image; "full" only the whole grid as [3, height, width]; "rgb" the whole
            grid as pixels [3, height * tile_size, width * tile_size].
        tile_size: pixels per cell for "rgb".
        mission_length: if positive, the observation (which must be a dict, "partial") gains `mission`, the
            text's first bytes as uint8 [mission_length], padded with 0.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        view: str = "partial",
        tile_size: int = 8,
        mission_length: int = 0,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, view=view, tile_size=tile_size, mission_length=mission_length)
        gym.ObservationWrapper.__init__(self, env)
        if view not in ("partial", "image", "full", "rgb"):
            raise ValueError(f"view must be 'partial', 'image', 'full' or 'rgb'; got {view!r}.")
        if mission_length and view != "partial":
            raise ValueError(f"mission_length needs view='partial', whose observation is a dict; got {view!r}.")
        self._view = view
        self._tile_size = tile_size
        self._mission_length = mission_length
        inner: Any = env.observation_space
        grid: Any = env.unwrapped
        height, width, channels = inner["image"].shape
        if view == "full":
            height, width = grid.height, grid.width
        elif view == "rgb":
            height, width = grid.height * tile_size, grid.width * tile_size
        # The world says 255 for all; what there is are objects, colors and states, whose limits tell networks so.
        highest = 255 if view == "rgb" else _highest_codes().reshape(channels, 1, 1)
        image = spaces.Box(
            np.zeros((channels, height, width), np.uint8),
            np.broadcast_to(np.uint8(highest), (channels, height, width)),
            dtype=np.uint8,
        )
        self.observation_space = image
        if view == "partial":
            parts: dict[str, spaces.Space[Any]] = {"image": image, "direction": spaces.Discrete(4)}
            if mission_length:
                parts["mission"] = spaces.Box(0, 255, (mission_length,), np.uint8)
            self.observation_space = spaces.Dict(parts)

    def observation(self, observation: Any) -> Any:
        """Returns the observation as channel-first arrays."""
        if self._view == "full":
            return self._full_grid()
        if self._view == "rgb":
            frame = self.env.unwrapped.get_frame(highlight=True, tile_size=self._tile_size)  # type: ignore[attr-defined]
            return np.ascontiguousarray(frame.transpose(2, 0, 1))
        # MiniGrid's arrays are indexed [column, row]; images are [channel, row, column].
        image = np.ascontiguousarray(observation["image"].transpose(2, 1, 0))
        if self._view == "image":
            return image
        parts = {"image": image, "direction": np.int64(observation["direction"])}
        if self._mission_length:
            parts["mission"] = self._encode(observation["mission"])
        return parts

    def _full_grid(self) -> NDArray[np.uint8]:
        from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

        world: Any = self.env.unwrapped
        grid = world.grid.encode()
        column, row = world.agent_pos
        grid[column, row] = (OBJECT_TO_IDX["agent"], COLOR_TO_IDX["red"], world.agent_dir)
        return np.ascontiguousarray(grid.transpose(2, 1, 0))

    def _encode(self, mission: str) -> NDArray[np.uint8]:
        text = np.frombuffer(mission.encode()[: self._mission_length], np.uint8)
        return np.pad(text, (0, self._mission_length - len(text)))


def _highest_codes() -> NDArray[np.uint8]:
    """The highest code of objects, of colors, and of states of doors and directions."""
    from minigrid.core.constants import COLOR_TO_IDX, DIR_TO_VEC, OBJECT_TO_IDX, STATE_TO_IDX

    states = max(*STATE_TO_IDX.values(), len(DIR_TO_VEC) - 1)
    return np.array([max(OBJECT_TO_IDX.values()), max(COLOR_TO_IDX.values()), states], np.uint8)


def _make(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    import minigrid

    gym.register_envs(minigrid)
    # Only what was given is passed on: a conf may set the rest.
    view = {name: kwargs.pop(name) for name in ("view", "tile_size", "mission_length") if name in kwargs}
    return GridObservation(make_registered(env_name, **kwargs), **view)


def _list_ids() -> list[str]:
    import minigrid

    gym.register_envs(minigrid)
    return [env_id for env_id in gym.registry if env_id.startswith(_PREFIXES)]


MINIGRID = Suite(
    name="minigrid",
    description="MiniGrid and BabyAI grid worlds",
    extra="grid",
    modules=("minigrid",),
    claims=lambda env_name: env_name.startswith(_PREFIXES),
    make=_make,
    list_ids=_list_ids,
)
