"""A world with (discrete, continuous) actions whose optimal return is known exactly."""

from math import atan2, ceil, pi
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import BLUE, GREEN, RED, Frame, canvas, draw_line, fill_disc
from rein.envs.toy.world import ToyWorld, scalar_info_space

FloatArray = NDArray[np.float32]
MovingAction = tuple[int, FloatArray]

ACCELERATE, TURN, BRAKE = 0, 1, 2


@configurable
class MovingEnv(ToyWorld[FloatArray, MovingAction]):
    """Drives to a disc on a square and stops there, by choosing what to do and how much of it.

    An action is a pair (choice, amounts [2]). Choice 0 accelerates: the speed grows by
    `max_speed * (amounts[0] + 1) / 2`, up to `max_speed`. Choice 1 turns the heading by `pi * amounts[1]`.
    Choice 2 brakes to speed 0. Then the car moves by its speed. It starts at rest, always facing away from
    the disc by at least a right angle.

    The reward per step is the decrease of the distance e to the edge of the disc, minus `step_cost`;
    standing still (after braking) inside the disc pays 1 more and terminates. Hence the best policy is:
    turn to the disc, drive ceil(e / max_speed) steps without overshooting, brake; its return

        e + 1 - step_cost * (2 + ceil(e / max_speed))

    cannot be beaten, since progress adds up to at most e and no step covers more than `max_speed`.
    `optimal_return()` gives it for the current start, `scripted_action()` plays it. Over many starts
    the mean is 1.85 with the defaults (6.4 steps on average); a uniformly random agent earns about -0.55.

    Observation [8]: position (2), cosine and sine of the heading, speed / max_speed, the vector to the
    disc's centre seen from the car (ahead, to the left), e.

    Args:
        max_speed: length units per step; the square is [-1, 1] x [-1, 1].
        radius: of the disc.
        step_cost: subtracted at every step.
        max_steps: time limit in steps.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        max_speed: float = 0.25,
        radius: float = 0.2,
        step_cost: float = 0.02,
        max_steps: int = 30,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if max_speed > 2.0 * radius:
            raise ValueError(
                f"max_speed={max_speed} could jump over a disc of radius={radius}: keep it at most twice the radius."
            )
        self.max_speed = max_speed
        self.radius = radius
        self.step_cost = step_cost
        self.max_steps = max_steps
        limits = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0], np.float32)
        self.observation_space = gym.spaces.Box(-limits, limits)
        self.action_space = gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)))
        self.env_info_space = scalar_info_space("is_success")
        self._position = np.zeros(2)
        self._target = np.zeros(2)
        self._heading = 0.0
        self._speed = 0.0
        self._steps = 0

    def optimal_return(self) -> float:
        """Returns the best return possible from here; valid right after `reset`."""
        edge = self._edge_distance()
        return edge + 1.0 - self.step_cost * (2 + ceil(round(edge / self.max_speed, 9)))

    def scripted_action(self) -> MovingAction:
        """Returns the action of the best policy in the current state."""
        edge = self._edge_distance()
        if edge <= 0.0:
            return BRAKE, np.zeros(2, np.float32)
        ahead, left = self._to_target()
        angle = atan2(left, ahead)
        if abs(angle) > 1e-3 and self._speed == 0.0:
            return TURN, np.array([0.0, angle / pi], np.float32)
        return ACCELERATE, np.ones(2, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Draws the disc, then a start at least half a unit from its edge, facing away from it."""
        super().reset(seed=seed)
        room = 1.0 - self.radius
        self._target = self.np_random.uniform(-room, room, 2)
        self._position = self._target
        while self._edge_distance() < 0.5:
            self._position = self.np_random.uniform(-1.0, 1.0, 2)
        bearing = atan2(*(self._target - self._position)[::-1])
        self._heading = bearing + pi + self.np_random.uniform(-pi / 2, pi / 2)
        self._speed = 0.0
        self._steps = 0
        return self._observe(), {"is_success": np.float32(0.0)}

    def step(self, action: MovingAction) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Applies the chosen control, then moves."""
        self._check_action(action)
        choice, amounts = int(action[0]), action[1]
        before = self._edge_distance()
        if choice == ACCELERATE:
            gain = self.max_speed * (float(amounts[0]) + 1.0) / 2.0
            self._speed = min(self._speed + gain, self.max_speed)
        elif choice == TURN:
            self._heading += pi * float(amounts[1])
        else:
            self._speed = 0.0
        direction = np.array([np.cos(self._heading), np.sin(self._heading)])
        self._position = np.clip(self._position + self._speed * direction, -1.0, 1.0)
        self._steps += 1
        edge = self._edge_distance()
        success = choice == BRAKE and edge <= 0.0
        reward = before - edge - self.step_cost + float(success)
        truncated = not success and self._steps >= self.max_steps
        info = {"is_success": np.float32(success)}
        return self._observe(), reward, success, truncated, info

    def _edge_distance(self) -> float:
        return max(float(np.linalg.norm(self._target - self._position)) - self.radius, 0.0)

    def _to_target(self) -> tuple[float, float]:
        """Returns how far the disc's centre lies ahead of the car, and to its left."""
        east, north = self._target - self._position
        cosine, sine = np.cos(self._heading), np.sin(self._heading)
        return float(cosine * east + sine * north), float(cosine * north - sine * east)

    def _observe(self) -> FloatArray:
        ahead, left = self._to_target()
        x, y = self._position
        cosine, sine = np.cos(self._heading), np.sin(self._heading)
        speed = self._speed / self.max_speed
        return np.array([x, y, cosine, sine, speed, ahead, left, self._edge_distance()], np.float32)

    def _draw(self) -> Frame:
        frame = canvas(128, 128)
        target, car = self._target / 2.0 + 0.5, self._position / 2.0 + 0.5
        fill_disc(frame, 1.0 - target[1], target[0], self.radius / 2.0, GREEN)
        fill_disc(frame, 1.0 - car[1], car[0], 0.03, BLUE)
        nose = car + 0.08 * np.array([np.cos(self._heading), np.sin(self._heading)])
        draw_line(frame, (1.0 - car[1], car[0]), (1.0 - nose[1], nose[0]), RED)
        return frame
