"""Confs written for ALF run unchanged; the names they import vanish again; their runs are data."""

import json
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import rein
from rein.cli import main
from rein.compat.alf import alf_names
from rein.config import UnknownNameError, config, fresh_configs, get_config_value
from rein.training.recording import Manner, record_episodes

CONFS = Path(__file__).parent / "alf_confs"
RUNS = sorted(path for path in CONFS.glob("*_conf.py") if path.name not in ("sac_conf.py", "ppo_conf.py"))
QUICK = {
    "ac_cart_pole",
    "ppo_pendulum",
    "ppg_cart_pole",
    "sac_pendulum",
    "ddpg_pendulum",
    "bc_cart_pole",
    "hypernetwork",
}
DATA = {"bc": ("cart_pole.data", "ppo", "CartPole-v1"), "iql": ("pendulum.data", "sac", "Pendulum-v1")}


def marked(path: Path) -> object:
    stem = path.stem.removesuffix("_conf")
    return pytest.param(path, id=stem, marks=[] if stem in QUICK else [pytest.mark.slow])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", [marked(path) for path in RUNS])
def test_a_conf_runs_three_iterations(path: Path, folder: Path) -> None:
    if (given := DATA.get(path.stem.partition("_")[0])) is not None:
        name, algorithm, env = given
        with rein.make(algorithm, env=env, evaluate=False, num_parallel_environments=1) as agent:
            record_episodes(agent.policy, folder / name, 3, Manner("random"))
    assert main(["train", "--alf", str(path), "--dir", "run", "create_environment.num_workers=1"]) == 0
    record = json.loads((folder / "run" / "run.json").read_text())
    assert record["status"] == "finished"
    assert record["iterations"] == 3
    assert record["alf"] is True
    assert "alf" not in sys.modules


def test_a_run_is_rebuilt_from_data_without_its_conf(folder: Path) -> None:
    conf = folder / "conf.py"
    conf.write_text((CONFS / "ddpg_pendulum_conf.py").read_text() + "\nopen('executed', 'w').close()\n")
    assert main(["train", "--alf", str(conf), "--dir", "run", "create_environment.num_workers=1"]) == 0
    conf.unlink()
    (folder / "executed").unlink()
    assert main(["evaluate", "run", "--episodes", "1"]) == 0
    with rein.load("run") as agent:
        assert agent.predict([1.0, 0.0, 0.0]).shape == (1,)
    assert not (folder / "executed").exists()


def test_short_names_mean_the_same_once_functions_of_alf_were_imported() -> None:
    datagen = import_module("rein.compat.alf.datagen")
    with fresh_configs():
        config({"num_workers": 3})
        assert get_config_value("create_environment.num_workers") == 3
        config("load_test", test_bs=25)
        assert len(datagen.load_test()[1]) == 2
        with pytest.raises(UnknownNameError, match="unknown name 'train_bs'"):
            config({"train_bs": 5})


def test_names_are_ours_and_only_inside_the_block(tmp_path: Path) -> None:
    with alf_names(tmp_path):
        import alf  # type: ignore[import-not-found]
        from alf.algorithms.ppo_algorithm import PPOAlgorithm  # type: ignore[import-not-found]
        from alf.environments import suite_gym  # type: ignore[import-not-found]
        from alf.nest.utils import NestOuterProduct  # type: ignore[import-not-found]
        from alf.utils import math_ops  # type: ignore[import-not-found]

        from rein.algorithms import on_policy
        from rein.envs import loaders

        assert PPOAlgorithm is on_policy.PPOAlgorithm
        assert suite_gym is loaders.suite_gym
        assert alf.nest is rein.nest
        assert alf.layers.NestOuterProduct is NestOuterProduct
        assert alf.optimizers.Adam is rein.optimizers.Adam
        assert math_ops.clipped_exp.__name__ == "clipped_exp"
    assert not [name for name in sys.modules if name.split(".")[0] == "alf"]
    with pytest.raises(ModuleNotFoundError):
        import alf
    assert not hasattr(rein.nest, "utils")
    assert rein.nest.__spec__ is not None
    assert rein.nest.__spec__.name == "rein.nest"


@pytest.mark.parametrize(
    "text",
    [
        "import alf; found = alf.nest.utils.NestConcat, alf.nn.Sequential, alf.math.Sqrt1pTransform, alf.config1",
        "import alf; found = alf.utils.losses.OrderedDiscreteRegressionLoss, alf.utils.losses.AsymmetricSimSiamLoss",
        "import alf; found = alf.utils.summary_utils.summarize_variables, alf.utils.math_ops.clipped_exp",
        "from alf.algorithms.ppg.ppg_aux_phase_loss import PPGAuxPhaseLoss as found",
        "from alf.algorithms.ppg import DisjointPolicyValueNetwork as found",
        "from alf.algorithms.sac_algorithm import SacInfo as found",
        "from alf.algorithms.diayn_algorithm import create_discrete_skill_spec; found = create_discrete_skill_spec(5)",
        "from alf.utils import dist_utils; found = dist_utils.StableTanh()",
        "from alf.utils.schedulers import CyclicalScheduler as found",
        "from alf.algorithms.data_transformer import RewardNormalizer as found",
        "import alf; found = alf.networks.OnehotCategoricalProjectionNetwork",
        "from alf.utils.math_ops import clipped_exp; import torch; found = clipped_exp(torch.ones(1), clip_value_max=0)",
        "from alf.environments import suite_robotics; found = suite_robotics.SuccessWrapper",
        "import alf; found = alf.nn.Sequential(alf.layers.FC(3, 4), alf.layers.Reshape(-1)).output_spec",
    ],
)
def test_a_name_is_found_by_every_way_that_confs_take(text: str, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    with alf_names(tmp_path):
        exec(text, names)
    assert names["found"] is not None


def test_a_conf_beside_is_imported_by_its_bare_name_and_forgotten(tmp_path: Path) -> None:
    (tmp_path / "base_conf.py").write_text("import alf\nalf.config('PPOLoss', td_lambda=0.5)\n")
    with fresh_configs(), alf_names(tmp_path):
        import base_conf  # type: ignore[import-not-found]  # noqa: F401

        assert rein.get_config_value("PPOLoss.td_lambda") == 0.5
    assert "base_conf" not in sys.modules


@pytest.mark.parametrize(
    "text", ["config('create_environment', env_name={!r})", "config({{'create_environment.env_name': {!r}}})"]
)
def test_a_world_of_a_version_that_is_no_more_is_the_one_that_there_is(text: str, tmp_path: Path) -> None:
    with fresh_configs(), alf_names(tmp_path):
        import alf

        with pytest.warns(UserWarning, match="Pendulum-v0 is no more: Pendulum-v1 stands for it"):
            exec(f"alf.{text.format('Pendulum-v0')}", {"alf": alf})
        assert alf.get_env() is None
        assert alf.get_action_spec().shape == (1,)
        assert alf.get_config_value("create_environment.env_name") == "Pendulum-v1"


def test_a_wrong_setting_is_placed_in_the_conf(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "conf.py").write_text("import alf\n\nalf.config('PPOLoss', nothing=1)\n")
    assert main(["train", "--alf", "conf.py", "--dir", "run"]) == 2
    assert "conf.py:3: 'PPOLoss' has no parameter 'nothing'" in capsys.readouterr().err


def test_one_setting_is_given_by_config1(tmp_path: Path) -> None:
    with fresh_configs(), alf_names(tmp_path):
        import alf

        alf.config1("PPOLoss.td_lambda", 0.25)
        assert alf.get_config_value("PPOLoss.td_lambda") == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from alf.environments import suite_carla", "there is no CARLA here"),
        ("from alf.environments.carla_env import CameraSensor", "there is no CARLA here"),
        ("from alf.environments.metadrive.sensors import VectorizedSensor", "there is no MetaDrive here"),
        ("from alf.algorithms.ppo_algorithm import Nothing", "Nothing has no counterpart"),
        ("import alf\nalf.algorithms.nothing.Nothing", "Nothing has no counterpart"),
        ("from alf.strange import x", "alf.strange has no counterpart"),
        ("from alf.examples import missing_conf", "there is no missing_conf.py beside the conf"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    text: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "conf.py").write_text(textwrap.dedent(text))
    assert main(["train", "--alf", "conf.py", "--dir", "run"]) != 0
    assert message in capsys.readouterr().err
    assert "alf" not in sys.modules
