"""What every algorithm that acts promises, checked on a tiny world that it need not learn.

To add an algorithm, add a `Case` to the file of its package in `cases/`; the first test tells which are missing.
"""

import copy
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from inspect import signature
from pathlib import Path

import pytest
import torch

from rein import nest
from rein.data_structures import AlgStep, TimeStep
from rein.distributions import Distribution
from rein.envs import Environment
from rein.framework import Batch, Gradients, ReplayTraining, RLAlgorithm
from rein.networks.state import zero_state
from rein.runtime import Run, summary
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.writers import create_summary_writer
from rein.specs import check_matches
from tests.contract import discovery
from tests.contract.states import differences
from tests.contract.world import Case

CASES = discovery.cases()


@cache
def built_classes() -> set[type]:
    """Every class of algorithm in a case: the algorithm itself and all that it is composed of."""
    built = [entry.build() for entry in (*CASES.values(), *discovery.parts().values())]
    return {type(module) for algorithm in built for module in algorithm.modules()}


@pytest.mark.parametrize("package", discovery.packages())
def test_every_algorithm_has_a_case(package: str) -> None:
    known = built_classes() | discovery.not_built().keys()
    missing = [cls.__name__ for cls in discovery.algorithms(package) if cls not in known]
    assert not missing, (
        f"{package} offers {missing}, and no case builds them: add one to CASES (it acts) or PARTS (it only learns) of "
        f"tests/contract/cases/{package.split('.')[-1]}.py, or say in its NOT_BUILT why not; see cases/__init__.py"
    )


def test_nothing_is_excused_that_is_built() -> None:
    assert not built_classes() & discovery.not_built().keys()


@pytest.fixture(params=[pytest.param(case, id=name) for name, case in CASES.items()])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def train(algorithm: RLAlgorithm, iterations: int) -> list[int]:
    return [algorithm.train_iter() for _ in range(iterations)]


def first_step(algorithm: RLAlgorithm) -> TimeStep:
    env: Environment = algorithm.rollout.env
    return nest.map_structure(torch.clone, env.current_time_step())


def predict(algorithm: RLAlgorithm, time_step: TimeStep) -> AlgStep:
    state = zero_state(algorithm.predict_state_spec, 2)
    with torch.no_grad():
        return algorithm.predict_step(time_step, state)


def test_steps_return_what_the_specs_declare(case: Case) -> None:
    algorithm = case.build()
    time_step = first_step(algorithm)
    step = predict(algorithm, time_step)
    check_matches(step.output, algorithm.action_spec, 1, "the output of predict_step")
    check_matches(step.state, algorithm.predict_state_spec, 1, "the state of predict_step")
    state = zero_state(algorithm.rollout_state_spec, 2)
    step = algorithm.rollout_step(time_step, state)
    check_matches(step.output, algorithm.action_spec, 1, "the output of rollout_step")
    check_matches(step.state, algorithm.rollout_state_spec, 1, "the state of rollout_step")
    for path, leaf in nest.flatten_with_paths(step.info):
        size = leaf.batch_shape[0] if isinstance(leaf, Distribution) else leaf.shape[0]
        assert size == 2, f"{path} of the info of rollout_step does not begin with the batch"
    if algorithm.on_policy and nest.flatten(algorithm.train_state_spec):
        state = algorithm.convert_train_state_to_predict_state(zero_state(algorithm.train_state_spec, 2))
        check_matches(state, algorithm.predict_state_spec, 1, "the converted state")


def test_every_parameter_is_a_target_or_has_one_optimizer(case: Case) -> None:
    algorithm = case.build()
    updated = Counter(p for o in algorithm.optimizers() for group in o.param_groups for p in group["params"])
    assert all(number == 1 for number in updated.values())
    handled = {p for o in algorithm.optimizers(True, True) for group in o.param_groups for p in group["params"]}
    reported = algorithm.get_unoptimized_parameter_info().splitlines()
    for name, parameter in algorithm.named_parameters():
        if parameter.requires_grad and parameter not in handled:
            assert "target" in name, f"{name} has no optimizer; if it is a copy that follows another, name it a target"
            assert name in reported, f"{name} has no optimizer and is not reported"
    for entry in json.loads(algorithm.get_optimizer_info()):
        assert entry["optimizer"] != "None", f"no optimizer handles {entry['parameters']}"


def test_an_update_is_gradients_that_change_nothing_and_then_their_application(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every update of a run goes through both, and the first half leaves the algorithm as it was."""
    algorithm = case.build()
    calls: list[str] = []
    compute, apply = ReplayTraining.compute_gradients, ReplayTraining.apply_gradients

    def watched_compute(self: ReplayTraining, batches: Sequence[Batch]) -> Gradients:
        before = copy.deepcopy(dict(self.learner.state_dict()))
        gradients = compute(self, batches)
        changed = differences(before, dict(self.learner.state_dict()))
        assert not changed, f"computing gradients changed {changed}"
        calls.append("compute")
        return gradients

    def watched_apply(self: ReplayTraining, gradients: Gradients) -> None:
        calls.append("apply")
        apply(self, gradients)

    monkeypatch.setattr(ReplayTraining, "compute_gradients", watched_compute)
    monkeypatch.setattr(ReplayTraining, "apply_gradients", watched_apply)
    train(algorithm, 4)
    assert calls == ["compute", "apply"] * (len(calls) // 2)
    assert calls or algorithm.on_policy


def test_every_optimized_parameter_learns(case: Case) -> None:
    algorithm = case.build()
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    assert sum(train(algorithm, 4)) > 0
    handled = {p for o in algorithm.optimizers(True, True) for g in o.param_groups for p in g["params"]}
    names = {name: p for name, p in algorithm.named_parameters() if p in handled}
    still = [name for name, p in names.items() if torch.equal(p, before[name]) and name not in case.still]
    assert not still, f"four iterations changed nothing in {still}"
    assert all(torch.isfinite(p).all() for p in names.values())
    assert algorithm.rollout_info_spec is not None
    assert algorithm.train_info_spec is not None or algorithm.on_policy
    actions = nest.flatten(predict(algorithm, first_step(algorithm)).output)
    for spec, action in zip(nest.flatten(algorithm.action_spec), actions, strict=True):
        assert (action.numpy() >= spec.minimum).all()
        assert (action.numpy() <= spec.maximum).all()


def test_the_same_seed_gives_the_same_training_with_and_without_summaries(case: Case, tmp_path: Path) -> None:
    silent, loud, other = case.build(), case.build(), case.build()
    torch.manual_seed(5)
    train(silent, 3)
    torch.manual_seed(5)
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        train(loud, 3)
    torch.manual_seed(6)
    train(other, 3)
    assert not differences(silent.state_dict(), loud.state_dict())
    assert differences(silent.state_dict(), other.state_dict())


def test_a_checkpoint_gives_the_same_state_and_action(case: Case, tmp_path: Path) -> None:
    first, second = case.build(), case.build(seed=1)
    train(first, 3)
    train(second, 1)
    checkpointer = Checkpointer(tmp_path / "checkpoints")
    checkpointer.save(3, {"alg": dict(first.state_dict())})
    second.load_state_dict(checkpointer.load().components["alg"])
    assert not differences(first.state_dict(), second.state_dict())
    time_step = first_step(first)
    actions = []
    for algorithm in (first, second):
        torch.manual_seed(0)
        actions.append(nest.flatten(predict(algorithm, time_step).output))
    assert all(torch.equal(a, b) for a, b in zip(*actions, strict=True))


TAKING_CHECKPOINTS = {name: case for name, case in CASES.items() if "checkpoint" in signature(case.cls).parameters}


@pytest.mark.parametrize("case", TAKING_CHECKPOINTS.values(), ids=TAKING_CHECKPOINTS.keys())
def test_the_parameters_come_from_the_checkpoint_that_it_is_given(case: Case, tmp_path: Path) -> None:
    first = case.build()
    train(first, 3)
    Checkpointer(tmp_path / "checkpoints").save(3, {"alg": dict(first.state_dict())})
    checkpoint = f"alg@{tmp_path}/checkpoints/ckpt-3"
    given = case._replace(arguments=lambda: {**case.arguments(), "checkpoint": checkpoint})
    assert differences(dict(first.named_parameters()), dict(case.build(seed=1).named_parameters()))
    second = given.build(seed=1)
    assert second.pre_loaded
    assert not differences(dict(first.named_parameters()), dict(second.named_parameters()))


def test_summaries_can_be_written_at_every_update(case: Case, tmp_path: Path) -> None:
    settings = dict(debug_summaries=True, summarize_grads_and_vars=True, summarize_action_distributions=True)
    algorithm = case.build(**settings)
    for module in algorithm.modules():
        if hasattr(module, "_debug_summaries"):
            module._debug_summaries = True
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        train(algorithm, 3)
        writer.flush()
    lines = [json.loads(line) for file in tmp_path.glob("**/*.jsonl") for line in file.read_text().splitlines()]
    text = json.dumps(lines)
    assert "loss" in text
    assert "NaN" not in text
