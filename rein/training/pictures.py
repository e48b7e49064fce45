"""Pictures of what the representation of a trained agent keeps of observations."""

from pathlib import Path

import torch

from rein.algorithms.representation import ReconstructionLearner
from rein.algorithms.representation.pictures import write_pictures
from rein.training.policy import Policy


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
