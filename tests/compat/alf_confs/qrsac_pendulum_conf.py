import alf
from alf.algorithms.qrsac_algorithm import QrsacAlgorithm
from alf.algorithms.one_step_loss import OneStepTDQRLoss

sac = alf.import_config("sac_conf.py")

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
alf.config(
    "QrsacAlgorithm",
    actor_network_cls=sac.actor_network_cls,
    critic_network_cls=sac.critic_network_cls,
    critic_loss_ctor=OneStepTDQRLoss,
    min_critic_by_critic_mean=True,
    actor_optimizer=alf.optimizers.Adam(lr=3e-4),
    critic_optimizer=alf.optimizers.Adam(lr=3e-4),
    alpha_optimizer=alf.optimizers.Adam(lr=3e-4),
)
alf.config("OneStepTDQRLoss", num_quantiles=8)
alf.config("TrainerConfig", algorithm_ctor=QrsacAlgorithm)
