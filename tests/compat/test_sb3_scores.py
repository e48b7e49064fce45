"""A script in the idiom of Stable-Baselines3 reaches that library's score; `benchmarks/sb3_scores.py` measures both."""

import pytest

from rein.compat.sb3 import PPO
from rein.compat.sb3.common.env_util import make_vec_env
from rein.compat.sb3.common.evaluation import evaluate_policy


@pytest.mark.learning
def test_ppo_learns_cart_pole_with_that_librarys_defaults() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4, seed=0), seed=0, device="cpu")
    model.learn(total_timesteps=50_000)
    mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", n_envs=10, seed=1_000_000), n_eval_episodes=100)
    assert mean > 475
