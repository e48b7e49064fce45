"""Simulations per second of tree search, with a small model and with a convolutional one.

    python benchmarks/search.py [--batch 1 8 32] [--seconds 1.5] [--backend auto]

The small model has 9 actions and fully connected layers of 64; 50 simulations per search. Rates are per second of processor
time of this process, beside those per second of the clock, because other load changes the latter. For the convolutional
model the share of the time that is not spent in the model is shown too, as the median of twelve rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rein.algorithms.search import ModelOutput, ModelState
from rein.algorithms.search.host_model import HostModelBuilder, HostProgram
from rein.algorithms.search.planning import Planner, Root
from rein.algorithms.search.rules import SearchRules

ACTIONS, LATENT, HIDDEN, SIMULATIONS = 9, 64, 64, 50


class SmallModel:
    """A MuZero model of a few thousand weights; the reward is read off the hidden layer of the dynamics."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)

        def weight(into: int, out: int) -> Tensor:
            return torch.from_numpy((rng.standard_normal((into, out)) / np.sqrt(into)).astype(np.float32))

        self.d1, self.d2, self.r = weight(LATENT + ACTIONS, HIDDEN), weight(HIDDEN, LATENT), weight(HIDDEN, 1)
        self.p1, self.pi, self.v = weight(LATENT, HIDDEN), weight(HIDDEN, ACTIONS), weight(HIDDEN, 1)
        self.eye = torch.eye(ACTIONS)
        self._program = self._write_program()

    def initial_predict(self, latent: Tensor) -> ModelOutput:
        """The root."""
        return self._described(latent, torch.zeros(len(latent)))

    def recurrent_inference(self, state: ModelState, action: Tensor) -> ModelOutput:
        """One imagined step."""
        h = torch.relu(torch.cat([state.state, self.eye[action]], 1) @ self.d1)
        return self._described(torch.tanh(h @ self.d2), (h @ self.r)[:, 0])

    def _described(self, latent: Tensor, reward: Tensor) -> ModelOutput:
        g = torch.relu(latent @ self.p1)
        return ModelOutput(
            value=torch.tanh(g @ self.v)[:, 0],
            reward=reward,
            action_probs=(g @ self.pi).softmax(-1),
            state=ModelState(state=latent),
        )

    def host_program(self, batch_size: int) -> HostProgram:
        """The same for compiled searches; the weights never change."""
        return self._program

    def _write_program(self) -> HostProgram:
        steps = HostModelBuilder(LATENT, ACTIONS)
        h = steps.fully_connected(steps.latent_and_action, self.d1.t(), None, "relu")
        latent = steps.fully_connected(h, self.d2.t(), None, "tanh")
        g = steps.fully_connected(latent, self.p1.t(), None, "relu")
        return steps.finish(
            next_latent=latent,
            value=steps.fully_connected(g, self.v.t(), None, "tanh"),
            logits=steps.fully_connected(g, self.pi.t(), None),
            reward=steps.fully_connected(h, self.r.t(), None),
        )


class BoardModel(nn.Module):
    """Three convolutional layers of 32 planes on a 9x9 board."""

    def __init__(self) -> None:
        super().__init__()
        self.dynamics = nn.Sequential(*(m for _ in range(3) for m in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())))
        self.heads = nn.Linear(32 * 81, 83)

    def initial_predict(self, latent: Tensor) -> ModelOutput:
        """The root."""
        heads = self.heads(latent.flatten(1))
        return ModelOutput(
            value=heads[:, 81].tanh(),
            reward=heads[:, 82].tanh(),
            action_probs=heads[:, :81].softmax(-1),
            state=ModelState(state=latent),
        )

    def recurrent_inference(self, state: ModelState, action: Tensor) -> ModelOutput:
        """One imagined step."""
        latent = state.state.clone()
        latent[torch.arange(len(action)), 0, action // 9, action % 9] += 1.0
        return self.initial_predict(self.dynamics(latent))


def measure(search: Callable[[], Any], simulations: int, seconds: float) -> tuple[float, float]:
    """Simulations per second of the processor and of the clock."""
    for _ in range(3):
        search()
    count, clock, processor = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - clock < seconds:
        search()
        count += 1
    return (
        count * simulations / (time.process_time() - processor),
        count * simulations / (time.perf_counter() - clock),
    )


def main() -> None:
    """Prints one line of JSON per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for batch in options.batch:
        small = SmallModel()
        root = small.initial_predict(torch.randn(batch, LATENT))
        start = Root(root, root.action_probs.double(), torch.zeros(batch, dtype=torch.int64))
        planner = Planner(SearchRules(SIMULATIONS, 0.99), options.backend)
        rate, clock = measure(partial(planner.search, small, start), batch * SIMULATIONS, options.seconds)
        row = {"metric": f"search/small/b{batch}", "simulations_per_cpu_second": rate, "per_second": clock}
        print(json.dumps(row), flush=True)
    print(json.dumps(share_of_the_tree(12)), flush=True)


def share_of_the_tree(rounds: int) -> dict[str, Any]:
    """What a search with the convolutional model takes beyond the calls of the model, in turns with these calls alone.

    A clock in the model would take longer than the tree: the same calls are measured by themselves.
    """
    board = BoardModel().eval()
    planner = Planner(SearchRules(SIMULATIONS, 0.99), "compiled")
    shares = []
    with torch.no_grad():
        root = board.initial_predict(torch.randn(8, 32, 9, 9))
        start = Root(root, root.action_probs.double(), torch.zeros(8, dtype=torch.int64))
        states = [ModelState(state=torch.randn(8, 32, 9, 9)) for _ in range(SIMULATIONS)]
        actions = torch.arange(8)
        for _ in range(2):
            planner.search(board, start)
        for _ in range(rounds):
            begin = time.process_time()
            for _ in range(4):
                planner.search(board, start)
            between = time.process_time()
            for _ in range(4):
                for state in states:
                    board.recurrent_inference(state, actions)
            model = time.process_time() - between
            shares.append(1 - model / (between - begin))
    shares.sort()
    return {
        "metric": "search/board/b8",
        "share_of_the_tree": round(statistics.median(shares), 3),
        "shares": [round(shares[0], 3), round(shares[-1], 3)],
    }


if __name__ == "__main__":
    main()
