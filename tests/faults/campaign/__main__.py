"""`make faults` injects many faults of each kind and writes docs/reliability.md.

Each row of the table is a function that injects faults and returns how many it injected and how many got through, in a
process of its own. A row fails if one did. `--share 0.1` injects a tenth of them.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.campaign.foreign import mutate_worlds, open_hostile_runs, spoil_returns
from tests.faults.campaign.kills import interrupt_agent_saves, kill_other_runs, kill_runs, kill_saves
from tests.faults.campaign.memory import watch_memory
from tests.faults.campaign.numbers import poison_gradients, resume_exactly
from tests.faults.campaign.rows import Found, Row
from tests.faults.campaign.stops import send_signals, send_signals_to_others, start_twice

PAGE = Path(__file__).parents[3] / "docs/reliability.md"
ROWS = {
    "kill_runs": Row("kill -9 of `rein train` and `rein resume`", "0 lost", 300, kill_runs),
    "kill_saves": Row("kill -9 while a checkpoint is saved", "0 lost", 1000, kill_saves),
    "kill_other_runs": Row("kill -9 of other kinds of run", "0 lost", 42, kill_other_runs),
    "watch_memory": Row("growth of memory while training", "1 MB held in ten minutes", 8, watch_memory),
    "send_signals": Row("SIGINT and SIGTERM", "exit code, status, checkpoint, nothing left", 100, send_signals),
    "send_signals_to_others": Row(
        "SIGINT and SIGTERM to other kinds of run",
        "exit code, status, checkpoint, nothing left",
        21,
        send_signals_to_others,
    ),
    "interrupt_agent_saves": Row("kill -9 of `agent.save(overwrite=True)`", "0 missing", 150, interrupt_agent_saves),
    "resume_exactly": Row("runs that are cut and resumed", "all bit for bit", 100, resume_exactly),
    "poison_gradients": Row("NaN, infinite and huge gradients", "0 poisoned", 20, poison_gradients),
    "start_twice": Row("two starts of one run", "one refused", 40, start_twice),
    "open_hostile_runs": Row("hostile run directories", "0 executions", 200, open_hostile_runs),
    "mutate_worlds": Row("worlds that are wrong in one way each", "all named", 500, mutate_worlds),
    "spoil_returns": Row("worlds that return what they must not", "all named", 500, spoil_returns),
}
"""By name, the longest first, so that two at once end together."""
_TEXT = """# Reliability: faults that were injected

`make faults` injects faults of each kind and writes this page; `tests/faults/` holds the short form, which runs with every
test. A row counts what got through. [Security](security.md) states what opening foreign files can do,
[checkpoints](checkpoints.md) how they are written.

| Fault | Injected | Got through | Bar | Seconds |
| --- | --- | --- | --- | --- |
{rows}

{when}

What the tests beside the table pin:

- Gradients that are not finite are left out before any optimizer steps, counted in `run.json` (`skipped_updates`) and named.
  Ten in a row stop the run, and a checkpoint with such numbers is refused.
- Of 200 checkpoints that are cut or have bits flipped, all are found out and stepped over.
- A run holds a lock for the life of its process.
- SIGTERM gives an iteration ten seconds, then interrupts it. The exit code is 143, after Ctrl-C 130, the status "stopped".
  An episode of an evaluation is cut after 200,000 steps.
- A full disk does not stop training but for `--fail-on-save-error`; the last save must succeed.
- Worlds get one restart back for each 100 good steps.
"""


def inject(name: str, number: int, seed: int) -> Found:
    """Injects the faults of one row in this process."""
    with tempfile.TemporaryDirectory(prefix="rein-faults-") as work:
        return ROWS[name].inject(number, Path(work), random.Random(seed))


def line_of(name: str, number: int, seed: int) -> tuple[str, int]:
    """Injects the faults of one row in a process of its own; its line of the table, and how many got through."""
    begun = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "tests.faults.campaign",
        "--row",
        name,
        "--number",
        str(number),
        "--seed",
        str(seed),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    row, seconds = ROWS[name], time.monotonic() - begun
    if answer.returncode != 0:
        print(answer.stderr[-3000:], file=sys.stderr)
        found = Found(0, 1, "ended by an error")
    else:
        found = Found(*json.loads(answer.stdout.splitlines()[-1]))
    what = f"{row.what} ({found.note})" if found.note else row.what
    line = f"| {what} | {found.injected:,} | {found.failed} | {row.bar} | {seconds:.0f} |"
    print(line, flush=True)
    return line, found.failed


def main() -> int:
    """Runs the rows and writes the page; the exit code is 1 if a fault got through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the faults to inject")
    parser.add_argument("--counts", nargs="*", default=[], metavar="ROW=N", help="of faults, for single rows")
    parser.add_argument("--only", nargs="*", choices=list(ROWS), help="rows to run; the others of the page stay")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        print(json.dumps(inject(arguments.row, arguments.number, arguments.seed)))
        return 0
    counts = {name: int(count) for name, _, count in (one.partition("=") for one in arguments.counts)}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        lines = pool.map(
            lambda name: line_of(
                name, counts.get(name) or max(1, round(ROWS[name].number * arguments.share)), arguments.seed
            ),
            arguments.only or ROWS,
        )
        rows, failed = zip(*lines, strict=True)
    found = kept_rows() | dict(zip(arguments.only or ROWS, rows, strict=True))
    write_page([found[name] for name in ROWS if name in found], " ".join(sys.argv[1:]))
    return int(sum(failed) > 0)


def kept_rows() -> dict[str, str]:
    """The rows that the page has."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return {
        name: line
        for name, row in ROWS.items()
        for line in lines
        if line.startswith((f"| {row.what} |", f"| {row.what} ("))
    }


def write_page(rows: Sequence[str], words: str) -> None:
    """Writes the page.

    Args:
        rows: lines of the table.
        words: of the command that was run last.
    """
    command = f"python -m tests.faults.campaign {words}".strip()
    others = " The rows that it does not name are of runs before." if "--only" in words else ""
    when = f"Made by `{command}` on {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}.{others}"
    PAGE.write_text(_TEXT.format(rows="\n".join(rows), when=when))


if __name__ == "__main__":
    sys.exit(main())
