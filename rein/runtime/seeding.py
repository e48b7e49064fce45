"""One seed for everything: torch, numpy, Python, environments and workers; and their states for checkpoints."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

MAX_SEED = 2**31 - 1
"""Largest seed that is handed out; every simulator that was met takes seeds up to this."""


def seed_everything(seed: int | None, deterministic: bool = False) -> int:
    """Seeds torch (all devices), numpy's global generator and Python's `random` from one number.

    Args:
        seed: any integer >= 0; None draws one from the operating system.
        deterministic: also make torch refuse algorithms whose results vary from run to run. It stays in force; False
            leaves torch's setting as it is.

    Returns:
        The seed that was used, to be recorded.
    """
    seed = draw_seed() if seed is None else check_seed(seed)
    for_torch, for_numpy, for_python = _sequence(seed, "global").generate_state(3)
    torch.manual_seed(int(for_torch))
    np.random.seed(int(for_numpy))
    random.seed(int(for_python))
    if deterministic:
        # cuBLAS reads this when it starts; without it deterministic mode raises on GPUs.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    return seed


def draw_seed() -> int:
    """Returns a seed drawn from the operating system."""
    return int.from_bytes(os.urandom(4), "little") & MAX_SEED


def check_seed(seed: int) -> int:
    """Returns the seed as an int, or raises for what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"a seed is an integer, got {seed!r}")
    if seed < 0:
        raise ValueError(f"a seed is not negative, got {seed}")
    return int(seed)


def spawn_seeds(seed: int, count: int, purpose: str = "") -> list[int]:
    """Returns distinct seeds for environments or workers, independent of each other and of every other purpose.

    The first seeds do not change when more are asked for.

    Args:
        seed: the seed of the run.
        count: how many.
        purpose: names the stream, for example "train_env".
    """
    if count < 0:
        raise ValueError(f"count must not be negative, got {count}")
    generator = make_generator(seed, purpose)
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        seeds[int(generator.integers(MAX_SEED + 1))] = None
    return list(seeds)


def make_generator(seed: int, purpose: str) -> np.random.Generator:
    """Returns a numpy generator that depends on the seed and the purpose only, not on what was created before.

    Args:
        seed: the seed of the run.
        purpose: names the stream.
    """
    return np.random.Generator(np.random.PCG64(_sequence(check_seed(seed), purpose)))


def make_torch_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Returns a torch generator that depends on the seed and the purpose only.

    Args:
        seed: the seed of the run.
        purpose: names the stream.
        device: where it generates.
    """
    generator = torch.Generator(device=device)
    state = _sequence(check_seed(seed), purpose).generate_state(1, np.uint64)[0]
    generator.manual_seed(int(state >> np.uint64(1)))
    return generator


def get_rng_state() -> dict[str, Any]:
    """Returns the state of all global generators as a nest of tensors, numbers and strings."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": _legacy_numpy_state(),
        "python": {"version": version, "words": torch.tensor(words, dtype=torch.int64, device="cpu"), "gauss": gauss},
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = list(torch.cuda.get_rng_state_all())
    return state


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Restores what `get_rng_state` returned.

    Args:
        state: with keys "torch", "numpy", "python" and, from a machine with GPUs, "cuda".
    """
    missing = {"torch", "numpy", "python"} - set(state)
    if missing:
        raise ValueError(f"the random state lacks {sorted(missing)}; it has {sorted(state)}")
    torch.set_rng_state(state["torch"].cpu().to(torch.uint8))
    legacy = state["numpy"]
    keys = _words(legacy["keys"]).astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(legacy["position"]), int(legacy["has_gauss"]), float(legacy["gauss"])))
    python = state["python"]
    words = tuple(int(word) for word in _words(python["words"]))
    random.setstate((int(python["version"]), words, python["gauss"]))
    if "cuda" in state:
        if not torch.cuda.is_available() or torch.cuda.device_count() != len(state["cuda"]):
            raise ValueError(
                f"the random state is of {len(state['cuda'])} CUDA devices, but {torch.cuda.device_count()} are here; "
                'delete its "cuda" entry to go on with other random numbers'
            )
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])


def get_generator_state(generator: np.random.Generator | torch.Generator) -> dict[str, Any]:
    """Returns the state of one generator as a nest of tensors, numbers and strings.

    Args:
        generator: of torch, or of numpy with the PCG64 algorithm.
    """
    if isinstance(generator, torch.Generator):
        return {"kind": "torch", "state": generator.get_state()}
    state = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise TypeError(f"only PCG64 generators can be saved, got {state['bit_generator']}")
    # 128-bit integers, as text because not every file format holds them.
    return {
        "kind": "numpy",
        "state": str(state["state"]["state"]),
        "increment": str(state["state"]["inc"]),
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }


def set_generator_state(generator: np.random.Generator | torch.Generator, state: Mapping[str, Any]) -> None:
    """Restores what `get_generator_state` returned.

    Args:
        generator: of the same kind as the one that was saved.
        state: of that generator.
    """
    kind = "torch" if isinstance(generator, torch.Generator) else "numpy"
    if state["kind"] != kind:
        raise ValueError(f"the state is of a {state['kind']} generator, not of a {kind} one")
    if isinstance(generator, torch.Generator):
        generator.set_state(state["state"].cpu().to(torch.uint8))
        return
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int(state["state"]), "inc": int(state["increment"])},
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }


def _sequence(seed: int, purpose: str) -> np.random.SeedSequence:
    digest = hashlib.sha256(purpose.encode()).digest()
    return np.random.SeedSequence(seed, spawn_key=np.frombuffer(digest, dtype="<u4").tolist())


def _legacy_numpy_state() -> dict[str, Any]:
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    if name != "MT19937":
        raise TypeError(f"numpy's global generator is {name}; only MT19937, its default, can be saved")
    return {
        "keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "position": int(position),
        "has_gauss": int(has_gauss),
        "gauss": float(gauss),
    }


def _words(values: Any) -> np.ndarray:
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
