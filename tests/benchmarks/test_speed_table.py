"""Parsing, judging and drawing of benchmark results; nothing is timed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Imports a module of `benchmarks/` as its scripts do, which find each other by name."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))

    def load_module(name):
        return sys.modules.get(name) or importlib.import_module(name)

    yield load_module
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == FOLDER:
            del sys.modules[name]


def result(value, threads="1", **more):
    entry = {"value": value, "lo": value, "hi": value, "repeats": 3, "other_cpu": 0.0, "rss_mb": 1.0, "is_best": True}
    return {threads: entry | more}


def make_row(results, **more):
    row = {
        "name": "ppo/CartPole-v1",
        "title": "PPO CartPole",
        "unit": "env steps/s",
        "against": "peers",
        "bar": 2.0,
        "higher_is_better": True,
        "results": results,
        "missing": {},
        "measurements": [],
    }
    return row | more


def make_report(*rows):
    return {
        "rows": list(rows),
        "machine": {"cores": 2, "python": "3"},
        "date": "2026-01-01",
        "repeats": 3,
        "seconds": 4.0,
    }


def test_result_lines_are_found_among_other_output(load):
    text = 'a warning\nRESULT {"value": 3.5, "peer": "sb3"}\nthe end'
    assert load("measuring").parse_results(text) == [{"value": 3.5, "peer": "sb3"}]


def test_lines_of_the_benchmarks_of_parts_are_understood(load):
    text = '{"row": "add", "value": 2.0}\nRESULT {"name": "envpool", "rate": 7}\nRESULT {"missing": "no such world"}'
    found = load("measuring").parse_results(text)
    assert found == [{"row": "add", "value": 2.0}, {"name": "envpool", "rate": 7, "value": 7}]


def test_a_window_opens_when_warm_and_gives_the_median_of_its_parts(load, monkeypatch):
    measuring = load("measuring")
    now = [0.0]
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: now[0])
    opened = []
    window = measuring.Window(10, 3.0, parts=3, on_open=lambda: opened.append(now[0]))
    counts = {0.0: 0, 1.0: 5, 2.0: 10, 3.0: 20, 4.0: 50, 5.0: 60}
    closed = []
    for now[0], count in counts.items():
        closed.append(window.mark(count))
    assert opened == [2.0]
    assert closed == [False] * 5 + [True]
    assert window.rates == [10.0, 30.0, 10.0]
    assert window.result()["value"] == 10.0


def test_a_window_that_settles_waits_for_two_equal_stretches(load, monkeypatch):
    measuring = load("measuring")
    now = [0.0]
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: now[0])
    opened = []
    window = measuring.Window(0, 1.0, parts=1, settle=1.0, on_open=lambda: opened.append(now[0]))
    for now[0], count in {0.0: 0, 1.0: 1, 2.0: 50, 3.0: 100, 4.0: 150}.items():
        window.mark(count)
    assert opened == [3.0]


def test_the_best_of_ours_by_default_is_judged_against_the_best_peer(load):
    row = make_row(
        {
            "rein": result(100.0),
            "rein compiled": result(300.0, "2"),
            "rein compiled, Gymnasium's env": result(900.0),
            "sb3": result(100.0),
            "sbx": result(120.0),
        }
    )
    verdict = load("speed_table").judge(row)
    assert verdict == ("rein compiled", "sbx", 2.5, True)


def test_a_share_of_the_ceiling_is_taken_at_the_same_number_of_threads(load):
    ceiling = {**result(200.0, "1", is_best=False), **result(400.0, "2")}
    row = make_row({"rein": result(150.0, "1"), "ceiling": ceiling}, against="ceiling", bar=0.75)
    assert load("speed_table").judge(row) == ("rein", "ceiling", 0.75, True)


@pytest.mark.parametrize(("seconds", "is_met"), [(0.2, True), (0.4, False)])
def test_without_a_reference_the_value_itself_is_judged(load, seconds, is_met):
    row = make_row({"rein": result(seconds)}, against="", bar=0.3, higher_is_better=False)
    assert load("speed_table").judge(row).is_met == is_met


def test_without_peers_there_is_no_verdict(load):
    assert load("speed_table").judge(make_row({"rein": result(1.0)})) is None


def test_busy_and_seldom_measured_figures_are_marked(load):
    table = load("speed_table")
    row = make_row({"rein": result(1234.0, other_cpu=0.5), "sb3": result(12.345, repeats=1)})
    assert table.cell(row, ("rein",)) == "1,234* (1)"
    assert table.cell(row, ("sb3",)) == "12.3† (1)"
    assert table.cell(row, ("sbx",)) == "-"


def test_the_page_gets_the_table_between_its_marks(load, tmp_path):
    table = load("speed_table")
    shares = {"env": 0.1, "act": 0.2, "sample": 0.0, "learn": 0.6, "other": 0.1}
    row = make_row({"rein": result(300.0, shares=shares), "sb3": result(100.0)}, missing={"sbx": "not installed"})
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- b -->\nold\n<!-- e -->\nafter\n")
    table.replace_block(str(page), "<!-- b -->", "<!-- e -->", table.table(make_report(row)))
    text = page.read_text()
    assert text.startswith("before\n<!-- b -->\n")
    assert text.endswith("<!-- e -->\nafter\n")
    assert "old" not in text
    assert "3.00 x SB3 | ≥ 2 | yes | 3.00 |" in text
    assert "| PPO CartPole | rein | 10 % | 20 % | 0 % | 60 % | 10 % |" in text
    assert "SBX is missing: not installed" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines[:3]} == {lines[0].count("|")}


def test_a_page_without_marks_is_refused(load, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here")
    with pytest.raises(ValueError, match="has no block"):
        load("speed_table").replace_block(str(page), "<!-- b -->", "<!-- e -->", "")


def test_the_chart_is_svg_with_a_bar_for_each_contender(load):
    row = make_row({"rein": result(300.0), "sb3": result(100.0), "sbx": result(150.0)})
    root = ElementTree.fromstring(load("speed_table").chart(make_report(row)))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"2.00", "0.67", "1.00", "PPO CartPole"} <= set(texts)


def test_no_number_of_the_chart_is_struck_through(load):
    values = {"rein": 300.0, "sb3": 99.0, "sbx": 100.0, "tianshou": 93.0}
    row = make_row({name: result(value) for name, value in values.items()})
    root = ElementTree.fromstring(load("speed_table").chart(make_report(row)))
    line = float(root.find("{http://www.w3.org/2000/svg}line").get("x1"))
    numbers = [one for one in root.iter("{http://www.w3.org/2000/svg}text") if one.get("font-size") == "9"]
    assert len(numbers) == 4
    for one in numbers:
        start = float(one.get("x"))
        assert not start <= line <= start + 5 * len(one.text), one.text


def test_repeats_are_summed_up_by_their_median(load):
    measurements = [
        {"value": value, "other_cpu": busy, "record": {"rss_mb": 5.0, "notes": ["not compiled"]}}
        for value, busy in ((3.0, 0.0), (1.0, 0.3), (2.0, 0.1))
    ]
    summary = load("run").summary(measurements)
    assert (summary["value"], summary["lo"], summary["hi"], summary["repeats"]) == (2.0, 1.0, 3.0, 3)
    assert summary["other_cpu"] == 0.3
    assert summary["notes"] == ["not compiled"]


class FakeMeasurements:
    """Stands in for processes: rates by contender and threads."""

    def __init__(self, measuring, rates):
        self.measuring, self.rates, self.calls = measuring, rates, []

    def __call__(self, command, threads, timeout, environment=None):
        self.calls.append((command[0], threads))
        return self.measuring.Measured([{"value": self.rates[command[0], threads]}], 1.0, 0.0)


def test_each_goes_on_with_its_best_threads_and_hopeless_peers_are_dropped(load, monkeypatch):
    run, speed_rows = load("run"), load("speed_rows")
    names = ("rein", "sb3", "sbx", "tianshou")
    rates = {("rein", 1): 5.0, ("rein", 2): 9.0, ("sb3", 1): 100.0, ("sb3", 2): 90.0}
    rates |= {("sbx", 1): 50.0, ("sbx", 2): 70.0, ("tianshou", 1): 49.0}
    fake = FakeMeasurements(load("measuring"), rates)
    monkeypatch.setattr(run, "run_measured", fake)
    contenders = tuple(speed_rows.Contender(name, lambda i, s, name=name: [name]) for name in names)
    row = speed_rows.Row("row", "steps/s", contenders, "peers", 1.0)
    record = run.RowRun(row, speed_rows.Interpreters(), 1.0, [1, 2]).run(2)
    first = [("rein", 1), ("rein", 2), ("sb3", 1), ("sb3", 2), ("sbx", 1), ("sbx", 2), ("tianshou", 1)]
    assert fake.calls == [*first, ("rein", 2), ("sb3", 1)]
    assert record["results"]["rein"]["2"]["is_best"]
    assert record["results"]["rein"]["2"]["repeats"] == 2


def test_a_row_of_the_same_kind_takes_over_the_choice_of_threads(load, monkeypatch):
    run, speed_rows = load("run"), load("speed_rows")
    fake = FakeMeasurements(load("measuring"), {("rein", 2): 9.0})
    monkeypatch.setattr(run, "run_measured", fake)
    row = speed_rows.Row("row", "steps/s", (speed_rows.Contender("rein", lambda i, s: ["rein"]),), "peers", 1.0)
    run.RowRun(row, speed_rows.Interpreters(), 1.0, [1, 2], make_row({"rein": result(1.0, "2")})).run(2)
    assert fake.calls == [("rein", 2), ("rein", 2)]


def test_what_cannot_run_is_listed_with_its_reason(load):
    run, speed_rows = load("run"), load("speed_rows")
    row = next(row for row in speed_rows.rows() if row.name == "td3/Hopper-v5")
    row = row._replace(contenders=tuple(one for one in row.contenders if one.name == "sb3"))
    record = run.RowRun(row, speed_rows.Interpreters(), 1.0, [1]).run(1)
    assert record["missing"] == {"sb3": "no interpreter or scripts were given"}


def test_every_row_has_ours_and_a_workload_that_exists(load):
    workloads = load("workload").WORKLOADS
    for row in load("speed_rows").rows():
        assert row.contenders[0].name == "rein"
        if row.against == "peers" and not row.is_extra:
            assert row.name in workloads


def test_slower_than_the_baseline_allows_is_reported(load):
    guard = load("guard")
    measured, baseline = {"a": 1.3, "b": 1.2, "new": 9.0}, {"a": 1.0, "b": 1.0}
    slower = guard.compare(measured, baseline, 0.25)
    assert slower == ["a"]
    lines = guard.report(measured, baseline, slower).splitlines()
    assert lines[1].endswith("+30%  SLOWER")
    assert lines[3].endswith("not in the baseline: run with --update")


@pytest.mark.skipif(not (FOLDER.parent / ".git").exists(), reason="compares commits of the repository")
def test_two_commits_are_measured_in_turns_and_the_least_counts(load, monkeypatch):
    guard = load("guard")
    root, seen = Path(guard.__file__).parents[1], []

    def measured(tree, seconds):
        assert (tree / "benchmarks" / "guard.py").exists()
        seen.append(tree == root)
        return {"update": 3.0 - len(seen) / 2 if tree == root else 1.0 + len(seen)}

    monkeypatch.setattr(guard, "measured_in", measured)
    assert guard.beside("HEAD", 0.1) == ({"update": 1.5}, {"update": 3.0})
    assert seen == [True, False, True, False]
    with pytest.raises(LookupError, match="no commit nowhere"):
        guard.beside("nowhere", 0.1)


def test_the_baseline_covers_what_is_guarded():
    ratios = json.loads((FOLDER / "baseline.json").read_text())
    assert ratios
    assert all(ratio > 0 for ratio in ratios.values())


def test_scaling_is_drawn_and_tabulated(load):
    scaling = load("scaling")
    report = {"axes": {"batch": {"eager": {"32": [4.0, 2.0], "64": [3.0]}, "compiled": {"32": [1.0]}}}}
    text = scaling.page(report, "scaling.svg")
    assert "| batch size | 32 | 64 |" in text
    assert "| eager, ms | 2 | 3 |" in text
    assert "| compiled, ms | 1 | - |" in text
    root = ElementTree.fromstring(scaling.chart(report))
    width = float(root.get("viewBox").split()[2]) / 2
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("text-anchor") == "middle":
            assert float(text.get("x")) + 3.5 * len(text.text) <= width, text.text


def test_each_number_of_threads_has_a_line_of_its_own(load):
    tables = load("speed_table")
    results = {
        "rein": result(100.0) | result(90.0, "2", is_best=False),
        "rein compiled": result(200.0, other_cpu=0.5) | result(240.0, "2"),
        "sb3": result(80.0),
        "sbx": result(100.0) | result(120.0, "2"),
    }
    lines = tables.threads_table(make_report(make_row(results), make_row({"rein": result(1.0)}, against="sb3")))
    assert lines.splitlines()[2:] == [
        "| PPO CartPole | 1 | 100 | 200\\* | 80 | 100 | 2.00 | 1.25 |",
        "| PPO CartPole | 2 | 90 | 240 | - | 120 | 2.00 | - |",
    ]


def test_the_share_that_a_neighbour_leaves_is_the_median_of_repeats(load):
    neighbour = load("neighbour")

    def measured(alone, value, contender="rein", other=0.0):
        row = "dqn/CartPole-v1"
        return {"row": row, "contender": contender, "alone": alone, "value": value, "other_cpu": other}

    values = [(100.0, 90.0), (100.0, 70.0), (200.0, 150.0)]
    found = [measured(alone, value) for pair in values for alone, value in zip((True, False), pair, strict=True)]
    found += [measured(True, 100.0, "sb3"), measured(False, 30.0, "sb3", other=0.5)]
    found += [measured(True, 100.0, "rein compiled"), measured(False, None, "rein compiled")]
    assert neighbour.table(found).splitlines()[2:] == [
        "| dqn/CartPole-v1 | rein | 100 | 90 | 0.75 | **no** |",
        "| dqn/CartPole-v1 | sb3 | 100 | 30 | 0.30\\* |  |",
        "| dqn/CartPole-v1 | rein compiled | - | - | - | |",
    ]


def test_nothing_set_is_compared_with_the_best_by_hand_at_each_time(load):
    default_run = load("default_run")

    def run(setting, early, late, other=0.0):
        rates = {"30.0": early, "300.0": late}
        return {"task": "ppo/CartPole-v1", "setting": setting, "rates": rates, "other_cpu": other}

    runs = [run("default", 80.0, 95.0), run("1", 100.0, 90.0), run("1 compiled", 50.0, 100.0, 0.5)]
    assert default_run.table(runs).splitlines()[2:] == [
        "| ppo/CartPole-v1, 30 s | 80 | 100 | - | 50\\* | - | 0.80 | **no** |",
        "| ppo/CartPole-v1, 300 s | 95 | 90 | - | 100\\* | - | 0.95 | met |",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells who adopts a process")
def test_what_a_measured_process_leaves_behind_does_not_count_as_others():
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    leave = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}]); print('RESULT {{\"value\": 1}}')"
    )
    script = (
        "import sys, measuring\n"
        "before = measuring._children_seconds()\n"
        f"measured = measuring.run_measured([sys.executable, '-c', {leave!r}], None, 60)\n"
        "measuring._await_orphans(patience=60)\n"
        "print(measured.error, measuring._children_seconds() - before)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) >= 0.4
