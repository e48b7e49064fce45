"""Scores of Stable-Baselines3 with nothing set, for the page of our defaults.

    <python with stable-baselines3> benchmarks/sb3_defaults.py --pairs ppo/CartPole-v1 --seeds 3 --out sb3.json
    python benchmarks/sb3_defaults.py --take sb3.json      # with Rein: into docs/results/defaults/, and the page

One environment, as that library has it if nothing is said, one torch thread, evaluation by its `evaluate_policy`. DDPG and
TD3 get the noise that every example of theirs has, since without it they do not explore.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

STEPS = {
    "CartPole-v1": 50_000,
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 100_000,
    "LunarLander-v3": 100_000,
    "Pendulum-v1": 20_000,
    "MountainCarContinuous-v0": 50_000,
    "InvertedPendulum-v5": 20_000,
    "Reacher-v5": 50_000,
}
"""Those of `rein.zoo.defaults.TASKS`, which this Python need not have; `--take` refuses others."""


def train(pair: str, seed: int, episodes: int) -> float:
    """Mean return of a model that was trained with nothing set."""
    import numpy as np
    import stable_baselines3 as library
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    algorithm, _, env_id = pair.partition("/")
    env = make_vec_env(env_id, n_envs=1, seed=seed)
    keywords: dict[str, Any] = {}
    if algorithm in ("ddpg", "td3"):
        size = env.action_space.shape[0]
        keywords["action_noise"] = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
    model = getattr(library, algorithm.upper())("MlpPolicy", env, seed=seed, device="cpu", **keywords)
    model.learn(total_timesteps=STEPS[env_id])
    test_env = make_vec_env(env_id, n_envs=10, seed=1_000_000 + seed)
    return float(evaluate_policy(model, test_env, n_eval_episodes=episodes)[0])


def blank(pair: str, episodes: int) -> dict[str, Any]:
    """The figures of a pair before its first seed."""
    import gymnasium
    import stable_baselines3
    import torch

    algorithm, _, env_id = pair.partition("/")
    return {
        "algorithm": algorithm,
        "env": env_id,
        "env_steps": STEPS[env_id],
        "episodes": episodes,
        "seeds": [],
        "versions": {
            "stable-baselines3": stable_baselines3.__version__,
            "torch": torch.__version__.partition("+")[0],
            "gymnasium": gymnasium.__version__,
        },
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(pairs: list[str], seeds: int, episodes: int, out: Path) -> None:
    """Trains the seeds of each pair that `out` does not have; each is stored when it is done."""
    found: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    known = {f"{one['algorithm']}/{one['env']}": one for one in found}
    for pair in pairs:
        if pair not in known:
            known[pair] = blank(pair, episodes)
            found.append(known[pair])
        done = known[pair]["seeds"]
        for seed in range(len(done), seeds):
            begun = time.monotonic()
            done.append({"seed": seed, "mean_return": train(pair, seed, episodes)})
            out.write_text(json.dumps(found, indent=1))
            print(f"{pair} seed {seed}: {done[-1]['mean_return']:.4g}, {time.monotonic() - begun:.0f} s", flush=True)


def take(path: Path) -> None:
    """Adds figures to those of the project."""
    from rein.zoo.defaults import pairs
    from rein.zoo.defaults_page import write_figures

    figures = json.loads(path.read_text())
    known = {pair.name: pair.task.env_steps for pair in pairs()}
    for one in figures:
        name = f"{one['algorithm']}/{one['env']}"
        if known.get(name) != one["env_steps"]:
            raise SystemExit(f"{name} with {one['env_steps']:,} steps is not among what Rein is tried on")
    write_figures("stable_baselines3", figures)


def main() -> None:
    """Trains what was asked for, or takes what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="+", default=[], metavar="ALGORITHM/ENV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--take", type=Path)
    given = parser.parse_args()
    if given.take:
        take(given.take)
        return
    measure(given.pairs, given.seeds, given.episodes, given.out)


if __name__ == "__main__":
    main()
