"""Devices and threads."""

from __future__ import annotations

import torch

from rein.runtime.active import ACTIVE

_process_default = torch.device("cpu")
_fixed_threads: int | None = None


def resolve_device(device: torch.device | str) -> torch.device:
    """Returns the device, or raises ValueError saying why it cannot be used here.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps", ...
    """
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"{device!r} names no device; write 'cpu' or 'cuda'") from error
    if resolved.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            built = "built without CUDA" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
            raise ValueError(
                f"device {str(resolved)!r} is not available: this torch ({torch.__version__}) is {built} and sees no "
                "GPU; use 'cpu' or install a CUDA build of torch and its driver"
            )
        if (resolved.index or 0) >= count:
            raise ValueError(f"device {str(resolved)!r} does not exist; there are {count} CUDA devices")
    elif resolved.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device 'mps' is not available: it needs macOS on Apple silicon; use 'cpu'")
    return resolved


def get_default_device() -> torch.device:
    """Returns the device of the current run, or the process default outside of runs."""
    activation = ACTIVE.get()
    return _process_default if activation is None else activation.run.device


def set_default_device(device: torch.device | str) -> None:
    """Sets the device on which new runs, and code outside of runs, create tensors.

    For "cpu" torch's default-device mode is left uninstalled, because it slows every operation down. A run that is
    current keeps its device: give it to `Run(device=...)`.

    Args:
        device: "cpu", "cuda", "cuda:1", ...; ValueError if it is not available.
    """
    global _process_default
    resolved = resolve_device(device)
    if ACTIVE.get() is not None:
        raise RuntimeError("set_default_device was called inside a run, whose device is fixed; use Run(device=...)")
    if resolved.type != "cpu":
        torch.set_default_device(resolved)
    elif _process_default.type != "cpu":
        torch.set_default_device(None)
    _process_default = resolved


def set_torch_threads(count: int) -> None:
    """Fixes how many threads one torch operation may use in this process; runs keep to it.

    Without this, a run finds the best number by measurement, see `rein.training.threads`.

    Args:
        count: number of threads, at least 1.
    """
    global _fixed_threads
    if count < 1:
        raise ValueError(f"a torch operation needs at least one thread, got {count}")
    torch.set_num_threads(count)
    _fixed_threads = count


def fixed_torch_threads() -> int | None:
    """What `set_torch_threads` was called with; None if it was not."""
    return _fixed_threads
