"""What a Ray cluster has, and whether Rein would run there."""

import importlib
import platform
from typing import Any

from rein.distributed.backends.ray import RayBackend
from rein.distributed.scheme import Scheme

_SECONDS = 60.0


def check_cluster(address: str | None) -> dict[str, Any]:
    """Asks every node of a cluster for its versions.

    Args:
        address: HOST:PORT; None starts a cluster here.

    Returns:
        `nodes`, whether all of them fit together with this machine (`fits`), and if not why (`problems`).
    """
    backend = RayBackend(Scheme(backend="ray", address=address), 1)
    try:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray: Any = importlib.import_module("ray")

        ask = ray.remote(num_cpus=0)(versions)
        nodes, problems = [], []
        for node in (one for one in ray.nodes() if one["Alive"]):
            place = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            found: dict[str, str] = {}
            try:
                found = ray.get(ask.options(scheduling_strategy=place).remote(), timeout=_SECONDS)
            except ray.exceptions.GetTimeoutError:
                problems.append(
                    f"{node['NodeManagerAddress']} gave no answer in {_SECONDS:.0f} s: it is busy, or stuck"
                )
            except ray.exceptions.RayError as error:
                problems.append(
                    f"{node['NodeManagerAddress']} cannot run Rein ({type(error).__name__}): install it there"
                )
            nodes.append(_described(node, found))
            problems += _differences(node["NodeManagerAddress"], found)
        return {"nodes": nodes, "fits": not problems, "problems": problems}
    finally:
        backend.close()


def versions() -> dict[str, str]:
    """Versions of what must be the same everywhere."""
    import torch

    import rein

    return {"rein": rein.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _described(node: dict[str, Any], found: dict[str, str]) -> dict[str, Any]:
    resources = node["Resources"]
    return {
        "address": node["NodeManagerAddress"],
        "cores": resources.get("CPU", 0.0),
        "gpus": resources.get("GPU", 0.0),
        "memory_gb": resources.get("memory", 0.0) / 2**30,
        "versions": found,
    }


def _differences(address: str, found: dict[str, str]) -> list[str]:
    here = versions()
    return [
        f"{address} has {name} {version}, this machine {here[name]}: install the same"
        for name, version in found.items()
        if version != here[name]
    ]
