"""Recall with a gap of twelve steps, learnt from rollouts of six: by memory, not by gradients through time."""

from functools import partial

import pytest
import torch

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm, MerlinAlgorithm
from rein.algorithms.on_policy.merlin_codecs import merlin_decoder, merlin_encoder
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.networks.state import zero_state
from rein.optimizers import AdamTF

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1800)]

ITERATIONS, ENVIRONMENTS, UNROLL, GAP = 400, 200, 6, 12


def reward_at_the_end(make, seed, gap=GAP, iterations=ITERATIONS):
    """Mean reward of the last steps of episodes of the trained policy, its actions not sampled."""
    torch.manual_seed(seed)
    world = partial(create_environment, "rein/Recall-v0", ENVIRONMENTS, "sync", env_kwargs={"delay": gap})
    with world(seed=seed) as env:
        algorithm = make(
            env.observation_spec,
            env.action_spec,
            env=env,
            config=TrainerConfig("", unroll_length=UNROLL),
            optimizer=AdamTF(lr=3e-3, gradient_clipping=10.0, clip_by_global_norm=True),
        )
        for _ in range(iterations):
            algorithm.train_iter()
    with world(seed=1000 + seed) as env, torch.no_grad():
        time_step, state = env.reset(), zero_state(algorithm.predict_state_spec, ENVIRONMENTS)
        while not time_step.is_last().all():
            step = algorithm.predict_step(time_step, state)
            time_step, state = env.step(step.output), step.state
        return time_step.reward.mean().item()


LOSS = partial(ActorCriticLoss, entropy_regularization=0.01)


def merlin(*specs, **arguments):
    return MerlinAlgorithm(
        *specs,
        encoders=partial(merlin_encoder, hidden_layers=(), size=3),
        decoders=partial(merlin_decoder, hidden_layers=(), loss_weight=100.0),
        latent_dim=4,
        lstm_size=(4,),
        memory_size=20,
        rl_loss=LOSS(),
        **arguments,
    )


def lstm(*specs, **arguments):
    layers = dict(fc_layer_params=(64,), lstm_hidden_size=(64,), activation=torch.tanh)
    return ActorCriticAlgorithm(
        *specs,
        actor_network_ctor=partial(ActorDistributionRNNNetwork, **layers),
        value_network_ctor=partial(ValueRNNNetwork, **layers),
        loss=LOSS(),
        **arguments,
    )


@pytest.mark.parametrize("seed", range(5))
def test_merlin_recalls_what_lies_before_the_rollout(seed):
    reward = reward_at_the_end(merlin, seed)
    print(f"MERLIN, seed {seed}: {reward:.4f}")
    assert reward >= 0.99


@pytest.mark.parametrize("seed", range(5))
def test_an_lstm_recalls_only_what_lies_within_the_rollout(seed):
    beyond = reward_at_the_end(lstm, seed)
    within = reward_at_the_end(lstm, seed, gap=4, iterations=150)
    print(f"LSTM, seed {seed}: {beyond:.4f} beyond the rollout, {within:.4f} within")
    assert beyond < 0.8
    assert within >= 0.95
