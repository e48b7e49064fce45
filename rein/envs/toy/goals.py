"""Goal-based worlds with Fetch-like observations, for hindsight relabelling without MuJoCo.

Observations are dicts with `observation`, `achieved_goal` and `desired_goal`; `compute_reward` takes
batches of goals of any leading shape, so that replay can relabel whole minibatches at once.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rein.config import configurable
from rein.envs.drawing import (
    BLACK,
    BLUE,
    GREEN,
    RED,
    Frame,
    bar_chart,
    canvas,
    draw_line,
    fill_disc,
)
from rein.envs.toy.world import ToyWorld, scalar_info_space

FloatArray = NDArray[np.float32]
GoalObservation = dict[str, FloatArray]

_LINK = 0.5


@configurable
class ReachEnv(ToyWorld[GoalObservation, FloatArray]):
    """Moves a point, or the tip of a two-link arm, to a random target; the reward is 0 there, else -1.

    The episode never terminates: it is cut (truncated) after `max_steps`, and the agent should reach
    the target early and stay. `info["is_success"]` is 1.0 while within `tolerance`.

    For `body="point"` every coordinate moves by at most `speed` per step, so the fastest policy drives
    each coordinate straight at its target; its return is `-(n - 1)`, n the steps it needs.

    Args:
        body: "point" (observation: position) or "arm" (observation: cosine and sine of both joint
            angles; two links of length 0.5 around the origin, actions turn the joints).
        max_steps: time limit in steps.
        tolerance: distance from the target that counts as reached.
        speed: movement per step of a full action, in length units or radians.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        body: str = "point",
        max_steps: int = 50,
        tolerance: float = 0.1,
        speed: float = 0.15,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if body not in ("point", "arm"):
            raise ValueError(f"body must be 'point' or 'arm'; got {body!r}.")
        self.body = body
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.speed = speed
        plane = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        size = 2 if body == "point" else 4
        self.observation_space = gym.spaces.Dict(
            {
                "observation": gym.spaces.Box(-1.0, 1.0, (size,), np.float32),
                "achieved_goal": plane,
                "desired_goal": plane,
            }
        )
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.env_info_space = scalar_info_space("is_success")
        self._pose = np.zeros(2)
        self._goal = np.zeros(2, np.float32)
        self._steps = 0

    def compute_reward(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any = None
    ) -> NDArray[np.float32]:
        """Returns the sparse reward for goals of shape [..., 2]: 0 within tolerance, else -1.

        Args:
            achieved_goal: [..., 2].
            desired_goal: [..., 2].
            info: unused, here because Fetch-like environments take it.

        Returns:
            [...] rewards.
        """
        return -(_distance(achieved_goal, desired_goal) > self.tolerance).astype(np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Draws a pose and a target."""
        super().reset(seed=seed)
        self._pose = self._random_pose()
        self._goal = self._tip(self._random_pose())
        self._steps = 0
        return self._observe(), self._info()

    def step(self, action: FloatArray) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """Moves by `speed * action`."""
        self._check_action(action)
        self._pose = self._pose + self.speed * np.asarray(action, np.float64)
        if self.body == "point":
            self._pose = np.clip(self._pose, -1.0, 1.0)
        self._steps += 1
        reward = float(self.compute_reward(self._tip(self._pose), self._goal))
        return self._observe(), reward, False, self._steps >= self.max_steps, self._info()

    def _random_pose(self) -> NDArray[np.float64]:
        reach = 1.0 if self.body == "point" else np.pi
        return self.np_random.uniform(-reach, reach, 2)

    def _joints(self, pose: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the [2, 2] positions of elbow and tip of the arm."""
        shoulder, elbow = pose[0], pose[0] + pose[1]
        first = _LINK * np.array([np.cos(shoulder), np.sin(shoulder)])
        return np.stack([first, first + _LINK * np.array([np.cos(elbow), np.sin(elbow)])])

    def _tip(self, pose: NDArray[np.float64]) -> FloatArray:
        tip = pose if self.body == "point" else self._joints(pose)[1]
        return np.clip(tip, -1.0, 1.0).astype(np.float32)

    def _observe(self) -> GoalObservation:
        tip = self._tip(self._pose)
        if self.body == "point":
            observation = tip.copy()
        else:
            angles = np.concatenate([np.cos(self._pose), np.sin(self._pose)])
            observation = angles.astype(np.float32)
        return {
            "observation": observation,
            "achieved_goal": tip,
            "desired_goal": self._goal.copy(),
        }

    def _info(self) -> dict[str, Any]:
        near = _distance(self._tip(self._pose), self._goal) <= self.tolerance
        return {"is_success": np.float32(near)}

    def _draw(self) -> Frame:
        frame = canvas(128, 128)
        goal = _to_frame(self._goal)
        fill_disc(frame, goal[0], goal[1], self.tolerance / 2.0, GREEN)
        if self.body == "arm":
            elbow, tip = self._joints(self._pose)
            draw_line(frame, (0.5, 0.5), _to_frame(elbow), BLACK)
            draw_line(frame, _to_frame(elbow), _to_frame(tip), BLUE)
        tip_row, tip_column = _to_frame(self._tip(self._pose))
        fill_disc(frame, tip_row, tip_column, 0.03, RED)
        return frame


@configurable
class BitFlipEnv(ToyWorld[GoalObservation, int]):
    """Flips one bit per step until a bit string equals the target; -1 per step, 0 when equal.

    Andrychowicz et al. (2017), "Hindsight Experience Replay", section 3.1. The episode terminates on
    success and is truncated after `num_bits` steps. A target at Hamming distance h is reached by the best
    policy with return `-(h - 1)`; on average that is `1 - num_bits / 2` (start and target differ).

    Args:
        num_bits: length of the string, at least 1.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, num_bits: int = 8, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if num_bits < 1:
            raise ValueError(f"BitFlip needs at least one bit; got num_bits={num_bits}.")
        self.num_bits = num_bits
        bits = gym.spaces.Box(0.0, 1.0, (num_bits,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": bits, "achieved_goal": bits, "desired_goal": bits})
        self.action_space = gym.spaces.Discrete(num_bits)
        self.env_info_space = scalar_info_space("is_success")
        self._bits = np.zeros(num_bits, np.float32)
        self._goal = np.ones(num_bits, np.float32)
        self._steps = 0

    def compute_reward(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any = None
    ) -> NDArray[np.float32]:
        """Returns 0 where the strings [..., num_bits] are equal, -1 elsewhere; shape [...]."""
        differs = np.any(np.asarray(achieved_goal) != np.asarray(desired_goal), axis=-1)
        return -differs.astype(np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Draws two different strings."""
        super().reset(seed=seed)
        self._bits = self.np_random.integers(0, 2, self.num_bits).astype(np.float32)
        self._goal = self._bits
        while np.array_equal(self._goal, self._bits):
            self._goal = self.np_random.integers(0, 2, self.num_bits).astype(np.float32)
        self._steps = 0
        return self._observe(), {"is_success": np.float32(0.0)}

    def step(self, action: int) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """Flips bit number `action`."""
        self._check_action(action)
        self._bits = self._bits.copy()
        self._bits[action] = 1.0 - self._bits[action]
        self._steps += 1
        reward = float(self.compute_reward(self._bits, self._goal))
        success = reward == 0.0
        truncated = not success and self._steps >= self.num_bits
        return self._observe(), reward, success, truncated, {"is_success": np.float32(success)}

    def _observe(self) -> GoalObservation:
        return {
            "observation": self._bits.copy(),
            "achieved_goal": self._bits.copy(),
            "desired_goal": self._goal.copy(),
        }

    def _draw(self) -> Frame:
        signed = np.concatenate([self._bits, -self._goal])
        return bar_chart(signed, None)


def _distance(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    return np.asarray(np.linalg.norm(difference, axis=-1))


def _to_frame(point: NDArray[Any]) -> tuple[float, float]:
    return 0.5 - 0.5 * float(point[1]), 0.5 + 0.5 * float(point[0])
