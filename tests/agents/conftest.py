"""A tiny world, RL algorithms and parts by name, and agents built of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.agents import Agent
from rein.algorithms.exploration import DIAYNAlgorithm, ICMAlgorithm, RandomCategoricalGoalGenerator, RNDAlgorithm
from rein.algorithms.losses import PPOLoss
from rein.algorithms.model_based import (
    CEMPlanAlgorithm,
    DeterministicDynamicsAlgorithm,
    LatentMbrlAlgorithm,
    LearnedRewardFunction,
    MbrlAlgorithm,
)
from rein.algorithms.off_policy import ddpg, dqn, sac, td3
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.algorithms.on_policy.ppg import PPGAlgorithm, PPGAuxOptions
from rein.algorithms.on_policy.trac import TracAlgorithm
from rein.algorithms.regularization import (
    EntropyTargetAlgorithm,
    LagrangianPredRewardWeightAlgorithm,
    LagrangianRewardWeightAlgorithm,
    NestedEntropyTargetAlgorithm,
    SGDEntropyTargetAlgorithm,
)
from rein.algorithms.representation import EncodingAlgorithm, PredictiveRepresentationLearner, SimpleDecoder
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    ActorNetwork,
    CriticNetwork,
    EncodingNetwork,
    LSTMEncodingNetwork,
    NestConcat,
    QNetwork,
    ValueNetwork,
    ValueRNNNetwork,
)
from rein.networks.layers import identity
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
SPACES: dict[str, gym.Space[Any]] = {
    "discrete": Discrete(3),
    "continuous": Box(-1.0, 2.0, (2,), np.float32),
    "mixed": gym.spaces.Tuple((Discrete(3), Box(-1.0, 1.0, (2,), np.float32))),
}


class Tiny(gym.Env[Any, Any]):
    """Random observations; episodes of four steps, ended in turn by a terminal state and by a time limit."""

    observation_space = Box(-10, 10, (3,), np.float32)

    def __init__(self, actions: str, reward_dim: int | None = None) -> None:
        self.action_space = SPACES[actions]
        if reward_dim is not None:
            self.reward_space = Box(-10, 10, (reward_dim,), np.float32)
        self.reward_dim = reward_dim
        self.episodes = 0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        ends, terminates = self.steps == 4, self.episodes % 2 == 0
        reward = self.np_random.normal(size=self.reward_dim or ()).astype(np.float32)
        reward = float(reward) if self.reward_dim is None else reward
        return self._observation(), reward, ends and terminates, ends and not terminates, {}

    def _observation(self) -> Any:
        return self.np_random.normal(size=3).astype(np.float32)


FRESH = dict(unroll_length=8, mini_batch_length=4, mini_batch_size=2, num_updates_per_train_iter=2)
ROLLOUT = dict(unroll_length=8)
REPLAY = dict(
    unroll_length=3,
    initial_collect_steps=8,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=50,
)

# Every network takes nested observations, as goals make them.
COMBINED = {"preprocessing_combiner": NestConcat(), "fc_layer_params": (8,)}
OBSERVED = {"observation_preprocessing_combiner": NestConcat(), "joint_fc_layer_params": (8,)}
AC_NETS = {
    "actor_network_ctor": partial(ActorDistributionNetwork, **COMBINED),
    "value_network_ctor": partial(ValueNetwork, **COMBINED),
}
RNN = {"preprocessing_combiner": NestConcat(), "lstm_hidden_size": 8}
AC_RNNS = {
    "actor_network_ctor": partial(ActorDistributionRNNNetwork, **RNN),
    "value_network_ctor": partial(ValueRNNNetwork, **RNN),
}
SAC_NETS = {
    "actor_network_cls": partial(ActorDistributionNetwork, **COMBINED),
    "critic_network_cls": partial(CriticNetwork, **OBSERVED),
    "q_network_cls": partial(QNetwork, **COMBINED),
}
DDPG_NETS = {
    "actor_network_ctor": partial(ActorNetwork, **COMBINED),
    "critic_network_ctor": partial(CriticNetwork, **OBSERVED),
}

CEM = partial(CEMPlanAlgorithm, population_size=4, planning_horizon=2, elite_size=2, max_iter_num=1)

# Name -> (constructor of the algorithm, its actions, settings).
ALGORITHMS: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "a2c": (partial(ActorCriticAlgorithm, **AC_NETS), "discrete", ROLLOUT),
    "a2c_recurrent": (partial(ActorCriticAlgorithm, **AC_RNNS), "mixed", ROLLOUT),
    "ppo": (partial(PPOAlgorithm, loss_class=PPOLoss, **AC_NETS), "continuous", FRESH),
    "ppo_recurrent": (
        partial(PPOAlgorithm, loss_class=PPOLoss, **AC_RNNS),
        "mixed",
        {**FRESH, "use_rollout_state": True},
    ),
    "ppg": (
        partial(
            PPGAlgorithm,
            aux_options=PPGAuxOptions(interval=2, mini_batch_size=4, num_updates_per_train_iter=1),
            encoding_network_ctor=partial(EncodingNetwork, **COMBINED),
        ),
        "discrete",
        FRESH,
    ),
    "trac": (
        partial(TracAlgorithm, ac_algorithm_cls=partial(ActorCriticAlgorithm, **AC_NETS)),
        "discrete",
        ROLLOUT,
    ),
    "sac_continuous": (partial(sac.SacAlgorithm, **SAC_NETS), "continuous", REPLAY),
    "sac_one_transition": (partial(sac.SacAlgorithm, one_transition=True, **SAC_NETS), "continuous", REPLAY),
    "sac_discrete": (partial(sac.SacAlgorithm, **SAC_NETS), "discrete", REPLAY),
    "dqn": (partial(dqn.DqnAlgorithm, q_network_cls=SAC_NETS["q_network_cls"]), "discrete", REPLAY),
    "ddpg": (partial(ddpg.DdpgAlgorithm, **DDPG_NETS), "continuous", REPLAY),
    "td3": (partial(td3.Td3Algorithm, **DDPG_NETS), "continuous", REPLAY),
    "mbrl": (
        partial(
            MbrlAlgorithm,
            reward_module=partial(LearnedRewardFunction, hidden_size=8),
            planner_module_ctor=CEM,
            dynamics_module_ctor=partial(DeterministicDynamicsAlgorithm, hidden_size=8),
        ),
        "continuous",
        REPLAY,
    ),
    "latent_mbrl": (partial(LatentMbrlAlgorithm, planner_module_ctor=CEM), "continuous", REPLAY),
}


def rnd(observation_spec: Any, action_spec: Any) -> RNDAlgorithm:
    network = partial(EncodingNetwork, observation_spec, preprocessing_combiner=NestConcat(), fc_layer_params=(4,))
    return RNDAlgorithm(
        network(), network(), reward_adapt_speed=8.0, observation_adapt_speed=8.0, **_flat(observation_spec)
    )


def _flat(observation_spec: Any) -> dict[str, Any]:
    return {"observation_spec": observation_spec}


def icm(observation_spec: Any, action_spec: Any) -> ICMAlgorithm:
    encoder = EncodingNetwork(observation_spec, preprocessing_combiner=NestConcat(), fc_layer_params=(4,))
    return ICMAlgorithm(action_spec, observation_spec, hidden_size=8, encoding_net=encoder, optimizer=Adam(lr=1e-2))


def goals(observation_spec: Any, action_spec: Any) -> RandomCategoricalGoalGenerator:
    return RandomCategoricalGoalGenerator(observation_spec, 3)


def diayn(observation_spec: Any, action_spec: Any) -> DIAYNAlgorithm:
    skill_spec = BoundedTensorSpec((), torch.int64, 0, 2)
    return DIAYNAlgorithm(skill_spec, EncodingNetwork(observation_spec[0], fc_layer_params=(4,)))


encoder = partial(
    EncodingAlgorithm, encoder_cls=partial(EncodingNetwork, fc_layer_params=(5,)), optimizer=Adam(lr=1e-2)
)
recurrent_encoder = partial(EncodingAlgorithm, encoder_cls=partial(LSTMEncodingNetwork, hidden_size=5))


def dynamics(action_spec: Any) -> LSTMEncodingNetwork:
    preprocessors = None
    if isinstance(action_spec, tuple):
        raise ValueError("mixed actions need a preprocessor")
    if action_spec.is_discrete:
        from rein.networks import EmbeddingPreprocessor

        preprocessors = EmbeddingPreprocessor(action_spec, embedding_dim=5)
    return LSTMEncodingNetwork(action_spec, input_preprocessors=preprocessors, hidden_size=5)


def reward_decoder(latent_spec: TensorSpec) -> SimpleDecoder:
    network = partial(EncodingNetwork, output_tensor_spec=TensorSpec(()), last_layer_size=1, last_activation=identity)
    return SimpleDecoder(latent_spec, "reward", network)


predictive = partial(
    PredictiveRepresentationLearner,
    num_unroll_steps=2,
    decoder_ctor=reward_decoder,
    encoding_net_ctor=partial(EncodingNetwork, fc_layer_params=(5,)),
    dynamics_net_ctor=dynamics,
    encoding_optimizer=Adam(lr=1e-2),
)

lagrangian = partial(LagrangianRewardWeightAlgorithm, reward_thresholds=[None, 0.5], optimizer=Adam(lr=1e-1))
lagrangian_pred = partial(LagrangianPredRewardWeightAlgorithm, reward_thresholds=[None, 0.5], optimizer=Adam(lr=1e-1))

# Name -> arguments of the agent, and the number of rewards.
PARTS: dict[str, tuple[dict[str, Any], int | None]] = {
    "nothing": ({}, None),
    "icm": ({"intrinsic_reward_module": icm, "intrinsic_reward_coef": 0.5}, None),
    "rnd": ({"intrinsic_reward_module": rnd}, None),
    "goals": ({"goal_generator": goals}, None),
    "diayn": ({"goal_generator": goals, "intrinsic_reward_module": diayn, "extrinsic_reward_coef": 0.0}, None),
    "entropy_target": ({"enforce_entropy_target": True}, None),
    "nested_entropy_target": ({"entropy_target_cls": NestedEntropyTargetAlgorithm}, None),
    "total_entropy_target": ({"entropy_target_cls": EntropyTargetAlgorithm}, None),
    "sgd_entropy_target": ({"entropy_target_cls": partial(SGDEntropyTargetAlgorithm, optimizer=Adam(lr=1e-2))}, None),
    "encoding": ({"representation_learner_cls": encoder}, None),
    "recurrent_encoding": ({"representation_learner_cls": recurrent_encoder}, None),
    "predictive": ({"representation_learner_cls": predictive}, None),
    "lagrangian": ({"reward_weight_algorithm_cls": lagrangian}, 2),
    "lagrangian_pred": ({"reward_weight_algorithm_cls": lagrangian_pred}, 2),
    "much": (
        {
            "representation_learner_cls": encoder,
            "goal_generator": goals,
            "intrinsic_reward_module": icm,
        },
        None,
    ),
}


@pytest.fixture
def build() -> Callable[..., Agent]:
    """Builds an agent: `build(algorithm, part, seed=, **settings)`."""

    def make(
        algorithm: str, part: str, seed: int = 0, arguments: dict[str, Any] | None = None, **settings: Any
    ) -> Agent:
        ctor, actions, defaults = ALGORITHMS[algorithm]
        part_arguments, reward_dim = PARTS[part]
        torch.manual_seed(seed)
        env = create_environment(partial(Tiny, actions, reward_dim), 2, backend="sync", seed=seed)
        if part == "lagrangian_pred":
            settings = {"evaluate": True, **settings}
        agent = Agent(
            env.observation_spec,
            env.action_spec,
            env.reward_spec,
            env=env,
            config=TrainerConfig("", **{**defaults, **settings}),
            rl_algorithm_cls=ctor,
            optimizer=Adam(lr=1e-2),
            **{**part_arguments, **(arguments or {})},
        )
        agent.set_path("")
        return agent

    return make


@pytest.fixture
def algorithms() -> list[str]:
    return list(ALGORITHMS)


@pytest.fixture
def parts() -> list[str]:
    return list(PARTS)
