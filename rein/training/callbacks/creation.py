"""From settings to callbacks."""

from collections.abc import Callable, Sequence
from typing import Any

from rein.config import configurable
from rein.config.extensions import make_extension
from rein.training.callbacks.callback import Callback, CallbackError
from rein.training.callbacks.keeping import KeepBest, RecordVideos
from rein.training.callbacks.stopping import StopAtReturn, StopWithoutImprovement

READY: dict[str, Callable[..., Any]] = {
    "stop_at_return": StopAtReturn,
    "stop_without_improvement": StopWithoutImprovement,
    "keep_best": KeepBest,
    "record_videos": RecordVideos,
}
GROUP = "rein.callbacks"


@configurable(whitelist=["callbacks"])
def create_callbacks(trust: bool, callbacks: Sequence[Any] = ()) -> list[Callback]:
    """The callbacks that the settings of a run ask for.

    Args:
        trust: whether a module that a text names may be imported for it.
        callbacks: of each a text such as "keep_best", "stop_at_return=475" or "my_module:Watch(limit=3)"; a class, or
            another function that makes one; or an object.

    Raises:
        CallbackError: one of them is none.
    """
    if isinstance(callbacks, str):
        raise CallbackError(f"callbacks are {callbacks!r}: give a list, [{callbacks!r}]")
    return [_callback(one, trust) for one in callbacks]


def _callback(given: Any, trust: bool) -> Callback:
    made = given
    if isinstance(given, str):
        made = make_extension(given, "callback", READY, GROUP, trust)
    elif not isinstance(given, Callback) and callable(given):
        made = given()
    if not isinstance(made, Callback):
        raise CallbackError(f"callback {given!r} is no rein.training.callbacks.Callback: derive its class from that")
    return made
