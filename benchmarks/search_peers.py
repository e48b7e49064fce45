"""Simulations per second of tree search beside mctx (MuZero and Gumbel MuZero) and OpenSpiel, in turns.

    python -m venv mctx && mctx/bin/pip install jax jaxlib mctx
    python benchmarks/search_peers.py --mctx mctx/bin/python [--open-spiel python] [--batch 1 8 32] [--rounds 5]

All search with the same small model (`benchmarks/search.py`), 50 simulations per search, from the root's evaluation to the
action. OpenSpiel searches one tree after the other, from the start of tic-tac-toe, by its MCTS in Python: that in C++ has no
network. Each library has a process of its own with one thread; they take turns, so that other load meets all alike.
Rates are per second of processor time; the median over the rounds is shown, and ours by theirs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ACTIONS, LATENT, HIDDEN, SIMULATIONS = 9, 64, 64, 50
_THREADS = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def rein_searches(batch: int) -> dict[str, Callable[[], Any]]:
    """Searches of this library by name."""
    import torch
    from search import SmallModel

    from rein.algorithms.search import MCTSAlgorithm, VisitSoftmaxTemperatureByMoves
    from rein.data_structures import StepType, TimeStep
    from rein.networks import zero_state
    from rein.specs import BoundedTensorSpec, TensorSpec

    torch.set_num_threads(1)
    step = TimeStep(
        step_type=torch.full((batch,), StepType.MID, dtype=torch.int32),
        reward=torch.zeros(batch),
        observation=torch.randn(batch, LATENT),
    )
    searches = {}
    for name, options in {"muzero": {}, "gumbel": {"gumbel_actions": 16}}.items():
        algorithm = MCTSAlgorithm(
            observation_spec=TensorSpec((LATENT,)),
            action_spec=BoundedTensorSpec((), torch.int64, 0, ACTIONS - 1),
            num_simulations=SIMULATIONS,
            root_dirichlet_alpha=0.3,
            root_exploration_fraction=0.25,
            pb_c_init=1.25,
            pb_c_base=19652,
            discount=0.99,
            is_two_player_game=False,
            visit_softmax_temperature_fn=VisitSoftmaxTemperatureByMoves([(0, 1.0)]),
            model=SmallModel(),
            **options,  # type: ignore[arg-type]
        )
        state = zero_state(algorithm.rollout_state_spec, batch)
        searches[name] = lambda algorithm=algorithm, state=state: algorithm.rollout_step(step, state).output.numpy()
    return searches


def model_weights() -> dict[str, Any]:
    """Random weights of the model for other libraries, float32."""
    rng = np.random.default_rng(0)
    shapes = {
        "d1": (LATENT + ACTIONS, HIDDEN),
        "d2": (HIDDEN, LATENT),
        "r": (HIDDEN, 1),
        "p1": (LATENT, HIDDEN),
        "pi": (HIDDEN, ACTIONS),
        "v": (HIDDEN, 1),
    }
    return {
        name: (rng.standard_normal((into, out)) / np.sqrt(into)).astype(np.float32)
        for name, (into, out) in shapes.items()
    }


def open_spiel_searches(batch: int) -> dict[str, Callable[[], Any]]:
    """Searches of OpenSpiel by name; each evaluation takes the work of one of the model."""
    import pyspiel
    from open_spiel.python.algorithms import mcts

    w = model_weights()
    before = np.zeros((1, LATENT + ACTIONS), np.float32)

    class Network(mcts.Evaluator):  # type: ignore[misc]
        def evaluate(self, state: Any) -> Any:
            hidden = np.maximum(np.tanh(np.maximum(before @ w["d1"], 0) @ w["d2"]) @ w["p1"], 0)
            self.logits, value = (hidden @ w["pi"])[0], float(np.tanh(hidden @ w["v"])[0, 0])
            return np.array([value, -value])

        def prior(self, state: Any) -> Any:
            legal = state.legal_actions()
            probs = np.exp(self.logits[legal])
            return list(zip(legal, probs / probs.sum(), strict=True))

    game, network = pyspiel.load_game("tic_tac_toe"), Network()
    state = game.new_initial_state()
    network.evaluate(state)
    bot = mcts.MCTSBot(game, 2.0, SIMULATIONS, network, False, child_selection_fn=mcts.SearchNode.puct_value)
    return {"muzero": lambda: [bot.step(state) for _ in range(batch)]}


def mctx_searches(batch: int) -> dict[str, Callable[[], Any]]:
    """Searches of mctx by name."""
    import jax
    import jax.numpy as jnp
    import mctx

    weights = {name: jnp.asarray(values) for name, values in model_weights().items()}

    def described(w: Any, latent: Any) -> Any:
        hidden = jax.nn.relu(latent @ w["p1"])
        return hidden @ w["pi"], jnp.tanh(hidden @ w["v"])[:, 0]

    def imagine(w: Any, key: Any, action: Any, latent: Any) -> Any:
        hidden = jax.nn.relu(jnp.concatenate([latent, jax.nn.one_hot(action, ACTIONS)], -1) @ w["d1"])
        following = jnp.tanh(hidden @ w["d2"])
        logits, value = described(w, following)
        reward, discount = (hidden @ w["r"])[:, 0], jnp.full(action.shape, 0.99)
        return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits, value=value), following

    def search(policy: Any, w: Any, key: Any, latent: Any) -> Any:
        logits, value = described(w, latent)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=latent)
        return policy(w, key, root, imagine, num_simulations=SIMULATIONS).action

    latent = jnp.asarray(np.random.default_rng(1).standard_normal((batch, LATENT)).astype(np.float32))
    key = jax.random.PRNGKey(0)
    searches = {}
    for name, policy in {"muzero": mctx.muzero_policy, "gumbel": mctx.gumbel_muzero_policy}.items():
        compiled = jax.jit(lambda w, key, latent, policy=policy: search(policy, w, key, latent))
        searches[name] = lambda compiled=compiled: np.asarray(compiled(weights, key, latent))
    return searches


def work(library: str) -> None:
    """Answers lines "batch name seconds" with processor seconds per search, until there are no more."""
    make = {"rein": rein_searches, "mctx": mctx_searches, "open_spiel": open_spiel_searches}[library]
    made: dict[int, dict[str, Callable[[], Any]]] = {}
    for line in sys.stdin:
        batch, name, seconds = line.split()
        if int(batch) not in made:
            made[int(batch)] = make(int(batch))
        search = made[int(batch)][name]
        search()
        search()
        count, begin = 0, time.process_time()
        while time.process_time() - begin < float(seconds):
            search()
            count += 1
        print(json.dumps((time.process_time() - begin) / count), flush=True)


class Worker:
    """A process that searches when it is asked to."""

    def __init__(self, python: str, library: str) -> None:
        self._process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--work", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_THREADS},
        )

    def seconds_per_search(self, batch: int, name: str, seconds: float) -> float:
        """Processor time of one search."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{batch} {name} {seconds}\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Prints one line of JSON per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mctx", help="Python with jax and mctx")
    parser.add_argument("--open-spiel", help="Python with open_spiel; searches without Gumbel noise only")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--work", choices=("rein", "mctx", "open_spiel"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    if options.mctx is None:
        parser.error("give --mctx, the Python of an environment with jax and mctx")
    workers = {"rein": Worker(sys.executable, "rein"), "mctx": Worker(options.mctx, "mctx")}
    if options.open_spiel is not None:
        workers["open_spiel"] = Worker(options.open_spiel, "open_spiel")
    for batch in options.batch:
        for name in ("muzero", "gumbel"):
            taking_part = {key: one for key, one in workers.items() if name == "muzero" or key != "open_spiel"}
            rates: dict[str, list[float]] = {library: [] for library in taking_part}
            for _ in range(options.rounds):
                for library, worker in taking_part.items():
                    each = worker.seconds_per_search(batch, name, options.seconds)
                    rates[library].append(batch * SIMULATIONS / each)
            row: dict[str, Any] = {library: round(statistics.median(values)) for library, values in rates.items()}
            ours = rates.pop("rein")
            for library, theirs in rates.items():
                ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
                row[f"by_{library}"] = [round(pick(ratios), 2) for pick in (statistics.median, min, max)]
            unit = "simulations per second of processor time"
            print(json.dumps({"metric": f"search/{name}/b{batch}", "unit": unit, **row}), flush=True)
    for worker in workers.values():
        worker.close()


if __name__ == "__main__":
    main()
