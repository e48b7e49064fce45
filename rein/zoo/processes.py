"""Commands of Rein in processes of their own, with one thread each."""

import os
import sys


def command_line(*words: str) -> list[str]:
    """`rein WORDS` in this Python."""
    return [sys.executable, "-m", "rein.cli", *words]


def one_thread() -> dict[str, str]:
    """The environment variables of such a process."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    return {**os.environ, **threads}
