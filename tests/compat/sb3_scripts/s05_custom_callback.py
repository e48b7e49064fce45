"""A callback with all hooks, which logs values of its own and stops early."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback


class CustomCallback(BaseCallback):
    def __init__(self, limit, verbose=0):
        super().__init__(verbose)
        self.limit = limit
        self.events = []
        self.rewards = []

    def _on_training_start(self) -> None:
        self.events.append("start")

    def _on_rollout_start(self) -> None:
        self.events.append("rollout start")

    def _on_step(self) -> bool:
        self.rewards.append(float(self.locals["rewards"][0]))
        self.logger.record("custom/reward", self.rewards[-1])
        assert self.num_timesteps == self.model.num_timesteps
        assert self.training_env.num_envs == 1
        return self.n_calls < self.limit

    def _on_rollout_end(self) -> None:
        self.events.append("rollout end")

    def _on_training_end(self) -> None:
        self.events.append("end")


callback = CustomCallback(limit=200)
model = PPO("MlpPolicy", "CartPole-v1", n_steps=64)
model.learn(10_000, callback=callback)
assert callback.n_calls == 200 and model.num_timesteps == 200
assert callback.events[:3] == ["start", "rollout start", "rollout end"] and callback.events[-1] == "end"
assert callback.events.count("rollout end") == 3
