import alf
from alf.algorithms.agent import Agent
from alf.algorithms.ppo_algorithm import PPOAlgorithm
from alf.algorithms.ppo_loss import PPOLoss

alf.config("Agent", rl_algorithm_cls=PPOAlgorithm)
alf.config("PPOAlgorithm", loss_class=PPOLoss)
alf.config(
    "PPOLoss",
    entropy_regularization=1e-3,
    gamma=0.99,
    td_lambda=0.95,
    importance_ratio_clipping=0.2,
    normalize_advantages=True,
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=Agent,
    whole_replay_buffer_training=True,
    clear_replay_buffer=True,
    mini_batch_length=1,
    num_checkpoints=1,
)
