"""Planning by the cross-entropy method in a learnt latent space, whose representation learner predicts rewards."""

from functools import partial

from rein.algorithms.model_based import CEMPlanAlgorithm, LatentMbrlAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ResidualCell

ENTRY = {
    "algorithm": "LatentMbrlAlgorithm",
    "actions": "continuous, one vector",
    "reference": "Hafner et al. 2019, arXiv:1811.04551",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (64, 32)))
population = define_config("population", 300)
horizon = define_config("horizon", 20)
iterations = define_config("iterations", 5)

planner = partial(
    CEMPlanAlgorithm,
    population_size=population,
    planning_horizon=horizon,
    elite_size=max(2, population // 10),
    max_iter_num=iterations,
)
config("LatentMbrlAlgorithm", planner_module_ctor=planner)
# By gates, a model learns what a state earns long before it learns what an action changes of that.
config("predictive", hidden_layers=hidden_layers, learning_rate=learning_rate, decoder_layers=(64,), cell=ResidualCell)
config("compose_agent", parts=[f"predictive={horizon}"])
config(
    "TrainerConfig",
    algorithm_ctor=LatentMbrlAlgorithm,
    initial_collect_steps=400,
    mini_batch_length=1,
    mini_batch_size=128,
    num_updates_per_train_iter=1,
    num_evals=1,
    num_eval_episodes=5,
    num_eval_environments=5,
)
