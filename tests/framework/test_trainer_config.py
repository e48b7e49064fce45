"""Every setting has an effect or is refused; none is ignored in silence."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rein
from rein.data_structures import LossInfo
from rein.framework import Algorithm, TrainerConfig
from rein.framework.updating.gradient_noise import gradient_noise
from rein.framework.updating.gradients import in_mixed_precision
from rein.optimizers import SGD
from rein.runtime import Run, summary
from rein.runtime.scalar_files import read_scalars
from rein.runtime.writers import create_summary_writer

# Read by the asynchronous unroll only, which RLAlgorithm refuses.
OF_ASYNC_UNROLL = {"max_unroll_length", "unroll_queue_size", "unroll_step_interval", "unroll_parameter_update_period"}


def test_every_setting_is_read_somewhere() -> None:
    source = ""
    for path in Path(rein.__file__).parent.rglob("*.py"):
        text = path.read_text()
        # What a constructor stores is not yet an effect.
        source += re.sub(r"self\.(\w+) = \1\b", "", text)
    parameters = set(inspect.signature(TrainerConfig.__init__).parameters) - {"self"}
    assert len(parameters) >= 61
    unread = {name for name in parameters if not re.search(rf"(config|settings|self|\))\.{name}\b", source)}
    checked = {name for name in unread if f'"{name}"' in source}
    assert unread - checked <= OF_ASYNC_UNROLL


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(ml_type="unsupervised"), 'give "rl" or "sl"'),
        (dict(num_iterations=0), "training would never end"),
        (dict(mini_batch_size=0), "mini_batch_size is 0"),
        (dict(mini_batch_length=0), "mini_batch_length is 0"),
        (dict(num_updates_per_train_iter=0), "num_updates_per_train_iter is 0"),
        (dict(replay_buffer_length=0), "replay_buffer_length is 0"),
        (dict(unroll_length=0), "unroll_length is 0"),
        (dict(unroll_length=-1.5), r"unroll_length is -1\.5"),
        (dict(epsilon_greedy=1.5), "epsilon_greedy is 1.5"),
        (dict(summary_interval=0), "summary_interval is 0"),
        (dict(eval_interval=0), "eval_interval is 0"),
        (dict(num_eval_episodes=0), "num_eval_episodes is 0"),
        (dict(num_eval_environments=0), "num_eval_environments is 0"),
        (dict(rl_train_every_update_steps=0), "rl_train_every_update_steps is 0"),
        (dict(offline_buffer_dir="x"), "set whole_replay_buffer_training=False"),
        (dict(no_thread_env_for_conf=True, evaluate=True), "no_thread_env_for_conf forbids"),
        (dict(eval_uncertainty=True), "belongs to supervised learning"),
    ],
)
def test_impossible_settings_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainerConfig("", **settings)


REPLAY = dict(whole_replay_buffer_training=False, clear_replay_buffer=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(unroll_length=8, mini_batch_length=3), "cannot be cut into sequences"),
        (dict(unroll_length=8, mini_batch_length=4, mini_batch_size=5), "more than the 4 sequences"),
        (dict(unroll_length=2.5, mini_batch_length=2), "rollouts of several lengths"),
        (dict(replay_buffer_length=10, initial_collect_steps=21, **REPLAY), "training would never begin"),
        (dict(replay_buffer_length=10, mini_batch_length=11, **REPLAY), "is more than replay_buffer_length=10"),
    ],
)
def test_impossible_batches_are_refused_for_two_environments(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainerConfig("", **settings).check_batches(2)


@pytest.mark.parametrize(
    "settings",
    [
        dict(unroll_length=8, mini_batch_length=4, mini_batch_size=4),
        dict(unroll_length=2.5),
        dict(unroll_length=2.5, mini_batch_length=1),
        dict(replay_buffer_length=10, initial_collect_steps=20, mini_batch_length=10, **REPLAY),
    ],
)
def test_possible_batches_are_not(settings: dict[str, Any]) -> None:
    TrainerConfig("", **settings).check_batches(2)


class TestMixedPrecision:
    def test_products_are_made_in_bfloat16_and_results_are_float32(self) -> None:
        layer = nn.Linear(64, 64)
        x = torch.randn(8, 64)
        seen: list[torch.dtype] = []
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
        plain = in_mixed_precision(TrainerConfig(""), lambda: {"y": layer(x)})
        mixed = in_mixed_precision(TrainerConfig("", enable_amp=True), lambda: {"y": layer(x)})
        assert seen == [torch.float32, torch.bfloat16]
        assert mixed["y"].dtype == torch.float32
        assert not torch.equal(plain["y"], mixed["y"])
        assert torch.allclose(plain["y"], mixed["y"], atol=0.05)
        mixed["y"].sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad.dtype == torch.float32


class TestGradientNoise:
    def test_equal_samples_have_no_noise(self) -> None:
        w = nn.Parameter(torch.tensor([1.0, 2.0]))
        loss = (w.sum() * torch.ones(3, 4)).requires_grad_()
        square, variance = gradient_noise(loss, [w])
        assert square.item() == pytest.approx(2.0)
        assert variance.item() == pytest.approx(0.0)

    def test_estimates_are_unbiased(self) -> None:
        """Gradients of samples are drawn around (1, 0) with variance 4 in each of the two dimensions."""
        torch.manual_seed(0)
        w = nn.Parameter(torch.zeros(2))
        estimates = []
        for _ in range(1000):
            gradients = torch.tensor([1.0, 0.0]) + 2 * torch.randn(1, 8, 2)
            estimates.append(torch.stack(gradient_noise((gradients * w).sum(-1), [w])))
        square, variance = torch.stack(estimates).mean(0).tolist()
        assert square == pytest.approx(1.0, abs=0.15)
        assert variance == pytest.approx(8.0, rel=0.1)

    def test_it_is_written_and_does_not_change_the_update(self, tmp_path: Path) -> None:
        class Quadratic(Algorithm):
            def __init__(self, config: TrainerConfig) -> None:
                super().__init__(optimizer=SGD(lr=0.5), config=config, name="Quadratic")
                self.x = nn.Parameter(torch.tensor(3.0))

        algorithms = [Quadratic(TrainerConfig("", summarize_gradient_noise_scale=flag)) for flag in (False, True)]
        writer = create_summary_writer(tmp_path, tensorboard=False)
        with Run(seed=0, writer=writer), summary.record_if(lambda: True):
            for algorithm in algorithms:
                loss = (algorithm.x * torch.arange(8.0).reshape(2, 4)).square()
                algorithm.update_with_gradient(LossInfo(loss=loss), torch.ones(2, 4))
            writer.flush()
        assert algorithms[0].x.item() == algorithms[1].x.item()
        assert "Quadratic/gradient_noise/scale" in read_scalars(tmp_path)
