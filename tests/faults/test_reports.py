"""A report shows what a run says as text, and reads nothing outside of the run."""

import json
import os

import pytest

from rein.runtime import scalar_files, writers
from rein.training.report import write_report
from rein.training.run_directory import RunDirectory, RunDirectoryError

SCRIPT = "<script>alert(1)</script>"
EVALUATION = {
    "episodes": 2,
    "mean_return": 1.0,
    "std_return": 0.0,
    "ci95": [1.0, 1.0],
    "mean_length": 1.0,
    "returns": [1, 1],
    "lengths": [1, 1],
}


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    (path / "config").mkdir(parents=True)
    (path / "summaries").mkdir()
    record = dict.fromkeys(("name", "seed", "status", "started", "algorithm", "env", "command", "processor"), SCRIPT)
    (path / "run.json").write_text(json.dumps({**record, "packages": {SCRIPT: SCRIPT}, "parts": [SCRIPT]}))
    (path / "agent.json").write_text("{}")
    (path / "evaluations.jsonl").write_text(json.dumps(EVALUATION) + "\n")
    (path / "config/operative.py").write_text(SCRIPT)
    lines = [{"step": step, "name": f"Metrics/{SCRIPT}", "value": 1.0, "time": step} for step in range(3)]
    (path / "summaries/scalars.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "evaluation-1.svg").write_text(f"<svg>{SCRIPT}</svg>")
    return RunDirectory.open(path)


def test_everything_is_escaped(run):
    (run.path / "agent.json").unlink()
    page = write_report(run).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", ["config/operative.py", "agent.json", "evaluations.jsonl", "evaluation-1.svg"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_out_of_the_run_and_pipes_are_refused(run, tmp_path, name, kind):
    (tmp_path / "secret").write_text("{}")
    (run.path / "agent.json").unlink()
    (run.path / name).unlink(missing_ok=True)
    if kind == "link":
        (run.path / name).symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(run.path / name)
    with pytest.raises(RunDirectoryError, match=r"outside of|no regular file"):
        write_report(run)


def test_damaged_numbers_are_an_error_and_no_text(run):
    (run.path / "evaluations.jsonl").write_text(json.dumps({**EVALUATION, "episodes": SCRIPT}) + "\n")
    with pytest.raises((RunDirectoryError, ValueError)):
        write_report(run)


def test_huge_summaries_are_thinned(tmp_path, monkeypatch):
    writer = writers.JsonlWriter(tmp_path, max_queue=1000)
    for step in range(0, 100_000, 50):
        writer.scalar("a", 1.0, step)
        writer.scalar("b", 2.0, step)
    writer.close()
    (tmp_path / "scalars.jsonl").open("a").write(
        '{"step": "x", "name": 1, "value": [], "time": 0}\n' + "[" * 99_999 + "\n"
    )
    whole = scalar_files.read_scalars(tmp_path)
    assert len(whole["a"].step) == 2000
    monkeypatch.setattr(scalar_files, "MOST_BYTES_READ", (tmp_path / "scalars.jsonl").stat().st_size // 8)
    thinned = scalar_files.read_scalars(tmp_path)
    assert 100 < len(thinned["a"].step) < 500
    assert thinned["a"].step.tolist() == thinned["b"].step.tolist()
