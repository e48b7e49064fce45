"""Searches on the host from the latents of the roots to the policies, in one call of compiled code.

With one tree, or a few, the small operations around a search take longer in torch than the search itself.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein.algorithms.search.compiled_tree import CompiledTree
from rein.algorithms.search.host_model import HostProgram

Array = NDArray[Any]


class HostRoots(NamedTuple):
    """What a search on the host starts from; each field always has the same type."""

    latent: Array
    """float32 [B, L]."""
    mask: Array
    """bool [B, K]; of any size without `has_mask`."""
    has_mask: bool
    to_play: Array
    """int64 [B]."""
    noise: Array
    """float64 [B, K], of a Dirichlet or of Gumbel distributions; of any size without a use for it."""
    fraction: float
    """Share of Dirichlet noise."""
    table: Array
    """int64 [n, S], for a Gumbel root search: `halving_visits` of 1 to n actions."""
    temperature: Array
    """float64 [B], of acting; not read by a Gumbel root search."""
    learn_temperature: float
    acts_by_policy: bool
    learns_policy: bool


class HostFound(NamedTuple):
    """What came out."""

    acting: Array
    """float64 [B, K], probabilities of the actions."""
    learning: Array
    """float32 [B, K], the policy to learn."""
    value: Array
    """float32 [B], mean values of the roots."""
    rewards: Array
    """float64 [B, K], of entering the roots' children."""
    visits: Array
    """float64 [B, K], of the roots' children."""
    policy: Array
    """float64 [B, K], for computations."""


class HostWork:
    """Memory for the searches of one batch of trees with one kind of model."""

    def __init__(self, tree: CompiledTree, program: HostProgram) -> None:
        """Allocates it.

        Args:
            tree: the trees.
            program: the model; others of the same sizes may follow.
        """
        (batch, nodes), branches = tree.arrays.visits.shape, tree.arrays.prior.shape[2]
        self.tree = tree
        self.sizes = program.latent_size, program.memory_size
        self._latents = np.zeros((batch, nodes, program.latent_size), np.float32)
        self._memory = np.zeros(program.memory_size, np.float32)
        self._paths = np.zeros((4, tree.rules.num_parallel_sims), np.int64)
        self._prior, self._scratch = np.zeros(branches), np.zeros((3, branches))
        self._read_once = tuple(np.zeros((batch, branches)) for _ in range(4))

    def grow(self, program: HostProgram, latent: Tensor) -> None:
        """Runs all simulations of trees whose roots were written.

        Args:
            program: the model.
            latent: float32 [B, L], of the roots.
        """
        from rein.algorithms.search.kernels.host import search_on_host

        tree = self.tree
        self._latents[:, 0] = latent.numpy()
        search_on_host(
            tree.arrays,
            tree.numbers,
            tree.rules.num_rounds,
            program,
            self._latents,
            self._memory,
            self._paths,
            self._scratch,
        )

    def search(self, program: HostProgram, roots: HostRoots) -> HostFound | None:
        """A whole search.

        Args:
            program: the model.
            roots: where it starts.

        Returns:
            What was found; all but `learning` and `value` are overwritten by the next search. None if a mask allows nothing.

        Raises:
            ValueError: if the model's probabilities are not finite.
        """
        from rein.algorithms.search.kernels.host import search_from_latents

        tree = self.tree
        tree.prepare(has_reward=program.reward >= 0, has_game_over=program.game_over >= 0)
        acting, rewards, visits, policy = self._read_once
        batch = len(acting)
        found = HostFound(
            acting, np.empty(acting.shape, np.float32), np.empty(batch, np.float32), rewards, visits, policy
        )
        wrong = search_from_latents(
            tree.arrays,
            tree.numbers,
            tree.rules.num_rounds,
            program,
            self._latents,
            self._memory,
            self._paths,
            self._prior,
            self._scratch,
            roots,
            found,
        )
        if wrong == 1:
            raise ValueError("the model gives probabilities that are not finite: its weights have diverged")
        return None if wrong else found


def as_array(tensor: Tensor, dtype: torch.dtype) -> Array:
    """A contiguous array of the elements of a tensor on the CPU, without a copy where possible."""
    result: Array = tensor.detach().to(dtype).contiguous().numpy()
    return result
