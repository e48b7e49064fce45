"""Planning by the cross-entropy method with a learnt model: every step plans anew, from what is left of the last plan."""

from functools import partial

from rein.algorithms.model_based import CEMPlanAlgorithm
from rein.config import config, define_config, import_config

ENTRY = {
    "algorithm": "MbrlAlgorithm",
    "actions": "continuous, one vector",
    "reference": "Chua et al. 2018, arXiv:1805.12114",
}

import_config("parts/mbrl.py")

population = define_config("population", 400)
horizon = define_config("horizon", 25)
iterations = define_config("iterations", 5)

planner = partial(
    CEMPlanAlgorithm,
    population_size=population,
    planning_horizon=horizon,
    elite_size=max(2, population // 10),
    max_iter_num=iterations,
)
config("MbrlAlgorithm", planner_module_ctor=planner)
