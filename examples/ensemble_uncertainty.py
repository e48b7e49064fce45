"""PPO on a chain whose near end pays a little and whose far end pays a lot, with and without an ensemble's uncertainty.

    python examples/ensemble_uncertainty.py 0 1 2 3 4     # seeds

Thirty states; a step that ends in the first pays 0.005, so that staying there for all 120 steps is worth 0.6, and reaching
the last pays 1. The bonus is the disagreement of eight networks about the observation (`--with ensemble_uncertainty`).
"""

import json
import sys
import time

import rein

CHAIN = {"num_states": 30, "left_reward": 0.005, "step_cost": 0.0}
STEPS = 12_000


def final_return(seed: int, parts: list[str]) -> float:
    """Mean return of ten episodes of the deterministic policy after training."""
    settings = {
        "create_environment.env_kwargs": CHAIN,
        "create_environment.num_parallel_environments": 8,
        "TrainerConfig.unroll_length": 64,
        "TrainerConfig.num_updates_per_train_iter": 4,
        "TrainerConfig.evaluate": False,
    }
    with rein.make("ppo", env="rein/Chain-v0", parts=parts, seed=seed, settings=settings) as agent:
        agent.train(STEPS, progress=False)
        return float(agent.evaluate(10).mean)


def main() -> None:
    """Trains both on each seed."""
    for seed in map(int, sys.argv[1:] or ["0"]):
        for parts in ([], ["ensemble_uncertainty=0.05"]):
            started = time.perf_counter()
            result = round(final_return(seed, parts), 3)
            seconds = round(time.perf_counter() - started, 1)
            print(json.dumps({"seed": seed, "parts": parts, "return": result, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
