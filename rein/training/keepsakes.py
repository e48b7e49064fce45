"""What a run keeps of itself beside its records, if the settings ask for it: a profile, code, a crash."""

import contextlib
import cProfile
import io
import logging
import pstats
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)
_PROFILE_ROWS = 200
_PACKAGE = Path(__file__).parents[1]


@contextlib.contextmanager
def profile_to(path: Path | None) -> Iterator[None]:
    """Profiles what happens inside and writes the dearest functions as text to `path`; None does nothing."""
    if path is None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(_PROFILE_ROWS)
        path.write_text(text.getvalue())


def keep_code(files: Sequence[str], folder: Path) -> None:
    """Copies source files into `folder`, under the same names.

    Args:
        files: paths relative to the package, such as "algorithms/on_policy/ppo.py".
        folder: made if there is anything to copy.
    """
    missing = [file for file in files if not (_PACKAGE / file).is_file()]
    if missing:
        raise ValueError(f"code_snapshots names {missing}, which do not exist: give paths relative to {_PACKAGE}")
    for file in files:
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_PACKAGE / file, target)


def is_confirmed(question: str) -> bool:
    """Asks at the terminal; where there is none, nothing is confirmed, and a message says so."""
    if not sys.stdin.isatty():
        logger.warning("%s No: there is no terminal to ask at.", question)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
