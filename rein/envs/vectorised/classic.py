"""Batches of classic control worlds, stepped by compiled kernels.

Row i draws its start states from the same random generator as a single Gymnasium world with the same seed would, so a
batch gives the same trajectories as the other backends. Since that rests on two libraries rounding alike, it is checked
against Gymnasium once per process and world before it is relied on.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from rein.envs.batch import batch_seeds
from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import FaultPolicy
from rein.envs.shared_block import FIRST, LAST, MID, BatchSpaces
from rein.envs.state import decode_generator, encode_generator
from rein.envs.vectorised.exactness import agrees_with_gymnasium

__all__ = ["ClassicControlEnvironment", "has_exact_kernel"]


@dataclass(frozen=True)
class ClassicWorld:
    """What a kernel does not say about a world.

    Attributes:
        kernel: name of the kernel in `rein.envs.vectorised.kernels`.
        state_size: numbers in the state of one world.
        draw: gives a start state, drawing from the generator as the Gymnasium world does.
        observe: gives the observation of a start state.
    """

    kernel: str
    state_size: int
    draw: Callable[[np.random.Generator], NDArray]
    observe: Callable[[NDArray], Any]


def _draw_mountain_car(generator: np.random.Generator) -> NDArray:
    return np.array([generator.uniform(low=-0.6, high=-0.4), 0])


def _draw_pendulum(generator: np.random.Generator) -> NDArray:
    high = np.array([np.pi, 1.0])
    return generator.uniform(low=-high, high=high)


def _observe_pendulum(state: NDArray) -> NDArray:
    return np.array([np.cos(state[0]), np.sin(state[0]), state[1]], dtype=np.float32)


def _draw_acrobot(generator: np.random.Generator) -> NDArray:
    return generator.uniform(low=-0.1, high=0.1, size=(4,)).astype(np.float32)


def _observe_acrobot(state: NDArray) -> NDArray:
    first, second, velocity1, velocity2 = state
    parts = [np.cos(first), np.sin(first), np.cos(second), np.sin(second), velocity1, velocity2]
    return np.array(parts, dtype=np.float32)


_CARTPOLE = ClassicWorld("step_cartpole", 4, lambda g: g.uniform(low=-0.05, high=0.05, size=(4,)), lambda state: state)
_WORLDS = {
    "CartPole-v0": _CARTPOLE,
    "CartPole-v1": _CARTPOLE,
    "Pendulum-v1": ClassicWorld("step_pendulum", 2, _draw_pendulum, _observe_pendulum),
    "MountainCar-v0": ClassicWorld("step_mountain_car", 2, _draw_mountain_car, lambda state: state),
    "Acrobot-v1": ClassicWorld("step_acrobot", 4, _draw_acrobot, _observe_acrobot),
}


def known_worlds() -> tuple[str, ...]:
    """Gymnasium ids that have a kernel."""
    return tuple(_WORLDS)


class ClassicControlEnvironment(BufferedEnvironment):
    """B classic control worlds stepped by one compiled loop."""

    def __init__(
        self,
        env_name: str,
        batch_size: int,
        seed: int | None = None,
        num_slots: int = 2,
        fault_policy: FaultPolicy | None = None,
    ) -> None:
        """Makes the batch.

        Args:
            env_name: one of `known_worlds()`.
            batch_size: number of worlds.
            seed: of the whole batch; None for a random one.
            num_slots: number of buffers that steps alternate between.
            fault_policy: taken for the sake of the other backends; these worlds cannot fail.
        """
        from rein.envs.vectorised import kernels

        self._closed = True
        if env_name not in _WORLDS:
            raise ValueError(f"no kernel for {env_name!r}; there are kernels for {sorted(_WORLDS)}")
        self._env_name = env_name
        self._world = _WORLDS[env_name]
        self._kernel = getattr(kernels, self._world.kernel)
        single = gym.make(env_name, disable_env_checker=True)
        limit = None if single.spec is None else single.spec.max_episode_steps
        self._max_steps = np.iinfo(np.int64).max if limit is None else limit
        spaces = BatchSpaces(single.observation_space, single.action_space)
        super().__init__(spaces, batch_size, num_slots=num_slots, fault_policy=fault_policy)
        single.close()
        self._renderer: gym.Env[Any, Any] | None = None
        self._state = np.zeros((batch_size, self._world.state_size))
        self._steps = np.zeros(batch_size, dtype=np.int64)
        self._ended = np.zeros(batch_size, dtype=np.bool_)
        self._to_reset = np.zeros(batch_size, dtype=np.int64)
        self._generators = self._seeded(batch_seeds(seed, batch_size))
        slots = self._slots
        self._arguments = [(s.observation[0], s.reward, s.discount, s.step_type, self._to_reset) for s in slots]

    @staticmethod
    def _seeded(seeds: list[int]) -> list[np.random.Generator]:
        return [seeding.np_random(seed)[0] for seed in seeds]

    def _reset_into(self, index: int) -> None:
        for row in range(self._batch_size):
            self._reset_row(row, index)

    def _reset_row(self, row: int, index: int) -> None:
        slot = self._slots[index]
        start = self._world.draw(self._generators[row])
        self._state[row] = start
        self._steps[row] = 0
        self._ended[row] = False
        slot.observation[0][row] = self._world.observe(start)
        slot.reward[row] = 0.0
        slot.discount[row] = 1.0
        slot.step_type[row] = FIRST
        slot.action[0][row] = 0

    def _step_into(self, index: int) -> None:
        waiting = self._kernel(
            self._slots[index].action[0],
            self._state,
            self._steps,
            self._ended,
            self._max_steps,
            *self._arguments[index],
        )
        if waiting < 0:
            row = -1 - waiting
            action = self._slots[index].action[0][row]
            raise ValueError(f"the action of environment {row} is {action}, which {self.action_spec} does not allow")
        for row in self._to_reset[:waiting]:
            self._reset_row(int(row), index)

    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""
        self._generators = self._seeded(batch_seeds(seed, self._batch_size))

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3], drawn by a single Gymnasium world that is put into each state."""
        if self._renderer is None:
            self._renderer = gym.make(self._env_name, render_mode="rgb_array", disable_env_checker=True)
            self._renderer.reset(seed=0)
        world: Any = self._renderer.unwrapped
        frames = []
        for state in self._state:
            world.state = state.copy()
            frames.append(self._renderer.render())
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
            "state": self._state.copy(),
            "steps": self._steps.copy(),
            "ended": self._ended.copy(),
            "generators": [encode_generator(generator) for generator in self._generators],
        }

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        self._state[...] = worlds["state"]
        self._steps[...] = worlds["steps"]
        self._ended[...] = worlds["ended"]
        self._generators = [decode_generator(saved) for saved in worlds["generators"]]
        return {}

    def _close(self) -> None:
        renderer = getattr(self, "_renderer", None)
        if renderer is not None:
            renderer.close()


@functools.cache
def has_exact_kernel(env_name: str) -> bool:
    """Whether a kernel for `env_name` exists and gives the trajectories of the installed Gymnasium, bit for bit."""
    if env_name not in _WORLDS:
        return False
    return agrees_with_gymnasium(env_name, lambda seed: ClassicControlEnvironment(env_name, 1, seed))
