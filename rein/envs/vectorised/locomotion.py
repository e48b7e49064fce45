"""Batches of planar MuJoCo walkers: MuJoCo steps the bodies in threads, one compiled loop makes observations and rewards.

Gymnasium's own worlds are kept for resets and rendering. Stepping calls MuJoCo on their data directly, which releases
Python's lock, so threads run at the same time. As with classic control, a batch is compared with Gymnasium before use.
"""

import functools
import importlib.util
import queue
import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.envs.batch import batch_seeds
from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import Fault, FaultPolicy
from rein.envs.mujoco_warnings import log_mujoco_warnings
from rein.envs.rows import cut_row
from rein.envs.shared_block import FIRST, LAST, MID, BatchSpaces
from rein.envs.single import close_quietly, row_seed
from rein.envs.state import capture, restore
from rein.envs.vectorised.exactness import agrees_with_gymnasium
from rein.runtime.cores import usable_cores

__all__ = ["LocomotionEnvironment", "has_exact_locomotion"]

_NO_LIMIT = (-np.inf, np.inf)
_HIDDEN_POSITIONS = {"Hopper-v5": 1, "Walker2d-v5": 1, "HalfCheetah-v5": 1, "Swimmer-v5": 2}
_VELOCITY_LIMITS = {"Hopper-v5": 10.0, "Walker2d-v5": 10.0}


def known_locomotion() -> tuple[str, ...]:
    """Gymnasium ids that can be batched here."""
    return tuple(_HIDDEN_POSITIONS)


class _HelperThread:
    """Calls a function for some rows whenever told, beside the main thread."""

    def __init__(self, work: Callable[[list[int]], None]) -> None:
        self._orders: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._work = work
        threading.Thread(target=self._run, daemon=True, name="rein-envs-mujoco").start()

    def _run(self) -> None:
        while (rows := self._orders.get()) is not None:
            try:
                self._work(rows)
            except Exception as error:
                self._done.put(error)
            else:
                self._done.put(None)

    def start(self, rows: list[int]) -> None:
        """Begins with `rows`."""
        self._orders.put(rows)

    def wait(self) -> None:
        """Returns when the rows are done; raises what went wrong."""
        error = self._done.get()
        if error is not None:
            raise error

    def stop(self) -> None:
        """Ends the thread."""
        self._orders.put(None)


class _Bodies:
    """The simulated bodies of a batch; apart from the environment, so that threads do not keep that alive."""

    def __init__(self, worlds: list[Any], num_positions: int, num_velocities: int) -> None:
        import mujoco

        self._step = mujoco.mj_step
        self.before = np.zeros(len(worlds))
        self.position = np.zeros((len(worlds), num_positions))
        self.velocity = np.zeros((len(worlds), num_velocities))
        self.action: NDArray = np.zeros((len(worlds), 0))
        self._parts: list[tuple[Any, Any, Any, Any, Any]] = [self._parts_of(world) for world in worlds]
        self._frame_skip = worlds[0].frame_skip

    @staticmethod
    def _parts_of(world: Any) -> tuple[Any, Any, Any, Any, Any]:
        data = world.data
        return world.model, data, data.ctrl, data.qpos, data.qvel

    def replace(self, row: int, world: Any) -> None:
        """Puts another world into a row."""
        self._parts[row] = self._parts_of(world)

    def simulate(self, rows: list[int]) -> None:
        """Moves the bodies of `rows` under their actions."""
        step, frame_skip, action = self._step, self._frame_skip, self.action
        for row in rows:
            model, data, control, position, velocity = self._parts[row]
            self.before[row] = position[0]
            control[:] = action[row]
            step(model, data, frame_skip)
            self.position[row] = position
            self.velocity[row] = velocity


class LocomotionEnvironment(BufferedEnvironment):
    """B planar MuJoCo walkers, simulated in threads of this process."""

    def __init__(
        self,
        env_name: str,
        batch_size: int,
        seed: int | None = None,
        num_slots: int = 2,
        fault_policy: FaultPolicy | None = None,
        num_threads: int | None = None,
    ) -> None:
        """Makes the worlds.

        Args:
            env_name: one of `known_locomotion()`.
            batch_size: number of worlds.
            seed: of the whole batch; None for a random one.
            num_slots: number of buffers that steps alternate between.
            fault_policy: what to endure; its timeouts do not apply.
            num_threads: that simulate; None for one per usable core, at most one for each two worlds.
        """
        from rein.envs.vectorised import kernels

        self._closed = True
        if env_name not in _HIDDEN_POSITIONS:
            raise ValueError(f"no batch for {env_name!r}; there are batches for {sorted(_HIDDEN_POSITIONS)}")
        self._env_name = env_name
        self._worlds: list[Any] = [self._make_world() for _ in range(batch_size)]
        first = self._worlds[0]
        spaces = BatchSpaces(first.observation_space, first.action_space)
        super().__init__(spaces, batch_size, num_slots=num_slots, fault_policy=fault_policy)
        limit = gym.spec(env_name).max_episode_steps
        self._max_steps = np.iinfo(np.int64).max if limit is None else limit
        self._numbers = _numbers_of(env_name, first)
        self._kernel = kernels.finish_locomotion
        self._bodies = _Bodies(self._worlds, first.model.nq, first.model.nv)
        self._steps = np.zeros(batch_size, dtype=np.int64)
        self._ended = np.zeros(batch_size, dtype=np.bool_)
        self._to_reset = np.zeros(batch_size, dtype=np.int64)
        self._seeds: list[int | None] = list(batch_seeds(seed, batch_size))
        self._base_seeds = batch_seeds(seed, batch_size)
        self._ticks = 0
        threads = max(1, min(num_threads or usable_cores(), batch_size // 2))
        self._helpers = [_HelperThread(self._bodies.simulate) for _ in range(threads - 1)]

    def _make_world(self) -> Any:
        return gym.make(self._env_name, disable_env_checker=True).unwrapped

    def _reset_into(self, index: int) -> None:
        for row in range(self._batch_size):
            self._reset_row(row, index)

    def _reset_row(self, row: int, index: int) -> None:
        slot = self._slots[index]
        seed, self._seeds[row] = self._seeds[row], None
        observation, _ = self._worlds[row].reset(seed=seed)
        slot.observation[0][row] = observation
        slot.reward[row] = 0.0
        slot.discount[row] = 1.0
        slot.step_type[row] = FIRST
        slot.action[0][row] = 0
        self._steps[row] = 0
        self._ended[row] = False

    def _step_into(self, index: int) -> None:
        self._ticks += 1
        slot, bodies = self._slots[index], self._bodies
        bodies.action = action = slot.action[0]
        self._simulate(np.flatnonzero(~self._ended).tolist())
        waiting = self._kernel(
            action,
            bodies.before,
            bodies.position,
            bodies.velocity,
            self._numbers,
            self._steps,
            self._ended,
            self._max_steps,
            slot.observation[0],
            slot.reward,
            slot.discount,
            slot.step_type,
            self._to_reset,
        )
        for row in self._to_reset[:waiting]:
            self._reset_row(int(row), index)
        flat = slot.observation[0].reshape(-1)
        square = flat.dot(flat)
        if square - square != 0.0 or not np.isfinite(slot.reward).all():
            self._repair(index)

    def _simulate(self, rows: list[int]) -> None:
        helpers = self._helpers
        if not helpers:
            self._bodies.simulate(rows)
            return
        share = len(helpers) + 1
        for number, helper in enumerate(helpers):
            helper.start(rows[number + 1 :: share])
        self._bodies.simulate(rows[::share])
        for helper in helpers:
            helper.wait()

    def _repair(self, index: int) -> None:
        """Cuts the episodes of worlds that gave NaN and makes those worlds anew."""
        slot = self._slots[index]
        for row in range(self._batch_size):
            if np.isnan(slot.observation[0][row]).any() or not np.isfinite(slot.reward[row]):
                message = f"observation {slot.observation[0][row]}, reward {slot.reward[row]}"
                self._log.add(Fault(row, self._ticks, "invalid", message))
                close_quietly(self._worlds[row])
                self._worlds[row] = self._make_world()
                self._bodies.replace(row, self._worlds[row])
                self._seeds[row] = row_seed(self._base_seeds[row], row, int(self._log.counts[row]))
                cut_row(slot, self._slots[self._index], row)
                self._ended[row] = True

    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""
        self._base_seeds = batch_seeds(seed, self._batch_size)
        self._seeds = list(self._base_seeds)

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3]."""
        frames = []
        for world in self._worlds:
            world.render_mode = "rgb_array"
            frames.append(world.render())
        return stacked_frames(frames, self._env_name)

    @property
    def _form(self) -> str:
        return f"compiled {self._env_name}"

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        slot = self._slots[self._index]
        begun = np.flatnonzero(slot.step_type == FIRST)
        cut = np.flatnonzero(slot.step_type == MID)
        slot.step_type[cut] = LAST
        slot.discount[cut] = 1.0
        self._ended[...] = slot.step_type == LAST
        for row in begun:
            self._reset_row(int(row), self._index)
        return {int(row): reason for row in cut}

    def _get_worlds(self) -> Any:
        return {
            "worlds": [capture(world) for world in self._worlds],
            "steps": self._steps.copy(),
            "ended": self._ended.copy(),
        }

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        for world, state in zip(self._worlds, worlds["worlds"], strict=True):
            world.reset(seed=0)
            restore(world, state)
        self._seeds = [None] * self._batch_size
        self._steps[...] = worlds["steps"]
        self._ended[...] = worlds["ended"]
        return {}

    def _close(self) -> None:
        for helper in getattr(self, "_helpers", []):
            helper.stop()
        for world in getattr(self, "_worlds", []):
            close_quietly(world)


def _numbers_of(env_name: str, world: Any) -> NDArray[np.float64]:
    """The `numbers` of the kernel, read from a Gymnasium world."""
    can_fall = getattr(world, "_terminate_when_unhealthy", False)
    return np.array(
        [
            world.dt,
            world._forward_reward_weight,
            world._ctrl_cost_weight,
            getattr(world, "_healthy_reward", 0.0),
            float(can_fall),
            *getattr(world, "_healthy_z_range", _NO_LIMIT),
            *getattr(world, "_healthy_angle_range", _NO_LIMIT),
            *getattr(world, "_healthy_state_range", _NO_LIMIT),
            _VELOCITY_LIMITS.get(env_name, np.inf),
            _HIDDEN_POSITIONS[env_name],
        ]
    )


@functools.cache
def has_exact_locomotion(env_name: str) -> bool:
    """Whether `env_name` can be batched here, with the trajectories of the installed Gymnasium, bit for bit."""
    if env_name not in _HIDDEN_POSITIONS or importlib.util.find_spec("mujoco") is None:
        return False
    log_mujoco_warnings()
    return agrees_with_gymnasium(env_name, lambda seed: LocomotionEnvironment(env_name, 1, seed))
