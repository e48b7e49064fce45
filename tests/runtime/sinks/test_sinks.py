"""Sinks: everything reaches them, resuming voids what came after, and none of them can stop a run."""

import csv
import importlib
import logging
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rein
from rein.cli import main
from rein.config import extensions
from rein.config.errors import ConfigError, UntrustedCodeError
from rein.runtime.scalar_files import read_scalars
from rein.runtime.sinks import CsvWriter, MlflowWriter, SinkError, WandbWriter, create_sinks
from rein.runtime.summary import SummaryWriter

FACTS = {"name": "first", "seed": 3, "PPOLoss.gamma": 0.99}
SMALL: dict[str, Any] = {
    "unroll_length": 8,
    "mini_batch_size": 16,
    "num_updates_per_train_iter": 1,
    "summary_interval": 1,
}


def rows(path: Path) -> list[tuple[int, str, float]]:
    with (path / "scalars.csv").open(newline="") as file:
        return [(int(row["step"]), row["name"], float(row["value"])) for row in csv.DictReader(file)]


def test_csv_has_every_number_once_also_after_a_resume(tmp_path: Path) -> None:
    first = CsvWriter(tmp_path)
    for step in range(4):
        first.scalar('a "quoted", name', step / 3, step)
    first.close()
    with (tmp_path / "scalars.csv").open("a") as file:
        file.write("9,torn")
    again = CsvWriter(tmp_path, resume_step=1)
    again.scalar("b", float("nan"), 2)
    again.close()
    found = rows(tmp_path)
    assert found[:2] == [(0, 'a "quoted", name', 0.0), (1, 'a "quoted", name', 1 / 3)]
    assert found[2][:2] == (2, "b")
    assert np.isnan(found[2][2])
    assert len(found) == 3


def test_a_run_gives_its_sinks_what_it_records(tmp_path: Path) -> None:
    with rein.make("ppo", env="CartPole-v1", directory=tmp_path / "run", sinks=["csv"], **SMALL) as agent:
        agent.train(100)
    curves = read_scalars(tmp_path / "run" / "summaries")
    found = rows(tmp_path / "run" / "summaries")
    assert {name for _, name, _ in found} == set(curves)
    for name, curve in curves.items():
        assert [value for _, one, value in found if one == name] == curve.value.tolist()


class Broken(SummaryWriter):
    """Works twice."""

    def __init__(self, when: str = "scalar") -> None:
        self.when, self.calls = when, 0
        if when == "made":
            raise RuntimeError("no connection")

    def scalar(self, name: str, value: float, step: int) -> None:
        self.calls += 1
        if self.when == "scalar" and self.calls > 2:
            raise RuntimeError("connection lost")

    def close(self) -> None:
        if self.when == "close":
            raise OSError("disk full")


@pytest.mark.parametrize(
    ("when", "message"), [("scalar", "connection lost"), ("close", "disk full"), ("made", "no conn")]
)
def test_a_sink_that_fails_does_not_stop_the_run(when: str, message: str, caplog: pytest.LogCaptureFixture) -> None:
    def sink() -> Broken:
        return Broken(when)

    with caplog.at_level(logging.WARNING):
        agent = rein.make(
            "ppo", env="CartPole-v1", sinks=[sink, "csv"], settings={"TrainerConfig.evaluate": False}, **SMALL
        )
        assert agent.train(100).progress.fraction == 1.0
        folder = agent.directory / "summaries"
        agent.close()
    assert len(rows(folder)) > 10
    told = [record.message for record in caplog.records if "sink" in record.message]
    assert len(told) == 1
    assert message in told[0]


def test_what_sinks_may_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def create(*sinks: Any, trust: bool = True) -> list[Any]:
        return create_sinks(tmp_path, None, FACTS, trust, sinks=sinks)

    with pytest.raises(ConfigError, match=r"there is no sink 'cvs'\. Did you mean 'csv'"):
        create("cvs")
    with pytest.raises(SinkError, match=r"is no rein\.runtime\.summary\.SummaryWriter"):
        create(3)
    with pytest.raises(SinkError, match=r"give a list, \['csv'\]"):
        create_sinks(tmp_path, None, FACTS, True, sinks="csv")
    with pytest.raises(UntrustedCodeError, match="would import the module antigravity"):
        create("antigravity:Sink", trust=False)
    with pytest.raises(ConfigError, match="unexpected keyword argument 'size'"):
        create("csv(size=3)")
    module = ModuleType("installed_sink_for_test")
    module.Broken = Broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    point = EntryPoint("lost", f"{module.__name__}:Broken", "rein.sinks")
    monkeypatch.setattr(extensions, "entry_points", lambda group: [point] if group == "rein.sinks" else [])
    (sink,) = create("lost(when='never')")
    assert isinstance(sink.writer, Broken)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=rf"pip install 'rein-rl\[{name}\]'"):
            create_sinks(tmp_path, None, FACTS, True, sinks=[name])


def test_sinks_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "unroll_length=8", "mini_batch_size=16"]
    words += ["evaluate=False", "num_env_steps=100", "--sink", "csv", "--dir", str(tmp_path / "run")]
    assert main(words) == 0
    before = len(rows(tmp_path / "run" / "summaries"))
    assert main(["resume", str(tmp_path / "run"), "--env-steps", "200"]) == 0
    after = rows(tmp_path / "run" / "summaries")
    assert len(after) > before
    for name, curve in read_scalars(tmp_path / "run" / "summaries").items():
        assert [value for _, one, value in after if one == name] == curve.value.tolist()
    capsys.readouterr()
    assert main([*words[:-1], str(tmp_path / "other"), "--sink", "cvs"]) == 2
    assert "there is no sink 'cvs'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


# The surfaces of wandb and mlflow that are used, so that the calls are tested where the packages are not installed.


class FakeWandb(ModuleType):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.inits: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.finished = 0

    def init(self, **arguments: Any) -> "FakeWandb":
        self.inits.append(arguments)
        return self

    def define_metric(self, name: str, step_metric: str | None = None) -> None: ...

    def log(self, values: dict[str, Any]) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.finished += 1

    def Histogram(self, values: np.ndarray) -> tuple[str, int]:
        return "histogram", values.size

    def Image(self, image: np.ndarray) -> tuple[str, Any]:
        return "image", image.shape


def test_wandb_gets_the_values_of_a_step_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    writer = WandbWriter("mine", "offline", directory=tmp_path, facts=FACTS)
    writer.scalar("loss", 0.5, 3)
    writer.histogram("weights", np.zeros((2, 3)), 3)
    writer.image("frame", np.zeros((3, 4, 5), np.uint8), 3)
    writer.scalar("loss", float("inf"), 4)
    writer.close()
    first = {"rein/step": 3, "loss": 0.5, "weights": ("histogram", 6), "frame": ("image", (4, 5, 3))}
    assert fake.logged[0] == first
    assert fake.logged[1]["rein/step"] == 4
    assert np.isnan(fake.logged[1]["loss"])
    assert fake.finished == 1
    WandbWriter(directory=tmp_path, facts=FACTS).close()
    assert fake.inits[0]["id"] == fake.inits[1]["id"]
    assert fake.inits[0]["mode"] == "offline"
    assert fake.inits[0]["config"] == FACTS


def test_wandb_itself_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    writer = WandbWriter("mine", "offline", directory=tmp_path, facts=FACTS)
    for step in range(3):
        writer.scalar("loss", step / 2, step)
    writer.histogram("weights", np.arange(6.0), 2)
    writer.close()
    again = WandbWriter("mine", "offline", directory=tmp_path, facts=FACTS)
    again.scalar("loss", 1.5, 3)
    again.close()
    files = list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    assert all(file.stat().st_size > 100 for file in files)
    assert any(b"loss" in file.read_bytes() for file in files)


def test_mlflow_itself_in_sqlite(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    tracking = importlib.import_module("mlflow.tracking")
    uri = f"sqlite:///{tmp_path / 'store.db'}"
    writer = MlflowWriter(uri, directory=tmp_path, facts=FACTS)
    writer.scalar("loss/actor [mean]", 0.5, 1)
    writer.scalar("loss/actor [mean]", float("nan"), 2)
    writer.close()
    again = MlflowWriter(uri, directory=tmp_path, facts=FACTS)
    again.scalar("loss/actor [mean]", 0.25, 3)
    again.close()
    client = tracking.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("rein").experiment_id])
    assert run.data.params["PPOLoss.gamma"] == "0.99"
    history = client.get_metric_history(run.info.run_id, "loss/actor _mean_")
    assert [one.step for one in history] == [1, 2, 3]
    assert [history[0].value, history[2].value] == [0.5, 0.25]
    assert run.info.status == "FINISHED"


def test_mlflow_gets_numbers_in_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    batches: list[dict[str, Any]] = []

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            self.uri = tracking_uri

        def get_experiment_by_name(self, name: str) -> None: ...

        def create_experiment(self, name: str) -> str:
            return "7"

        def create_run(self, place: str, run_name: str) -> Any:
            info = type("Info", (), {"run_id": f"{place}-{run_name}"})
            return type("Run", (), {"info": info})

        def update_run(self, run_id: str, status: str) -> None: ...

        def log_batch(self, run_id: str, **what: Any) -> None:
            batches.append({"run": run_id, **what})

        def set_terminated(self, run_id: str) -> None: ...

    entities, tracking = ModuleType("mlflow.entities"), ModuleType("mlflow.tracking")
    entities.Metric = lambda *values: values  # type: ignore[attr-defined]
    entities.Param = lambda *values: values  # type: ignore[attr-defined]
    tracking.MlflowClient = Client  # type: ignore[attr-defined]
    for module in (ModuleType("mlflow"), entities, tracking):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    writer = MlflowWriter("sqlite:///x.db", directory=tmp_path, facts=FACTS)
    assert batches.pop()["params"] == [("name", "first"), ("seed", "3"), ("PPOLoss.gamma", "0.99")]
    for step in range(501):
        writer.scalar("loss", 0.5, step)
    assert [len(batch["metrics"]) for batch in batches] == [500]
    writer.close()
    assert [len(batch["metrics"]) for batch in batches] == [500, 1]
    assert {batch["run"] for batch in batches} == {"7-first"}
