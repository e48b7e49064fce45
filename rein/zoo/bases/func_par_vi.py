"""FuncParVI: an ensemble of networks for labelled data whose members keep apart."""

from rein.algorithms.particle_vi import FuncParVIAlgorithm
from rein.config import config, define_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "FuncParVIAlgorithm",
    "data": "labelled examples",
    "learns_from": "labelled data",
    "reference": "Liu & Wang 2016, arXiv:1608.04471; Liu et al. 2019, arXiv:1807.01750",
}

learning_rate = define_config("learning_rate", 3e-3)
weight_decay = define_config("weight_decay", 1e-4)

config(
    "FuncParVIAlgorithm",
    fc_layer_params=(100,),
    num_particles=10,
    par_vi="svgd",
    entropy_regularization=None,
    optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (0.5, lr), (1.0, 0.02 * lr)))),
        weight_decay=weight_decay,
    ),
)
config(
    "TrainerConfig",
    ml_type="sl",
    algorithm_ctor=FuncParVIAlgorithm,
    num_iterations=60,
    evaluate=True,
    eval_interval=10,
    summary_interval=1,
    num_checkpoints=5,
)
