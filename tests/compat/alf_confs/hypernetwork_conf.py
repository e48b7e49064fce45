from functools import partial

import alf
from alf.algorithms.hypernetwork_algorithm import HyperNetwork
from alf.utils.datagen import load_test

alf.config(
    "HyperNetwork",
    data_creator=partial(load_test, train_bs=20),
    output_dim=1,
    fc_layer_params=((8, True),),
    noise_dim=4,
    hidden_layers=(8,),
    num_particles=4,
    entropy_regularization=None,
    par_vi="svgd",
    loss_type="regression",
    optimizer=alf.optimizers.Adam(lr=1e-3),
)
alf.config("TrainerConfig", ml_type="sl", algorithm_ctor=HyperNetwork, num_iterations=3, num_checkpoints=1)
