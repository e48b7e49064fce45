"""Parameters read, changed and set; the policy as a module."""

import numpy as np
import torch as th
from stable_baselines3 import A2C

model = A2C("MlpPolicy", "CartPole-v1", seed=3, policy_kwargs=dict(net_arch=[8]))
model.learn(100)
parameters = model.get_parameters()
assert "policy" in parameters
obs = np.array([0.01, 0.0, 0.02, 0.0], dtype=np.float32)
before = model.predict(obs, deterministic=True)[0]
other = A2C("MlpPolicy", "CartPole-v1", seed=4, policy_kwargs=dict(net_arch=[8]))
other.set_parameters(parameters)
assert other.predict(obs, deterministic=True)[0] == before
assert sum(p.numel() for p in model.policy.parameters()) > 50
with th.no_grad():
    for parameter in other.policy.parameters():
        parameter.zero_()
_, state = other.predict(obs)
assert state is None
