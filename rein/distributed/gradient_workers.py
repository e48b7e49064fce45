"""Gradient workers: copies of the algorithm that compute gradients of batches, or of shares of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.config import use_configs
from rein.data_structures import BatchInfo, LossInfo
from rein.distributed.backends import Backend
from rein.distributed.counters import counters_now, running
from rein.distributed.team import Team
from rein.distributed.weights import Weights
from rein.distributions import distributions_to_params, extract_spec, map_params, params_to_distributions
from rein.framework import Batch, Gradients, RLAlgorithm
from rein.nest import Nest
from rein.runtime import Run, summary
from rein.runtime.processes.sending import unpack
from rein.runtime.timers import timer


class GradientTask(NamedTuple):
    """What a gradient worker is made of; it travels once."""

    copy: bytes
    """Packed: the configuration in force, the algorithm, and its settings."""
    seed: int
    device: str
    version: int = 0
    """Of the weights that the copy has: older ones are not taken over."""

    def make(self) -> "GradientWorker":
        """The worker, in a process of its own: random numbers are seeded."""
        torch.set_num_threads(1)
        configs, _, _ = unpack(self.copy)
        with use_configs(configs):
            run = Run(seed=self.seed, device=self.device)
            with run:
                run.seed_everything()
                return self.make_here(run)

    def make_here(self, run: Run | None = None) -> "GradientWorker":
        """The worker, with what is in force."""
        _, algorithm, settings = unpack(self.copy)
        algorithm.set_update_settings(replace(settings, compile=False))
        return GradientWorker(algorithm, self.version, run)


class Share(NamedTuple):
    """Gradients on their way, without distributions."""

    gradients: Gradients
    info_spec: Any
    rows: int
    version: int


class GradientWorker:
    """Computes gradients."""

    def __init__(self, algorithm: RLAlgorithm, version: int, run: Run | None) -> None:
        """Keeps the copy of the algorithm, the version of its weights, and the run of a process of its own."""
        self._algorithm, self._weights, self._version, self._run = algorithm, Weights(algorithm), version, run

    def gradients(
        self,
        batches: Sequence[Batch],
        extra_states: dict[int, Any],
        counters: Mapping[str, float],
        flat: NDArray[np.uint8] | None,
        version: int,
    ) -> Share:
        """Gradients of batches with given weights; None keeps those that there are."""
        if flat is not None and version > self._version:
            self._weights.load(flat, with_acting=True)
            self._weights.state.load_extra_states(extra_states)
        with running(self._run, counters):
            found = self._algorithm.learning.compute_gradients(batches)
        spec = extract_spec(found.info, from_dim=2)
        found = found._replace(info=distributions_to_params(found.info))
        rows = batches[0].experience.step_type.shape[0]
        return Share(nest.map_structure(_detached, found), spec, rows, version)

    def apply(self, gradients: Gradients, info_spec: Any, counters: Mapping[str, float]) -> None:
        """A step of this copy's own optimizers."""
        info = params_to_distributions(gradients.info, info_spec)
        with running(self._run, counters):
            self._algorithm.apply_gradients(gradients._replace(info=info))

    def parameters(self) -> list[Tensor]:
        """Of this copy."""
        return [one.detach() for one in self._algorithm.parameters()]

    def close(self) -> None:
        """There is nothing to close."""


class SharedGradients:
    """Lets a team compute the gradients of an algorithm's updates."""

    def __init__(
        self, algorithm: RLAlgorithm, team: Team, backend: Backend, asynchronous: bool, decentralised: bool = False
    ) -> None:
        """Takes the place of how `algorithm` computes gradients or, asynchronously, makes updates.

        Args:
            algorithm: the root algorithm.
            team: of gradient workers.
            backend: of the team.
            asynchronous: whether each batch goes to one worker, and whichever gradient comes first is applied.
            decentralised: whether workers step copies of their own with the mean gradient, so that no weights are sent.
        """
        self._learning, self._team, self._backend = algorithm.learning, team, backend
        self._weights = Weights(algorithm)
        self.version = 0
        """Updates so far."""
        self._batches: dict[int, Sequence[Batch]] = {}
        self._decentralised = decentralised
        if decentralised:
            self._apply_here = self._learning.apply_gradients
            self._learning.apply_gradients = self.apply_everywhere  # type: ignore[method-assign]
        if asynchronous:
            self._learning.update = self.update_from_first  # type: ignore[method-assign]
        else:
            self._learning.compute_gradients = self.compute  # type: ignore[method-assign]

    def compute(self, batches: Sequence[Batch]) -> Gradients:
        """Gradients of batches whose rows the workers share; the mean of theirs, weighted by rows."""
        if self.version == 0 or not self._decentralised:
            self._publish()
        rows = min(batch.experience.step_type.shape[0] for batch in batches)
        count = min(len(self._team), rows)
        for index in range(count):
            self._ask(index, [_share(batch, index, count) for batch in batches])
        answers = dict(self._team.next_answer() for _ in range(count))
        return merged([answers[index] for index in range(count)])

    def apply_everywhere(self, gradients: Gradients) -> None:
        """The same step of every copy, which keeps them equal bit by bit."""
        spec = extract_spec(gradients.info, from_dim=2)
        sent = gradients._replace(info=distributions_to_params(gradients.info))
        for index in range(len(self._team)):
            self._team.ask(index, "apply", sent, spec, counters_now())
        for _ in range(len(self._team)):
            self._team.next_answer()
        # At last: the replacement of one that died until here is a copy that has not made the step, and is asked to.
        self._apply_here(gradients)

    def update_from_first(self, batches: Sequence[Batch]) -> int:
        """Gives batches to a worker that has nothing to do, and updates from the first gradients that come."""
        idle = [index for index in range(len(self._team)) if index not in self._team.waiting_for]
        self._publish()
        self._batches[idle[0]] = batches
        self._ask(idle[0], [_share(batch, 0, 1) for batch in batches])
        if len(idle) > 1:
            return 0
        with timer("learn"):
            index, share = self._team.next_answer()
            gradients = merged([share])
            self._learning.apply_gradients(gradients)
        done = self._batches.pop(index)
        self._learning._give_priorities(done, gradients)
        if summary.should_record_summaries():
            summary.scalar("Scheme/gradient_lag", float(self.version - share.version))
        return sum(batch.experience.step_type.numel() for batch in done)

    def _publish(self) -> None:
        self.version += 1
        self._backend.publish(self._weights.flat(), self.version)

    def _ask(self, index: int, batches: Sequence[Batch]) -> None:
        self._team.ask(index, "gradients", batches, self._weights.state.extra_states(), counters_now())


def _share(batch: Batch, index: int, count: int) -> Batch:
    """Some of the rows of a batch, without the buffer that they came from."""
    experience = batch.experience
    rows = experience.step_type.shape[0]
    begin, end = index * rows // count, (index + 1) * rows // count
    info = experience.batch_info
    info = info._replace(replay_buffer=()) if isinstance(info, BatchInfo) else ()
    bare = experience._replace(batch_info=info, replay_buffer=(), rollout_info_field=())
    return batch._replace(experience=map_params(lambda tensor: tensor[begin:end].detach().clone(), bare))


def merged(shares: Sequence[Share]) -> Gradients:
    """The gradients of all rows, from those of shares of them."""
    parts = [share.gradients for share in shares]
    total = sum(share.rows for share in shares)
    parts_weights = [share.rows / total for share in shares]
    first = parts[0]
    if len(parts) == 1:
        return first._replace(info=params_to_distributions(first.info, shares[0].info_spec))

    def mean(*leaves: Any) -> Any:
        if not isinstance(leaves[0], Tensor):
            return leaves[0]
        return torch.stack([weight * leaf for weight, leaf in zip(parts_weights, leaves, strict=True)]).sum(0)

    def beside(*leaves: Tensor) -> Tensor:
        return torch.cat(leaves, 1)

    values = [_mean_gradient(column, parts_weights) for column in zip(*(part.values for part in parts), strict=True)]
    priorities: list[Nest] = [
        torch.cat(column) if isinstance(column[0], Tensor) else ()
        for column in zip(*(part.priorities for part in parts), strict=True)
    ]
    losses = [part.loss_info._replace(priority=()) for part in parts]
    loss_info: LossInfo = nest.map_structure(mean, *losses)
    info = nest.map_structure(beside, *(part.info for part in parts)) if not nest.is_empty(first.info) else ()
    return Gradients(
        values,
        loss_info,
        priorities,
        nest.map_structure(beside, *(part.inputs for part in parts)),
        params_to_distributions(info, shares[0].info_spec),
    )


def _mean_gradient(column: Sequence[Tensor | None], weights: Sequence[float]) -> Tensor | None:
    """The weighted mean; a share without a gradient counts as zero, and None is one that nobody has."""
    known = [(weight, value) for weight, value in zip(weights, column, strict=True) if value is not None]
    if not known:
        return None
    return torch.stack([weight * value for weight, value in known]).sum(0)


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf
