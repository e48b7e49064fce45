"""The process that evaluates beside training: `python -m rein.training.evaluation_worker DIRECTORY PARENT [trusted]`.

It builds the algorithm from the configuration of the run and answers on standard output, one line of JSON for each
message: that it is ready, then a result for each request. A request is 8 bytes of length and what `torch.save` made of
a dict. It ends when its input ends or its parent is gone.
"""

import io
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import torch

from rein.runtime.processes.living import end_with_parent

LENGTH = struct.Struct("<Q")


def pack(request: dict[str, Any]) -> bytes:
    """A request as it is sent."""
    buffer = io.BytesIO()
    torch.save(request, buffer)
    return LENGTH.pack(buffer.tell()) + buffer.getvalue()


def _requests(source: IO[bytes]) -> Iterator[dict[str, Any]]:
    while len(header := source.read(LENGTH.size)) == LENGTH.size:
        (length,) = LENGTH.unpack(header)
        content = source.read(length)
        if len(content) < length:
            return
        yield torch.load(io.BytesIO(content), weights_only=True)


def _serve(path: Path, trust: bool, source: IO[bytes], answers: IO[str]) -> None:
    from rein.config import fresh_configs, install_name_resolver, load_saved_config
    from rein.envs import create_environment
    from rein.framework import TrainerConfig
    from rein.runtime import Run
    from rein.runtime.seeding import seed_everything
    from rein.training.construction import build_algorithm
    from rein.training.evaluation import evaluate
    from rein.training.run_directory import RunDirectory

    install_name_resolver()
    with fresh_configs(), Run(seed=0, device="cpu"):
        load_saved_config(RunDirectory(path).config, trust=trust)
        settings = TrainerConfig(root_dir=str(path))
        with create_environment(num_parallel_environments=settings.num_eval_environments, count_successes=True) as env:
            algorithm = build_algorithm(settings, env, for_training=False)
            print(json.dumps({"ready": True}), file=answers, flush=True)
            for request in _requests(source):
                algorithm.load_state_dict(request["alg"], strict=False)
                seed_everything(request["seed"])
                env.seed(request["seed"])
                result = evaluate(algorithm, env, request["episodes"], max_episode_steps=request["max_episode_steps"])
                print(json.dumps(result.to_json()), file=answers, flush=True)


def main() -> None:
    """Serves until the input ends; whatever else prints goes to standard error."""
    end_with_parent(int(sys.argv[2]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)
    _serve(Path(sys.argv[1]), "trusted" in sys.argv[3:], sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
