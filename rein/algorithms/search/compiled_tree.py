"""Search trees in preallocated arrays, grown by compiled loops on the host."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein.algorithms.search.rules import GUMBEL, SearchRules

Array = NDArray[Any]


class TreeArrays(NamedTuple):
    """B trees of at most N nodes with K children each; node 0 is the root, child 0 means "not expanded"."""

    visits: Array
    """float64 [B, N]."""
    value_sum: Array
    """float64 [B, N], of the values that went through the node, without the reward of entering it."""
    raw_value: Array
    """float64 [B, N], the model's own estimate; 0 after the end where rewards are learnt."""
    reward: Array
    """float64 [B, N], of entering the node."""
    game_over: Array
    """bool [B, N]."""
    is_spread: Array
    """bool [B, N], all children were expanded at once."""
    to_play: Array
    """int8 [B, N]."""
    depth: Array
    """int64 [B, N]."""
    parent: Array
    """int64 [B, N]; the root's is itself."""
    slot: Array
    """int64 [B, N], which child of its parent."""
    prior: Array
    """float64 [B, N, K]."""
    log_prior: Array
    """float64 [B, N, K], for a Gumbel root search; otherwise empty."""
    child: Array
    """int64 [B, N, K]."""
    best: Array
    """int64 [B, N, P], the choices of the next simulation."""
    bounds: Array
    """float64 [B, 2], the smallest and the largest value seen in the tree."""
    gumbel: Array
    """float64 [B, K], noise of the root's actions; minus infinity for those not considered."""
    considered: Array
    """int64 [B, S], visits that the action tried by each simulation has had."""
    seed: int
    first: int
    """Index of the node that the first simulation adds."""
    has_reward: bool
    has_game_over: bool


class CompiledTree:
    """Trees of one batch shape; kept and used again by searches of the same shape."""

    def __init__(self, rules: SearchRules, batch_size: int, branch_factor: int) -> None:
        """Allocates the arrays.

        Args:
            rules: of the search.
            batch_size: number of trees.
            branch_factor: children per node.
        """
        from rein.algorithms.search.kernels import growing, scoring

        self._growing, self._scoring = growing, scoring
        self.rules = rules
        self.numbers = rules.numbers()
        b, n, k, p = batch_size, rules.num_nodes(branch_factor), branch_factor, rules.num_parallel_sims
        halving = rules.num_simulations if self.numbers.selection == GUMBEL else 1
        f8, i8 = np.float64, np.int64
        self.arrays = TreeArrays(
            visits=np.zeros((b, n), f8),
            value_sum=np.zeros((b, n), f8),
            raw_value=np.zeros((b, n), f8),
            reward=np.zeros((b, n), f8),
            game_over=np.zeros((b, n), np.bool_),
            is_spread=np.zeros((b, n), np.bool_),
            to_play=np.zeros((b, n), np.int8),
            depth=np.zeros((b, n), i8),
            parent=np.zeros((b, n), i8),
            slot=np.zeros((b, n), i8),
            prior=np.zeros((b, n, k), f8),
            log_prior=np.zeros((b, n, k if self.numbers.selection == GUMBEL else 0), f8),
            child=np.zeros((b, n, k), i8),
            best=np.zeros((b, n, p), i8),
            bounds=np.zeros((b, 2), f8),
            gumbel=np.zeros((b, k), f8),
            considered=np.zeros((b, halving), i8),
            seed=0,
            first=1 + (k if rules.expands_root else 0),
            has_reward=False,
            has_game_over=False,
        )
        self._scratch = np.empty((3, k), f8)
        self._paths = np.zeros((b, 4, p), i8)
        rows = k if rules.expands_root else p
        self._rows = np.zeros((2, b * p), i8)
        self._row_tensors = torch.from_numpy(self._rows[0]), torch.from_numpy(self._rows[1])
        self._selected = -1
        self._child_rows = np.zeros((2, b * rows), i8)
        self._leaves = np.zeros(b, i8)
        self._every_tree = np.arange(b)[:, None]
        self._no_reward, self._no_end = np.zeros(1, np.float32), np.zeros(1, np.bool_)

    def prepare(self, has_reward: bool, has_game_over: bool, seed: int | None = None) -> None:
        """Tells what the model gives.

        Args:
            has_reward: whether it gives rewards.
            has_game_over: whether it tells that a game is over.
            seed: of the random choices; None draws one.
        """
        seed = int(torch.randint(2**31, ())) if seed is None else seed
        self.arrays = self.arrays._replace(seed=seed, has_reward=has_reward, has_game_over=has_game_over)
        # The simulation whose paths are selected; none is.
        self._selected = -1

    def start(
        self,
        prior: Tensor,
        value: Tensor,
        reward: Tensor | None,
        game_over: Tensor | None,
        to_play: Tensor,
        seed: int,
        gumbel: Tensor | None,
        considered: Tensor | None,
    ) -> None:
        """Clears the trees and writes their roots.

        Args:
            prior: float64 [B, K], noise included.
            value: [B].
            reward: [B]; None: the model gives no rewards.
            game_over: [B] bool; None: the model does not tell.
            to_play: [B], 0 or 1.
            seed: of the random choices.
            gumbel: float64 [B, K], see `TreeArrays`.
            considered: int64 [B, S], see `TreeArrays`.
        """
        self.prepare(reward is not None, game_over is not None, seed)
        t = self.arrays
        t.visits[:, 0] = 1.0
        t.game_over[:, 0] = False if game_over is None else game_over.numpy()
        t.reward[:, 0] = 0.0 if reward is None else reward.numpy()
        t.raw_value[:, 0] = np.where(t.game_over[:, 0] & t.has_reward, 0.0, value.numpy())
        t.value_sum[:, 0] = t.raw_value[:, 0]
        t.is_spread[:, 0] = False
        t.to_play[:, 0] = to_play.numpy()
        t.prior[:, 0] = prior.numpy()
        t.child[:, 0] = 0
        t.bounds[:, 0], t.bounds[:, 1] = np.inf, -np.inf
        if gumbel is not None and considered is not None:
            t.gumbel[:], t.considered[:] = gumbel.numpy(), considered.numpy()
        self._scoring.choose_at_roots(t, self.numbers, self._scratch)

    def select(self, simulation: int) -> tuple[Tensor, Tensor]:
        """Walks down all trees.

        Returns:
            int64 [B * P], the stored states to go on from, as node * B + tree; and the choices to take there.
        """
        if simulation != self._selected:
            self._growing.select(self.arrays, self.numbers, simulation, self._paths, self._rows)
        return self._row_tensors

    def expand(
        self, simulation: int, value: Tensor, reward: Tensor | None, game_over: Tensor | None, prior: Tensor
    ) -> None:
        """Adds the leaves that `select` found, float32 [B * P] and [B * P, K], and backs up their values."""
        outputs = self._outputs(value, reward, game_over, prior)
        self._growing.expand(self.arrays, self.numbers, simulation, self._paths, *outputs, self._scratch, self._rows)
        self._selected = simulation + 1

    def select_leaves(self) -> tuple[Tensor, Tensor]:
        """Walks to nodes without children; returns states and choices [B * K] that evaluate all of their children."""
        self._growing.select_leaf(self.arrays, self.numbers, self._leaves, self._child_rows)
        rows = torch.from_numpy(self._child_rows)
        return rows[0], rows[1]

    def expand_children(
        self,
        first: int,
        simulation: int,
        value: Tensor,
        reward: Tensor | None,
        game_over: Tensor | None,
        prior: Tensor,
    ) -> None:
        """Adds all children of the leaves that `select_leaves` found as nodes from `first` on, and backs them up."""
        outputs = self._outputs(value, reward, game_over, prior)
        self._growing.expand_children(
            self.arrays, self.numbers, self._leaves, first, simulation, *outputs, self._scratch
        )

    def _outputs(
        self, value: Tensor, reward: Tensor | None, game_over: Tensor | None, prior: Tensor
    ) -> tuple[Array, Array, Array, Array]:
        return (
            value.numpy(),
            self._no_reward if reward is None else reward.numpy(),
            self._no_end if game_over is None else game_over.numpy(),
            prior.numpy(),
        )

    # What came out.

    def root_visits(self) -> Tensor:
        """float64 [B]."""
        return torch.from_numpy(self.arrays.visits[:, 0].copy())

    def root_values(self) -> Tensor:
        """float64 [B], mean values of the roots."""
        return torch.from_numpy(self.arrays.value_sum[:, 0] / self.arrays.visits[:, 0])

    def child_visits(self) -> Tensor:
        """float64 [B, K], visits of the roots' children; 0 for forbidden ones."""
        return torch.from_numpy(self._of_children(self.arrays.visits))

    def child_rewards(self) -> Tensor:
        """float64 [B, K], rewards of entering the roots' children; 0 where not expanded."""
        return torch.from_numpy(self._of_children(self.arrays.reward))

    def _of_children(self, field: Array) -> Array:
        t = self.arrays
        child = t.child[:, 0]
        there = (child > 0) & (t.prior[:, 0] > 0)
        result: Array = field[self._every_tree, child] * there
        return result

    def root_policies(self) -> Tensor:
        """float64 [B, K], exploration policies of the roots."""
        policy = np.empty_like(self.arrays.gumbel)
        self._scoring.root_policies(self.arrays, self.numbers, policy, self._scratch)
        return torch.from_numpy(policy)

    def root_logits(self) -> Tensor:
        """float64 [B, K], log prior + sigma(completed Q) of the roots' children."""
        logits = np.empty_like(self.arrays.gumbel)
        self._scoring.root_logits(self.arrays, self.numbers, logits)
        return torch.from_numpy(logits)

    def root_gumbel(self) -> Tensor:
        """float64 [B, K], the noise of the roots' actions in a Gumbel root search."""
        return torch.from_numpy(self.arrays.gumbel.copy())
