"""Calling constructors that come with the settings, and refusing what would not work."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from rein.data_structures import LossInfo
from rein.transforms import DataTransformer, RewardTransformer, SequentialDataTransformer

SQRT_VALUE_LOSS = "lambda loss_info: loss_info.extra['value'].sqrt().sum(dim=0)"
PRIORITY_FUNCTIONS: dict[str, Callable[[LossInfo], Tensor]] = {
    SQRT_VALUE_LOSS: lambda loss_info: loss_info.extra["value"].sqrt().sum(dim=0),
    "sqrt_value_loss": lambda loss_info: loss_info.extra["value"].sqrt().sum(dim=0),
    "td_error": lambda loss_info: loss_info.extra["td_error"].sum(dim=0),
    "loss": lambda loss_info: loss_info.loss.clamp_min(0).sum(dim=0),
}
"""Priorities [B] of sequences from losses [T, B], by name; text is looked up here and never run."""


def call_with_known(ctor: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Calls a constructor with those of the arguments that it takes and that are not bound to it yet."""
    bound: set[str] = set()
    inner: Any = ctor
    while hasattr(inner, "func") and hasattr(inner, "keywords"):
        bound |= set(inner.keywords)
        inner = inner.func
    parameters = inspect.signature(ctor).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    chosen = {
        name: value for name, value in arguments.items() if name not in bound and (takes_all or name in parameters)
    }
    return ctor(**chosen)


def check_no_reward_transformer(transformer: DataTransformer, name: str) -> None:
    """Refuses transformers of rewards among those of the data."""
    members = transformer.transformers if isinstance(transformer, SequentialDataTransformer) else (transformer,)
    for member in members:
        if isinstance(member, RewardTransformer):
            raise ValueError(
                f"{name}: {type(member).__name__} is among the data transformers, where stored rewards would not meet it: "
                "give it as reward_transformer instead"
            )


def priority_function(function: Callable[[LossInfo], Tensor] | str, name: str) -> Callable[[LossInfo], Tensor]:
    """The function of a name in `PRIORITY_FUNCTIONS`, or what is a function already."""
    if callable(function):
        return function
    if function not in PRIORITY_FUNCTIONS:
        names = [key for key in PRIORITY_FUNCTIONS if key.isidentifier()]
        raise ValueError(
            f"{name}: priority_func is {function!r}: text is not run; give a function of a LossInfo, or one of {names}"
        )
    return PRIORITY_FUNCTIONS[function]
