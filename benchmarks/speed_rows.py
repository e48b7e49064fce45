"""What `benchmarks/run.py` measures: the rows of the table, who competes in each, and the bar."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = ("rein", "rein compiled", "rein compiled, Gymnasium's env")
JUDGED = OURS[:2]
"""What users get: the environment backend that Rein chooses, with or without `TrainerConfig.compile`."""


PEERS = ("sb3", "sbx", "tianshou", "torchrl")
OTHERS = ("gymnasium", "envpool", "cpprb")
"""Peers in rows about parts only."""


class Interpreters(NamedTuple):
    """Where the peers' scripts are, and what runs them; empty texts leave peers out."""

    peers: str = ""
    peers_python: str = ""
    tianshou_python: str = ""


class Contender(NamedTuple):
    """One library, or one form of ours, in one row."""

    name: str
    command: Callable[[Interpreters, float], list[str] | None]
    """From interpreters and seconds of timing to a command line; None if it cannot run here."""
    timeout: float = 240.0
    threads: tuple[int, ...] | None = None
    """Thread counts to try; None is all that were asked for."""
    takes: str = ""
    """Which of the records that it prints counts, by their `row`; "" is the best of all."""
    is_reference: bool = False
    """Measured at all its thread counts in all repeats, since others are compared at theirs."""


class Row(NamedTuple):
    """A line of the table."""

    name: str
    unit: str
    contenders: tuple[Contender, ...]
    against: str
    """"peers" (the best of them), or the name of a contender; "" if the bar is the value itself."""
    bar: float | None
    higher_is_better: bool = True
    is_quick: bool = False
    is_extra: bool = False
    """Measured only if asked for by name."""
    like: str = ""
    """Row of the same kind of work, measured before: its choice of threads is taken over."""
    seconds: float = 1.0
    """Of timing, in units of the general setting."""
    max_repeats: int = 1000
    title: str = ""


def rein_contender(name: str, workload: str, *options: str) -> Contender:
    def command(interpreters: Interpreters, seconds: float) -> list[str]:
        script = os.path.join(HERE, "workload.py")
        return [sys.executable, script, workload, *options, "--seconds", str(seconds)]

    return Contender(name, command)


def ours(workload: str, with_gymnasium: bool = False) -> list[Contender]:
    found = [rein_contender("rein", workload), rein_contender("rein compiled", workload, "--compile")]
    if with_gymnasium:
        found.append(rein_contender("rein compiled, Gymnasium's env", workload, "--compile", "--backend", "sync"))
    return found


def peer(name: str, script: str, *options: str, scale: float = 1.0) -> Contender:
    def command(interpreters: Interpreters, seconds: float) -> list[str] | None:
        python = interpreters.tianshou_python if name == "tianshou" else interpreters.peers_python
        if not interpreters.peers or not python:
            return None
        return [python, os.path.join(interpreters.peers, script), *options, "--secs", str(scale * seconds)]

    return Contender(name, command)


def probe(
    name: str, *options: str, timed: bool = False, is_reference: bool = False, of_peers: bool = False
) -> Contender:
    def command(interpreters: Interpreters, seconds: float) -> list[str] | None:
        python = interpreters.peers_python if of_peers else sys.executable
        if not python:
            return None
        line = [python, os.path.join(HERE, "probes.py"), *options]
        return [*line, "--seconds", str(seconds)] if timed else line

    return Contender(name, command, threads=None if timed else (1,), is_reference=is_reference)


def sb3_and_sbx(algorithm: str, env: str, *options: str) -> list[Contender]:
    return [peer(library, "sb3_like.py", library, algorithm, env, *options) for library in ("sb3", "sbx")]


def with_both_cores(contenders: list[Contender]) -> list[Contender]:
    """SBX on two threads only: convolutions of JAX are faster so, and take minutes otherwise."""
    return [one._replace(threads=(2,)) if one.name == "sbx" else one for one in contenders]


def four_peers(algorithm: str, env: str, *options: str) -> list[Contender]:
    tianshou = peer("tianshou", "tianshou_algos.py", algorithm, env)
    torchrl = peer("torchrl", "torchrl_algos.py", algorithm, env)
    return [*sb3_and_sbx(algorithm, env, *options), tianshou, torchrl]


def _training_rows() -> list[Row]:
    unit, one = "env steps/s", ("--n-envs", "1")
    pong, breakout = "PongNoFrameskip-v4", "BreakoutNoFrameskip-v4"

    def row(name: str, title: str, bar: float | None, contenders: list[Contender], **more: object) -> Row:
        return Row(name, unit, tuple(contenders), "peers", bar, title=title, **more)  # type: ignore[arg-type]

    cartpole, cheetah = "ppo/CartPole-v1", "ppo/HalfCheetah-v5"
    rows = [
        row(cartpole, "PPO CartPole", 4.0, ours(cartpole, True) + four_peers("ppo", "CartPole-v1"), is_quick=True),
        row(cheetah, "PPO HalfCheetah", 1.3, ours(cheetah) + four_peers("ppo", "HalfCheetah-v5")),
        row(
            "ppo/Pong",
            "PPO Pong, NatureCNN",
            1.3,
            ours("ppo/Pong") + with_both_cores(sb3_and_sbx("ppo", pong, "--warm", "1024")),
            seconds=2.0,
        ),
    ]
    for env in ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5"):
        contenders, is_first = ours(f"sac/{env}") + four_peers("sac", env, *one), env == "Pendulum-v1"
        like = "" if is_first else "sac/Pendulum-v1"
        rows.append(row(f"sac/{env}", f"SAC {env[:-3]}", 1.2, contenders, is_quick=is_first, like=like))
    contenders = ours("td3/HalfCheetah-v5") + sb3_and_sbx("td3", "HalfCheetah-v5", *one)
    rows.append(row("td3/HalfCheetah-v5", "TD3 HalfCheetah", 1.2, contenders))
    contenders = ours("td3/Hopper-v5") + sb3_and_sbx("td3", "Hopper-v5", *one)
    rows.append(row("td3/Hopper-v5", "TD3 Hopper", None, contenders, is_extra=True, like="td3/HalfCheetah-v5"))
    contenders = ours("dqn/CartPole-v1", True) + sb3_and_sbx("dqn", "CartPole-v1", *one)
    rows.append(row("dqn/CartPole-v1", "DQN CartPole", 2.0, contenders, is_quick=True))
    contenders = ours("dqn/Breakout") + with_both_cores(sb3_and_sbx("dqn", breakout, *one))
    rows.append(row("dqn/Breakout", "DQN Breakout, NatureCNN", 1.3, contenders, seconds=1.5))
    return rows


def part(name: str, script: str, options: Sequence[str], takes: str = "") -> Contender:
    """A library in one of our benchmarks of parts, `envs.py` or `replay.py`."""

    def command(interpreters: Interpreters, seconds: float) -> list[str] | None:
        python = sys.executable if name == "rein" else interpreters.peers_python
        if name == "tianshou":
            python = interpreters.tianshou_python
        return [python, os.path.join(HERE, script), *options, "--seconds", str(seconds / 3)] if python else None

    return Contender(name, command, threads=(1,), takes=takes)


def _part_rows() -> list[Row]:
    found = []
    forms = {"rein": "rein auto", "sb3": "sb3 dummy", "gymnasium": "gymnasium sync", "envpool": "envpool"}
    for world in ("CartPole-v1", "Hopper-v5", "Breakout"):
        contenders = [
            part(name, "envs.py", ["--measure", form, world, "--counts", "8"])._replace(threads=(2,))
            for name, form in forms.items()
        ]
        title = f"environment: 8 x {world.removesuffix('-v1').removesuffix('-v5')}"
        found.append(Row(f"env/{world}", "env steps/s", tuple(contenders), "peers", None, is_extra=True, title=title))
    libraries = ("rein", "sb3", "torchrl", "tianshou", "cpprb")
    for takes in ("sample", "sample by priority"):
        contenders = [part(name, "replay.py", ["--worker", name, "--workload", "vec"], takes) for name in libraries]
        title = f"replay: {takes}, 256 of a million steps"
        found.append(Row(f"replay/{takes}", "batches/s", tuple(contenders), "peers", None, is_extra=True, title=title))
    return found


def rows() -> list[Row]:
    """All rows, in the order of the table."""
    update = [
        *ours("update/sac"),
        probe("ceiling", "ceiling", timed=True, is_reference=True),
        *(peer(library, "updates.py", library, scale=1 / 3) for library in ("sb3", "sbx")),
    ]
    torch = probe("torch", "import", "torch")
    imports, uses = probe("rein", "import", "rein"), probe("rein", "import", "rein.api")
    memory = [probe("rein", "memory", "rein"), probe("sb3", "memory", "sb3", of_peers=True)]
    return [
        *_training_rows(),
        Row("update/sac", "updates/s", tuple(update), "ceiling", 0.75, is_quick=True, title="SAC update alone"),
        Row("memory", "MB", tuple(memory), "sb3", 1.0, False, max_repeats=1, title="peak memory, SAC, 1M steps stored"),
        Row("import", "s", (imports, torch), "torch", 1.15, False, True, title="`import rein`"),
        Row(
            "import and use",
            "s",
            (uses, torch),
            "torch",
            None,
            False,
            True,
            title="`import rein` and first use of `rein.make`",
        ),
        Row("help", "s", (probe("rein", "help"),), "", 0.3, False, True, title="`rein --help`"),
        *_part_rows(),
    ]
