"""Pictures of what the representation of a trained agent keeps of observations."""

from pathlib import Path

import torch

from rein.algorithms.representation import CodecTraining, ReconstructionLearner
from rein.algorithms.representation.pictures import write_pictures
from rein.config import fresh_configs
from rein.training.policy import Policy, load_policy
from rein.training.run_directory import RunDirectory
from rein.training.supervised_runs import load_supervised


def draw_run(directory: RunDirectory, folder: Path, num_examples: int = 8) -> list[Path]:
    """Draws what the representation of a run keeps, of observations or of test data.

    Args:
        directory: of the run.
        folder: of the PNG files; made if it is not there.
        num_examples: how many to draw.

    Returns:
        The files.
    """
    if directory.record().get("ml_type") != "sl":
        return draw_representation(load_policy(directory), folder, num_examples)
    with fresh_configs():
        algorithm, _ = load_supervised(directory)
    if not isinstance(algorithm, CodecTraining):
        raise ValueError(f"{algorithm.name} has no codes that could be decoded: --pictures is for CodecTraining")
    return write_pictures(algorithm.codec, algorithm.test_examples(), folder, num_examples)


def draw_representation(policy: Policy, folder: Path, num_examples: int = 8) -> list[Path]:
    """Lets the policy play an episode, and draws observations of it as they are encoded and decoded.

    Args:
        policy: of an agent with a `ReconstructionLearner`, as `--with vae` makes it.
        folder: of the PNG files; made if it is not there.
        num_examples: observations, spread over the episode.

    Returns:
        The files.
    """
    learners = [part for part in policy.algorithm.modules() if isinstance(part, ReconstructionLearner)]
    if not learners:
        raise ValueError(
            f"{policy.algorithm.name} has no part that decodes its representation: train one --with vae, discrete_vae, "
            "vq_vae or monet"
        )
    learner = learners[0]
    with learner.recording() as seen:
        policy.evaluate(1)
    observations = torch.cat(seen)
    chosen = torch.linspace(0, len(observations) - 1, min(num_examples, len(observations))).round().long()
    return write_pictures(learner.codec, observations[chosen], folder, num_examples)
