"""Agents composed of an algorithm of the zoo and parts that are named."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch

from rein.agents import Agent
from rein.agents.assembly import compose_agent
from rein.agents.part_networks import make_encoder
from rein.algorithms.exploration import DIAYNAlgorithm, ICMAlgorithm, RNDAlgorithm
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm
from rein.algorithms.representation import ReconstructionLearner
from rein.config import config, fresh_configs, pre_config
from rein.envs import create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.networks import NestConcat, QNetwork
from rein.runtime.run import Run
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.training.construction import build_algorithm
from rein.training.launch import configure
from rein.transforms import ImageScaleTransformer
from rein.zoo import find_algorithm

SMALL = {
    "create_environment.num_parallel_environments": 2,
    "create_environment.num_workers": 1,
    "hidden_layers": (8,),
    "TrainerConfig.unroll_length": 4,
    "TrainerConfig.initial_collect_steps": 8,
    "TrainerConfig.num_updates_per_train_iter": 1,
    "TrainerConfig.replay_buffer_length": 50,
}
PARTS = {
    "rnd": "rnd",
    "ensemble_uncertainty": "ensemble_uncertainty(num_networks=3, hidden_layers=(8,))",
    "icm": "icm(hidden_layers=(8,), feature_size=4)",
    "diayn": "diayn(num_skills=3, hidden_layers=(8,))",
    "goal_generator": "goal_generator=3",
    "encoding": "encoding=(8,)",
    "predictive": "predictive(num_unroll_steps=2, hidden_layers=(8,))",
    "vae": "vae(z_dim=2, hidden_layers=(8,))",
    "discrete_vae": "discrete_vae(num_variables=3, num_categories=2, hidden_layers=(8,))",
    "vq_vae": "vq_vae(num_codes=4, num_variables=2, code_size=3, hidden_layers=(8,))",
    "entropy_target": "entropy_target=0.3",
    "sgd_entropy_target": "sgd_entropy_target=0.3",
    "lagrangian": "lagrangian=[None, 0.5]",
    "lagrangian_pred": "lagrangian_pred=[None, 0.5]",
}
CODES = ("vae", "discrete_vae", "vq_vae")
ON_POLICY = ("a2c", "trac", "ppo", "ppg")
OFF_POLICY = ("ddpg", "ddqn", "dqn", "mdq", "mpo", "oac", "qrsac", "sac", "sarsa", "taac", "taacl", "taacq", "td3")
DISCRETE = ("dqn", "ddqn")
NO_ENTROPY = {"ddpg", "td3", "dqn", "ddqn", "mpo"}
SCALAR = {"ppg", "mdq", "mpo", "qrsac"}


@pytest.fixture(autouse=True)
def run() -> Iterator[None]:
    """Schedules ask it how far training is."""
    with Run(seed=0):
        yield


def reason(algorithm: str, part: str) -> str | None:
    """Why a pair is illegal."""
    if "entropy" in part and algorithm in NO_ENTROPY:
        return "has no action_distribution"
    if part.startswith("lagrangian") and algorithm in SCALAR:
        return "scalar"
    if algorithm == "ppg" and part in ("goal_generator", "diayn", "encoding", "predictive", *CODES):
        return "auxiliary phase"
    if algorithm in ("a2c", "trac") and part == "predictive":
        return "learns from what follows a step"
    if algorithm == "mdq" and part in ("goal_generator", "diayn"):
        return "no network that takes a goal"
    return None


def build(algorithm: str, parts: Sequence[str], env: str | None = None, **settings: Any) -> RLAlgorithm:
    """The agent that `rein train --algorithm ... --env ... --with ...` makes."""
    name = env or ("CartPole-v1" if algorithm in (*DISCRETE, *ON_POLICY) else "Pendulum-v1")
    given: dict[str, Any] = {"create_environment.env_name": name, "compose_agent.parts": list(parts), **SMALL}
    if algorithm not in ("a2c", "trac"):
        given["TrainerConfig.mini_batch_size"] = 2
    if algorithm in ("ppo", "ppg"):
        given["TrainerConfig.mini_batch_length"] = 2
    if algorithm == "mdq":
        del given["hidden_layers"]
    with fresh_configs():
        pre_config({**given, **settings})
        configure(find_algorithm(algorithm).path)
        torch.manual_seed(0)
        return build_algorithm(TrainerConfig(""), create_environment(seed=0))


FEW = [
    ("a2c", "icm"),
    ("ppo", "icm"),
    ("ppo", "diayn"),
    ("ppo", "entropy_target"),
    ("ppo", "predictive"),
    ("trac", "goal_generator"),
    ("sac", "rnd"),
    ("ppo", "ensemble_uncertainty"),
    ("dqn", "ensemble_uncertainty"),
    ("sac", "diayn"),
    ("sac", "lagrangian"),
    ("taac", "goal_generator"),
    ("mpo", "encoding"),
    ("dqn", "icm"),
    ("td3", "predictive"),
    ("ppg", "sgd_entropy_target"),
    ("dqn", "entropy_target"),
    ("ppg", "encoding"),
    ("sac", "vae"),
    ("a2c", "vae"),
    ("dqn", "discrete_vae"),
    ("ppo", "vq_vae"),
    ("mdq", "diayn"),
    ("a2c", "predictive"),
]
ALL = [(a, p) for a in (*ON_POLICY, *OFF_POLICY) for p in PARTS]
CASES = [pytest.param(*one, id="-".join(one), marks=() if one in FEW else pytest.mark.slow) for one in ALL]


@pytest.mark.parametrize(("algorithm", "part"), CASES)
def test_every_named_pair_trains_or_is_refused_with_the_reason(algorithm: str, part: str) -> None:
    env = "rein/TwoRewards-v0" if part.startswith("lagrangian") else None
    env = "rein/DeepSeaTreasure-v0" if env and algorithm in DISCRETE else env
    why = reason(algorithm, part)
    if why is not None:
        with pytest.raises(ValueError, match=why):
            build(algorithm, [PARTS[part]], env)
        return
    agent = build(algorithm, [PARTS[part]], env)
    assert sum(agent.train_iter() for _ in range(5)) > 0
    assert all(bool(torch.isfinite(parameter).all()) for parameter in agent.parameters())


def test_without_parts_the_algorithm_is_itself() -> None:
    assert compose_agent(PPOAlgorithm) is PPOAlgorithm
    assert type(build("ppo", [])) is PPOAlgorithm


def test_several_parts_make_one_agent() -> None:
    agent = build("ppo", ["diayn=4", "encoding=(8,)", "sgd_entropy_target=0.4"])
    assert isinstance(agent, Agent)
    assert isinstance(agent._irm, DIAYNAlgorithm)
    assert agent._rl_algorithm.observation_spec == [TensorSpec((8,)), BoundedTensorSpec((4,), torch.float32, 0, 1)]
    assert agent._extrinsic_reward_coef == 0.0
    assert agent.get_unoptimized_parameter_info() == ""
    assert agent.train_iter() > 0


def test_an_algorithm_with_an_entropy_target_of_its_own_is_given_the_value() -> None:
    agent = build("sac", ["entropy_target=-3", "rnd=0.25"])
    assert isinstance(agent, Agent)
    assert isinstance(agent._rl_algorithm, SacAlgorithm)
    assert agent._rl_algorithm._target_entropy.tolist() == [-3.0]
    assert agent._entropy_target_algorithm is None
    assert agent._intrinsic_reward_coef == 0.25
    alone = build("sac", ["entropy_target=-3"])
    assert type(alone) is SacAlgorithm
    with pytest.raises(ValueError, match="SacAlgorithm regulates its entropy itself: give the target alone"):
        build("sac", ["entropy_target"])
    with pytest.raises(ValueError, match="itself and cannot be given initial_alpha"):
        build("sac", ["entropy_target(target_entropy=-1, initial_alpha=0.2)"])


def test_parameters_of_parts_are_settings_too() -> None:
    agent = build("ppo", ["rnd"], **{"rnd.coef": 0.75})
    assert agent._intrinsic_reward_coef == 0.75
    agent = build("ppo", ["rnd=0.5"], **{"rnd.coef": 0.75})
    assert agent._intrinsic_reward_coef == 0.5


def test_a_conf_with_an_agent_keeps_its_other_parts() -> None:
    with fresh_configs():
        config("Agent", rl_algorithm_cls=partial(PPOAlgorithm), intrinsic_reward_coef=0.3)
        ctor = compose_agent(Agent, ["icm", "goal_generator=2"])
        assert isinstance(ctor, partial)
        assert ctor.func is Agent
        rl = ctor.keywords["rl_algorithm_cls"]
        assert set(rl.keywords) == {"actor_network_ctor", "value_network_ctor"}
        assert ctor.keywords["intrinsic_reward_module"](TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 1))
        given = compose_agent(partial(Agent, rl_algorithm_cls=ActorCriticAlgorithm), ["rnd"])
        assert given.keywords["rl_algorithm_cls"] is ActorCriticAlgorithm


def test_networks_keep_the_combiner_that_they_were_given() -> None:
    combiner = NestConcat()
    with fresh_configs():
        config("DqnAlgorithm", q_network_cls=partial(QNetwork, preprocessing_combiner=combiner))
        from rein.algorithms.off_policy import DqnAlgorithm

        ctor = compose_agent(DqnAlgorithm, ["goal_generator"])
        network = ctor.keywords["rl_algorithm_cls"].keywords["q_network_cls"]
        assert network.keywords["preprocessing_combiner"] is combiner


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("diayn=1", "part 'diayn=1': num_skills is 1: there must be at least two"),
        ("goal_generator=0", "num_of_goals is 0"),
        ("encoding=()", "hidden_layers is empty"),
        ("lagrangian=[1.0]", "the reward is a scalar"),
    ],
)
def test_values_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("ppo", [text])


def test_encoders_take_vectors_images_numbers_and_nests_of_them() -> None:
    number = BoundedTensorSpec((), torch.int64, 0, 5)
    image = TensorSpec((3, 40, 40))
    specs = {"vector": TensorSpec((3,)), "image": image, "number": number}
    for spec in (*specs.values(), specs, TensorSpec((1, 8, 9))):
        assert make_encoder(spec, (16,), 4).output_spec == TensorSpec((4,))
    assert make_encoder(specs, (16,)).output_spec == TensorSpec((16,))
    with pytest.raises(ValueError, match=r"'matrix' is .* only vectors, images and whole numbers"):
        make_encoder({"matrix": TensorSpec((2, 2))}, (16,))
    with pytest.raises(ValueError, match="sides of at least 7"):
        make_encoder(TensorSpec((1, 3, 9)), (16,))


@pytest.mark.parametrize("make", ["rnd", "icm"])
def test_curiosity_takes_images_and_whole_numbers(make: str) -> None:
    from rein.agents.part_text import read_part

    module = read_part(make).make(PPOAlgorithm)["intrinsic_reward_module"]
    specs = {"image": TensorSpec((1, 12, 12)), "number": BoundedTensorSpec((), torch.int64, 0, 5)}
    algorithm = module(specs, BoundedTensorSpec((), torch.int64, 0, 1))
    assert isinstance(algorithm, RNDAlgorithm | ICMAlgorithm)


@pytest.mark.parametrize(
    "part",
    [
        "vae=3",
        "discrete_vae(num_variables=2)",
        "vq_vae=4",
        "monet(n_slots=2, filters=(4, 4))",
        "monet(n_slots=3, filters=(4, 4), pixel_embedding_size=2)",
    ],
)
def test_codes_of_images_train_an_agent(part: str) -> None:
    images = {
        "TrainerConfig.data_transformer_ctor": ImageScaleTransformer,
        "create_environment.env_kwargs": {"image_size": 16, "square_size": 4, "episode_length": 10},
    }
    agent = build("sac", [part], "rein/BouncingSquares-v0", **images)
    assert sum(agent.train_iter() for _ in range(4)) > 0
    learner = agent._representation_learner
    assert isinstance(learner, ReconstructionLearner)
    assert agent._rl_algorithm.observation_spec == learner.output_spec
    image = torch.rand(3, *agent.observation_spec.shape)
    assert learner.codec.decode(learner.codec.encode(image)).shape == image.shape
    with pytest.raises(ValueError, match="scale images by ImageScaleTransformer"):
        build("sac", [part], "rein/BouncingSquares-v0")


def test_objects_are_sought_in_images_only() -> None:
    with pytest.raises(ValueError, match="finds objects in images"):
        build("sac", ["monet"])
