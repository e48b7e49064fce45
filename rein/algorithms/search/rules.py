"""The rules of a search: what `MCTSAlgorithm` is told, checked, and in the numbers that all backends read."""

from dataclasses import dataclass
from typing import NamedTuple

UNEXPANDED_KINDS = ("number", "max", "min", "mean", "mean_with_parent", "none")
UCB, EXPLORATION_POLICY, GUMBEL = 0, 1, 2
REVERSE_KL, FORWARD_KL = 0, 1


class Numbers(NamedTuple):
    """`SearchRules` as plain numbers, for compiled code; each field always has the same type."""

    discount: float
    pb_c_init: float
    pb_c_base: float
    parent_visits_less: float
    """Taken off a parent's visits in the UCB score."""
    unexpanded_kind: int
    """Index into `UNEXPANDED_KINDS`."""
    unexpanded_value: float
    tie_eps: float
    selection: int
    """`UCB`, `EXPLORATION_POLICY` or `GUMBEL`."""
    policy_type: int
    """`REVERSE_KL` or `FORWARD_KL`."""
    has_bounds: bool
    low: float
    high: float
    min_delta: float
    max_depth: int
    is_two_player: bool
    gumbel_visit: float
    gumbel_scale: float


@dataclass(frozen=True)
class SearchRules:
    """What is fixed of a search; the names are those of `MCTSAlgorithm`."""

    num_simulations: int
    discount: float
    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    is_two_player_game: bool = False
    num_parallel_sims: int = 1
    expand_all_children: bool = False
    expand_all_root_children: bool = False
    known_value_bounds: tuple[float, float] | None = None
    value_min_max_delta: float = 1e-30
    ucb_break_tie_eps: float = 0.0
    ucb_parent_visit_count_minus_one: bool = False
    unexpanded_value_score: float | str = 0.5
    search_with_exploration_policy: bool = False
    exploration_policy_type: str = "rkl"
    max_unroll_length: int = 1000000
    gumbel_actions: int | None = None
    """Actions that the root considers at the start of sequential halving; None searches without Gumbel noise."""
    gumbel_visit: float = 50.0
    gumbel_scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuses what cannot be searched."""
        _check_counts(self)
        kinds = UNEXPANDED_KINDS[1:]
        if isinstance(self.unexpanded_value_score, str) and self.unexpanded_value_score not in kinds:
            raise ValueError(
                f"unexpanded_value_score is {self.unexpanded_value_score!r}: give a number or one of {kinds}"
            )
        if self.exploration_policy_type not in ("rkl", "kl"):
            raise ValueError(f"exploration_policy_type is {self.exploration_policy_type!r}: choose 'rkl' or 'kl'")
        bounds = self.known_value_bounds
        if bounds is not None and not bounds[0] < bounds[1]:
            raise ValueError(f"known_value_bounds is {bounds}: the first must be below the second")
        if not self.value_min_max_delta > 0:
            raise ValueError(f"value_min_max_delta is {self.value_min_max_delta}: it must be positive")
        if not 0.0 <= self.discount <= 1.0:
            raise ValueError(f"discount is {self.discount}: it must be from 0 to 1")
        if self.gumbel_actions is not None:
            _check_gumbel(self, self.gumbel_actions)

    @property
    def num_rounds(self) -> int:
        """Calls of the model after the root, without those that expand all of its children."""
        return self.num_simulations // self.num_parallel_sims

    @property
    def expands_root(self) -> bool:
        """Whether all children of the root are expanded before the first simulation."""
        return self.expand_all_children or self.expand_all_root_children

    def num_nodes(self, branch_factor: int) -> int:
        """Nodes that a tree can have."""
        if self.expand_all_children:
            return (self.num_simulations + 1) * branch_factor + 1
        return self.num_simulations + 1 + (branch_factor if self.expand_all_root_children else 0)

    def numbers(self) -> Numbers:
        """The rules for compiled code."""
        score = self.unexpanded_value_score
        low, high = (0.0, 1.0) if self.known_value_bounds is None else self.known_value_bounds
        selection = EXPLORATION_POLICY if self.search_with_exploration_policy else UCB
        return Numbers(
            discount=float(self.discount),
            pb_c_init=float(self.pb_c_init),
            pb_c_base=float(self.pb_c_base),
            parent_visits_less=1.0 if self.ucb_parent_visit_count_minus_one else 0.0,
            unexpanded_kind=UNEXPANDED_KINDS.index(score) if isinstance(score, str) else 0,
            unexpanded_value=0.0 if isinstance(score, str) else float(score),
            tie_eps=float(self.ucb_break_tie_eps),
            selection=selection if self.gumbel_actions is None else GUMBEL,
            policy_type=FORWARD_KL if self.exploration_policy_type == "kl" else REVERSE_KL,
            has_bounds=self.known_value_bounds is not None,
            low=float(low),
            high=float(high),
            min_delta=float(self.value_min_max_delta),
            max_depth=int(self.max_unroll_length),
            is_two_player=bool(self.is_two_player_game),
            gumbel_visit=float(self.gumbel_visit),
            gumbel_scale=float(self.gumbel_scale),
        )


def _check_counts(rules: SearchRules) -> None:
    simulations, parallel = rules.num_simulations, rules.num_parallel_sims
    if simulations < 1 or parallel < 1:
        raise ValueError(
            f"num_simulations is {simulations} and num_parallel_sims {parallel}: both must be at least 1; without a search "
            "there is no policy"
        )
    if simulations % parallel:
        nearest = max(parallel, round(simulations / parallel) * parallel)
        raise ValueError(
            f"num_simulations={simulations} is not divisible by num_parallel_sims={parallel}: use num_simulations={nearest}"
        )
    if parallel > 1 and rules.expand_all_children:
        raise ValueError("expand_all_children expands one leaf at a time: set num_parallel_sims=1")
    if rules.max_unroll_length < 1:
        raise ValueError(f"max_unroll_length is {rules.max_unroll_length}: it must be at least 1")


def _check_gumbel(rules: SearchRules, considered: int) -> None:
    if considered < 1:
        raise ValueError(f"the root considers {considered} actions: give at least 1")
    if rules.num_parallel_sims > 1 or rules.expands_root or rules.search_with_exploration_policy:
        raise ValueError(
            "a Gumbel root search tries one action after the other: set num_parallel_sims=1, expand_all_children=False, "
            "expand_all_root_children=False and search_with_exploration_policy=False"
        )
