"""What share of an update of particle inference its matrix products have.

    python benchmarks/particle_vi_speed.py                           # all four updates
    python benchmarks/particle_vi_speed.py --updates "hypernetwork 10" --repetitions 300

Prints one line of JSON per update, all by the processor time of one thread, which other work on the machine lengthens little:

    milliseconds         of an update, undisturbed (median)
    share_of_update      time of the products where they are made, inside of updates, of those milliseconds
    share_done_alone     time of the same products done again and again with the same operands, of those milliseconds
    share_of_operators   of the time of all operators, that of the products (median of each under the profiler)

A product that is done again and again finds its operands in the cache, and one inside of an update does not: the second
figure is what products would take at their best, the first what they do take.
"""

import argparse
import collections
import functools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rein.algorithms.particle_vi import HyperNetwork, ParVIAlgorithm
from rein.optimizers import Adam
from rein.specs import TensorSpec

PRODUCTS: dict[str, Callable[..., Tensor]] = {
    "aten::mm": torch.mm,
    "aten::bmm": torch.bmm,
    "aten::addmm": torch.addmm,
    "aten::addmm_": torch.addmm,
    "aten::baddbmm": torch.baddbmm,
}


class OperatorTimes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes the processor time of every operator inside of the block."""

    def __init__(self) -> None:
        """Starts without any."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: dict[tuple[str, str], list[float]] = collections.defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = time.process_time()
        result = func(*args, **(kwargs or {}))
        taken = time.process_time() - started
        shapes = [tuple(arg.shape) for arg in args if isinstance(arg, Tensor)]
        self.seconds[func._schema.name, str(shapes)].append(taken)
        return result


def processor_milliseconds(work: Callable[[], object], repetitions: int) -> float:
    """Median of the processor time of one thread."""
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000.0 * statistics.median(times)


def products_inside(update: Callable[[], object], repetitions: int) -> float:
    """Milliseconds of the products of an update where they are made, without what taking their time costs."""
    with OperatorTimes() as times:
        for _ in range(repetitions):
            update()
    with OperatorTimes() as empty:
        nothing = torch.zeros(())
        for _ in range(300):
            nothing.detach()
    cost = statistics.median(empty.seconds["aten::detach", "[()]"])
    found = 0.0
    for (name, _), seconds in times.seconds.items():
        if name in PRODUCTS:
            found += len(seconds) / repetitions * max(statistics.median(seconds) - cost, 0.0)
    return 1000.0 * found


def products_under_profiler(update: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Milliseconds of the products of an update done alone, and their share in the time of all operators."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(repetitions):
            update()
    kinds: dict[tuple[str, str], list[Any]] = collections.defaultdict(list)
    for event in profile.events() or ():
        kinds[event.name, str(event.input_shapes)].append(event)
    alone = products = operators = 0.0
    for (name, _), events in kinds.items():
        count = len(events) / repetitions
        median = count * statistics.median(event.self_cpu_time_total for event in events)
        operators += median
        if name in PRODUCTS:
            products += median
            operands = [torch.randn(shape) for shape in events[0].input_shapes if shape]
            alone += count * processor_milliseconds(functools.partial(PRODUCTS[name], *operands), repetitions)
    return alone, products / operators


def svgd_update() -> Callable[[], object]:
    """256 particles of length 10,000."""
    centre = torch.randn(10_000)
    algorithm = ParVIAlgorithm(10_000, 256, par_vi="svgd", optimizer=Adam(lr=1e-3))
    return lambda: algorithm.update_with_gradient(
        algorithm.train_step(lambda x: 0.5 * (x - centre).square().sum(-1)).info
    )


def hypernetwork_update(num_particles: int) -> Callable[[], object]:
    """Networks 64-64-10 on a batch of 128."""
    algorithm = HyperNetwork(
        input_tensor_spec=TensorSpec((64,)),
        output_dim=10,
        fc_layer_params=(64,),
        noise_dim=64,
        hidden_layers=(128, 128),
        num_particles=num_particles,
        entropy_regularization=0.1,
        optimizer=Adam(lr=1e-3),
    )
    batch = torch.rand(128, 64), torch.randint(0, 10, (128,))
    return lambda: algorithm.update_with_gradient(algorithm.train_step(batch).info)


def digits_update() -> Callable[[], object]:
    """That of the zoo's entry `hypernetwork_digits`: ten networks 64-200-10 on a batch of 64."""
    algorithm = HyperNetwork(
        input_tensor_spec=TensorSpec((64,)),
        output_dim=10,
        fc_layer_params=(200,),
        noise_dim=32,
        hidden_layers=(64,),
        num_particles=10,
        entropy_regularization=64 / 1438,
        par_vi="gfsf",
        optimizer=Adam(lr=2e-3, weight_decay=1e-4),
    )
    batch = torch.rand(64, 64), torch.randint(0, 10, (64,))
    return lambda: algorithm.update_with_gradient(algorithm.train_step(batch).info)


UPDATES: dict[str, Callable[[], Callable[[], object]]] = {
    "svgd": svgd_update,
    "hypernetwork 10": functools.partial(hypernetwork_update, 10),
    "hypernetwork digits": digits_update,
    "hypernetwork 100": functools.partial(hypernetwork_update, 100),
}


def measure(name: str, repetitions: int) -> dict[str, float]:
    """The numbers of one update; see the module."""
    torch.manual_seed(0)
    update = UPDATES[name]()
    for _ in range(5):
        update()
    before = processor_milliseconds(update, repetitions)
    inside = products_inside(update, repetitions)
    whole = 0.5 * (before + processor_milliseconds(update, repetitions))
    alone, share_of_operators = products_under_profiler(update, 30)
    return {
        "milliseconds": whole,
        "share_of_update": inside / whole,
        "share_done_alone": alone / whole,
        "share_of_operators": share_of_operators,
    }


def main() -> None:
    """Measures updates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", nargs="+", choices=UPDATES, default=list(UPDATES))
    parser.add_argument("--repetitions", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.updates:
        numbers = {key: round(value, 3) for key, value in measure(name, options.repetitions).items()}
        print(json.dumps({"update": name, **numbers}), flush=True)


if __name__ == "__main__":
    main()
