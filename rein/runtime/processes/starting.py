"""How worker processes start."""

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.context import BaseContext

__all__ = ["loaded_modules", "start_context"]


def start_context(start_method: str | None, preload: Sequence[str] = ()) -> BaseContext:
    """The multiprocessing context for workers.

    Args:
        start_method: "forkserver", "spawn" or "fork"; None for the first of these that there is.
        preload: modules that the fork server, if it starts them, loads once for all workers; it must not have started.
    """
    methods = multiprocessing.get_all_start_methods()
    method = start_method or ("forkserver" if "forkserver" in methods else "spawn")
    if method not in methods:
        raise ValueError(f"start_method is {method!r}: this platform offers {methods}")
    context = multiprocessing.get_context(method)
    if method == "forkserver" and preload:
        context.set_forkserver_preload(["__main__", *preload])
    return context


def loaded_modules() -> list[str]:
    """The modules of this package that the process has loaded, as `preload`: workers that are copies need the same."""
    package = __name__.partition(".")[0]
    return sorted(name for name in sys.modules if name.startswith(f"{package}.") and not name.endswith("__main__"))
