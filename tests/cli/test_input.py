"""Words on the command line: help, and errors in one line before anything starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rein.cli import main
from rein.cli.entry import COMMANDS, make_parser


def run_quickly(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "rein", *words], capture_output=True, text=True)


def test_help_does_not_import_torch() -> None:
    code = "import sys; from rein.cli import main; main(['--help']); print({'torch', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "set()"


def test_nothing_at_all_shows_the_help_and_is_bad_input() -> None:
    result = run_quickly()
    assert result.returncode == 2
    assert all(name in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"rein {name}" in text.partition("example:")[2]
    assert "--json" in text
    assert "--debug" in text
    assert make_parser(name).description


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trin x", "no command 'trin'. Did you mean 'train'"),
        ("train", "what to train?"),
        ("train ppo_cartpol", "Did you mean 'ppo_cartpole'"),
        ("train nowhere.py", "no conf file 'nowhere.py'"),
        ("train ppo", "'ppo' is an algorithm: write --algorithm ppo --env ID"),
        ("train ppo_cartpole other", "'other' is neither an override"),
        ("train ppo_cartpole --algorithm ppo", "keep one"),
        ("train --algorithm ppo", "add --env CartPole-v1"),
        ("train --algorithm ppoo --env CartPole-v1", "Did you mean 'ppo'"),
        ("train ppo_cartpole --env CartPol-v1", "Did you mean 'CartPole-v1'"),
        ("train ppo_cartpole --sed 1", "unrecognized arguments: --sed"),
        ("train ppo_cartpole --seed x", "invalid int value: 'x'"),
        ("train ppo_cartpole --seed -3", "not negative"),
        ("train ppo_cartpole --seed 3 TrainerConfig.random_seed=4", "given twice"),
        ("train ppo_cartpole --threads 0", "at least one thread"),
        ("train ppo_cartpole --device nonsense", "names no device"),
        ("train ppo_cartpole TrainerConfig.num_env_step=3", "Did you mean 'num_env_steps'"),
        ("train ppo_cartpole learning_rate=2*3", "no Python literal"),
        ("train ppo_cartpole TrainerConfig.mini_batch_size=100000", "mini_batch_size=100000 is more than the 256"),
        ("train ppo_cartpole TrainerConfig.mini_batch_length=7", "mini_batch_length=7"),
        ("train ppo_cartpole PPOLoss.gamma=0.9 PPOLoss.gamma=0.8", "given twice"),
        ("train ppo_cartpole --with rdn", "there is no part 'rdn'. Did you mean 'rnd'"),
        ("train ppo_cartpole --with rnd=x", "coef is 'x': give a number"),
        ("train ppo_cartpole --with rnd(coeff=1)", "Did you mean 'coef'? Its parameters: coef=0.1"),
        ("train ppo_cartpole --with rnd --with icm", "both are the intrinsic_reward"),
        ("train ppo_cartpole --with rnd rnd.coeff=1", "Did you mean 'coef'"),
        ("train --algorithm dqn --env CartPole-v1 --with entropy_target=1", "has no action_distribution"),
        ("train --algorithm sac --env Pendulum-v1 --with entropy_target", "regulates its entropy itself"),
        ("train --algorithm ppg --env CartPole-v1 --with encoding", "auxiliary phase"),
        ("train ppo_cartpole --with lagrangian=[1,2]", "the reward is a scalar"),
        ("train ppo_cartpole --with", "expected one argument"),
        ("show ppo_cartpole --with rdn", "Did you mean 'rnd'"),
        ("sweep ppo_cartpole --with rdn --seeds 1", "Did you mean 'rnd'"),
        ("evaluate nowhere", "not the directory of a run"),
        ("play nowhere", "not the directory of a run"),
        ("resume nowhere", "not the directory of a run"),
        ("report nowhere", "not the directory of a run"),
        ("plot nowhere", "no run at or below"),
        ("sweep ppo_cartpole --vary learning_rat=[1,2]", "Did you mean 'learning_rate'"),
        ("sweep ppo_cartpole --seeds x", "give a number of seeds"),
        ("sweep ppo_cartpole --method random --vary learning_rate=log(1e-4,1)", "--trials N"),
        ("sweep --continue nowhere", "holds no sweep"),
        ("list nonsense", "invalid choice"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_change(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("rein: error: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_errors_as_json_and_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "ppo_cartpol", "--json", "--debug"]) == 2
    captured = capsys.readouterr()
    assert "Did you mean" in json.loads(captured.out)["error"]["message"]
    assert "Traceback" in captured.err


def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    conf = tmp_path / "conf.py"
    conf.write_text(
        "from rein.config import config\nraise ImportError(\"needs Box2D: pip install 'rein-rl[box2d]'\")\n"
    )
    assert main(["train", "conf.py"]) == 2
    assert "pip install 'rein-rl[box2d]'" in capsys.readouterr().err


def test_a_failure_after_the_start_is_no_bad_input(
    tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: object) -> None:
        raise ValueError("the disk is full")

    monkeypatch.setattr("rein.training.trainer.Trainer.save", fail)
    assert main(["train", *tiny, "--dir", str(tmp_path / "run")]) == 1
    assert "rein: failed: the disk is full (--debug shows where)" in capsys.readouterr().err
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert (record["status"], record["error"]) == ("failed", "ValueError: the disk is full")


def test_an_interrupt_has_its_own_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rein.cli.list_command.run", interrupt)
    assert main(["list"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_output_into_a_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rein.cli", "list", "zoo", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() in (0, 1)
