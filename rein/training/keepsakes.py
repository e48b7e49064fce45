"""What a run keeps of itself beside its records, if the settings ask for it: a profile, code, a crash."""

import contextlib
import cProfile
import io
import logging
import pstats
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rein.config import is_given

logger = logging.getLogger(__name__)
_QUESTION_SETTING = "TrainerConfig.confirm_checkpoint_upon_crash"
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


def keep_crash(question: str, ask: bool, save: Callable[[], None]) -> None:
    """Saves what is left of a training that failed, if the user wants it; what goes wrong here never hides the failure.

    Args:
        question: to put to the user.
        ask: whether to ask; without, it is saved.
        save: does it.
    """
    try:
        if not ask or is_confirmed(question):
            save()
    except Exception as error:
        logger.warning("the parameters of the failed training were not kept: %r", error)


def is_confirmed(question: str) -> bool:
    """Asks at the terminal, if somebody has set that questions are asked; nothing is confirmed where nobody can answer."""
    if not is_given(_QUESTION_SETTING):
        logger.info("%s No: set %s=False to have that.", question, _QUESTION_SETTING)
        return False
    try:
        can_answer = sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # It was closed.
        can_answer = False
    if not can_answer:
        logger.warning("%s No: there is no terminal to ask at.", question)
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
