"""The page in a real browser: it shows what there is, runs nothing that a run says, and obeys the keyboard.

Needs a Chromium (Debian: apt-get install chromium); without one these tests are skipped.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rein.board import BoardServer
from tests.board.browser import Browser, find_chromium
from tests.board.example_runs import HOSTILE, write_run

pytest.importorskip("websockets")
pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium was found")

CHART = (
    "[...document.querySelectorAll('.chart')].find(c => c.innerText.startsWith('Training return')).querySelector('svg')"
)
DRAWN = "document.querySelectorAll('.chart path.line').length"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    window.messages.clear()
    window.dialogs.clear()
    window.resize(1280, 900)
    yield window
    assert window.messages == []
    window.open("about:blank")


def text(browser: Browser) -> str:
    return str(browser.evaluate("document.querySelector('main').innerText"))


def run_id(board: BoardServer, place: str) -> str:
    return next(run.id for run in board.shelf.runs() if run.place == place)


def test_runs_are_listed_searched_and_drawn(board: BoardServer, browser: Browser) -> None:
    browser.open(board.url)
    browser.wait_for(f"{DRAWN} >= 3")
    assert browser.evaluate("document.querySelectorAll('.runs tbody tr').length") == 4
    assert browser.evaluate("document.querySelectorAll('.chart path.band').length") >= 1
    browser.press("/")
    assert browser.evaluate("document.activeElement.type") == "search"
    for letter in "pendulum":
        browser.press(letter)
    browser.wait_for("document.querySelectorAll('.runs tbody tr').length === 1")
    assert "1 of 4 runs" in text(browser)
    browser.wait_for(f"{DRAWN} >= 1 && !document.querySelector('.legend li')")


def test_values_are_shown_by_pointer_and_by_arrow_keys(board: BoardServer, browser: Browser) -> None:
    browser.open(f"{board.url}#/run/{run_id(board, 'task-1')}")
    browser.wait_for(f"{DRAWN} >= 1")
    box = browser.evaluate(f"(b => [b.left, b.top, b.width, b.height])({CHART}.getBoundingClientRect())")
    browser.move_pointer(box[0] + box[2] - 14, box[1] + box[3] / 2)
    tip = "[...document.querySelectorAll('.tip')].find(t => !t.hidden)?.innerText"
    assert browser.wait_for(tip).split() == ["2k", "20"]
    browser.move_pointer(1, 1)
    browser.evaluate(f"{CHART}.focus()")
    for key in ("Home", "ArrowRight"):
        browser.press(key)
    assert browser.wait_for(tip).split() == ["200", "2"]


def test_every_tab_of_a_run_is_reached_by_the_keyboard(board: BoardServer, browser: Browser) -> None:
    browser.open(f"{board.url}#/run/{run_id(board, 'task-1')}")
    browser.wait_for("document.querySelector('[role=tab][aria-selected=true]') !== null")
    browser.evaluate("document.querySelector('[role=tab][aria-selected=true]').focus()")
    expected = {"Evaluations": "2,000", "Agent": "no description", "Videos": "rein play", "Time": "learn"}
    expected |= {"Faults": "Nothing was logged", "Settings": "Loss.gamma"}
    for title, words in expected.items():
        browser.press("ArrowRight")
        browser.wait_for(f"document.querySelector('[role=tab][aria-selected=true]').innerText === {title!r}")
        browser.wait_for(f"document.querySelector('main').innerText.includes({words!r})")


def test_differences_of_settings_are_marked(board: BoardServer, browser: Browser) -> None:
    browser.open(f"{board.url}#/compare/{run_id(board, 'task-0')},{run_id(board, 'task-1')}")
    browser.wait_for("document.querySelectorAll('.tall tr.differs').length === 1")
    assert browser.evaluate("document.querySelector('.tall tr.differs').innerText").split() == [
        "≠",
        "learning_rate",
        "0.001",
        "0.002",
    ]
    assert "1 of 3 settings differ" in text(browser)
    browser.evaluate("document.querySelector('input[type=checkbox]').click()")
    browser.wait_for("document.querySelectorAll('.tall tbody tr').length === 3")


def test_the_evidence_of_the_zoo_with_its_bar(board: BoardServer, browser: Browser) -> None:
    browser.open(f"{board.url}#/zoo/ppo_cartpole")
    browser.wait_for("document.querySelector('.bar-label')?.textContent === 'bar 490'")
    assert browser.evaluate(DRAWN) >= 3


def test_new_values_appear_without_a_reload(board: BoardServer, browser: Browser, tmp_path: Path) -> None:
    browser.open(board.url)
    browser.wait_for("document.querySelectorAll('.runs tbody tr').length === 4")
    write_run(tmp_path / "runs" / "late", 7, name="latecomer")
    browser.wait_for("document.querySelector('main').innerText.includes('latecomer')")


@pytest.mark.parametrize("view", ["", "#/run/{id}", "#/run/{id}/{tab}", "#/compare/{id},{other}"])
def test_hostile_names_settings_and_logs_run_nothing(board: BoardServer, browser: Browser, view: str) -> None:
    hostile = next(run for run in board.shelf.runs() if run.record()["name"] == HOSTILE)
    tabs = ("evaluations", "agent", "videos", "time", "faults", "settings") if "{tab}" in view else ("",)
    for tab in tabs:
        browser.open("about:blank")
        browser.open(board.url + view.format(id=hostile.id, tab=tab, other=run_id(board, "task-0")))
        browser.wait_for("document.querySelector('main').innerText.includes('onerror=alert(1)')")
        found = (
            "document.querySelectorAll('main script, main [onerror], main img[src=x], main iframe, main object').length"
        )
        assert browser.evaluate(found) == 0
    assert browser.dialogs == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "view", ["", "#/run/{id}/settings", "#/run/{id}/evaluations", "#/compare/{id},{other}", "#/zoo"]
)
def test_a_phone_shows_all_of_it(board: BoardServer, browser: Browser, view: str, scheme: str) -> None:
    browser.resize(360, 740)
    browser.open(board.url + view.format(id=run_id(board, "task-1"), other=run_id(board, "task-0")))
    browser.wait_for("Boolean(document.querySelector('main h1')?.innerText && document.querySelector('main table'))")
    if scheme == "dark":
        browser.evaluate("document.getElementById('theme').click()")
    shade = browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(shade) > 380) == (scheme == "light")
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_run_of_odd_values_is_shown_as_far_as_possible(board: BoardServer, browser: Browser, tmp_path: Path) -> None:
    odd = tmp_path / "runs" / "task-0"
    for name in ("run.json", "agent.json", "timing.json", "evaluations.jsonl"):
        known = json.loads((odd / name).read_text()) if (odd / name).exists() else {"root": 1, "optimizers": 1}
        (odd / name).write_text(json.dumps({key: {"a": [1]} for key in [*known, "bars", "numbers", "error"]}) + "\n")
    for tab in ("curves", "evaluations", "agent", "videos", "time", "faults", "settings"):
        browser.open(f"{board.url}#/run/{run_id(board, 'task-0')}/{tab}")
        browser.wait_for(f"document.querySelector('[aria-selected=true]')?.dataset.tab === '{tab}'")
        browser.wait_for("document.querySelector('#panel').innerText.length > 0")
        assert not browser.evaluate("document.querySelector('#live .bad')?.innerText")
