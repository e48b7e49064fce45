"""The same scripts by Stable-Baselines3 and by `rein.compat.sb3`: scores of 100 episodes, one line of JSON for each run.

    python benchmarks/sb3_scores.py --library rein --task ppo_cartpole --seed 0
    <python with stable-baselines3> benchmarks/sb3_scores.py --library sb3 --task ppo_cartpole --seed 0

Only the imports differ.
"""

import argparse
import importlib
import json
import time
from typing import Any

TASKS: dict[str, dict[str, Any]] = {
    "ppo_cartpole": {"model": "PPO", "env": "CartPole-v1", "steps": 50_000, "n_envs": 4},
    "dqn_cartpole": {
        "model": "DQN",
        "env": "CartPole-v1",
        "steps": 50_000,
        "keywords": {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1000,
            "target_update_interval": 10,
            "train_freq": 256,
            "gradient_steps": 128,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
            "policy_kwargs": {"net_arch": [256, 256]},
        },
    },
    "a2c_cartpole": {"model": "A2C", "env": "CartPole-v1", "steps": 100_000, "n_envs": 8},
    "sac_pendulum": {"model": "SAC", "env": "Pendulum-v1", "steps": 5_000, "keywords": {"learning_rate": 1e-3}},
    "td3_pendulum": {"model": "TD3", "env": "Pendulum-v1", "steps": 5_000, "noise": 0.1},
    "ddpg_pendulum": {"model": "DDPG", "env": "Pendulum-v1", "steps": 5_000, "noise": 0.1},
    "ppo_lunarlander": {
        "model": "PPO",
        "env": "LunarLander-v3",
        "steps": 300_000,
        "n_envs": 16,
        "keywords": {
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 4,
            "gamma": 0.999,
            "gae_lambda": 0.98,
            "ent_coef": 0.01,
        },
    },
}


def main() -> None:
    """Trains one model and prints its score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=("rein", "sb3"), required=True)
    parser.add_argument("--task", choices=sorted(TASKS), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--episodes", type=int, default=100)
    given = parser.parse_args()
    root = "rein.compat.sb3" if given.library == "rein" else "stable_baselines3"
    library = importlib.import_module(root)
    make_vec_env = importlib.import_module(f"{root}.common.env_util").make_vec_env
    evaluate_policy = importlib.import_module(f"{root}.common.evaluation").evaluate_policy

    import numpy as np
    import torch

    torch.set_num_threads(1)
    task = TASKS[given.task]
    keywords = dict(task.get("keywords", {}))
    env = make_vec_env(task["env"], n_envs=task.get("n_envs", 1), seed=given.seed)
    if "noise" in task:
        noise = importlib.import_module(f"{root}.common.noise").NormalActionNoise
        size = env.action_space.shape[0]
        keywords["action_noise"] = noise(mean=np.zeros(size), sigma=task["noise"] * np.ones(size))
    begun = time.process_time()
    model = getattr(library, task["model"])("MlpPolicy", env, seed=given.seed, device="cpu", **keywords)
    model.learn(total_timesteps=given.steps or task["steps"])
    seconds = time.process_time() - begun
    test_env = make_vec_env(task["env"], n_envs=10, seed=1_000_000 + given.seed)
    mean, deviation = evaluate_policy(model, test_env, n_eval_episodes=given.episodes)
    print(
        json.dumps(
            {
                "library": given.library,
                "task": given.task,
                "seed": given.seed,
                "steps": model.num_timesteps,
                "mean": round(float(mean), 2),
                "std": round(float(deviation), 2),
                "cpu_seconds": round(seconds, 1),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
