"""Times twin critics and a policy against plain torch, in one run.

    python benchmarks/networks.py [--seconds 2] [--threads 1] [--cpu-time] [--json]

Rows: twin critics 256x256 on a batch of 256 (17 observations, 6 actions), forward and forward with backward,
and a policy of 256x256 (and 64x64) on a batch of 8. Columns: ours (`CriticNetwork.make_parallel(2)`,
`ActorNetwork`), a hand-written loop over two `nn.Sequential`s, and `torch.vmap` over stacked modules. Contenders
take turns in short bursts, so that a slow phase of the machine hits all of them; the best burst counts. "ratio"
is the time of the fastest other over ours: at least 1 is the bar.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rein.networks import ActorNetwork, CriticNetwork
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION, ACTION = 17, 6
Contender = Callable[[], object]


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), nn.ReLU()]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def backward(values: Tensor, parameters: list[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
    values.square().mean().backward()


def twin_critics(batch: int, with_backward: bool) -> dict[str, Contender]:
    observation, action = torch.randn(batch, OBSERVATION), torch.rand(batch, ACTION) * 2 - 1
    spec = (TensorSpec((OBSERVATION,)), BoundedTensorSpec((ACTION,), minimum=-1.0, maximum=1.0))
    critics = CriticNetwork(spec, joint_fc_layer_params=(256, 256)).make_parallel(2)
    pair = nn.ModuleList(mlp(OBSERVATION + ACTION, (256, 256), 1) for _ in range(2))
    params, buffers = torch.func.stack_module_state([mlp(OBSERVATION + ACTION, (256, 256), 1) for _ in range(2)])
    skeleton = mlp(OBSERVATION + ACTION, (256, 256), 1).to("meta")

    def single(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(skeleton, (p, b), (x,))

    stacked = torch.vmap(single, in_dims=(0, 0, None))

    def ours() -> Tensor:
        return critics((observation, action))[0]

    def loop() -> Tensor:
        x = torch.cat((observation, action), -1)
        return torch.stack([critic(x).squeeze(-1) for critic in pair], 1)

    def vmap() -> Tensor:
        x = torch.cat((observation, action), -1)
        return stacked(params, buffers, x).squeeze(-1).t()

    parameters = {
        "ours": list(critics.parameters()),
        "loop": list(pair.parameters()),
        "vmap": list(params.values()),
    }
    calls: dict[str, Callable[[], Tensor]] = {"ours": ours, "loop": loop, "vmap": vmap}
    return {name: finish(call, parameters[name], with_backward) for name, call in calls.items()}


def policy(batch: int, hidden: tuple[int, ...], with_backward: bool) -> dict[str, Contender]:
    observation = torch.randn(batch, OBSERVATION)
    action_spec = BoundedTensorSpec((ACTION,), minimum=-1.0, maximum=1.0)
    network = ActorNetwork(TensorSpec((OBSERVATION,)), action_spec, fc_layer_params=hidden)
    plain = nn.Sequential(*mlp(OBSERVATION, hidden, ACTION), nn.Tanh())
    calls: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: network(observation)[0],
        "loop": lambda: plain(observation),
    }
    parameters = {"ours": list(network.parameters()), "loop": list(plain.parameters())}
    return {name: finish(call, parameters[name], with_backward) for name, call in calls.items()}


def finish(call: Callable[[], Tensor], parameters: list[nn.Parameter], with_backward: bool) -> Contender:
    if with_backward:
        return lambda: backward(call(), parameters)
    return torch.no_grad()(call)


def race(
    contenders: dict[str, Contender],
    seconds: float,
    burst: float = 0.005,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Microseconds per call of each contender, the best of many short bursts."""
    best = dict.fromkeys(contenders, float("inf"))
    counts = {}
    for name, call in contenders.items():
        for _ in range(5):
            call()
        start = time.perf_counter()
        call()
        counts[name] = max(1, int(burst / (time.perf_counter() - start)))
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for name, call in contenders.items():
            start = clock()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (clock() - start) / counts[name])
    return {name: 1e6 * value for name, value in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time, for a machine that is busy")
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    rows = {
        "twin critics 256x256, batch 256, forward": twin_critics(256, False),
        "twin critics 256x256, batch 256, forward+backward": twin_critics(256, True),
        "policy 256x256, batch 8, forward": policy(8, (256, 256), False),
        "policy 256x256, batch 8, forward+backward": policy(8, (256, 256), True),
        "policy 64x64, batch 8, forward": policy(8, (64, 64), False),
        "policy 64x64, batch 8, forward+backward": policy(8, (64, 64), True),
    }
    for row, contenders in rows.items():
        times = race(contenders, arguments.seconds, clock=clock)
        ratio = min(value for name, value in times.items() if name != "ours") / times["ours"]
        if arguments.json:
            print(json.dumps({"row": row, "microseconds": times, "ratio": ratio}))
        else:
            columns = "  ".join(f"{name} {value:8.1f} us" for name, value in times.items())
            print(f"{row:52s} {columns}  ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
