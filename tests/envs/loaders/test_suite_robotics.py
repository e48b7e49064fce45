"""Success of goal tasks counts only from a step on, if so asked."""

import gymnasium as gym

from rein.envs.loaders.suite_robotics import SuccessWrapper


class _AlwaysThere(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.low, 0.0, False, False, {"is_success": True, "other": 1}


def test_success_counts_from_the_step_on_that_was_given_in_each_episode():
    env = SuccessWrapper(_AlwaysThere(), since_episode_steps=3)
    for _ in range(2):
        env.reset()
        infos = [env.step(0)[4] for _ in range(4)]
        assert [info["is_success"] for info in infos] == [False, False, True, True]
        assert all(info["other"] == 1 for info in infos)
