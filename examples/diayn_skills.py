"""DIAYN on a point in the plane: eight skills without any reward of the world, and a picture of where they go.

python examples/diayn_skills.py docs/diayn_skills.svg
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from rein.agents import Agent
from rein.algorithms.exploration import DIAYNAlgorithm, RandomCategoricalGoalGenerator
from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import PPOAlgorithm
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import ActorDistributionNetwork, EncodingNetwork, NestConcat, ValueNetwork
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec
from rein.training.svg_chart import COLORS

SKILLS, STEPS = 8, 40
ID = "examples/Point-v0"


class PointWorld(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A point that starts in the middle of the square [-1, 1] x [-1, 1] and is moved by at most 0.05 per axis and step."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._position = np.zeros(2, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts within 0.05 of the middle."""
        super().reset(seed=seed)
        self._position = self.np_random.uniform(-0.05, 0.05, 2).astype(np.float32)
        return self._position.copy(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves; there is no reward, and the time limit ends the episode."""
        self._position = np.clip(self._position + 0.05 * action, -1.0, 1.0).astype(np.float32)
        return self._position.copy(), 0.0, False, False, {}


def make_agent(seed: int) -> tuple[Agent, DIAYNAlgorithm]:
    """PPO that is rewarded only for being recognised, and what recognises it."""
    torch.manual_seed(seed)
    env = create_environment(ID, 16, backend="sync", seed=seed)
    settings = TrainerConfig(
        "", unroll_length=80, mini_batch_length=1, mini_batch_size=256, num_updates_per_train_iter=4
    )
    networks: dict[str, Any] = {
        "preprocessing_combiner": NestConcat(),
        "fc_layer_params": (64, 64),
        "activation": torch.tanh,
    }
    encoder = EncodingNetwork(env.observation_spec, fc_layer_params=(64, 64))
    diayn = DIAYNAlgorithm(BoundedTensorSpec((), torch.int64, 0, SKILLS - 1), encoder)
    agent = Agent(
        env.observation_spec,
        env.action_spec,
        env=env,
        config=settings,
        rl_algorithm_cls=partial(
            PPOAlgorithm,
            loss_class=partial(PPOLoss, gamma=0.95, entropy_regularization=0.01),
            actor_network_ctor=partial(ActorDistributionNetwork, **networks),
            value_network_ctor=partial(ValueNetwork, **networks),
        ),
        goal_generator=RandomCategoricalGoalGenerator(env.observation_spec, SKILLS),
        intrinsic_reward_module=diayn,
        extrinsic_reward_coef=0.0,
        optimizer=Adam(lr=1e-3, gradient_clipping=0.5, clip_by_global_norm=True),
    )
    return agent, diayn


@torch.no_grad()
def record(
    agent: Agent, diayn: DIAYNAlgorithm, num_envs: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], float]:
    """Episodes of the deterministic policy on new seeds.

    Returns:
        Paths [N, STEPS + 1, 2], their skills [N], and the share of steps at which the discriminator names the skill.
    """
    env = create_environment(ID, num_envs, backend="sync", seed=seed)
    torch.manual_seed(seed)
    time_step, state = env.reset(), zero_state(agent.predict_state_spec, num_envs)
    positions, right = [time_step.observation.numpy().copy()], []
    for _ in range(STEPS):
        step = agent.predict_step(time_step, state)
        state, goal = step.state, step.state.goal_generator.goal
        time_step = env.step(step.output)
        positions.append(time_step.observation.numpy().copy())
        seen = time_step._replace(observation=[time_step.observation, goal])
        right.append(diayn.train_step(seen).info.is_right.mean().item())
    return np.stack(positions, 1), goal.argmax(-1).numpy(), float(np.mean(right))


def picture(paths: NDArray[np.float32], skills: NDArray[np.int64], title: str) -> str:
    """All paths as SVG text, one colour per skill."""
    size, margin, top = 420, 10, 34
    scale = (size - 2 * margin) / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size + top}" role="img" aria-label="{title}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{size}" height="{size + top}" fill="white"/><text x="{margin}" y="22">{title}</text>',
        f'<rect x="{margin}" y="{top}" width="{2 * scale}" height="{2 * scale}" fill="none" stroke="#999"/>',
    ]
    for path, skill in zip(paths, skills, strict=True):
        points = " ".join(f"{margin + (x + 1) * scale:.1f},{top + (1 - y) * scale:.1f}" for x, y in path)
        color = COLORS[skill % len(COLORS)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-opacity="0.6"/>')
        x, y = points.split(" ")[-1].split(",")
        lines.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Trains, tells how well skills are recognised, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the picture, SVG")
    parser.add_argument("--iterations", type=int, default=150, help="each of 1280 steps")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if ID not in gym.registry:
        gym.register(ID, lambda **arguments: PointWorld(), max_episode_steps=STEPS)
    agent, diayn = make_agent(arguments.seed)
    print(f"accuracy before training: {record(agent, diayn, 64, arguments.seed + 1)[2]:.2f} (chance {1 / SKILLS:.3f})")
    for _ in range(arguments.iterations):
        agent.train_iter()
    paths, skills, accuracy = record(agent, diayn, 64, arguments.seed + 1)
    print(f"accuracy after {arguments.iterations * 1280} steps: {accuracy:.2f}")
    title = f"DIAYN, {SKILLS} skills: recognised at {accuracy:.0%} of steps (chance {1 / SKILLS:.0%})"
    arguments.output.write_text(picture(paths, skills, title))


if __name__ == "__main__":
    main()
