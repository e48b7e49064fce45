"""TaacL: TAAC that goes on along a straight line of actions."""

from rein.algorithms.off_policy import TaacLAlgorithm
from rein.config import config, import_config

ENTRY = {
    "algorithm": "TaacLAlgorithm",
    "actions": "one continuous vector",
    "reference": "Yu et al. 2021, arXiv:2104.06521",
}

import_config("taac.py")

config("TrainerConfig", algorithm_ctor=TaacLAlgorithm)
