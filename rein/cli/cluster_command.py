"""Says what a Ray cluster has (nodes, cores, GPUs, memory, versions) and whether Rein would run there.

Example:
  rein cluster check --address 10.0.0.1:6379
"""

import argparse
from typing import Any

from rein.cli.command import Outcome, Session

_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("action", choices=["check"], help="what to do")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the cluster (default: one that is started here)")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Asks every node."""
    from rein.distributed.cluster import check_cluster

    report = check_cluster(arguments.address)
    lines = [_node_line(node) for node in report["nodes"]]
    lines.append("Rein runs there" if report["fits"] else f"Rein would not run there: {'; '.join(report['problems'])}")
    return Outcome(report, "\n".join(lines), 0 if report["fits"] else _FAILED)


def _node_line(node: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in node["versions"].items())
    return f"{node['address']}: {node['cores']:g} cores, {node['gpus']:g} GPUs, {node['memory_gb']:.1f} GB; {versions}"
