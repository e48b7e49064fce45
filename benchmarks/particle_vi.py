"""How close particle inference comes to distributions that are known; `particle_vi_speed.py` tells how fast it is.

    python benchmarks/particle_vi.py information --methods DV KLD --correlation 0.5 --seeds 0 1 2
    python benchmarks/particle_vi.py particles                       # ParVI on N(0, diag(1, 4))
    python benchmarks/particle_vi.py generator                       # generators on the same, one of them conditional
    python benchmarks/particle_vi.py functional                      # FuncParVI on a Bayesian linear regression
    python benchmarks/particle_vi.py hypernetwork                    # HyperNetwork on the same
    python benchmarks/particle_vi.py digits                          # the zoo's classifiers of digits
    python benchmarks/particle_vi.py table --results FILE            # every row, with its bar

Prints one line of JSON per method and seed. `--updates` and the other settings change what is trained; the pages of the
documentation name the options of every figure that was not measured with the defaults. `table` keeps the lines in FILE and
measures only what is not there yet, so it may be stopped at any time, and run in pieces with `--methods` (words of rows).
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import rein
from rein import ops
from rein.algorithms.particle_vi import (
    FuncParVIAlgorithm,
    Generator,
    HyperNetwork,
    MIEstimator,
    ParVIAlgorithm,
)
from rein.networks import Network, ReluMLP
from rein.optimizers import Adam, AdamTF
from rein.specs import TensorSpec
from rein.statistics import ScalarAdaptiveAverager

VARIANCES = torch.tensor([1.0, 4.0])
MEAN = torch.tensor([[-0.3, 1.0], [1.0, 2.0]])


def energy(x: Tensor) -> Tensor:
    """The negative logarithm of the density of N(0, diag(1, 4))."""
    return 0.5 * (x.square() / VARIANCES).sum(-1)


def decay(optimizers: list[Any], rate: float, done: float) -> None:
    """Keeps the learning rate for 60 % of the updates, then lowers it to a fiftieth along a cosine."""
    left = min(1.0, (1.0 - done) / 0.4)
    factor = 0.02 + 0.98 * 0.5 * (1.0 - math.cos(math.pi * left))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * factor


def settle(optimizers: list[Any], rate: float, done: float) -> None:
    """Keeps the learning rate for 20 % of the updates, then lowers it as 1 / t, to a hundredth.

    Where directions are right on average and noisy, the noise of all later updates averages out so. Along a cosine, that
    of the last few hundred remains.
    """
    factor = 1.0 / (1.0 + 99.0 * max(0.0, (done - 0.2) / 0.8))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * factor


def information(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Mutual information of 20-dimensional normal pairs."""
    torch.manual_seed(seed)
    rho, size = options.correlation, 20
    specs = [TensorSpec((3,)), TensorSpec((size - 3,))]

    def pairs(count: int) -> tuple[list[Tensor], list[Tensor]]:
        x = torch.randn(count, size)
        y = rho * x + math.sqrt(1.0 - rho * rho) * torch.randn(count, size)
        return list(x.split([3, size - 3], 1)), list(y.split([3, size - 3], 1))

    # The exponential of T has rare and huge values. Adam's mean of squares has to forget them within a hundred updates,
    # or each of them stops learning for thousands; DV's own mean has to keep them, or T drifts up to where it is cut.
    rate = options.rate or 1e-3
    optimizer = AdamTF(lr=rate, betas=(0.9, 0.98 if method == "DV" else 0.99))
    estimator = MIEstimator(
        specs,
        specs,
        fc_layers=tuple(options.layers or (512,)),
        sampler=options.sampler,
        estimator_type=method,
        averager=ScalarAdaptiveAverager(speed=2.0),
        optimizer=optimizer,
    )
    updates = options.updates or 5000
    for update in range(updates):
        decay([optimizer], rate, update / updates)
        estimator.update_with_gradient(estimator.train_step(pairs(options.batch or 512)).info)
    with torch.no_grad():
        found = float(estimator.calc_pmi(*pairs(16384)).mean())
    truth = -0.5 * size * math.log(1.0 - rho * rho)
    return {"correlation": rho, "truth": truth, "found": found, "error": found - truth}


def particles(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """256 particles on a Gaussian."""
    torch.manual_seed(seed)
    algorithm = ParVIAlgorithm(
        2,
        256,
        par_vi=method,
        critic_hidden_layers=(20,),
        critic_optimizer=Adam(lr=1e-3),
        optimizer=AdamTF(lr=options.rate or 1e-2),
    )
    for _ in range(options.updates or 2000):
        algorithm.update_with_gradient(algorithm.train_step(energy).info)
    found = algorithm.particles.detach()
    return {
        "covariance_error": float((torch.cov(found.t()) - torch.diag(VARIANCES)).abs().max()),
        "mean_error": float(found.mean(0).abs().max()),
    }


class Linear(Network):
    """W z, or W z + y U."""

    def __init__(self, is_conditional: bool) -> None:
        """Starts at the same W as the published tests."""
        spec = TensorSpec((3,))
        super().__init__([spec, TensorSpec((2,))] if is_conditional else spec, name="Linear")
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0], [-1.0, 1.0], [1.0, 1.0]]).t().contiguous())
        self.mean = nn.Parameter(torch.zeros(2, 2)) if is_conditional else None

    def forward(self, inputs: Any, state: Any = ()) -> tuple[Tensor, Any]:
        """Maps noise, or noise and inputs, to outputs."""
        if self.mean is None:
            return inputs @ self.weight.t(), state
        return inputs[0] @ self.weight.t() + inputs[1] @ self.mean, state


# Updates and batch. One other sample for each makes noisier directions, and cheaper ones; the score of gfsf is biased by
# as much as the batch is small; a helper sees all pairs of a batch.
_GENERATOR_BUDGETS = {
    "svgd": (8000, 256),
    "svgd conditional": (8000, 256),
    "gfsf": (1500, 512),
    "gpvi direct": (8000, 256),
    # A learning rate that falls as 1 / t must not fall before the helper is right: 3,000 updates leave 0.65 on seed 100.
    "gpvi helper": (6000, 64),
}


def generator(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Linear generators on a Gaussian, conditional and not."""
    torch.manual_seed(seed)
    is_gpvi, is_conditional = method.startswith("gpvi"), method == "svgd conditional"
    net: Any = ReluMLP(TensorSpec((2,)), 2, ()) if is_gpvi else Linear(is_conditional)
    settings: dict[str, Any] = {"par_vi": None if is_gpvi else method.split()[0]}
    helper = Adam(lr=2e-3)
    if is_gpvi:
        settings |= {
            "functional_gradient": True,
            "direct_jac_inverse": method == "gpvi direct",
            "inverse_mvp_hidden_size": 32,
            "inverse_mvp_hidden_layers": 2,
            "inverse_mvp_optimizer": helper,
        }
    if method == "minmax":
        settings |= {"critic_hidden_layers": (20, 20), "critic_optimizer": AdamTF(lr=2e-3)}
    usual_updates, usual_batch = _GENERATOR_BUDGETS.get(method, (2500, 256))
    rate, updates, batch = options.rate or 5e-3, options.updates or usual_updates, options.batch or usual_batch
    optimizer = AdamTF(lr=rate)
    model = Generator(
        2,
        2 if is_gpvi else 3,
        TensorSpec((2,)) if is_conditional else None,
        net=net,
        entropy_regularization=1.0,
        use_kernel_averager=method.startswith("svgd"),
        optimizer=optimizer,
        **settings,
    )
    lower = settle if is_gpvi or method == "svgd" else decay
    for update in range(updates):
        lower([optimizer], rate, update / updates)
        settle([helper], 2e-3, update / updates)
        inputs = torch.randn(batch, 2) if is_conditional else None
        loss = (lambda pair: energy(pair[0] - pair[1] @ MEAN)) if is_conditional else energy
        model.update_with_gradient(model.train_step(inputs, loss, batch).info)
    weight = (net.last if is_gpvi else net).weight.detach()
    result = {"covariance_error": float((weight @ weight.t() - torch.diag(VARIANCES)).abs().max())}
    if is_conditional:
        result["mean_error"] = float((net.mean.detach() - MEAN).abs().max())
    return result


def regression(seed: int, rows: int = 50, size: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, targets, and mean and covariance of the posterior of the coefficients."""
    torch.manual_seed(seed)
    inputs = torch.randn(rows, size)
    targets = inputs @ (torch.rand(size, 1) + 5.0) + torch.randn(rows, 1)
    inverse = torch.linalg.inv(inputs.t() @ inputs)
    return inputs, targets, (inverse @ inputs.t() @ targets).squeeze(1), inverse


def relative(found: Tensor, truth: Tensor) -> float:
    """Norm of the error over the norm of the truth."""
    return float((found - truth).norm() / truth.norm())


def functional(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """An ensemble of 100 linear networks."""
    inputs, targets, mean, covariance = regression(seed)
    name, _, space = method.partition(" ")
    rate, passes = options.rate or 2e-2, (options.updates or 2500) // 5
    optimizer = Adam(lr=rate)
    algorithm = FuncParVIAlgorithm(
        input_tensor_spec=TensorSpec((3,)),
        output_dim=1,
        last_use_bias=False,
        loss_type="regression",
        num_particles=options.batch or 100,
        par_vi=name,
        function_vi=space == "outputs",
        function_bs=10,
        critic_hidden_layers=(10,),
        critic_optimizer=Adam(lr=1e-2),
        optimizer=optimizer,
    )
    loader = DataLoader(TensorDataset(inputs, targets), 10, shuffle=True)
    algorithm.set_data_loader(loader, entropy_regularization=10 / 50)
    for number in range(passes):
        decay([optimizer], rate, number / passes)
        algorithm.train_iter()
    found = algorithm.particles.detach()
    return {
        "mean_error": relative(found.mean(0), mean),
        "covariance_error": relative(torch.cov(found.t()), covariance),
    }


def hypernetwork(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """A linear generator of linear networks."""
    is_gpvi = method.startswith("gpvi")
    name, _, space = method.partition(" ")
    size, batch = (10, 10) if is_gpvi else (3, 10)
    inputs, targets, mean, covariance = regression(seed, 10 if is_gpvi else 50, size)
    settings: dict[str, Any] = {"par_vi": name, "function_vi": space == "outputs", "function_bs": 10}
    if is_gpvi:
        settings = {
            "functional_gradient": True,
            "direct_jac_inverse": "direct" in method,
            "block_inverse_mvp": "block" in method,
            "lambda_trainable": "trained" in method,
            "lambda_optimizer": Adam(lr=1e-2),
            "inverse_mvp_hidden_size": 32,
            "inverse_mvp_optimizer": Adam(lr=1e-3),
        }
    # Ten rows leave one direction of ten inputs nearly free: a step of 0.05 gets there in tens of thousands of updates.
    rate = options.rate or (0.2 if is_gpvi else 5e-3)
    passes = (options.updates or (6000 if is_gpvi else 3000)) // (1 if is_gpvi else 5)
    optimizer = Adam(lr=rate)
    algorithm = HyperNetwork(
        input_tensor_spec=TensorSpec((size,)),
        output_dim=1,
        last_use_bias=False,
        hidden_layers=(),
        noise_dim=5 if is_gpvi else 3,
        loss_type="regression",
        num_particles=options.batch or (48 if is_gpvi else 128),
        critic_hidden_layers=(10,),
        critic_optimizer=Adam(lr=1e-2),
        optimizer=optimizer,
        **settings,
    )
    loader = DataLoader(TensorDataset(inputs, targets), batch, shuffle=True)
    algorithm.set_data_loader(loader, entropy_regularization=batch / len(inputs))
    for number in range(passes):
        decay([optimizer], rate, number / passes)
        algorithm.train_iter()
    with torch.no_grad():
        found = algorithm.sample_parameters(num_particles=20_000)
    return {
        "mean_error": relative(found.mean(0), mean),
        "covariance_error": relative(torch.cov(found.t()), covariance),
    }


def blocks(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The relative difference of a solution by blocks from one with the whole Jacobian, 5 of 10 numbers in."""
    torch.manual_seed(seed)
    net, z, vectors = ReluMLP(TensorSpec((5,)), 10, (16,)), torch.randn(8, 5), torch.randn(8, 6, 10)
    diagonal = torch.tensor(0.7)
    with torch.no_grad():
        jacobian = net.compute_jac(z)
        whole = torch.cat([jacobian, torch.zeros(8, 10, 5)], -1) + diagonal * torch.eye(10)
        product = vectors[..., 5:] @ jacobian[:, 5:]
        found = ops.solve_block_jacobian(whole[:, :5, :5], product, vectors, diagonal)
        return {"difference": relative(found, ops.solve_jacobian(whole, vectors))}


def digits(method: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """An entry of the zoo, trained as it is."""
    with rein.make(method, seed=seed) as learner:
        learner.train(options.updates or {"hypernetwork_digits": 60}.get(method, 30))
        return dict(learner.evaluate().numbers)


TASKS: dict[str, tuple[Callable[[str, int, argparse.Namespace], dict[str, float]], tuple[str, ...]]] = {
    "information": (information, ("DV", "KLD")),
    "particles": (particles, ("svgd", "gfsf", "minmax")),
    "functional": (functional, ("svgd", "svgd outputs", "gfsf", "gfsf outputs", "minmax")),
    "generator": (
        generator,
        ("gfsf", "svgd", "svgd2", "svgd3", "minmax", "svgd conditional", "gpvi direct", "gpvi helper"),
    ),
    "blocks": (blocks, ("gpvi",)),
    "hypernetwork": (
        hypernetwork,
        (
            *("gfsf", "svgd2", "svgd3", "minmax", "gfsf outputs", "svgd2 outputs", "svgd3 outputs"),
            *("gpvi direct", "gpvi direct block", "gpvi direct trained", "gpvi helper", "gpvi block helper"),
        ),
    ),
    "digits": (digits, ("hypernetwork_digits", "hypernetwork_digits_outliers")),
}


class Row(NamedTuple):
    """One row of the table."""

    task: str
    method: str
    bars: dict[str, float]
    """What accuracies and areas must reach, and what the size of anything else must not exceed."""
    correlation: float = 0.5

    @property
    def name(self) -> str:
        """Task and method, and the correlation where it matters."""
        return f"{self.task} {self.method}" + (f" {self.correlation}" if self.task == "information" else "")

    def is_met(self, numbers: dict[str, float]) -> bool:
        """Whether all bars are met."""
        return all(
            numbers[name] >= bar if name.endswith(("_acc", "_entropy")) else abs(numbers[name]) <= bar
            for name, bar in self.bars.items()
        )


def _rows(task: str, **bars: float) -> list[Row]:
    return [Row(task, method, bars) for method in TASKS[task][1]]


ROWS = [
    *(
        Row("information", method, {"error": bar}, correlation)
        for correlation, bar in ((0.0, 0.03), (0.5, 0.2), (0.9, 2.5))
        for method in ("DV", "KLD")
    ),
    *(Row("information", "JSD", {"error": bar}, correlation) for correlation, bar in ((0.0, 0.03), (0.5, 0.4))),
    *_rows("particles", covariance_error=0.25, mean_error=0.1),
    *_rows("functional", covariance_error=0.25, mean_error=0.25),
    *_rows("generator", covariance_error=0.15),
    *_rows("blocks", difference=1e-5),
    *_rows("hypernetwork", covariance_error=0.3, mean_error=0.3),
    Row("digits", "hypernetwork_digits", {"test_acc": 0.975, "member_acc": 0.97}),
    Row("digits", "hypernetwork_digits_outliers", {"auroc_entropy": 0.95}),
]


def measure(row: Row, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The numbers of a row on one seed."""
    options.correlation = row.correlation
    return TASKS[row.task][0](row.method, seed, options)


def table(options: argparse.Namespace) -> None:
    """Measures what is missing of the rows, and prints all that is known."""
    known: dict[tuple[str, int], dict[str, float]] = {}
    if options.results.exists():
        for line in map(json.loads, options.results.read_text().splitlines()):
            known[line["row"], line["seed"]] = line
    chosen = [row for row in ROWS if not options.methods or set(options.methods) & {row.task, *row.method.split()}]
    for row in chosen:
        for seed in options.seeds:
            if (row.name, seed) not in known:
                known[row.name, seed] = measure(row, seed, options)
                with options.results.open("a") as file:
                    file.write(json.dumps({"row": row.name, "seed": seed, **known[row.name, seed]}) + "\n")
    print("| row | bar |", *(f"seed {seed} |" for seed in options.seeds), "met |")
    print("|---" * (len(options.seeds) + 3) + "|")
    for row in chosen:
        found = [known[row.name, seed] for seed in options.seeds]
        figures = (" / ".join(f"{numbers[name]:.3g}" for name in row.bars) for numbers in found)
        bars = " / ".join(f"{name} {bar:g}" for name, bar in row.bars.items())
        print(
            f"| {row.name} | {bars} |",
            *(f"{one} |" for one in figures),
            f"{sum(map(row.is_met, found))} of {len(found)} |",
        )


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, "table"])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--correlation", type=float, default=0.5)
    parser.add_argument("--sampler", default="buffer")
    parser.add_argument("--layers", nargs="+", type=int)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--results", type=Path, default=Path("particle_vi.jsonl"))
    return parser


def main() -> None:
    """Runs a task."""
    options = arguments().parse_args()
    torch.set_num_threads(1)
    if options.task == "table":
        table(options)
        return
    run, methods = TASKS[options.task]
    for method in options.methods or methods:
        for seed in options.seeds:
            started = time.perf_counter()
            numbers = {key: round(value, 4) for key, value in run(method, seed, options).items()}
            seconds = round(time.perf_counter() - started, 1)
            print(json.dumps({"method": method, "seed": seed, **numbers, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
