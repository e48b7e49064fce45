"""Compiled updates: the recorded graph gives the gradients of the eager update, and refuses what it would freeze."""

import copy
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import rein.zoo
from rein.config import fresh_configs
from rein.framework import Batch, ReplayTraining
from rein.framework.updating import compilation, compile_when, recording
from rein.framework.updating.gradients import NonFiniteLossError, differentiate, handled_parameters, losses
from rein.runtime import LinearScheduler, summary
from rein.runtime.schedules import as_scheduler
from rein.training.launch import configure, start_run
from rein.training.run_directory import RunDirectory
from rein.training.trainer import Trainer

SMALL = ["TrainerConfig.initial_collect_steps=64", "TrainerConfig.mini_batch_size=16"]
ENTRIES = [
    "sac_pendulum",
    "sac_cartpole",
    "qrsac_pendulum",
    "oac_pendulum",
    "mdq_pendulum",
    "ddpg_pendulum",
    "td3_pendulum",
    "sarsa_pendulum",
    "taac_mountaincar",
    "taacl_mountaincar",
    "sac_action_repeat_mountaincar",
    "dqn_cartpole",
    "ppo_cartpole",
]


@pytest.fixture
def not_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the recorded graph as it is, which needs no C++ compiler and no time."""
    monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)


@pytest.fixture
def make_trainer(tmp_path: Path) -> Iterator[Any]:
    with fresh_configs():

        def make(entry: str, *overrides: str) -> Trainer:
            configure(Path(rein.zoo.__file__).parent / "tasks" / f"{entry}.py", [*SMALL, *overrides])
            return start_run(RunDirectory.create(tmp_path / "run"), "test")

        yield make


def _batches(trainer: Trainer, count: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The first `count` minibatches of training, each also learnt from."""
    batches: list[Any] = []
    update = ReplayTraining.update

    def noted(self: ReplayTraining, given: list[Batch]) -> int:
        batches.extend(given)
        return update(self, given)

    monkeypatch.setattr(ReplayTraining, "update", noted)
    while len(batches) < count:
        trainer.algorithm.train_iter()
    return batches


def _check_gradients(trainer: Trainer, batch: Batch) -> None:
    algorithm = trainer.algorithm
    parameters = handled_parameters(algorithm.optimizers())
    compiled = compilation.CompiledUpdate(algorithm, algorithm.learning.settings, parameters)
    assert compiled([batch], [None]) is not None
    state = torch.random.get_rng_state()
    result = compiled([batch], [None])
    assert result is not None
    loss_info, _, gradients, squares = result
    torch.random.set_rng_state(state)
    eager = losses(algorithm, batch, None, algorithm.learning.settings).loss_info
    expected = differentiate(algorithm, eager, parameters)
    assert math.isclose(loss_info.loss.item(), eager.loss.item(), rel_tol=1e-4)
    assert [gradient is None for gradient in gradients] == [gradient is None for gradient in expected]
    assert any(gradient is not None for gradient in gradients)
    for gradient, other in zip(gradients, expected, strict=True):
        if gradient is not None:
            torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-5)
    sum_of_squares = sum(gradient.double().square().sum().item() for gradient in gradients if gradient is not None)
    assert math.isclose(squares.item(), sum_of_squares, rel_tol=1e-4)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.usefixtures("not_optimized")
def test_gradients_are_those_of_the_eager_update(
    entry: str, make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(entry)
    with trainer.run, summary.record_if(lambda: False):
        batches = _batches(trainer, 2, monkeypatch)
        _check_gradients(trainer, batches[-1])


@pytest.mark.parametrize("entry", ["sac_pendulum", "ppo_cartpole"])
@pytest.mark.parametrize("enable_amp", [False, True])
@pytest.mark.usefixtures("not_optimized")
def test_products_in_bfloat16_are_compiled_too_and_keep_their_biases(
    entry: str, enable_amp: bool, make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(entry, f"TrainerConfig.enable_amp={enable_amp}")
    with trainer.run, summary.record_if(lambda: False):
        batch = _batches(trainer, 1, monkeypatch)[0]
        _check_gradients(trainer, batch)
        settings = trainer.algorithm.learning.settings
        parameters = handled_parameters(trainer.algorithm.optimizers())
        recorded = recording.record(trainer.algorithm, settings, parameters, [batch], [None])
    assert ("bfloat16" in recorded.graph.code) == enable_amp
    # Apart, biases are added by the next kernel; in bfloat16 they would be added to what is rounded already.
    assert ("addmm" in recorded.graph.code) == enable_amp


@pytest.mark.usefixtures("not_optimized")
def test_a_compiled_update_with_infinite_gradients_is_left_out(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    algorithm, learning = trainer.algorithm, trainer.algorithm.learning
    with trainer.run, summary.record_if(lambda: False):
        batch = _batches(trainer, 1, monkeypatch)[0]
        learning._compiled = None  # Then it is as in a gradient worker, which makes no updates.
        gradients = learning.compute_gradients([batch])
        assert gradients.squares is not None
        before = [parameter.detach().clone() for parameter in algorithm.parameters()]
        for factor, is_applied in ((math.inf, False), (math.nan, False), (1.0, True)):
            values = [None if value is None else value * factor for value in gradients.values]
            learning.apply_gradients(gradients._replace(values=values, squares=gradients.squares * factor))
            moved = [
                not torch.equal(old, new.detach()) for old, new in zip(before, algorithm.parameters(), strict=True)
            ]
            assert any(moved) == is_applied


# Whole updates, the optimizers' steps included.


def _state(algorithm: Any) -> list[torch.Tensor]:
    """Parameters and buffers, and what optimizers keep of the parameters that have moved."""
    kept = [
        value
        for optimizer in algorithm.optimizers()
        for parameter in optimizer.parameters()
        for value in optimizer.state.get(parameter, {}).values()
        if optimizer.state[parameter]["step"] > 0
    ]
    return [value.detach() for value in (*algorithm.parameters(), *algorithm.buffers(), *kept)]


def _after(trainer: Trainer, batch: Batch, compiled: Any) -> list[torch.Tensor]:
    """The state after three updates, compiled or not, from the same random numbers."""
    learning = trainer.algorithm.learning
    learning._compiled = compiled
    torch.manual_seed(5)
    for _ in range(3):
        learning.update([batch])
    return [value.clone() for value in _state(trainer.algorithm)]


def _check_whole_updates(trainer: Trainer, batch: Batch) -> None:
    algorithm, learning = trainer.algorithm, trainer.algorithm.learning
    before = copy.deepcopy(algorithm.state_dict()), [copy.deepcopy(one.state_dict()) for one in algorithm.optimizers()]
    expected = _after(trainer, batch, None)
    algorithm.load_state_dict(before[0])
    for optimizer, state in zip(algorithm.optimizers(), before[1], strict=True):
        optimizer.load_state_dict(state)
    compiled = compilation.CompiledUpdate(algorithm, learning.settings, handled_parameters(algorithm.optimizers()))
    found = _after(trainer, batch, compiled)
    assert compiled._graphs
    assert all(graph is not None and graph.stepped for graph in compiled._graphs.values())
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.usefixtures("not_optimized")
def test_whole_updates_are_those_of_the_optimizers(
    entry: str, make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(entry)
    with trainer.run, summary.record_if(lambda: False):
        _check_whole_updates(trainer, _batches(trainer, 2, monkeypatch)[-1])


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["sac_pendulum", "td3_pendulum", "ppo_cartpole"])
def test_whole_updates_of_optimized_graphs(entry: str, make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(entry)
    with trainer.run, summary.record_if(lambda: False):
        _check_whole_updates(trainer, _batches(trainer, 2, monkeypatch)[-1])


@pytest.mark.usefixtures("not_optimized")
def test_a_whole_update_that_is_not_finite_changes_nothing_and_is_counted(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    algorithm, learning = trainer.algorithm, trainer.algorithm.learning
    with trainer.run, summary.record_if(lambda: False):
        batch = _batches(trainer, 1, monkeypatch)[0]
        info = batch.experience.rollout_info
        bad = info._replace(advantages=info.advantages * math.inf)
        before = [value.clone() for value in _state(algorithm)]
        with pytest.raises(NonFiniteLossError, match="No parameter was changed"):
            learning.update([batch._replace(experience=batch.experience._replace(rollout_info=bad))])
        assert all(torch.equal(one, other) for one, other in zip(before, _state(algorithm), strict=True))
        learning.update([batch])
        assert not all(torch.equal(one, other) for one, other in zip(before, _state(algorithm), strict=True))


@pytest.mark.usefixtures("not_optimized")
def test_an_optimizer_that_moves_some_of_its_parameters_steps_by_itself(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    algorithm, learning = trainer.algorithm, trainer.algorithm.learning
    unused = torch.nn.Parameter(torch.ones(3))
    algorithm.register_parameter("unused", unused)
    algorithm.optimizers()[0].param_groups[0]["params"].append(unused)
    with trainer.run, summary.record_if(lambda: False):
        _batches(trainer, 2, monkeypatch)
    graphs = learning._compiled._graphs
    assert [bool(graph.stepped) for graph in graphs.values()] == [False]
    assert unused.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.usefixtures("not_optimized")
def test_a_hook_of_an_optimizer_is_called(make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    calls: list[int] = []
    with trainer.run, summary.record_if(lambda: False):
        _batches(trainer, 1, monkeypatch)
        trainer.algorithm.optimizers()[0].register_step_post_hook(lambda *_: calls.append(1))
        _batches(trainer, 1, monkeypatch)
    assert calls


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["sac_pendulum", "td3_pendulum", "ppo_cartpole"])
def test_gradients_of_optimized_graphs(entry: str, make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(entry)
    with trainer.run, summary.record_if(lambda: False):
        batches = _batches(trainer, 2, monkeypatch)
        _check_gradients(trainer, batches[-1])


@pytest.mark.usefixtures("not_optimized")
def test_td3_has_a_graph_for_each_form_of_its_update(make_trainer: Any) -> None:
    trainer = make_trainer("td3_pendulum", "TrainerConfig.compile=True")
    algorithm = trainer.algorithm
    with trainer.run, summary.record_if(lambda: False):
        while algorithm._num_updates.get() < 4:
            algorithm.train_iter()
    assert [key[0][0] for key in algorithm.learning._compiled._graphs] == [False, True]


@pytest.mark.usefixtures("not_optimized")
def test_td3_moves_its_actor_at_every_second_compiled_update_only(make_trainer: Any) -> None:
    trainer = make_trainer("td3_pendulum", "TrainerConfig.compile=True", "TrainerConfig.num_updates_per_train_iter=1")
    algorithm = trainer.algorithm
    moved = []
    with trainer.run, summary.record_if(lambda: False):
        while algorithm._num_updates.get() < 6:
            before, count = (
                [p.detach().clone() for p in algorithm._actor_network.parameters()],
                algorithm._num_updates.get(),
            )
            algorithm.train_iter()
            if algorithm._num_updates.get() > count:
                after = algorithm._actor_network.parameters()
                moved.append(any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)))
    assert moved == [False, True] * 3


@pytest.mark.usefixtures("not_optimized")
def test_training_with_compilation_follows_the_same_path(make_trainer: Any, tmp_path: Path) -> None:
    parameters = []
    for compile_updates in (False, True):
        with fresh_configs():
            configure(
                Path(rein.zoo.__file__).parent / "tasks" / "sac_pendulum.py",
                [*SMALL, f"TrainerConfig.compile={compile_updates}", "TrainerConfig.random_seed=3"],
            )
            trainer = start_run(RunDirectory.create(tmp_path / str(compile_updates)), "test")
            with trainer.run, summary.record_if(lambda: False):
                for _ in range(70):
                    trainer.algorithm.train_iter()
            parameters.append(torch.cat([p.detach().flatten() for p in trainer.algorithm.parameters()]))
    torch.testing.assert_close(parameters[0], parameters[1], rtol=1e-3, atol=1e-4)


def _check_that_recording_draws_nothing(trainer: Trainer, batch: Any) -> None:
    algorithm = trainer.algorithm
    parameters = handled_parameters(algorithm.optimizers())
    compiled = compilation.CompiledUpdate(algorithm, algorithm.learning.settings, parameters)
    state = torch.random.get_rng_state()
    assert compiled._now(compiled._asked([batch], [None], []), [batch], [None]) is not None
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.usefixtures("not_optimized")
def test_recording_draws_no_random_numbers(make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a run that is resumed, and compiles anew, draws the same ones as a run that was not."""
    trainer = make_trainer("sac_pendulum")
    with trainer.run, summary.record_if(lambda: False):
        _check_that_recording_draws_nothing(trainer, _batches(trainer, 1, monkeypatch)[0])


@pytest.mark.slow
def test_compiling_draws_no_random_numbers(make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("sac_pendulum")
    with trainer.run, summary.record_if(lambda: False):
        _check_that_recording_draws_nothing(trainer, _batches(trainer, 1, monkeypatch)[0])


@pytest.mark.usefixtures("not_optimized")
def test_copies_of_a_compiled_algorithm_compile_for_themselves(make_trainer: Any) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    with trainer.run, summary.record_if(lambda: False):
        trainer.algorithm.train_iter()
    assert trainer.algorithm.learning._compiled is not None
    assert copy.copy(trainer.algorithm.learning._compiled) is None


@pytest.mark.usefixtures("not_optimized")
def test_summarized_updates_are_made_without_compilation(make_trainer: Any) -> None:
    every = "TrainerConfig.update_counter_every_mini_batch=True"
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True", every)
    with trainer.run, summary.record_if(lambda: True):
        trainer.algorithm.train_iter()
    assert trainer.algorithm.learning._compiled is None


@pytest.mark.usefixtures("not_optimized")
def test_an_update_that_reads_a_schedule_is_refused_with_the_reason(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    weight = as_scheduler(LinearScheduler("percent", ((0.0, 1.0), (1.0, 0.0))))
    calc_loss = trainer.algorithm.calc_loss

    def scheduled(info: Any) -> Any:
        loss_info = calc_loss(info)
        return loss_info._replace(loss=loss_info.loss * weight())

    monkeypatch.setattr(trainer.algorithm, "calc_loss", scheduled)
    with caplog.at_level(logging.WARNING), trainer.run, summary.record_if(lambda: False):
        trainer.algorithm.train_iter()
    assert [r for r in caplog.records if "schedule" in r.message and "not compiled" in r.message]


def test_subclasses_say_for_themselves_that_they_can_be_compiled(
    make_trainer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer("sac_pendulum", "TrainerConfig.compile=True")

    class Mine(type(trainer.algorithm)):  # type: ignore[misc]
        """Whatever somebody may add."""

    trainer.algorithm.__class__ = Mine
    with caplog.at_level(logging.WARNING), trainer.run, summary.record_if(lambda: False):
        for _ in range(66):
            trainer.algorithm.train_iter()
    assert ["Mine" in record.message for record in caplog.records if "compiled" in record.message] == [True]


def test_a_compiler_that_fails_is_named_and_training_goes_on(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no C++ compiler found")

    monkeypatch.setattr("torch._inductor.compile", fail)
    trainer = make_trainer("ppo_cartpole", "TrainerConfig.compile=True")
    before = [p.detach().clone() for p in trainer.algorithm.parameters()]
    with caplog.at_level(logging.WARNING), trainer.run, summary.record_if(lambda: False):
        trainer.algorithm.train_iter()
    assert any("no C++ compiler found" in record.message for record in caplog.records)
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.algorithm.parameters(), strict=True))


# By itself, beside training.


class ImaginedProcess:
    """Compiles for as long as it is told to."""

    is_running = True
    failure: str | None = None
    started = 0

    def __init__(self, graph: Any, inputs: Any, options: Any) -> None:
        type(self).started += 1

    def close(self) -> str | None:
        return self.failure


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[ImaginedProcess]:
    """It pays at once to compile, and another process does it."""
    kind = type("Process", (ImaginedProcess,), {})
    monkeypatch.setattr(compilation, "CompilingProcess", kind)
    monkeypatch.setattr(compilation, "is_ready", lambda: True)
    monkeypatch.setattr(compile_when, "LEARNT_SECONDS", 0.0)
    monkeypatch.setattr(compile_when, "LEFT_SECONDS", 0.0)
    monkeypatch.setattr(compile_when, "can_compile", lambda: True)
    return kind


def _iterate(trainer: Trainer) -> int | None:
    with trainer.run, summary.record_if(lambda: False):
        trainer.algorithm.train_iter()
        trainer._count()
    return trainer.algorithm.learning.compile_when.since


@pytest.mark.usefixtures("not_optimized")
def test_updates_are_compiled_beside_training_and_the_iteration_is_kept(
    make_trainer: Any, process: type[ImaginedProcess], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    trainer = make_trainer("ppo_cartpole")
    assert [_iterate(trainer) for _ in range(3)] == [None, None, None]
    assert process.started == 1
    assert "beside training" in caplog.text
    process.is_running = False
    assert [_iterate(trainer) for _ in range(2)] == [3, 3]
    assert "is compiled" in caplog.text
    state = trainer.algorithm.training_state()
    assert state["compiled"] == {"root": 3}
    trainer.algorithm.learning.compile_when.since = None
    trainer.algorithm.load_training_state(state)
    assert trainer.algorithm.learning.compile_when.is_due()
    assert not trainer.algorithm.learning.compile_when.is_waiting  # So it is compiled before the next update.


@pytest.mark.usefixtures("not_optimized")
def test_a_compiler_that_fails_beside_training_is_asked_once(
    make_trainer: Any, process: type[ImaginedProcess], caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer("ppo_cartpole")
    process.is_running, process.failure = False, "no space left"
    assert [_iterate(trainer) for _ in range(4)] == [None] * 4
    assert process.started == 1
    assert caplog.text.count("is not compiled: no space left") == 1


def test_short_runs_are_not_compiled(make_trainer: Any, process: type[ImaginedProcess], monkeypatch: Any) -> None:
    monkeypatch.setattr(compile_when, "LEFT_SECONDS", 1e9)
    trainer = make_trainer("ppo_cartpole")
    assert [_iterate(trainer) for _ in range(3)] == [None] * 3
    assert process.started == 0


def test_without_a_compiler_nothing_is_tried(
    make_trainer: Any, process: type[ImaginedProcess], monkeypatch: Any
) -> None:
    monkeypatch.setattr(compile_when, "can_compile", lambda: False)
    trainer = make_trainer("ppo_cartpole")
    assert [_iterate(trainer) for _ in range(2)] == [None] * 2
    assert process.started == 0


@pytest.mark.slow
def test_another_process_compiles_what_training_then_uses(make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_when, "LEARNT_SECONDS", 0.0)
    monkeypatch.setattr(compile_when, "LEFT_SECONDS", 0.0)
    monkeypatch.setattr(compile_when, "can_compile", lambda: True)
    trainer = make_trainer("ppo_cartpole")
    while _iterate(trainer) is None:
        compiled = trainer.algorithm.learning._compiled
        assert compiled is None or compiled._refusal is None
    assert trainer.algorithm.learning.compile_when.since


@pytest.mark.parametrize("setting", ["SacAlgorithm.normalize_entropy_reward=True", "TDLoss.normalize_target=True"])
def test_updates_whose_infos_are_needed_afterwards_are_refused(setting: str, make_trainer: Any) -> None:
    trainer = make_trainer("sac_pendulum", setting)
    refused = compilation.CompiledUpdate(trainer.algorithm, trainer.algorithm.learning.settings, [])
    assert "keeps statistics" in str(refused._refusal)
