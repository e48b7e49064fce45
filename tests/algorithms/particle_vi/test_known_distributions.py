"""Every method on distributions that are known: the rows and bars of `benchmarks/particle_vi.py`."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[3] / "benchmarks" / "particle_vi.py"
_spec = importlib.util.spec_from_file_location("particle_vi_benchmark", PATH)
assert _spec is not None
assert _spec.loader is not None
benchmark = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(benchmark)


@pytest.mark.learning
@pytest.mark.parametrize("row", benchmark.ROWS, ids=lambda row: row.name)
def test_the_bar_is_met(row: Any) -> None:
    numbers = benchmark.measure(row, 0, benchmark.arguments().parse_args(["table"]))
    print(row.name, numbers)
    assert row.is_met(numbers), f"{numbers} do not meet {row.bars}"


def test_the_table_is_measured_once_and_says_what_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[tuple[str, int]] = []

    def measure(row: Any, seed: int, options: Any) -> dict[str, float]:
        measured.append((row.name, seed))
        return {"difference": 1e-6 if seed else 1.0}

    monkeypatch.setattr(benchmark, "measure", measure)
    options = ["table", "--methods", "blocks", "--seeds", "0", "1", "--results", str(tmp_path / "results.jsonl")]
    for _ in range(2):
        benchmark.table(benchmark.arguments().parse_args(options))
    assert measured == [("blocks gpvi", 0), ("blocks gpvi", 1)]
    assert "| blocks gpvi | difference 1e-05 | 1 | 1e-06 | 1 of 2 |" in capsys.readouterr().out


def test_accuracies_are_to_be_reached_and_errors_not_to_be_exceeded() -> None:
    row = benchmark.Row("", "", {"test_acc": 0.9, "error": 0.1})
    assert row.is_met({"test_acc": 0.95, "error": -0.05})
    assert not row.is_met({"test_acc": 0.85, "error": 0.0})
    assert not row.is_met({"test_acc": 1.0, "error": -0.2})
