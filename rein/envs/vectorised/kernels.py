"""Compiled steps of classic control worlds, one loop over all rows.

Each kernel repeats the arithmetic of the Gymnasium world operation by operation, in the same order and precision, so that
trajectories are equal to the last bit. Powers are taken by the C library with an exponent that the compiler cannot see,
as numpy does for scalars: it may round differently from a product.

A kernel takes ``(action, state, steps, ended, max_steps, observation, reward, discount, step_type, to_reset)``: it steps
the rows that have not ended and lists the others in `to_reset`. It gives the length of that list, or ``-1 - row`` if the
action of `row` is not valid.
"""

import math

import numpy as np

from rein.ops.compiled_loops import compiled

_MID = 1
_LAST = 2


@compiled
def _finish(row, reward_now, terminated, steps, ended, max_steps, reward, discount, step_type):  # type: ignore[no-untyped-def]
    reward[row] = reward_now
    steps[row] += 1
    done = terminated or steps[row] >= max_steps
    ended[row] = done
    discount[row] = 0.0 if terminated else 1.0
    step_type[row] = _LAST if done else _MID


@compiled
def step_cartpole(action, state, steps, ended, max_steps, observation, reward, discount, step_type, to_reset):  # type: ignore[no-untyped-def]
    """CartPole: Gymnasium's Euler integration of the cart and its pole."""
    gravity, masscart, masspole, length, force_mag, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    total_mass = masspole + masscart
    polemass_length = masspole * length
    x_limit, theta_limit = 2.4, 12 * 2 * math.pi / 360
    waiting = 0
    for row in range(len(reward)):
        if ended[row]:
            to_reset[waiting] = row
            waiting += 1
            continue
        if action[row] != 0 and action[row] != 1:
            return -1 - row
        x, x_dot, theta, theta_dot = state[row, 0], state[row, 1], state[row, 2], state[row, 3]
        force = force_mag if action[row] == 1 else -force_mag
        costheta = math.cos(theta)
        sintheta = math.sin(theta)
        temp = (force + polemass_length * (theta_dot * theta_dot) * sintheta) / total_mass
        thetaacc = (gravity * sintheta - costheta * temp) / (
            length * (4.0 / 3.0 - masspole * (costheta * costheta) / total_mass)
        )
        xacc = temp - polemass_length * thetaacc * costheta / total_mass
        x = x + tau * x_dot
        x_dot = x_dot + tau * xacc
        theta = theta + tau * theta_dot
        theta_dot = theta_dot + tau * thetaacc
        state[row, 0], state[row, 1], state[row, 2], state[row, 3] = x, x_dot, theta, theta_dot
        for i in range(4):
            observation[row, i] = state[row, i]
        terminated = x < -x_limit or x > x_limit or theta < -theta_limit or theta > theta_limit
        _finish(row, 1.0, terminated, steps, ended, max_steps, reward, discount, step_type)
    return waiting


@compiled
def step_pendulum(action, state, steps, ended, max_steps, observation, reward, discount, step_type, to_reset):  # type: ignore[no-untyped-def]
    """Pendulum: the torque stays float32 until it meets the float64 state, as it does in numpy."""
    g, m, length, dt, max_speed = 10.0, 1.0, 1.0, 0.05, 8.0
    max_torque = np.float32(2.0)
    two = 2.0 + 0.0 * len(reward)
    two_single = np.float32(two)
    waiting = 0
    for row in range(len(reward)):
        if ended[row]:
            to_reset[waiting] = row
            waiting += 1
            continue
        u = action[row, 0]
        if u != u:
            return -1 - row
        u = min(max(u, -max_torque), max_torque)
        th, thdot = state[row, 0], state[row, 1]
        angle = ((th + np.pi) % (2 * np.pi)) - np.pi
        effort = np.float32(0.001) * np.float32(math.pow(u, two_single))
        costs = math.pow(angle, two) + 0.1 * math.pow(thdot, two) + np.float64(effort)
        push = np.float64(np.float32(3.0 / (m * length * length)) * u)
        newthdot = thdot + (3 * g / (2 * length) * math.sin(th) + push) * dt
        newthdot = min(max(newthdot, -max_speed), max_speed)
        newth = th + newthdot * dt
        state[row, 0], state[row, 1] = newth, newthdot
        observation[row, 0] = math.cos(newth)
        observation[row, 1] = math.sin(newth)
        observation[row, 2] = newthdot
        _finish(row, -costs, False, steps, ended, max_steps, reward, discount, step_type)
    return waiting


@compiled
def step_mountain_car(action, state, steps, ended, max_steps, observation, reward, discount, step_type, to_reset):  # type: ignore[no-untyped-def]
    """MountainCar with three discrete forces."""
    min_position, max_position, max_speed = -1.2, 0.6, 0.07
    force, gravity, goal = 0.001, 0.0025, 0.5
    waiting = 0
    for row in range(len(reward)):
        if ended[row]:
            to_reset[waiting] = row
            waiting += 1
            continue
        if action[row] < 0 or action[row] > 2:
            return -1 - row
        position, velocity = state[row, 0], state[row, 1]
        velocity += (action[row] - 1) * force + math.cos(3 * position) * (-gravity)
        velocity = min(max(velocity, -max_speed), max_speed)
        position += velocity
        position = min(max(position, min_position), max_position)
        if position == min_position and velocity < 0:
            velocity = 0.0
        state[row, 0], state[row, 1] = position, velocity
        observation[row, 0], observation[row, 1] = position, velocity
        terminated = position >= goal and velocity >= 0.0
        _finish(row, -1.0, terminated, steps, ended, max_steps, reward, discount, step_type)
    return waiting


@compiled
def _acrobot_derivatives(theta1, theta2, dtheta1, dtheta2, torque, two):  # type: ignore[no-untyped-def]
    m1, m2, l1, lc1, lc2, i1, i2, g = 1.0, 1.0, 1.0, 0.5, 0.5, 1.0, 1.0, 9.8
    d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * math.cos(theta2)) + i1 + i2
    d2 = m2 * (lc2**2 + l1 * lc2 * math.cos(theta2)) + i2
    phi2 = m2 * lc2 * g * math.cos(theta1 + theta2 - np.pi / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * math.pow(dtheta2, two) * math.sin(theta2)
        - 2 * m2 * l1 * lc2 * dtheta2 * dtheta1 * math.sin(theta2)
        + (m1 * lc1 + m2 * l1) * g * math.cos(theta1 - np.pi / 2)
        + phi2
    )
    ddtheta2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * math.pow(dtheta1, two) * math.sin(theta2) - phi2) / (
        m2 * lc2**2 + i2 - math.pow(d2, two) / d1
    )
    ddtheta1 = -(d2 * ddtheta2 + phi1) / d1
    return dtheta1, dtheta2, ddtheta1, ddtheta2


@compiled
def _wrap_angle(x):  # type: ignore[no-untyped-def]
    around = np.pi - (-np.pi)
    while x > np.pi:
        x = x - around
    while x < -np.pi:
        x = x + around
    return x


@compiled
def step_acrobot(action, state, steps, ended, max_steps, observation, reward, discount, step_type, to_reset):  # type: ignore[no-untyped-def]
    """Acrobot: one fourth-order Runge-Kutta step of the book's equations."""
    dt = 0.2 - 0
    half = dt / 2.0
    max_velocity1, max_velocity2 = 4 * np.pi, 9 * np.pi
    two = 2.0 + 0.0 * len(reward)
    waiting = 0
    for row in range(len(reward)):
        if ended[row]:
            to_reset[waiting] = row
            waiting += 1
            continue
        if action[row] < 0 or action[row] > 2:
            return -1 - row
        torque = np.float64(action[row] - 1)
        a, b, c, d = state[row, 0], state[row, 1], state[row, 2], state[row, 3]
        k1 = _acrobot_derivatives(a, b, c, d, torque, two)
        k2 = _acrobot_derivatives(a + half * k1[0], b + half * k1[1], c + half * k1[2], d + half * k1[3], torque, two)
        k3 = _acrobot_derivatives(a + half * k2[0], b + half * k2[1], c + half * k2[2], d + half * k2[3], torque, two)
        k4 = _acrobot_derivatives(a + dt * k3[0], b + dt * k3[1], c + dt * k3[2], d + dt * k3[3], torque, two)
        for i in range(4):
            state[row, i] = state[row, i] + dt / 6.0 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i])
        a, b = _wrap_angle(state[row, 0]), _wrap_angle(state[row, 1])
        c = min(max(state[row, 2], -max_velocity1), max_velocity1)
        d = min(max(state[row, 3], -max_velocity2), max_velocity2)
        state[row, 0], state[row, 1], state[row, 2], state[row, 3] = a, b, c, d
        observation[row, 0], observation[row, 1] = math.cos(a), math.sin(a)
        observation[row, 2], observation[row, 3] = math.cos(b), math.sin(b)
        observation[row, 4], observation[row, 5] = c, d
        terminated = -math.cos(a) - math.cos(b + a) > 1.0
        reward_now = 0.0 if terminated else -1.0
        _finish(row, reward_now, terminated, steps, ended, max_steps, reward, discount, step_type)
    return waiting


@compiled
def finish_locomotion(  # type: ignore[no-untyped-def]
    action,
    before,
    position,
    velocity,
    numbers,
    steps,
    ended,
    max_steps,
    observation,
    reward,
    discount,
    step_type,
    to_reset,
):
    """What Gymnasium's planar MuJoCo walkers make of a simulated step; arguments as for the other kernels.

    `before` holds the x positions before the step, `position` and `velocity` the state after it. `numbers` holds: seconds
    per step, weights of speed and effort, the reward for health, whether ill health ends the episode, bounds of height, of
    angle and of the other coordinates, the bound of observed velocities, and the number of unobserved positions.
    """
    dt, forward_weight, healthy_reward = numbers[0], numbers[1], numbers[3]
    effort_weight = np.float32(numbers[2])
    can_fall = numbers[4] != 0.0
    velocity_limit, hidden = numbers[11], int(numbers[12])
    num_positions, num_velocities = position.shape[1], velocity.shape[1]
    waiting = 0
    for row in range(len(reward)):
        if ended[row]:
            to_reset[waiting] = row
            waiting += 1
            continue
        speed = (position[row, 0] - before[row]) / dt
        squares = np.float32(0.0)
        for i in range(action.shape[1]):
            squares += action[row, i] * action[row, i]
        healthy = True
        if can_fall:
            height, angle = position[row, 1], position[row, 2]
            healthy = numbers[5] < height < numbers[6] and numbers[7] < angle < numbers[8]
            for i in range(2, num_positions):
                healthy = healthy and numbers[9] < position[row, i] < numbers[10]
            for i in range(num_velocities):
                healthy = healthy and numbers[9] < velocity[row, i] < numbers[10]
        for i in range(hidden, num_positions):
            observation[row, i - hidden] = position[row, i]
        for i in range(num_velocities):
            value = min(max(velocity[row, i], -velocity_limit), velocity_limit)
            observation[row, num_positions - hidden + i] = value
        gain = forward_weight * speed
        if can_fall:
            gain = gain + (healthy_reward if healthy else 0.0)
        gain = gain - np.float64(effort_weight * squares)
        _finish(row, gain, not healthy, steps, ended, max_steps, reward, discount, step_type)
    return waiting
