"""The options that spread a run over workers."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rein.distributed import Scheme

_SETTINGS = {
    "scheme": "kind",
    "collectors": "collectors",
    "backend": "backend",
    "gradient_workers": "gradient_workers",
    "gradients": "gradients",
    "address": "address",
}
"""Options, and what they are called in `Scheme`."""


def add_scheme_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --scheme, --collectors, --backend, --gradient-workers, --gradients and --address."""
    group = parser.add_argument_group("workers", "who collects and who computes gradients; see docs/distributed.md")
    group.add_argument("--scheme", metavar="NAME", help="sync, async, impala, apex, r2d2 or ddppo (default: sync)")
    group.add_argument("--collectors", type=int, metavar="N", help="workers that step environments (default: 1)")
    group.add_argument(
        "--backend",
        metavar="NAME",
        help="where workers are: inline (this process), process, ray, ddp (default: inline)",
    )
    group.add_argument("--gradient-workers", type=int, metavar="N", help="workers that share each batch (default: 1)")
    group.add_argument("--gradients", metavar="NAME", help="sync or async, among gradient workers (default: sync)")
    group.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster to join (default: start one here)")


def configure_scheme(arguments: argparse.Namespace) -> None:
    """Puts the options into the configuration in force, before that of the run."""
    from rein.config import pre_config

    given = {name: getattr(arguments, name) for name in _SETTINGS if getattr(arguments, name) is not None}
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())
    pre_config({f"Scheme.{_SETTINGS[name]}": value for name, value in given.items()}, place=words)


def configured_scheme() -> "Scheme":
    """The scheme of the configuration in force, checked before anything starts."""
    from rein.distributed import Scheme
    from rein.distributed.address import check_address

    scheme = Scheme()
    if scheme.address is not None:
        check_address(scheme.address)
    return scheme
