"""A learner as the root algorithm of a run."""

import copy
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rein.config import fresh_configs, install_name_resolver, pre_config
from rein.config.data_values import Decoder, Encoder
from rein.data_structures import Experience, StepType, TimeStep
from rein.distributed import Scheme, attach
from rein.envs import create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.learners import TD3
from rein.learners.batches import ACT, DONE, DONE2, OBS, OBS2, PER_WEIGHTS, REW
from rein.learners.learner_algorithm import _sequence_rows, _transitions
from rein.runtime import Run
from rein.runtime.run import current_run
from rein.training.construction import build_algorithm
from rein.training.launch import configure
from rein.zoo import find_task

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


def steps(types: list[int], discounts: list[float]) -> TimeStep:
    """One sequence: observations 0, 1, 2, ..., rewards 0, 10, 20, ..."""
    count = torch.arange(float(len(types)))
    return TimeStep(
        step_type=torch.tensor([types], dtype=torch.int32),
        reward=10 * count.unsqueeze(0),
        discount=torch.tensor([discounts]),
        observation=count.reshape(1, -1, 1),
    )


def test_transitions_of_three_steps_by_hand() -> None:
    action = torch.tensor([[5, 6, 7, 8]])
    batch = _transitions(steps([M, M, M, M], [1.0] * 4), action, 3, 0.5)
    assert batch[REW].item() == 10 + 0.5 * 20 + 0.25 * 30
    assert (batch[OBS].item(), batch[OBS2].item(), batch[ACT].item()) == (0, 3, 5)
    assert (batch[DONE].item(), batch[DONE2].item(), batch[PER_WEIGHTS].item()) == (0, 0, 1)
    # A time limit after two steps: bootstrapped from there, with the square of gamma.
    batch = _transitions(steps([F, M, L, F], [1.0] * 4), action, 3, 0.5)
    assert batch[REW].item() == 10 + 0.5 * 20
    assert batch[OBS2].item() == 2
    assert 0.5**3 * (1 - batch[DONE2].item()) == pytest.approx(0.5**2)
    assert batch[DONE].item() == 1
    # A true end after one step.
    batch = _transitions(steps([M, L, F, M], [1.0, 0.0, 1.0, 1.0]), action, 3, 0.5)
    assert (batch[REW].item(), batch[DONE2].item()) == (10, 1)
    # Nothing begins at the end of an episode.
    assert _transitions(steps([L, F, M, M], [1.0] * 4), action, 3, 0.5)[PER_WEIGHTS].item() == 0


def test_rows_of_sequences_by_hand() -> None:
    batch = _sequence_rows(steps([M, L, F, M], [1.0, 0.0, 1.0, 1.0]), torch.tensor([[5, 6, 7, 8]]), 1, 0.5)
    assert batch[OBS].flatten().tolist() == [0, 1, 2]
    assert batch[OBS2].flatten().tolist() == [1, 2, 3]
    assert batch[REW].flatten().tolist() == [10, 20, 30]
    assert batch[DONE].flatten().tolist() == [0, 0, 1]
    assert batch[DONE2].flatten().tolist() == [1, 1, 0]
    assert batch[PER_WEIGHTS].flatten().tolist() == [1, 0, 1]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:

        def make(name: str, seed: int = 0, **scheme: Any) -> RLAlgorithm:
            stack.enter_context(fresh_configs())
            install_name_resolver()
            given = {"TrainerConfig.num_env_steps": 10000, "create_environment.num_parallel_environments": 2}
            pre_config({**given, "create_environment.num_workers": 1}, place="test")
            configure(find_task(name).path)
            run = Run(seed=seed)
            stack.enter_context(run)
            run.seed_everything()
            torch.manual_seed(seed)
            world = create_environment(seed=seed)
            stack.callback(world.close)
            config = TrainerConfig(root_dir=str(tmp_path))
            algorithm = build_algorithm(config, world)
            algorithm.learning.settings = replace(algorithm.learning.settings, initial_collect_steps=32)
            stack.callback(algorithm.close_rollout)
            attach(algorithm, Scheme(**scheme))
            return algorithm

        yield make


def vector(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()


@pytest.mark.parametrize("name", ["ddqn_learner_cartpole", "td3_learner_pendulum", "mpo_learner_pendulum"])
@pytest.mark.parametrize("scheme", [{}, {"collectors": 2, "gradient_workers": 2, "fragment_steps": 32}])
def test_learners_are_driven_like_any_algorithm(build: Any, name: str, scheme: dict[str, Any]) -> None:
    algorithm = build(name, **scheme)
    before = vector(algorithm)
    for _ in range(24 if "pendulum" in name else 4):
        algorithm.train_iter()
    assert algorithm.learner.iter > 0
    assert not torch.equal(vector(algorithm), before)
    if scheme and name.startswith("ddqn"):
        # What acting depends on travels with the weights.
        algorithm.rollout._gather(4)
        target = algorithm.rollout._team._workers[1].service.target
        assert target._algorithm.learner.epsilon == algorithm.learner.epsilon < 1


def test_a_saved_learner_goes_on_exactly(build: Any) -> None:
    algorithm = build("sac_learner_pendulum")
    for _ in range(20):
        algorithm.train_iter()
    state = algorithm.training_state()
    weights, numbers = copy.deepcopy(dict(algorithm.state_dict())), copy.deepcopy(current_run().state_dict())
    for _ in range(4):
        algorithm.train_iter()
    other = build("sac_learner_pendulum", seed=5)
    other.load_training_state(state)
    other.load_state_dict(weights)
    current_run().load_state_dict(numbers)
    assert other.learner.iter > 0
    for _ in range(4):
        other.train_iter()
    assert torch.equal(vector(other), vector(algorithm))
    assert other.learner.log_alpha.item() == algorithm.learner.log_alpha.item() != 0.0


def test_experience_of_a_recurrent_actor_becomes_sequences_with_stored_states() -> None:
    from functools import partial

    from rein.learners import SAC, LearnerAlgorithm, build_network_actor
    from rein.networks import ActorDistributionRNNNetwork, CriticRNNNetwork
    from rein.specs import BoundedTensorSpec, TensorSpec

    small: Any = {"lstm_hidden_size": (4,)}
    algorithm = LearnerAlgorithm(
        TensorSpec((1,)),
        BoundedTensorSpec((1,), minimum=-1, maximum=1),
        learner=SAC.create_factory()[0],
        actor=partial(
            build_network_actor,
            critic_ctor=partial(CriticRNNNetwork, joint_fc_layer_params=(4,), **small),
            policy_ctor=partial(ActorDistributionRNNNetwork, fc_layer_params=(), **small),
            num_critics=2,
        ),
    )
    states = {key: torch.randn(1, 4, *spec.shape) for key, spec in algorithm.train_state_spec.items()}
    experience = Experience(steps([F, M, M, M], [1.0] * 4), rollout_info=torch.zeros(1, 4, 1), state=states)
    batch = algorithm.batch_of(experience, torch.tensor([0.5]))
    for key in states:
        assert torch.equal(batch["RecurrentHiddenStates"][key], states[key][:, 0])
        assert torch.equal(batch["NextRecurrentHiddenStates"][key], states[key][:, 1])
    assert batch[PER_WEIGHTS].flatten().tolist() == [0.5] * 3
    algorithm.learner.compute_gradients({**batch, OBS: torch.cat([batch[OBS]])})


def test_a_factory_is_kept_as_data() -> None:
    made, name = TD3.create_factory(lr_q=0.5, num_updates=7)
    data = json.loads(json.dumps(Encoder().encode(made)))
    again = Decoder().decode(data)
    assert name == "TD3"
    assert again.kind is TD3
    assert again.settings == made.settings
    assert again.settings["lr_q"] == 0.5
    assert again.settings["num_updates"] == 7
