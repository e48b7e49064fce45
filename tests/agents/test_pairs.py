"""Every RL algorithm with every part: legal pairs train, illegal ones are refused at construction with the reason."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rein import nest
from rein.agents import Agent
from rein.networks.state import zero_state
from rein.specs import check_matches

ALGORITHMS = [
    "a2c",
    "a2c_recurrent",
    "ppo",
    "ppo_recurrent",
    "ppg",
    "trac",
    "sac_continuous",
    "sac_one_transition",
    "sac_discrete",
    "dqn",
    "ddpg",
    "td3",
    "mbrl",
    "latent_mbrl",
]
PARTS = [
    "nothing",
    "icm",
    "rnd",
    "goals",
    "diayn",
    "entropy_target",
    "nested_entropy_target",
    "total_entropy_target",
    "sgd_entropy_target",
    "encoding",
    "recurrent_encoding",
    "predictive",
    "lagrangian",
    "lagrangian_pred",
    "much",
]
ENTROPY_TARGETS = ["entropy_target", "nested_entropy_target", "total_entropy_target", "sgd_entropy_target"]
OFF_POLICY = ["sac_continuous", "sac_one_transition", "sac_discrete", "dqn", "ddpg", "td3", "mbrl"]

# (algorithm, part) -> what the message says.
ILLEGAL = {
    **{(algorithm, part): "has no action_distribution" for algorithm in OFF_POLICY for part in ENTROPY_TARGETS},
    **{(algorithm, "predictive"): "learns from what follows a step" for algorithm in ("a2c", "trac")},
    **{
        ("ppg", part): "auxiliary phase"
        for part in ("goals", "diayn", "encoding", "recurrent_encoding", "predictive", "much")
    },
}
ILLEGAL.update({("mbrl", part): "models how a single tensor changes" for part in ("goals", "diayn", "much")})
# Whatever else there is, it needs the learner that it plans with.
ILLEGAL.update({("latent_mbrl", part): "PredictiveRepresentationLearner" for part in PARTS if part != "predictive"})
# Goals come first: they make a nest of the latent.
ILLEGAL.update({("latent_mbrl", part): "models how a single tensor changes" for part in ("goals", "diayn", "much")})
# Its dynamics would need a network for mixed actions, which has nothing to do with the pair.
LEFT_OUT = {("a2c_recurrent", "predictive"), ("ppo_recurrent", "predictive")}
LEGAL = [(a, p) for a in ALGORITHMS for p in PARTS if (a, p) not in ILLEGAL and (a, p) not in LEFT_OUT]

Build = Callable[..., Agent]


def test_the_tables_are_complete(algorithms: list[str], parts: list[str]) -> None:
    assert algorithms == ALGORITHMS
    assert parts == PARTS


@pytest.mark.parametrize(("algorithm", "part"), LEGAL, ids=lambda name: name)
def test_legal_pairs_are_built_and_trained(build: Build, algorithm: str, part: str) -> None:
    # Recurrent weights learn from sequences of two steps only if they begin with a stored state.
    agent = build(algorithm, part, use_rollout_state=part == "recurrent_encoding" or algorithm == "ppo_recurrent")
    before = {name: p.detach().clone() for name, p in agent.named_parameters()}
    trained = [agent.train_iter() for _ in range(4 if algorithm in (*OFF_POLICY, "latent_mbrl") else 2)]
    assert sum(trained) > 0
    handled = Counter(p for o in agent.optimizers() for g in o.param_groups for p in g["params"])
    assert all(number == 1 for number in handled.values())
    for entry in json.loads(agent.get_optimizer_info()):
        assert entry["optimizer"] != "None", f"no optimizer handles {entry['parameters']}"
    names = {name: p for name, p in agent.named_parameters() if p in handled}
    still = [name for name, p in names.items() if torch.equal(p, before[name])]
    assert not still, f"training changed nothing in {still}"
    assert all(torch.isfinite(p).all() for p in names.values())


@pytest.mark.parametrize(("algorithm", "part"), sorted(ILLEGAL), ids=lambda name: name)
def test_illegal_pairs_are_refused_with_the_reason(build: Build, algorithm: str, part: str) -> None:
    with pytest.raises(ValueError, match=ILLEGAL[algorithm, part]):
        build(algorithm, part)


@pytest.mark.parametrize(
    ("algorithm", "part"), [("a2c_recurrent", "much"), ("sac_continuous", "diayn"), ("ppo", "icm")]
)
def test_steps_return_what_the_specs_declare(build: Build, algorithm: str, part: str) -> None:
    agent = build(algorithm, part)
    time_step = nest.map_structure(torch.clone, agent.rollout.env.current_time_step())
    for kind in ("predict", "rollout"):
        spec = getattr(agent, f"{kind}_state_spec")
        step = getattr(agent, f"{kind}_step")(time_step, zero_state(spec, 2))
        check_matches(step.output, agent.action_spec, 1, "the output")
        check_matches(step.state, spec, 1, "the state")


@pytest.mark.parametrize(
    ("algorithm", "part"), [("a2c", "icm"), ("ppo_recurrent", "much"), ("dqn", "diayn"), ("ppo", "entropy_target")]
)
def test_a_state_dict_gives_the_same_training(build: Build, algorithm: str, part: str) -> None:
    first, second = build(algorithm, part), build(algorithm, part, seed=1)
    for _ in range(4):
        first.train_iter()
        second.train_iter()
    second.load_state_dict(first.state_dict())

    def leaves(state: Any) -> list[torch.Tensor]:
        if isinstance(state, torch.Tensor):
            return [state]
        items = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
        return [leaf for item in items for leaf in leaves(item)]

    a, b = leaves(first.state_dict()), leaves(second.state_dict())
    assert len(a) == len(b) > 10
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
