"""HyperNetwork: a generator of networks for labelled data that follow the posterior."""

from rein.algorithms.particle_vi import HyperNetwork
from rein.config import config, define_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "HyperNetwork",
    "data": "labelled examples",
    "learns_from": "labelled data",
    "reference": "Ratzlaff & Fuxin 2019, arXiv:1901.11058; Ratzlaff et al. 2021, arXiv:2107.00107",
}

learning_rate = define_config("learning_rate", 2e-3)
weight_decay = define_config("weight_decay", 1e-4)

config(
    "HyperNetwork",
    fc_layer_params=(100,),
    noise_dim=32,
    hidden_layers=(64,),
    num_particles=10,
    entropy_regularization=None,
    par_vi="gfsf",
    optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (0.5, lr), (1.0, 0.02 * lr)))),
        weight_decay=weight_decay,
    ),
)
config(
    "TrainerConfig",
    ml_type="sl",
    algorithm_ctor=HyperNetwork,
    num_iterations=60,
    evaluate=True,
    eval_interval=10,
    summary_interval=1,
    num_checkpoints=5,
)
