"""How long `rein board` takes to show many runs, and what that costs the browser.

    python benchmarks/board.py --runs 50 --points 10000

Writes runs into a temporary folder, serves them, opens the page in a headless Chromium and waits until every chart that is in
sight is drawn. Reports wall time from the request of the page to the last chart, twice: with a server that has just begun to
read ("cold"), and with one that has read all ("warm"); processor time of the server; memory of the page's JavaScript; and
what the page adds to the memory of the browser's processes over an empty page.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rein.board import BoardServer, Shelf
from rein.training.run_directory import RunDirectory
from tests.board.browser import Browser

_MOST_SECONDS, _MOST_MEGABYTES = 2.0, 100.0


def write_run(path: Path, seed: int, points: int) -> None:
    """A run with two curves of so many points: the return, and the environment steps that it is drawn against."""
    directory = RunDirectory.create(path)
    directory.start(name=f"task{seed % 10}", seed=seed // 10, algorithm="PPOAlgorithm", env="CartPole-v1")
    directory.update(status="finished", env_steps=256 * points, seconds=100.0)
    values = np.cumsum(np.random.default_rng(seed).normal(size=points))
    directory.summaries.mkdir()
    with (directory.summaries / "scalars.jsonl").open("w") as file:
        for step, value in enumerate(values.tolist()):
            for name, number in (("Metrics/EnvironmentSteps", 256.0 * (step + 1)), ("Metrics/AverageReturn", value)):
                record = {"step": step, "name": name, "value": number, "time": round(1.79e9 + step, 3)}
                file.write(json.dumps(record) + "\n")
    directory.unlock()


def memory(browser: Browser) -> float:
    """Megabytes that are the browser's own, shared ones left out, over all its processes."""
    processes = [psutil.Process(browser.process.pid)]
    processes += processes[0].children(recursive=True)
    return sum(process.memory_full_info().uss for process in processes) / 2**20


def measure(folder: Path, warm: bool) -> dict[str, Any]:
    server = BoardServer(Shelf([folder]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lines = "document.querySelectorAll('.card')[0]?.querySelectorAll('path.line').length"
    try:
        with Browser() as browser:
            reading = time.process_time()
            reader = server.warm_up()
            if warm:
                reader.join()
            answering = time.process_time()
            browser.open("about:blank")
            empty = memory(browser)
            started = time.perf_counter()
            browser.open(server.url)
            wanted = 10  # Groups of seeds, in each of two charts.
            browser.wait_for(f"{lines} >= {wanted} && document.querySelectorAll('.card .line').length >= 2 * {wanted}")
            seconds, done = time.perf_counter() - started, time.process_time()
            heap = browser.metrics()["JSHeapUsedSize"] / 2**20
            return {
                "seconds": round(seconds, 2),
                "processor seconds, reading before": round(answering - reading, 2),
                "processor seconds, answering": round(done - answering, 2),
                "page heap MB": round(heap, 1),
                "browser MB over an empty page": round(memory(browser) - empty, 1),
                "console": browser.messages,
            }
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--points", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(arguments.runs):
            write_run(folder / f"run-{number:02}", number, arguments.points)
        report = {"cold": measure(folder, False), "warm": measure(folder, True)}
    met = all(
        one["seconds"] <= _MOST_SECONDS and one["browser MB over an empty page"] <= _MOST_MEGABYTES
        for one in report.values()
    )
    load = [round(one, 1) for one in psutil.getloadavg()]
    print(json.dumps({**report, "load": load}, indent=2))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
