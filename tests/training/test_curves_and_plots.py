"""Curves, bands, charts and reports, from run directories written by hand."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rein.runtime.writers import JsonlWriter
from rein.training.plots import write_plot
from rein.training.report import again, write_report
from rein.training.run_directory import RunDirectory, RunDirectoryError
from rein.training.statistics_of_runs import (
    Band,
    Curve,
    aggregate,
    bootstrap_interval,
    distinct_labels,
    final_score,
    find_runs,
    group_bands,
    read_curve,
    smooth,
)
from rein.training.svg_chart import line_chart, nice_ticks, short_number


def make_run(path: Path, seed: int = 0, overrides: tuple[str, ...] = (), offset: float = 0.0) -> RunDirectory:
    directory = RunDirectory.create(path)
    directory.start(name="task", seed=seed, overrides=list(overrides), command="rein train task")
    writer = JsonlWriter(directory.summaries)
    for step in range(1, 6):
        writer.scalar("Metrics/EnvironmentSteps", 100.0 * step, step)
        writer.scalar("Metrics/AverageReturn", step + offset, step)
    writer.scalar("Evaluation/AverageReturn", 7.0, 6)
    writer.close()
    return directory


def test_a_curve_is_drawn_against_environment_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    x, y = read_curve(run)
    np.testing.assert_array_equal(x, [100, 200, 300, 400, 500])
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(read_curve(run, x_axis="iterations").x, [1, 2, 3, 4, 5])


def test_a_value_after_the_last_summary_continues_at_the_average_pace(tmp_path: Path) -> None:
    x, y = read_curve(make_run(tmp_path / "a"), "Evaluation/AverageReturn")
    assert (x.tolist(), y.tolist()) == ([600.0], [7.0])


def test_a_misspelt_metric_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'Metrics/AverageReturn'"):
        read_curve(make_run(tmp_path / "a"), "Metrics/AvrageReturn")


def test_runs_that_differ_by_seed_become_one_band(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"a{seed}", seed, offset=seed) for seed in range(3)]
    runs.append(make_run(tmp_path / "b", overrides=("lr=1",)))
    first, second = group_bands(runs)
    assert (first.num_runs, second.num_runs) == (3, 1)
    assert second.label == "lr=1"
    np.testing.assert_allclose(first.mean, [2, 3, 4, 5, 6])
    assert (first.low < first.mean).all()
    assert (first.mean < first.high).all()
    np.testing.assert_array_equal(second.low, second.mean)


def test_bands_cover_what_all_runs_have() -> None:
    long, short = (Curve(np.arange(n, dtype=float), np.ones(n)) for n in (10, 4))
    assert aggregate("x", [long, short]).x[-1] == 3.0
    apart = Curve(np.array([50.0, 60.0]), np.ones(2))
    with pytest.raises(ValueError, match="no common range"):
        aggregate("x", [long, apart])
    with pytest.raises(ValueError, match="none of the 1 runs"):
        aggregate("x", [Curve(np.zeros(0), np.zeros(0))])


def test_the_bootstrap_interval_of_equal_runs_is_their_value() -> None:
    low, high = bootstrap_interval(np.full((4, 2), 3.0))
    assert low.tolist() == high.tolist() == [3.0, 3.0]


def test_labels_leave_out_what_all_share() -> None:
    assert distinct_labels(["t a=1 b=2", "t a=1 b=3"]) == {"t a=1 b=2": "b=2", "t a=1 b=3": "b=3"}
    assert distinct_labels(["t", "t a=1"]) == {"t": "t", "t a=1": "a=1"}
    assert distinct_labels(["t a=1"]) == {"t a=1": "t a=1"}


def test_smoothing_by_hand() -> None:
    curve = Curve(np.arange(4.0), np.array([1.0, 3.0, 5.0, 7.0]))
    np.testing.assert_allclose(smooth(curve, 2).y, [1, 2, 4, 6])
    with pytest.raises(ValueError, match="window of 0"):
        smooth(curve, 0)


def test_runs_are_found_below_a_folder(tmp_path: Path) -> None:
    make_run(tmp_path / "x" / "a")
    make_run(tmp_path / "x" / "b")
    assert [run.path.name for run in find_runs([tmp_path, tmp_path / "x" / "a"])] == ["a", "b"]
    with pytest.raises(RunDirectoryError, match="no run at or below"):
        find_runs([tmp_path / "nothing"])


def test_the_score_is_the_last_evaluation_or_else_the_last_return(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    assert final_score(run) == 5.0
    run.add_evaluation({"mean_return": 9.0})
    assert final_score(run) == 9.0


@given(
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(1e-3, 1e6),
    st.integers(3, 8),
)
def test_ticks_cover_the_range_and_are_about_as_many_as_asked(low: float, spread: float, about: int) -> None:
    ticks = nice_ticks(low, low + spread, about)
    step = ticks[1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * step + 1e-9
    assert ticks[-1] >= low + spread - 1e-6 * step - 1e-6
    assert 2 <= len(ticks) <= about + 3


def test_numbers_for_people() -> None:
    assert [short_number(v) for v in (0, 950, 1500, 2_000_000, -0.25)] == ["0", "950", "1.5k", "2M", "-0.25"]


def test_a_chart_is_valid_svg_with_a_line_and_a_band(tmp_path: Path) -> None:
    x = np.arange(5.0)
    bands = [Band("one <&>", x, x, x - 1, x + 1, 3), Band("two", x[:1], x[:1], x[:1], x[:1], 1)]
    root = ElementTree.fromstring(line_chart(bands, "a < b", "steps", "return"))
    kinds = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (kinds.count("polygon"), kinds.count("polyline"), kinds.count("circle")) == (1, 1, 1)
    texts = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert "one <&> (3 runs)" in texts
    with pytest.raises(ValueError, match="nothing to draw"):
        line_chart([Band("x", x[:0], x[:0], x[:0], x[:0], 1)], "t", "x", "y")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_plots_in_every_format(tmp_path: Path, suffix: str) -> None:
    bands = group_bands([make_run(tmp_path / "a", 0), make_run(tmp_path / "b", 1, offset=1.0)])
    path = write_plot(tmp_path / f"out/plot{suffix}", bands, "Metrics/AverageReturn")
    content = path.read_bytes()
    assert content.startswith({".png": b"\x89PNG", ".svg": b"<svg", ".html": b"<!doctype html>"}[suffix])
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png, \.svg, \.html"):
        write_plot(tmp_path / "plot.pdf", [], "x")


class _Page(HTMLParser):
    """Collects tags and checks that they are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_is_one_complete_page_that_needs_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    evaluation = {"mean_return": 7.5, "ci95": [7.0, 8.0], "std_return": 1.0, "mean_length": 30.0, "episodes": 20}
    run.add_evaluation({**evaluation, "held_out": True})
    run.config.mkdir()
    (run.config / "operative.py").write_text("config({'x.y': '<b>'})\n")
    run.videos.mkdir()
    (run.videos / "policy.gif").write_bytes(b"GIF89a")
    page = _Page()
    text = write_report(run).read_text()
    page.feed(text)
    assert page.open == []
    assert page.seen.count("svg") == 2
    assert all(source.startswith("data:image/gif;base64,") for source in page.sources)
    assert len(page.sources) == 1
    for part in ("7.5", "7 to 8", "held-out", "&lt;b&gt;", "rein train task", "processor"):
        assert part in text, part


def test_the_report_shows_bars_intervals_and_values_under_the_pointer(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    run.update(bars={"bar": 90, "at_most": 120}, command="rein train 'my task' --dir runs/a --seed 3")
    run.add_evaluation(
        {
            "iterations": 6,
            "env_steps": 500,
            "episodes": 2,
            "mean_return": 7.0,
            "std_return": 1.0,
            "ci95": [6.0, 8.5],
            "mean_length": 5.0,
        }
    )
    page = write_report(run).read_text()
    assert page.count("bar 90") == page.count("at most 120") == 2
    assert "Training return" in page
    assert "Evaluation return" in page
    assert "7 (6 to 8.5)" in page
    assert 'class="spot"' in page
    assert "rein train &#x27;my task&#x27; --seed 3" in page


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rein train ppo_cartpole --dir runs/a", "rein train ppo_cartpole"),
        ("rein train --dir=runs/a ppo_cartpole 'a=[1, 2]'", "rein train ppo_cartpole 'a=[1, 2]'"),
        ("python own.py --dir x", "python own.py --dir x"),
        ("rein train 'unfinished", "rein train 'unfinished"),
    ],
)
def test_the_command_to_train_again_needs_no_new_directory(tmp_path: Path, command: str, expected: str) -> None:
    assert again(RunDirectory(tmp_path), {"command": command})[0] == expected


def test_evaluations_stand_where_they_were_made(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    run.add_evaluation({"iterations": 6, "env_steps": 512, "mean_return": 7.0})
    run.add_evaluation({"iterations": 6, "env_steps": 512, "mean_return": 8.0, "held_out": True})
    assert read_curve(run, "Evaluation/AverageReturn").x.tolist() == [512.0]


def test_long_legends_and_titles_are_wrapped_not_cut() -> None:
    words = " ".join(f"setting_{i}=value" for i in range(12))
    x = np.arange(3.0)
    bands = [Band(label, x, x, x, x, 1) for label in (words, "short")]
    svg = ElementTree.fromstring(line_chart(bands, words, "x", "y", width=480))
    texts = ["".join(one.itertext()) for one in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert max(len(text) for text in texts) < 70
    assert " ".join(texts).count("setting_11=value") == 2
    bottom = float(svg.get("viewBox", "").split()[-1])
    assert bottom > 320 + 18 * 3


def test_a_report_of_a_run_that_has_just_begun(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "a")
    run.start(name="task", seed=0)
    assert "Nothing was recorded yet" in write_report(run).read_text()


def test_a_large_video_is_named_but_not_put_into_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rein.training.report.MAX_VIDEO_BYTES", 3)
    run = make_run(tmp_path / "a")
    run.videos.mkdir()
    (run.videos / "policy.mp4").write_bytes(b"12345")
    assert "too large" in write_report(run).read_text()
