"""Planning by random shooting with a learnt model: the best of many random plans, at every step."""

from functools import partial

from rein.algorithms.model_based import RandomShootingAlgorithm
from rein.config import config, define_config, import_config

ENTRY = {
    "algorithm": "MbrlAlgorithm",
    "actions": "continuous, one vector",
    "reference": "Nagabandi et al. 2018, arXiv:1708.02596",
}

import_config("parts/mbrl.py")

population = define_config("population", 1000)
horizon = define_config("horizon", 20)

planner = partial(RandomShootingAlgorithm, population_size=population, planning_horizon=horizon)
config("MbrlAlgorithm", planner_module_ctor=planner)
