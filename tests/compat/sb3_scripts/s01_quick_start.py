"""PPO on CartPole, then a loop with the trained policy."""

import gymnasium as gym
from stable_baselines3 import PPO

env = gym.make("CartPole-v1", render_mode="rgb_array")
model = PPO("MlpPolicy", env, n_steps=256, verbose=1)
model.learn(total_timesteps=512)

vec_env = model.get_env()
obs = vec_env.reset()
for _ in range(50):
    action, _state = model.predict(obs, deterministic=True)
    obs, reward, done, info = vec_env.step(action)
assert obs.shape == (1, 4)
assert vec_env.render("human" if False else None).shape[-1] == 3
RESULT = model.num_timesteps
assert RESULT == 512
