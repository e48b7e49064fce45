"""The bar of an entry of the zoo: what is asked of its scores, and how that is written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def is_met(facts: Mapping[str, Any], scores: Sequence[float]) -> bool:
    """Whether the scores of the seeds pass `bar` and `at_most`: their mean, or with `in_every_seed` each of them."""
    bar, at_most = facts.get("bar"), facts.get("at_most")
    compared = scores if facts.get("in_every_seed") else [sum(scores) / len(scores)]
    return all((bar is None or one >= bar) and (at_most is None or one <= at_most) for one in compared)


def bar_text(facts: Mapping[str, Any], show: Callable[[float], str]) -> str:
    """The bar in words, such as "90 in every seed" or "at most 15 %"; empty if there is none.

    Args:
        facts: `ENTRY` of a conf, or a record.
        show: writes a score.
    """
    bar, at_most = facts.get("bar"), facts.get("at_most")
    parts = ([] if bar is None else [show(bar)]) + ([] if at_most is None else [f"at most {show(at_most)}"])
    return " and ".join(parts) + (" in every seed" if parts and facts.get("in_every_seed") else "")


def short_bar_text(facts: Mapping[str, Any]) -> str:
    """The bar for a narrow column, such as "90 each seed" or "<= 15 %"; empty if there is none."""
    show = score_writer(facts)
    bar, at_most = facts.get("bar"), facts.get("at_most")
    parts = ([] if bar is None else [show(bar)]) + ([] if at_most is None else [f"<= {show(at_most)}"])
    return ", ".join(parts) + (" each seed" if parts and facts.get("in_every_seed") else "")


def score_writer(facts: Mapping[str, Any]) -> Callable[[float], str]:
    """How scores of an entry or record are written: as percentages where they are shares, else as short numbers."""
    return _percent if facts.get("measure") in ("success_rate", "share_of_bars", "test_acc") else number_text


def number_text(value: float) -> str:
    """A score in as many digits as say something."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
