"""Trains entries of the zoo from scratch and compares what they reach with their bars.

Each seed is trained in a process of its own, then evaluated over held-out episodes. The record, with scores, curves,
versions and hardware, goes to docs/results/, and docs/results.md is made anew from all records. Interrupted, the same
command goes on where it was.

Example:
  rein verify ppo_cartpole --seeds 3
  rein verify --all --budget-minutes 120
  rein verify --sample 3 --budget-minutes 15
  rein verify --sample 10 --fresh --budget-minutes 20
  rein verify --defaults ppo a2c/CartPole-v1
  rein verify --page
"""

import argparse
from pathlib import Path
from typing import Any

from rein.cli.command import BadInputError, Outcome, Session

FRESH_SEEDS = range(10, 15)
"""No record rests on them, and no settings were chosen on them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="entries of the zoo; with --defaults algorithms, environments or ALGORITHM/ENV",
    )
    parser.add_argument(
        "--defaults",
        action="store_true",
        help="train algorithms on a few small tasks with nothing set, for docs/defaults.md, which compares them with others",
    )
    parser.add_argument("--all", action="store_true", help="every entry without a current record")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="train one seed of N entries again, chosen by the date; no record is written",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="with --sample: train seeds 10 to 14 of each, which no record has, and show on the page what they reach",
    )
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="choose the sample of another day (default: today)")
    parser.add_argument("--page", action="store_true", help="only make docs/results.md anew from the records")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="per seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs side by side (default: %(default)s)")
    parser.add_argument(
        "--budget-minutes",
        type=float,
        default=30.0,
        help="for each entry, or for one seed of the whole sample (default: %(default)s)",
    )
    parser.add_argument("--work", default="runs/verify", metavar="DIR", help="where runs go (default: %(default)s)")
    parser.add_argument("--results", default="docs/results", metavar="DIR", help="records (default: %(default)s)")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Verifies."""
    if min(arguments.seeds, arguments.episodes, arguments.jobs) < 1:
        raise BadInputError("--seeds, --episodes and --jobs must be at least 1")
    if arguments.sample is not None:
        return _sample(arguments, session)
    if arguments.defaults:
        return _defaults(arguments, session)
    if not (arguments.names or arguments.all or arguments.page):
        raise BadInputError("name an entry, or give --all; `rein list zoo` shows the entries")

    from rein.zoo import find_task, task_entries
    from rein.zoo.records import is_stale, note_texts, read_record, write_page, write_record
    from rein.zoo.side_by_side import BudgetExceededError
    from rein.zoo.verification import verify

    results = Path(arguments.results)
    entries = [find_task(name) for name in arguments.names]
    if arguments.all:
        records = {name: read_record(name, results) for name in task_entries()}
        entries += [e for e in task_entries().values() if records[e.name] is None or is_stale(records[e.name] or {}, e)]
    session.start_working()
    done, lines = [], []
    for entry in entries:
        try:
            record = verify(
                entry,
                range(arguments.seeds),
                Path(arguments.work),
                arguments.episodes,
                arguments.jobs,
                60 * arguments.budget_minutes,
                lambda text: print(text, file=session.stream, flush=True),
            )
        except (BudgetExceededError, RuntimeError) as error:
            done.append({"name": entry.name, "met": False, "error": str(error)})
            lines.append(str(error))
            print(lines[-1], file=session.stream, flush=True)
            continue
        write_record(record, results)
        done.append(record)
        lines.append(_line(record))
        print(lines[-1], file=session.stream, flush=True)
    if arguments.page:
        note_texts(results)
        write_page(results)
    return Outcome({"records": done}, "", exit_code=0 if all(one["met"] for one in done) else 1)


def _sample(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Trains a sample of the records again and says whether they hold: for their first seed, or for fresh ones."""
    import time

    from rein.zoo import find_task
    from rein.zoo.listing import list_zoo
    from rein.zoo.records import read_record, write_fresh
    from rein.zoo.sample import choose_sample, still_holds
    from rein.zoo.verification import verify

    if arguments.sample < 1 or arguments.names or arguments.all:
        raise BadInputError("--sample N chooses N entries by itself, at least 1: leave names and --all out")
    date = arguments.date or time.strftime("%Y-%m-%d", time.gmtime())
    names = choose_sample(list_zoo(), date, arguments.sample, arguments.budget_minutes)
    seeds = FRESH_SEEDS if arguments.fresh else (0,)
    deadline = time.monotonic() + 60 * arguments.budget_minutes * len(seeds)
    session.start_working()
    print(f"sample of {date}: {', '.join(names) or 'no record fits into the time'}", file=session.stream, flush=True)
    done = []
    for name in names:
        record = read_record(name, Path(arguments.results))
        assert record is not None
        work, left = Path(arguments.work) / f"sample-{date}", deadline - time.monotonic()
        try:
            again = verify(find_task(name), seeds, work, arguments.episodes, arguments.jobs, left, lambda text: None)
        except (TimeoutError, RuntimeError) as error:
            done.append({"name": name, "holds": False, "error": str(error)})
            print(error, file=session.stream, flush=True)
            continue
        holds = again["met"] if arguments.fresh else still_holds(record, again["score"])
        done.append({"name": name, "holds": holds, "score": again["score"], "recorded": record["score"]})
        if arguments.fresh:
            write_fresh(again, date, Path(arguments.results))
        verdict = "holds" if holds else "DOES NOT HOLD"
        of = f"on seed{'s' * arguments.fresh} {', '.join(map(str, seeds))}"
        text = f"{name}: {again['score']:.4g} {of}, recorded {record['score']:.4g} on average: {verdict}"
        print(text, file=session.stream, flush=True)
    is_good = bool(done) and all(one["holds"] for one in done)
    return Outcome({"date": date, "sample": done}, "", exit_code=0 if is_good else 1)


def _defaults(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Trains with nothing set, and adds what is found to the page, pair by pair."""
    from rein.zoo.defaults import pairs, verify_defaults
    from rein.zoo.defaults_page import write_figures

    if arguments.all or arguments.page:
        raise BadInputError("--defaults tries algorithms, not entries of the zoo: leave --all and --page out")
    try:
        chosen = pairs(arguments.names)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    session.start_working()
    done, is_good = [], True
    for pair in chosen:
        try:
            found = verify_defaults(
                pair,
                range(arguments.seeds),
                Path(arguments.work),
                arguments.episodes,
                arguments.jobs,
                lambda text: print(text, file=session.stream, flush=True),
            )
        except RuntimeError as error:
            print(error, file=session.stream, flush=True)
            is_good = False
            continue
        write_figures("rein", [found], Path(arguments.results) / "defaults")
        scores = ", ".join(f"{seed['mean_return']:.4g}" for seed in found["seeds"])
        print(f"{pair.name}: {scores}", file=session.stream, flush=True)
        done.append(found)
    return Outcome({"pairs": done}, "", exit_code=0 if is_good else 1)


def _line(record: dict[str, Any]) -> str:
    from rein.zoo.bars import bar_text

    low, high = record["iqm_interval"]
    text = bar_text(record, str)
    bar = f"bar {text}: {'met' if record['met'] else 'NOT met'}" if text else "no bar"
    return (
        f"{record['name']}: {record['score']:.2f} over {len(record['seeds'])} seeds ({bar}); "
        f"IQM {record['iqm']:.2f} (95% {low:.2f} to {high:.2f})"
    )
