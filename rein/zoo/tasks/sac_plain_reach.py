"""SAC on reaching points, rewarded at the goal only: it never meets the reward, which is the point (see sac_hybrid_reach)."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.networks import ActorDistributionNetwork, CriticNetwork, NestConcat, NormalProjectionNetwork

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/Reach-v0",
    "env_steps": 50_000,
    "measure": "success_rate",
    "at_most": 0.15,
    "reference": "what sac_hybrid_reach is compared with",
}

pre_config({"hidden_layers": (64, 64), "learning_rate": 1e-3})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config(
    "create_environment",
    env_name="rein/Reach-v0",
    num_parallel_environments=4,
    backend="sync",
    env_kwargs={"tolerance": 0.02},
)
config(
    "SacAlgorithm",
    actor_network_cls=partial(
        ActorDistributionNetwork,
        fc_layer_params=(64, 64),
        preprocessing_combiner=NestConcat(),
        continuous_projection_net_ctor=NormalProjectionNetwork,
    ),
    critic_network_cls=partial(
        CriticNetwork, joint_fc_layer_params=(64, 64), observation_preprocessing_combiner=NestConcat()
    ),
    target_entropy=None,
    target_update_tau=0.05,
)
config("OneStepTDLoss", gamma=0.95)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    initial_collect_steps=1000,
    replay_buffer_length=12_500,
    num_updates_per_train_iter=2,
    mini_batch_size=128,
    num_eval_environments=20,
)
