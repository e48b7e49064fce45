"""Operations of our own in recorded graphs, which inductor is told how to lower."""

import logging
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger(__name__)


def teach_inductor(
    name: str, arguments: str, function: Callable[..., Any], make_lowering: Callable[[], Callable[..., Any]]
) -> Any:
    """Defines `rein::NAME`, which gives one tensor; returns it, or None if inductor cannot be taught.

    Args:
        name: of the operation; to be defined once in a process.
        arguments: as in a schema, such as "Tensor a, Tensor b".
        function: what it does where no graph is compiled.
        make_lowering: gives what inductor calls in its place.
    """
    try:
        from torch._inductor.lowering import register_lowering

        lowering = make_lowering()
    except Exception as error:  # Inductor's ways are not promised to stay as they are.
        logger.info("graphs go without rein::%s: %s: %s", name, type(error).__name__, error)
        return None
    make_library: Any = torch.library.Library
    library = make_library("rein", "FRAGMENT")
    library.define(f"{name}({arguments}) -> Tensor")
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"rein::{name}", function, lib=library)
    _LIBRARIES.append(library)
    operation = getattr(torch.ops.rein, name).default
    register_lowering(operation, type_promotion_kind=None)(lowering)
    return operation


_LIBRARIES: list[Any] = []
"""A library that is forgotten takes its operations along."""
