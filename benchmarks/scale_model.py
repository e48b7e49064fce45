"""What a scheme would do on more machines than there are: a discrete-event model, calibrated by measurements here.

    python benchmarks/scale_model.py --calibrate calibration.json
    python benchmarks/scale_model.py --from calibration.json --page docs/distributed.md
    python benchmarks/scale_model.py --from calibration.json --check

Collectors make fragments and pull weights; fragments go through the link of the learner, one after the other; the learner
takes them in the order in which they come, drops what is too old, and publishes weights after each. All durations are
processor time on one core of this machine, so that a busy machine gives the same calibration. `--check` compares the
processor time per step that 1, 2 and 4 local collectors need, and their rate by the clock, with what the model says; the
latter on a machine that does nothing else.
"""

import argparse
import heapq
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

BEGIN, END = "<!-- scale model: begin -->", "<!-- scale model: end -->"
COUNTS = (1, 2, 4, 10, 30, 100, 300, 1000, 3000, 10_000)
DOLLARS_PER_CORE_HOUR = 0.04


class Calibration(NamedTuple):
    """What one fragment costs, in seconds of one core and bytes."""

    steps: int
    collect: float
    """A collector makes it."""
    hand_over: float
    """Both ends send and receive it, with the weights."""
    learn: float
    """The learner learns from it."""
    fragment_bytes: int
    weight_bytes: int


class Cluster(NamedTuple):
    """Where it runs."""

    cores: int | None = None
    """That collectors and learner share; None: each has one of its own."""
    bandwidth: float = 1.25e9
    """Of the learner's link, bytes per second each way."""
    latency: float = 2e-4
    """Seconds one way."""
    max_lag: int = 10
    fragments_per_update: int = 0
    """That are learnt from together, with one new version; 0 is one for every `max_lag` collectors."""
    spread: float = 0.1
    """Deviation of the time of a fragment, as a share."""


class Prediction(NamedTuple):
    """What comes out."""

    collectors: int
    steps_per_second: float
    mean_lag: float
    largest_lag: int
    dropped: float
    """Share of fragments."""
    learner_busy: float
    """Share of the time."""
    dollars_per_billion: float
    """For a billion steps that are learnt from."""


def simulate(collectors: int, cost: Calibration, cluster: Cluster | None = None, fragments: int = 4000) -> Prediction:
    """Follows fragments until so many have been taken by the learner."""
    cluster = cluster or Cluster()
    rng = random.Random(collectors)
    cores = _Pool(cluster.cores or collectors + 1)
    in_link, out_link, learner = _Pool(1), _Pool(1), _Pool(1)
    together = cluster.fragments_per_update or -(-collectors // cluster.max_lag)
    version = taken = dropped = 0
    lags: list[int] = []
    learnt_until = 0.0
    # (when, tie-breaker, what, collector, version of its weights)
    events: list[tuple[float, int, str, int, int]] = []
    published: list[tuple[float, int]] = [(0.0, 0)]
    serial = 0

    def push(when: float, what: str, collector: int, of_version: int) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(events, (when, serial, what, collector, of_version))

    for collector in range(collectors):
        push(rng.random() * cost.collect, "start", collector, 0)
    now = 0.0
    fragments = max(fragments, 10 * collectors)
    while taken + dropped < fragments:
        now, _, what, collector, of_version = heapq.heappop(events)
        if what == "start":
            while len(published) > 1 and published[1][0] <= now:
                published.pop(0)
            pulled = out_link.use(now, cost.weight_bytes / cluster.bandwidth) + 2 * cluster.latency
            duration = (cost.collect + 0.5 * cost.hand_over) * max(0.1, rng.gauss(1.0, cluster.spread))
            push(cores.use(pulled, duration), "send", collector, published[0][1])
        elif what == "send":
            arrived = in_link.use(now, cost.fragment_bytes / cluster.bandwidth) + cluster.latency
            push(arrived, "learn", collector, of_version)
        else:
            begin = learner.free_at(now)
            # A collector never works more than one fragment ahead: it starts again when this one is taken.
            push(begin, "start", collector, of_version)
            lag = version - of_version
            if lag > cluster.max_lag:
                dropped += 1
                learnt_until = learner.use(now, 0.1 * cost.hand_over)
                continue
            end = learner.use(now, cores.use(begin, cost.learn + 0.5 * cost.hand_over) - begin)
            taken, learnt_until = taken + 1, end
            if taken % together == 0:
                version += 1
                published.append((end, version))
            lags.append(lag)
    seconds = max(now, learnt_until)
    rate = taken * cost.steps / seconds
    cores_used = cluster.cores or collectors + 1
    dollars = cores_used * DOLLARS_PER_CORE_HOUR / 3600 / max(rate, 1e-9) * 1e9
    mean_lag = sum(lags) / max(1, len(lags))
    return Prediction(
        collectors, rate, mean_lag, max(lags, default=0), dropped / (taken + dropped), learner.busy / seconds, dollars
    )


class _Pool:
    """Some equal servers; who comes first is served first."""

    def __init__(self, servers: int) -> None:
        self._free = [0.0] * servers
        self.busy = 0.0

    def free_at(self, now: float) -> float:
        return max(now, self._free[0])

    def use(self, now: float, duration: float) -> float:
        """When a job that comes now is done."""
        end = self.free_at(now) + duration
        heapq.heapreplace(self._free, end)
        self.busy += duration
        return end


# Measuring.


def processor_seconds(pids: list[int]) -> float:
    """Of this process and of others."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return time.process_time() + sum((int(one[11]) + int(one[12])) / ticks for one in fields)


def with_scheme(scheme: dict[str, Any], iterations: int) -> tuple[float, float, Any]:
    """Of some iterations of IMPALA on CartPole: processor seconds, workers included; seconds; and the algorithm."""
    import torch

    from rein.config import fresh_configs, install_name_resolver, pre_config
    from rein.distributed import Scheme, attach
    from rein.envs import create_environment
    from rein.framework import TrainerConfig
    from rein.runtime import Run
    from rein.training.construction import build_algorithm
    from rein.training.launch import configure
    from rein.zoo import find_algorithm

    torch.set_num_threads(1)
    world = {"env_name": "CartPole-v1", "num_parallel_environments": 8, "num_workers": 1}
    sizes = {"unroll_length": 16, "mini_batch_length": 16, "mini_batch_size": 8}
    with fresh_configs(), tempfile.TemporaryDirectory() as folder:
        install_name_resolver()
        given = {f"create_environment.{name}": value for name, value in world.items()}
        given |= {f"TrainerConfig.{name}": value for name, value in sizes.items()}
        pre_config({**given, "TrainerConfig.num_env_steps": 10**9}, place="scale_model")
        configure(find_algorithm("impala").path)
        with Run(seed=0) as run:
            run.seed_everything()
            env = create_environment(seed=0)
            algorithm = build_algorithm(TrainerConfig(root_dir=folder), env)
            attach(algorithm, Scheme(**scheme))
            for _ in range(5):
                algorithm.train_iter()
            workers = [getattr(one, "process", None) for one in algorithm.rollout._team._workers]
            pids = [one.pid for one in workers if one is not None]
            begin, begun_at = processor_seconds(pids), time.monotonic()
            for _ in range(iterations):
                algorithm.train_iter()
            spent, passed = processor_seconds(pids) - begin, time.monotonic() - begun_at
            algorithm.close_rollout()
            env.close()
    return spent, passed, algorithm


def calibrate(iterations: int) -> Calibration:
    """Costs from one inline collector, and what a process adds to them."""
    from rein import nest
    from rein.distributed.collector import Collector
    from rein.distributed.weights import Weights
    from rein.framework.updating.replay_training import ReplayTraining

    timed = {"collect": 0.0, "learn": 0.0}
    sizes: list[int] = []
    collect, learn = Collector.collect, ReplayTraining.train_from_rollout

    def timed_collect(self: Any, *arguments: Any) -> Any:
        begin = time.process_time()
        fragment = collect(self, *arguments)
        timed["collect"] += time.process_time() - begin
        sizes.append(
            sum(one.numel() * one.element_size() for one in nest.flatten((fragment.experience, fragment.episodes)))
        )
        return fragment

    def timed_learn(self: Any, *arguments: Any, **named: Any) -> int:
        begin = time.process_time()
        trained = learn(self, *arguments, **named)
        timed["learn"] += time.process_time() - begin
        return trained

    Collector.collect, ReplayTraining.train_from_rollout = timed_collect, timed_learn  # type: ignore[method-assign]
    try:
        _, _, algorithm = with_scheme({"kind": "async", "collectors": 1}, iterations)
    finally:
        Collector.collect, ReplayTraining.train_from_rollout = collect, learn  # type: ignore[method-assign]
    count = len(sizes)
    collected, learnt = timed["collect"] / count, timed["learn"] / count
    spent, _ = measured(1, iterations)
    hand_over = max(0.0, spent - collected - learnt)
    return Calibration(16 * 8, collected, hand_over, learnt, sizes[-1], Weights(algorithm).size)


def measured(collectors: int, iterations: int) -> tuple[float, float]:
    """Processor seconds per fragment of a run with collectors in other processes, and seconds."""
    spent, passed, _ = with_scheme({"kind": "async", "collectors": collectors, "backend": "process"}, iterations)
    return spent / iterations, passed / iterations


def check(cost: Calibration, iterations: int) -> None:
    """Says of 1, 2 and 4 local collectors what the model predicts and what was measured."""
    from rein.runtime.cores import usable_cores

    for collectors in (1, 2, 4):
        spent, passed = measured(collectors, iterations)
        # On one core that is never idle, processor time per step is the inverse of the rate.
        alone, shared = (
            simulate(collectors, cost, Cluster(cores=cores, bandwidth=1e12, latency=0.0)).steps_per_second
            for cores in (1, usable_cores())
        )
        rows = (
            ("us of a processor per step", 1e6 / alone, 1e6 * spent / cost.steps),
            ("steps per second", shared, cost.steps / passed),
        )
        for what, predicted, found in rows:
            off = predicted / found - 1
            print(f"{collectors} collectors: {predicted:,.0f} {what} predicted, {found:,.0f} measured, {off:+.0%}")


def table(cost: Calibration) -> str:
    """The page's tables."""
    slow = cost._replace(collect=cost.collect + 1e-3 * cost.steps)
    titles = ("CartPole, whose steps cost next to nothing:", "The same with a world whose step takes a millisecond:")
    return "\n\n".join(f"{title} {_table(one)}" for title, one in zip(titles, (cost, slow), strict=True))


def _table(cost: Calibration) -> str:
    lines = [
        f"one fragment has {cost.steps} steps, {1e3 * cost.collect:.1f} ms to collect, {1e3 * cost.hand_over:.1f} ms to hand "
        f"over, {1e3 * cost.learn:.1f} ms to learn from, {cost.fragment_bytes / 1024:.0f} KB; weights "
        f"{cost.weight_bytes / 1024:.0f} KB.",
        "",
        "| collectors | env steps/s | mean lag | largest lag | dropped | learner busy | $ per billion steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for count in COUNTS:
        one = simulate(count, cost)
        lines.append(
            f"| {count:,} | {one.steps_per_second:,.0f} | {one.mean_lag:.1f} | {one.largest_lag} | {one.dropped:.0%} | "
            f"{one.learner_busy:.0%} | {one.dollars_per_billion:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calibrate", metavar="FILE")
    parser.add_argument("--from", dest="source", metavar="FILE")
    parser.add_argument("--page", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--iterations", type=int, default=400)
    given = parser.parse_args()
    if given.calibrate:
        cost = calibrate(given.iterations)
        Path(given.calibrate).write_text(json.dumps(cost._asdict(), indent=2) + "\n")
    else:
        cost = Calibration(**json.loads(Path(given.source).read_text()))
    if given.check:
        check(cost, given.iterations)
    text = table(cost)
    print(text)
    if given.page:
        page = Path(given.page).read_text()
        before, rest = page.split(BEGIN)
        _, after = rest.split(END)
        Path(given.page).write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
