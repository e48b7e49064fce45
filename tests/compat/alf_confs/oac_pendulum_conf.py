import alf
from alf.algorithms.oac_algorithm import OacAlgorithm

sac = alf.import_config("sac_conf.py")

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
alf.config(
    "OacAlgorithm",
    actor_network_cls=sac.actor_network_cls,
    critic_network_cls=sac.critic_network_cls,
    beta_ub=4.66,
    explore_delta=6.86,
    actor_optimizer=alf.optimizers.Adam(lr=3e-4),
    critic_optimizer=alf.optimizers.Adam(lr=3e-4),
    alpha_optimizer=alf.optimizers.Adam(lr=3e-4),
)
alf.config("TrainerConfig", algorithm_ctor=OacAlgorithm)
