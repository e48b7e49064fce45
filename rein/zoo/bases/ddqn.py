"""Double deep Q-learning: DQN whose own network chooses the action that the target network values."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "actions": "one discrete",
    "reference": "van Hasselt et al. 2016, arXiv:1509.06461",
}

import_config("dqn.py")

config("DqnAlgorithm", target_net_target_action=False)
