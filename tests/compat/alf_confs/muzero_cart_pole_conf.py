from functools import partial

import alf
from alf.algorithms.mcts_algorithm import MCTSAlgorithm, VisitSoftmaxTemperatureByProgress
from alf.algorithms.mcts_models import SimpleMCTSModel
from alf.algorithms.muzero_algorithm import MuzeroAlgorithm
from alf.algorithms.muzero_representation_learner import MuzeroRepresentationImpl
from alf.utils.math_ops import Sqrt1pTransform
from alf.utils.value_losses import OrderedDiscreteRegressionLoss, AsymmetricSimSiamLoss
from alf.optimizers import AdamTF

alf.config("create_environment", env_name="CartPole-v1", num_parallel_environments=2)
loss = OrderedDiscreteRegressionLoss(transform=Sqrt1pTransform())
alf.config("SimplePredictionNet", num_quantiles=21)
alf.config(
    "MCTSModel", value_loss=loss, reward_loss=loss, repr_loss=AsymmetricSimSiamLoss(input_size=16, output_size=8)
)
alf.config(
    "MCTSAlgorithm",
    num_simulations=4,
    discount=0.99,
    is_two_player_game=False,
    root_dirichlet_alpha=0.3,
    root_exploration_fraction=0.25,
    pb_c_base=19652,
    pb_c_init=1.25,
    visit_softmax_temperature_fn=VisitSoftmaxTemperatureByProgress([(0.5, 1.0), (1.0, 0.25)]),
)
alf.config(
    "MuzeroAlgorithm",
    discount=0.99,
    mcts_algorithm_ctor=MCTSAlgorithm,
    representation_learner_ctor=partial(
        MuzeroRepresentationImpl, model_ctor=SimpleMCTSModel, num_unroll_steps=2, td_steps=3
    ),
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=partial(MuzeroAlgorithm, optimizer=AdamTF(lr=1e-3)),
    num_iterations=3,
    unroll_length=8,
    initial_collect_steps=16,
    mini_batch_length=1,
    mini_batch_size=8,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_checkpoints=1,
)
