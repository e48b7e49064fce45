"""Settings of data-parallel training that confs give though they do not need it."""

from typing import Any

from rein.config import configurable

__named_with_owner__ = True


@configurable
def make_ddp_performer(
    module: Any, ddp_rank: int = -1, find_unused_parameters: bool = False, bucket_cap_mb: int = 25
) -> Any:
    """What computes the gradients of a module: the module itself.

    Gradients are always computed with parameters that are not used left out, and summed in whole, so that none of these
    settings changes what is learnt.

    Args:
        module: of the algorithm.
        ddp_rank: not used.
        find_unused_parameters: not used: they are always found.
        bucket_cap_mb: not used.
    """
    return module
