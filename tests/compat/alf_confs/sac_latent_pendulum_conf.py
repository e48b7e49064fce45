from functools import partial

import alf
from alf.networks import LatentActorDistributionNetwork, RealNVPNetwork, UnitNormalActorDistributionNetwork

sac = alf.import_config("sac_conf.py")

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
alf.config("RealNVPNetwork", fc_layer_params=(16,), num_layers=3)
alf.config(
    "LatentActorDistributionNetwork",
    prior_actor_distribution_network_ctor=UnitNormalActorDistributionNetwork,
    normalizing_flow_network_ctor=RealNVPNetwork,
)
alf.config("SacAlgorithm", actor_network_cls=LatentActorDistributionNetwork)
