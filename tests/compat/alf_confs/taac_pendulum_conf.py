import alf
from alf.algorithms.taac_algorithm import TaacAlgorithm

sac = alf.import_config("sac_conf.py")

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
alf.config(
    "TaacAlgorithmBase",
    actor_network_cls=sac.actor_network_cls,
    critic_network_cls=sac.critic_network_cls,
    actor_optimizer=alf.optimizers.Adam(lr=3e-4),
    critic_optimizer=alf.optimizers.Adam(lr=3e-4),
    alpha_optimizer=alf.optimizers.Adam(lr=3e-4),
)
alf.config("TAACTDLoss", gamma=0.99)
alf.config("TrainerConfig", algorithm_ctor=TaacAlgorithm, mini_batch_length=3)
