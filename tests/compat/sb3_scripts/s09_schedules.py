"""A learning rate and a clip range that fall with what is left of the training."""

from typing import Callable

import torch as th
from stable_baselines3 import PPO


def linear_schedule(initial_value: float) -> Callable[[float], float]:
    def func(progress_remaining: float) -> float:
        return progress_remaining * initial_value

    return func


policy_kwargs = dict(activation_fn=th.nn.ReLU, net_arch=dict(pi=[32, 32], vf=[16]))
model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    learning_rate=linear_schedule(0.001),
    clip_range=linear_schedule(0.3),
    n_steps=128,
    n_epochs=2,
    policy_kwargs=policy_kwargs,
    ent_coef=0.01,
)
model.learn(256)
model.learn(256, reset_num_timesteps=False)
assert model.num_timesteps == 512
print(model.policy)
