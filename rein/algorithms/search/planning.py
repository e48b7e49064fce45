"""One search: the model is called once per simulation for all trees, the trees do the rest.

States of the model stay beside the trees, as one tensor [N * B, ...] per leaf of the nest, row `node * B + tree`: what a
simulation adds is a block of rows, and what it goes on from is one gather.
"""

from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.search.compiled_tree import CompiledTree
from rein.algorithms.search.host_model import HostProgram
from rein.algorithms.search.host_search import HostFound, HostRoots, HostWork
from rein.algorithms.search.model_structures import ModelOutput
from rein.algorithms.search.rules import SearchRules
from rein.algorithms.search.torch_tree import TorchTree
from rein.nest import Nest

Backend = Literal["auto", "host", "compiled", "torch"]
Tree = CompiledTree | TorchTree


class PlanningModel(Protocol):
    """What a search needs of a model."""

    def recurrent_inference(self, state: Any, action: Any) -> ModelOutput:
        """Predicts what follows `action` [B, ...] in `state`, a nest of tensors [B, ...]."""


class Root(NamedTuple):
    """Where a search starts."""

    output: ModelOutput
    """Of `initial_predict`."""
    prior: Tensor
    """float64 [B, K], masked and with noise."""
    to_play: Tensor
    """int64 [B], 0 or 1."""
    gumbel: Tensor | None = None
    """float64 [B, K], for a Gumbel root search: the noise, minus infinity for actions not considered."""
    considered: Tensor | None = None
    """int64 [B, S], for a Gumbel root search: `halving_visits` of the number of considered actions."""


class Planner:
    """Searches under fixed rules; keeps the trees of the last batch shape for the next search."""

    def __init__(self, rules: SearchRules, backend: Backend = "auto") -> None:
        """Makes the planner.

        Args:
            rules: of the search.
            backend: "torch" for plain torch; "compiled" for compiled loops; "host" for these with the model in them;
                "auto" is the fastest that is possible.
        """
        self.rules = rules
        self.backend = backend
        self._trees: dict[tuple[Any, ...], Tree] = {}
        self._work: HostWork | None = None

    @property
    def last_tree(self) -> Tree | None:
        """The trees of the last search, until the next one."""
        return next(iter(self._trees.values()), None)

    @torch.no_grad()
    def search(self, model: PlanningModel, root: Root) -> Tree:
        """Grows trees from roots; returns them, to be read before the next search.

        Args:
            model: called from the states in `root.output`.
            root: [B, ...].
        """
        batch, branches = root.prior.shape
        tree = self._tree(batch, branches, root.prior.device)
        output = root.output
        tree.start(
            root.prior,
            output.value,
            _or_none(output.reward),
            _or_none(output.game_over),
            root.to_play,
            int(torch.randint(2**31, ())),
            root.gumbel,
            root.considered,
        )
        program = self.program(model, output.value) if output.actions == () else None
        if program is None and self.backend == "host":
            raise ValueError("this search cannot run on the host alone: use backend='auto'")
        if program is not None and isinstance(tree, CompiledTree):
            self._host_work(tree, program).grow(program, output.state.state)
        else:
            _Growth(self.rules, tree, model, output, batch, branches).run()
        return tree

    def search_latents(self, program: HostProgram, roots: HostRoots) -> HostFound | None:
        """A whole search with a model on the host; see `HostWork.search`."""
        tree = self._tree(len(roots.latent), program.num_actions, torch.device("cpu"))
        assert isinstance(tree, CompiledTree)
        return self._host_work(tree, program).search(program, roots)

    def _host_work(self, tree: CompiledTree, program: HostProgram) -> HostWork:
        work = self._work
        if work is None or work.tree is not tree or work.sizes != (program.latent_size, program.memory_size):
            work = self._work = HostWork(tree, program)
        return work

    def _tree(self, batch: int, branches: int, device: torch.device) -> Tree:
        key = (batch, branches, device)
        tree = self._trees.get(key)
        if tree is None:
            if self.backend in ("host", "compiled") and device.type != "cpu":
                raise ValueError(
                    f"the {self.backend} search runs on the CPU, but the model is on {device}: use 'torch'"
                )
            if device.type != "cpu" or self.backend == "torch":
                tree = TorchTree(self.rules, batch, branches, device)
            else:
                tree = CompiledTree(self.rules, batch, branches)
            self._trees = {key: tree}
        return tree

    def program(self, model: PlanningModel, like: Tensor) -> HostProgram | None:
        """The model for searches on the host, None where there are none.

        Args:
            model: may have the method `host_program`.
            like: [B, ...], any tensor of the roots.
        """
        give = getattr(model, "host_program", None)
        if give is None or self.backend not in ("auto", "host") or self.rules.expands_root or not like.is_cpu:
            return None
        program: HostProgram | None = give(len(like))
        return program


class _Growth:
    """The simulations of one search with a model in torch."""

    def __init__(
        self, rules: SearchRules, tree: Tree, model: PlanningModel, output: ModelOutput, batch: int, branches: int
    ) -> None:
        self._rules, self._tree, self._model = rules, tree, model
        self._batch, self._branches = batch, branches
        self._structure = nest.structure_of(output.state)
        self._has_actions = not nest.is_empty(output.actions)
        rows = rules.num_nodes(branches) * batch
        leaves = self._stored_leaves(output)
        self._stores = [leaf.new_empty(rows, *leaf.shape[1:]) for leaf in leaves]
        self._put(leaves, 0, 1)

    def run(self) -> None:
        rules, branches = self._rules, self._branches
        first = 1
        if rules.expands_root:
            self._expand_children(first, 0)
            first += branches
        parallel = rules.num_parallel_sims
        for simulation in range(rules.num_rounds):
            if rules.expand_all_children:
                self._expand_children(first + simulation * branches, simulation + 1)
                continue
            output = self._evaluate(*self._tree.select(simulation))
            self._put(self._stored_leaves(output), first + simulation * parallel, parallel)
            self._tree.expand(simulation, *_for_tree(output))

    def _expand_children(self, first: int, simulation: int) -> None:
        output = self._evaluate(*self._tree.select_leaves())
        self._put(self._stored_leaves(output), first, self._branches)
        self._tree.expand_children(first, simulation, *_for_tree(output))

    def _evaluate(self, rows: Tensor, choice: Tensor) -> ModelOutput:
        """What the model says after choices [R] in stored states [R]."""
        leaves = [store.index_select(0, rows) for store in self._stores]
        action: Any = choice
        if self._has_actions:
            index = torch.arange(len(choice), device=choice.device)
            action = leaves.pop()[index, choice]
        return self._model.recurrent_inference(self._structure.unflatten(leaves), action)

    def _stored_leaves(self, output: ModelOutput) -> list[Tensor]:
        leaves: list[Tensor] = nest.flatten(output.state)
        return [*leaves, output.actions] if self._has_actions else leaves  # type: ignore[list-item]

    def _put(self, leaves: list[Tensor], node: int, per_tree: int) -> None:
        """Stores rows of `per_tree` nodes of each tree, [B * per_tree, ...], as the nodes from `node` on."""
        batch = self._batch
        for store, leaf in zip(self._stores, leaves, strict=True):
            block = store[node * batch : (node + per_tree) * batch]
            if per_tree == 1:
                block.copy_(leaf)
            else:
                shape = leaf.shape[1:]
                block.view(per_tree, batch, *shape).copy_(leaf.view(batch, per_tree, *shape).transpose(0, 1))


def _for_tree(output: ModelOutput) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
    reward, game_over = _or_none(output.reward), _or_none(output.game_over)
    return (
        _plain(output.value),
        None if reward is None else _plain(reward),
        None if game_over is None else game_over.contiguous(),
        _plain(output.action_probs),
    )


def _plain(tensor: Tensor) -> Tensor:
    """`tensor` as the compiled loops expect it."""
    if tensor.dtype is not torch.float32:
        tensor = tensor.to(torch.float32)
    return tensor.contiguous()


def _or_none(field: Nest) -> Tensor | None:
    return field if isinstance(field, Tensor) else None
