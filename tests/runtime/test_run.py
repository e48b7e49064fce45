"""The run object, its nesting, threads, generators and state."""

import random
import threading

import numpy as np
import pytest
import torch

from rein import runtime
from rein.runtime import Run, seeding, summary
from rein.runtime.checkpoint import Checkpointer


def test_current_run_follows_nesting():
    with pytest.raises(RuntimeError, match="no current run"):
        runtime.current_run()
    outer, inner = Run(name="outer"), Run(name="inner")
    with outer:
        assert runtime.current_run() is outer
        with inner.activate():
            assert runtime.current_run() is inner
            with outer:
                assert runtime.current_run() is outer
            assert runtime.current_run() is inner
        assert runtime.current_run() is outer
    assert runtime.current_run_or_none() is None


def test_a_run_is_left_also_after_an_error():
    with pytest.raises(KeyError), Run():
        raise KeyError
    assert runtime.current_run_or_none() is None


def test_leaving_runs_out_of_order_is_an_error():
    first, second = Run(name="first"), Run(name="second")
    with first, second, pytest.raises(RuntimeError, match="'first' is left, but the current run is 'second'"):
        first.__exit__(None, None, None)


def test_threads_enter_by_themselves():
    run, other = Run(name="main"), Run(name="other")
    seen = []

    def work():
        seen.append(runtime.current_run_or_none())
        with other:
            summary.increment_global_counter()
            seen.append(runtime.current_run())

    with run:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert runtime.current_run() is run
    assert seen == [None, other]
    assert (run.global_counter, other.global_counter) == (0, 1)


def test_counters_belong_to_the_run():
    assert summary.get_global_counter() == 0
    assert summary.increment_global_counter() == 0
    a, b = Run(), Run()
    with a:
        summary.increment_global_counter(3)
        with b:
            summary.set_global_counter(7)
        assert summary.get_global_counter() == 3
    assert b.global_counter == 7


def test_progress_is_checked():
    run = Run()
    run.progress = 1
    assert run.get_progress("percent") == 1.0
    run.env_steps = 12
    assert run.get_progress("env_steps") == 12.0
    with pytest.raises(ValueError, match=r"1\.5"):
        run.progress = 1.5
    with pytest.raises(ValueError, match="unknown progress type 'steps'"):
        run.get_progress("steps")


def test_generators_depend_on_name_and_seed_only():
    a, b = Run(seed=3), Run(seed=3)
    a.generator("first")
    assert a.generator("x").random() == b.generator("x").random()
    assert a.generator("x") is a.generator("x")
    assert Run(seed=3).generator("x").random() != Run(seed=4).generator("x").random()
    assert Run(seed=3).generator("x").random() != Run(seed=3).generator("y").random()
    first = torch.rand(3, generator=a.torch_generator("t"))
    assert torch.equal(first, torch.rand(3, generator=b.torch_generator("t")))
    with pytest.raises(TypeError, match="torch_generator"):
        a.generator("t")
    with pytest.raises(TypeError, match="is numpy's"):
        a.torch_generator("x")


def test_state_restores_counters_and_every_random_stream():
    run = Run(seed=1)
    run.seed_everything()
    run.generator("n").integers(3, size=5, dtype=np.int32)
    run.torch_generator("t")
    np.random.randn()
    random.gauss(0, 1)
    run.global_counter, run.env_steps, run.iterations, run.progress = 5, 6, 7, 0.25
    state = run.state_dict()

    def draw(run):
        return (
            torch.rand(1).item(),
            np.random.randn(),
            random.gauss(0, 1),
            int(run.generator("n").integers(1000, dtype=np.int32)),
            torch.rand(1, generator=run.torch_generator("t")).item(),
            run.generator("created later").random(),
        )

    expected = draw(run)
    fresh = Run(seed=99)
    fresh.load_state_dict(state)
    assert draw(fresh) == expected
    assert (fresh.global_counter, fresh.env_steps, fresh.iterations, fresh.progress) == (5, 6, 7, 0.25)


def test_state_survives_a_checkpoint(tmp_path):
    run = Run(seed=1)
    run.generator("workers/n").random()
    run.env_steps = 3
    Checkpointer(tmp_path).save(0, {"run": run.state_dict()})
    expected = torch.rand(2), np.random.rand(), random.random(), run.generator("workers/n").random()
    fresh = Run()
    fresh.load_state_dict(Checkpointer(tmp_path).load().components["run"])
    assert fresh.env_steps == 3
    actual = torch.rand(2), np.random.rand(), random.random(), fresh.generator("workers/n").random()
    assert torch.equal(actual[0], expected[0])
    assert actual[1:] == expected[1:]


def test_incomplete_run_state_is_named():
    state = Run().state_dict()
    del state["env_steps"]
    with pytest.raises(ValueError, match=r"lacks \['env_steps'\]"):
        Run().load_state_dict(state)


def test_state_is_a_nest_of_plain_values():
    run = Run(seed=1)
    run.generator("n")
    run.torch_generator("t")

    def check(value):
        if isinstance(value, dict):
            for key, one in value.items():
                assert isinstance(key, str)
                check(one)
        else:
            assert value is None or type(value) in (int, float, str, torch.Tensor), value

    check(run.state_dict())


def test_same_seed_gives_same_numbers_everywhere():
    def draw(seed):
        seeding.seed_everything(seed)
        return torch.rand(1).item(), np.random.rand(), random.random()

    assert draw(5) == draw(5)
    assert all(a != b for a, b in zip(draw(5), draw(6), strict=True))
    drawn = seeding.seed_everything(None)
    assert 0 <= drawn <= seeding.MAX_SEED
    with pytest.raises(TypeError, match="integer"):
        seeding.seed_everything(1.5)
    with pytest.raises(ValueError, match="-1"):
        seeding.seed_everything(-1)


def test_deterministic_mode_stays_in_force():
    before = torch.are_deterministic_algorithms_enabled()
    try:
        seeding.seed_everything(0, deterministic=True)
        seeding.seed_everything(0)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(before)


def test_spawned_seeds_are_distinct_stable_and_apart_by_purpose():
    seeds = seeding.spawn_seeds(7, 500, "env")
    assert len(set(seeds)) == 500
    assert all(0 <= seed <= seeding.MAX_SEED for seed in seeds)
    assert seeding.spawn_seeds(7, 10, "env") == seeds[:10]
    assert not set(seeding.spawn_seeds(7, 500, "worker")) & set(seeds)
    assert Run(seed=7).spawn_seeds(3, "env") == seeds[:3]
    with pytest.raises(ValueError, match="-1"):
        seeding.spawn_seeds(7, -1)


def test_incomplete_random_state_is_named():
    with pytest.raises(ValueError, match=r"lacks \['numpy', 'python'\]"):
        seeding.set_rng_state({"torch": torch.get_rng_state()})
    with pytest.raises(ValueError, match="numpy generator, not of a torch"):
        seeding.set_generator_state(torch.Generator(), {"kind": "numpy"})


def test_devices():
    assert runtime.get_default_device() == torch.device("cpu")
    with pytest.raises(ValueError, match="names no device"):
        runtime.resolve_device("toaster")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="sees no GPU"):
            runtime.set_default_device("cuda")
    runtime.set_default_device("cpu")
    with Run(device="meta"):
        assert runtime.get_default_device().type == "meta"
        assert torch.zeros(1).device.type == "meta"
        with Run(device="cpu"):
            assert runtime.get_default_device().type == "cpu"
            assert torch.zeros(1).device.type == "cpu"
        with pytest.raises(RuntimeError, match="inside a run"):
            runtime.set_default_device("cpu")
    assert torch.zeros(1).device.type == "cpu"


def test_default_device_mode_is_installed_and_removed():
    try:
        runtime.set_default_device("meta")
        assert torch.zeros(1).device.type == "meta"
        assert Run().device.type == "meta"
    finally:
        runtime.set_default_device("cpu")
    assert torch.zeros(1).device.type == "cpu"


def test_threads_are_set():
    before = torch.get_num_threads()
    try:
        runtime.set_torch_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    with pytest.raises(ValueError, match="at least one"):
        runtime.set_torch_threads(0)
