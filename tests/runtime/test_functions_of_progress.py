"""Numbers that change: schedules, points of a line and functions of progress, wherever a number may change."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import rein
from rein.algorithms.losses import PPOLoss
from rein.cli import main
from rein.optimizers import Adam
from rein.runtime import FunctionScheduler, LinearScheduler, Run, as_scheduler
from rein.training.callbacks import Callback, Training

SMALL: dict[str, Any] = {"unroll_length": 8, "mini_batch_size": 16, "settings": {"TrainerConfig.evaluate": False}}


def test_what_a_number_that_changes_may_be() -> None:
    with Run() as run:
        run.progress = 0.25
        assert as_scheduler(2)() == 2.0
        assert as_scheduler([(0, 1.0), (1, 0.0)])() == pytest.approx(0.75)
        assert as_scheduler(lambda progress: progress**2)() == 0.0625
        assert as_scheduler(LinearScheduler("percent", ((0, 0), (1, 4))))() == 1.0
        run.env_steps = 30
        assert FunctionScheduler(lambda steps: steps + 1, "env_steps")() == 31
        with pytest.raises(TypeError, match=r"has given 'much' at progress 0\.25: give a number"):
            as_scheduler(lambda progress: "much")()
    assert as_scheduler(lambda progress: 3 * progress).final_value() == 3.0
    for wrong in ("abc", None, True, float):
        with pytest.raises(TypeError, match="expected a number, a Scheduler, pairs"):
            as_scheduler(wrong)


class Rates(Callback):
    """The learning rates at the end of every iteration."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def on_iteration(self, training: Training) -> None:
        rate = training.algorithm.optimizers()[0].learning_rates()[0]
        self.seen.append((training.progress.fraction, rate))


def falling(progress: float) -> float:
    return 1e-3 * (1 - progress)


@pytest.mark.parametrize("rate", [falling, [(0, 1e-3), (1, 0)], LinearScheduler("percent", ((0, 1e-3), (1, 0)))])
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_learning_rates_follow_what_was_given(algorithm: str, rate: Any, tmp_path: Path) -> None:
    more = SMALL if algorithm == "ppo" else {"settings": SMALL["settings"]}
    rates = Rates()
    with rein.make(algorithm, env="CartPole-v1", learning_rate=rate, **more) as agent:
        agent.train(200, callbacks=[rates])
        path = agent.save(tmp_path / "agent")
    assert len(rates.seen) > 2
    for fraction, found in rates.seen:
        assert found == pytest.approx(falling(fraction), abs=1e-9)
    rein.load(path).close()


def test_the_losses_of_policies_follow_progress() -> None:
    loss = PPOLoss(
        importance_ratio_clipping=lambda progress: 0.2 * (1 - progress), entropy_regularization=[(0, 1), (1, 0)]
    )
    assert loss.changes_with_progress
    assert not PPOLoss(entropy_regularization=0.01).changes_with_progress
    settings = {
        **SMALL["settings"],
        "PPOLoss.importance_ratio_clipping": falling,
        "PPOLoss.entropy_regularization": falling,
    }
    agent = rein.make("ppo", env="CartPole-v1", **{**SMALL, "settings": settings})
    agent.train(100)
    agent.close()
    with Run() as run:
        run.progress = 1.0
        assert loss._importance_ratio_clipping() == 0.0


def test_a_negative_learning_rate_is_refused() -> None:
    for rate in (-1, [(0, 1e-3), (1, -1e-3)]):
        with pytest.raises(ValueError, match="a learning rate must not be negative"):
            Adam(lr=rate)
        with pytest.raises(ValueError, match="a learning rate must not be negative"):
            rein.make("ppo", env="CartPole-v1", learning_rate=rate, **SMALL)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = Adam(lr=lambda progress: -progress)
    optimizer.add_param_group({"params": [parameter]})
    parameter.grad = torch.ones(1)
    with Run() as run:
        run.progress = 0.5
        with pytest.raises(ValueError, match=r"lr is -0\.5"):
            optimizer.step()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rate=abc", "override 'learning_rate=abc': learning_rate is 'abc': give a number, such as 0.0003"),
        ("hidden_layers=64", "override 'hidden_layers=64': hidden_layers is 64: give several, such as (64, 64)"),
        ("ActorDistributionNetwork.fc_layer_params=5", "(in ActorDistributionNetwork with fc_layer_params=5 (override"),
        ("TrainerConfig.num_env_steps=-5", "num_env_steps"),
    ],
)
def test_errors_keep_the_name_and_the_place(override: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--algorithm", "ppo", "--env", "CartPole-v1", override]) == 2
    assert message in capsys.readouterr().err


def test_errors_of_a_conf_keep_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = (
        'import rein\nrein.import_config("bases/ppo.py")\nrein.config("create_environment", env_name="CartPole-v1")\n'
    )
    conf = tmp_path / "mine.py"
    conf.write_text(head + "layers = len(5)\n")
    assert main(["train", str(conf)]) == 2
    assert re.search(r"has no len\(\) \(at \S*mine\.py:4: layers = len\(5\)\)", capsys.readouterr().err)
    conf = tmp_path / "other.py"
    conf.write_text(head + 'rein.config("ValueNetwork",\n    fc_layer_params=7)\n')
    assert main(["train", str(conf)]) == 2
    assert re.search(r"in ValueNetwork with fc_layer_params=7 \(\S*other\.py:5\)", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["hidden_layers", "net_arch"])
@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac", "mdq", "muzero"])
def test_hidden_layers_mean_those_of_the_algorithm(algorithm: str, name: str) -> None:
    env = "Pendulum-v1" if algorithm in ("sac", "mdq") else "CartPole-v1"
    agent = rein.make(algorithm, env=env, settings=SMALL["settings"], **{name: (13, 17)})
    shapes = {tuple(parameter.shape) for parameter in agent.algorithm.parameters()}
    assert any({13, 17} <= set(shape) for shape in shapes)
    agent.close()
