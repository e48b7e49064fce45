"""A2C with several worlds, evaluated before and after."""

from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
model = A2C("MlpPolicy", env, seed=0)
before, _ = evaluate_policy(model, make_vec_env("CartPole-v1"), n_eval_episodes=3)
model.learn(1_000, log_interval=None)
after, std_reward = evaluate_policy(model, model.get_env(), n_eval_episodes=5, deterministic=True)
returns, lengths = evaluate_policy(model, env, n_eval_episodes=4, return_episode_rewards=True)
assert before > 0 and after > 0 and std_reward >= 0
assert len(returns) == len(lengths) == 4 and returns == [float(length) for length in lengths]
