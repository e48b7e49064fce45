"""How fast Rein trains, beside other libraries on the same machine in the same run.

    python benchmarks/run.py                            # ours alone
    python benchmarks/run.py --suite full --peers DIR --peers-python PY --tianshou-python PY --out speed.json
    python benchmarks/run.py --only sac td3 --out speed.json --merge     # some rows again, into the same file
    python benchmarks/run.py --from speed.json --page docs/performance.md --chart docs/performance.svg
    python benchmarks/run.py --list

Method. Every measurement is a process of its own, pinned to as many cores as it has threads. A rate is the median of
three successive windows in steady state: compilation, filling of buffers and first iterations do not count. The
libraries take turns, `--repeats` times, and the median counts. Each is tried with every number of `--threads` in the
first repeat, and goes on with the one it does best with; rows of the same kind of work (SAC) share that choice. A peer
that cannot be the fastest is not measured again: in the first repeat it reached less than 0.5 of the best peer with one
number of threads, or less than 0.75 with its best. What other processes used of the machine meanwhile is recorded; above
0.15 cores a figure is marked. With `--every-thread-count` all numbers of threads are measured in all repeats, and each
gets a table line of its own.

DIR holds scripts that run the peers: `sb3_like.py`, `tianshou_algos.py`, `torchrl_algos.py` and `updates.py`, which
print lines of `RESULT {"value": ..., "peer": ...}` like `workload.py` here. Replay buffers and environments have
benchmarks of their own, `replay.py` and `envs.py`; `--only env replay` takes a few of their rows.
"""

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

from measuring import Measured, run_measured
from speed_rows import OTHERS, OURS, PEERS, Contender, Interpreters, Row, rows
from speed_table import best, chart, replace_block, table, text_table, threads_table

BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
HOPELESS_AT_ONE, HOPELESS = 0.5, 0.75


class RowRun:
    """The measurements of one row."""

    def __init__(
        self,
        row: Row,
        interpreters: Interpreters,
        seconds: float,
        threads: list[int],
        like: dict[str, Any] | None = None,
        cpu_time: bool = False,
        every_count: bool = False,
    ) -> None:
        self.cpu_time, self.like, self.every_count = cpu_time, like, every_count
        self.row, self.interpreters, self.seconds, self.threads = row, interpreters, seconds * row.seconds, threads
        self.measurements: list[dict[str, Any]] = []
        self.missing: dict[str, str] = {}

    def run(self, repeats: int) -> dict[str, Any]:
        """Measures all contenders in turns."""
        for repeat in range(min(repeats, self.row.max_repeats)):
            for contender in self.row.contenders:
                for threads in self._threads(contender, repeat):
                    if contender.name not in self.missing and not self._is_hopeless(contender, repeat):
                        self._measure(contender, threads, repeat)
        return self.record()

    def _threads(self, contender: Contender, repeat: int) -> list[int]:
        tried = list(contender.threads or self.threads)
        if contender.is_reference or self.every_count:
            return tried
        found = self._best_threads(contender.name)
        if found is None and self.like is not None and (before := best(self.like, contender.name)) is not None:
            found = int(before["threads"])
        return tried if found is None else [found]

    def _measure(self, contender: Contender, threads: int, repeat: int) -> None:
        command = contender.command(self.interpreters, self.seconds)
        if command is None:
            self.missing[contender.name] = "no interpreter or scripts were given"
            return
        paths = {"PYTHONPATH": self.interpreters.peers} if contender.name in PEERS else {}
        measured = run_measured(command, threads, contender.timeout, paths)
        self._report(contender, threads, repeat, measured)
        if not measured.records:
            self.missing[contender.name] = measured.error
            return
        records = [record for record in measured.records if contender.takes in ("", record.get("row"))]
        if self.cpu_time:
            records = [record | {"value": record.get("cpu_rate", record["value"])} for record in records]
        fastest = max(records, key=lambda record: record["value"])
        self.measurements.append(
            {
                "contender": contender.name,
                "threads": threads,
                "repeat": repeat,
                "value": fastest["value"],
                "other_cpu": round(measured.other_cpu, 3),
                "wall": round(measured.wall, 1),
                "record": fastest,
            }
        )

    def _report(self, contender: Contender, threads: int, repeat: int, measured: Measured) -> None:
        values = ", ".join(f"{record['value']:,.4g}" for record in measured.records) or measured.error
        print(
            f"{self.row.name} #{repeat + 1} {contender.name}, {threads} threads: {values} {self.row.unit} "
            f"({measured.wall:.0f} s, others used {measured.other_cpu:.2f} cores)",
            file=sys.stderr,
            flush=True,
        )

    def _values(self, name: str, threads: int | None = None) -> list[float]:
        return [
            one["value"] for one in self.measurements if one["contender"] == name and threads in (None, one["threads"])
        ]

    def _best_threads(self, name: str) -> int | None:
        tried: set[int] = {one["threads"] for one in self.measurements if one["contender"] == name}
        if not tried:
            return None
        sign = -1.0 if self.row.higher_is_better else 1.0
        return min(tried, key=lambda threads: sign * statistics.median(self._values(name, threads)))

    def _is_hopeless(self, contender: Contender, repeat: int) -> bool:
        """Whether a peer cannot be the fastest of them; see the method."""
        values = self._values(contender.name)
        if contender.name not in PEERS + OTHERS or not values or not self.row.higher_is_better:
            return False
        fastest = max(value for name in PEERS + OTHERS for value in [0.0, *self._values(name)])
        return max(values) < (HOPELESS_AT_ONE if repeat == 0 else HOPELESS) * fastest

    def record(self) -> dict[str, Any]:
        """All that was found, for JSON."""
        results = {}
        for contender in self.row.contenders:
            threads = self._best_threads(contender.name)
            if threads is not None:
                results[contender.name] = {
                    str(count): summary(self._of(contender.name, count)) | {"is_best": count == threads}
                    for count in sorted({one["threads"] for one in self._of(contender.name)})
                }
        row = self.row
        return {
            "name": row.name,
            "title": row.title,
            "unit": row.unit,
            "against": row.against,
            "bar": row.bar,
            "higher_is_better": row.higher_is_better,
            "results": results,
            "missing": self.missing,
            "measurements": self.measurements,
        }

    def _of(self, name: str, threads: int | None = None) -> list[dict[str, Any]]:
        return [one for one in self.measurements if one["contender"] == name and threads in (None, one["threads"])]


def summary(measurements: list[dict[str, Any]]) -> dict[str, Any]:
    """What the repeats of one contender with one number of threads come to."""
    values = [one["value"] for one in measurements]
    found: dict[str, Any] = {
        "value": statistics.median(values),
        "lo": min(values),
        "hi": max(values),
        "repeats": len(values),
        "other_cpu": max(one["other_cpu"] for one in measurements),
        "rss_mb": max(one["record"].get("rss_mb", 0.0) for one in measurements),
    }
    shares = [one["record"]["shares"] for one in measurements if one["record"].get("shares")]
    if shares:
        found["shares"] = {part: statistics.median(share[part] for share in shares) for part in shares[0]}
    notes = {note for one in measurements for note in one["record"].get("notes", [])}
    return found | ({"notes": sorted(notes)} if notes else {})


def chosen_rows(arguments: argparse.Namespace) -> list[Row]:
    """The rows that were asked for."""
    is_full = arguments.suite == "full"
    found = [row for row in rows() if arguments.only or row.is_quick or (is_full and not row.is_extra)]
    if arguments.only:
        found = [row for row in found if row.name.startswith(tuple(arguments.only))]
        if not found:
            names = ", ".join(row.name for row in rows())
            raise SystemExit(f"no row begins with {' or '.join(arguments.only)}: there are {names}")
    wanted = {name for given in arguments.contenders or [] for name in (OURS if given == "ours" else (given,))}
    if wanted:
        found = [row._replace(contenders=tuple(one for one in row.contenders if one.name in wanted)) for row in found]
    return found


def measure_rows(arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Measures row by row, and writes the report after each."""
    interpreters = Interpreters(arguments.peers, arguments.peers_python, arguments.tianshou_python)
    order = [row.name for row in rows()]
    for row in chosen_rows(arguments):
        start = time.perf_counter()
        like = next((old for old in report["rows"] if old["name"] == row.like), None)
        every, cpu_time = arguments.every_thread_count, arguments.cpu_time
        run = RowRun(row, interpreters, arguments.seconds, arguments.threads, like, cpu_time, every)
        record = run.run(arguments.repeats)
        record["seconds"] = round(time.perf_counter() - start, 1)
        kept = [old for old in report["rows"] if old["name"] != row.name]
        report["rows"] = sorted([*kept, record], key=lambda one: order.index(one["name"]))
        if arguments.out:
            with open(arguments.out, "w") as file:
                json.dump(report, file, indent=1)


def new_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was measured before, if results are merged; else nothing but facts about the machine."""
    from rein.training.hardware import describe_machine

    report: dict[str, Any] = {"rows": []}
    if arguments.merge and arguments.out and os.path.exists(arguments.out):
        with open(arguments.out) as file:
            report = json.load(file)
    return report | {
        "machine": describe_machine(),
        "date": time.strftime("%Y-%m-%d"),
        "seconds": arguments.seconds,
        "repeats": arguments.repeats,
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["quick", "full"], default="quick", help="quick: some rows, short, once")
    parser.add_argument("--only", nargs="+", metavar="PREFIX", help="rows whose names begin so")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help='only these; "ours" is all forms of ours')
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine: rates by processor time, if known")
    parser.add_argument("--peers", default="", metavar="DIR", help="scripts that run the peers")
    parser.add_argument(
        "--peers-python", default="", metavar="PY", help="interpreter of Stable-Baselines3, SBX, TorchRL"
    )
    parser.add_argument("--tianshou-python", default="", metavar="PY", help="interpreter of Tianshou")
    parser.add_argument("--repeats", type=int, help="default: 3, or 1 for quick")
    parser.add_argument("--threads", nargs="+", type=int, help="numbers to try; default: 1 2, or 1 for quick")
    parser.add_argument("--every-thread-count", action="store_true", help="in all repeats, and a table of each")
    parser.add_argument("--seconds", type=float, help="of timing each; default: 3, or 1.5 for quick")
    parser.add_argument("--out", metavar="FILE", help="JSON file for everything measured")
    parser.add_argument("--merge", action="store_true", help="keep the rows of --out that are not measured now")
    parser.add_argument("--from", dest="source", metavar="FILE", help="measure nothing; take this JSON file")
    parser.add_argument("--page", metavar="FILE", help="page whose marked block becomes the table")
    parser.add_argument("--chart", metavar="FILE", help="SVG file for the chart")
    parser.add_argument("--list", action="store_true", help="show the rows")
    arguments = parser.parse_args()
    is_quick = arguments.suite == "quick"
    arguments.repeats = arguments.repeats or (1 if is_quick else 3)
    arguments.threads = arguments.threads or ([1] if is_quick else [1, 2])
    arguments.seconds = arguments.seconds or (1.5 if is_quick else 3.0)
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if arguments.list:
        for row in chosen_rows(arguments):
            print(f"{row.name}: {', '.join(contender.name for contender in row.contenders)}")
        return
    if arguments.source:
        with open(arguments.source) as file:
            report = json.load(file)
    else:
        report = new_report(arguments)
        measure_rows(arguments, report)
    print(text_table(report))
    if arguments.every_thread_count:
        print(f"\n{threads_table(report)}")
    if arguments.page:
        replace_block(arguments.page, BEGIN, END, table(report))
    if arguments.chart:
        with open(arguments.chart, "w") as file:
            file.write(chart(report))


if __name__ == "__main__":
    main()
