"""What `benchmarks/run.py` measures: the rows of the table, who competes in each, and the bar."""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = ("rein", "rein compiled", "rein, Gymnasium's env", "rein compiled, Gymnasium's env")
JUDGED = OURS[:2]
"""What users get: the environment backend that Rein chooses, with or without `TrainerConfig.compile`."""


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
    is_reference: bool = False
    """Measured at all its thread counts in all repeats, since others are compared at theirs."""


class Row(NamedTuple):
    """A line of the table."""

    name: str
    unit: str
    contenders: tuple[Contender, ...]
    against: str
    """"peers" (the best of them), or the name of a contender; "" if the bar is the value itself."""
    bar: float
    higher_is_better: bool = True
    is_quick: bool = False
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
        sync = ("--backend", "sync")
        found.append(rein_contender("rein, Gymnasium's env", workload, *sync))
        found.append(rein_contender("rein compiled, Gymnasium's env", workload, "--compile", *sync))
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


def four_peers(algorithm: str, env: str, *options: str) -> list[Contender]:
    tianshou = peer("tianshou", "tianshou_algos.py", algorithm, env)
    torchrl = peer("torchrl", "torchrl_algos.py", algorithm, env)
    return [*sb3_and_sbx(algorithm, env, *options), tianshou, torchrl]


def _training_rows() -> list[Row]:
    unit, one = "env steps/s", ("--n-envs", "1")
    pong, breakout = "PongNoFrameskip-v4", "BreakoutNoFrameskip-v4"

    def row(name: str, title: str, bar: float, contenders: list[Contender], **more: object) -> Row:
        return Row(name, unit, tuple(contenders), "peers", bar, title=title, **more)  # type: ignore[arg-type]

    cartpole, cheetah = "ppo/CartPole-v1", "ppo/HalfCheetah-v5"
    rows = [
        row(cartpole, "PPO CartPole", 2.0, ours(cartpole, True) + four_peers("ppo", "CartPole-v1"), is_quick=True),
        row(cheetah, "PPO HalfCheetah", 1.3, ours(cheetah, True) + four_peers("ppo", "HalfCheetah-v5")),
        row(
            "ppo/Pong",
            "PPO Pong, NatureCNN",
            1.1,
            ours("ppo/Pong") + sb3_and_sbx("ppo", pong, "--warm", "1024"),
            seconds=2.0,
        ),
    ]
    for env in ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5"):
        contenders = ours(f"sac/{env}") + four_peers("sac", env, *one)
        rows.append(row(f"sac/{env}", f"SAC {env[:-3]}", 1.0, contenders, is_quick=env == "Pendulum-v1"))
    for env in ("HalfCheetah-v5", "Hopper-v5"):
        contenders = ours(f"td3/{env}") + sb3_and_sbx("td3", env, *one)
        rows.append(row(f"td3/{env}", f"TD3 {env[:-3]}", 1.0, contenders))
    contenders = ours("dqn/CartPole-v1", True) + sb3_and_sbx("dqn", "CartPole-v1", *one)
    rows.append(row("dqn/CartPole-v1", "DQN CartPole", 1.5, contenders, is_quick=True))
    contenders = ours("dqn/Breakout") + sb3_and_sbx("dqn", breakout, *one)
    rows.append(row("dqn/Breakout", "DQN Breakout, NatureCNN", 1.0, contenders, seconds=1.5))
    return rows


def rows() -> list[Row]:
    """All rows, in the order of the table."""
    update = [
        *ours("update/sac"),
        probe("ceiling", "ceiling", timed=True, is_reference=True),
        *(peer(library, "updates.py", library, scale=1 / 3) for library in ("sb3", "sbx")),
    ]
    imports = [
        probe("rein", "import", "rein"),
        probe("rein.make", "import", "rein.api"),
        probe("torch", "import", "torch"),
    ]
    memory = [probe("rein", "memory", "rein"), probe("sb3", "memory", "sb3", of_peers=True)]
    return [
        *_training_rows(),
        Row("update/sac", "updates/s", tuple(update), "ceiling", 0.75, is_quick=True, title="SAC update alone"),
        Row("memory", "MB", tuple(memory), "sb3", 1.0, False, max_repeats=1, title="peak memory, SAC, 1M steps stored"),
        Row("import", "s", tuple(imports), "torch", 1.15, False, True, title="`import rein`"),
        Row("help", "s", (probe("rein", "help"),), "", 0.3, False, True, title="`rein --help`"),
    ]
