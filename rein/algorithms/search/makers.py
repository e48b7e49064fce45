"""Searches with the settings of the MuZero paper."""

from typing import Any

from rein.algorithms.search.mcts import MCTSAlgorithm
from rein.algorithms.search.temperatures import VisitSoftmaxTemperatureByMoves, VisitSoftmaxTemperatureByProgress
from rein.config import configurable
from rein.nest import Nest

_PAPER = {"root_exploration_fraction": 0.25, "pb_c_init": 1.25, "pb_c_base": 19652}


@configurable
def create_atari_mcts(
    observation_spec: Nest,
    action_spec: Nest,
    discount: float = 0.997,
    debug_summaries: bool = False,
    name: str = "MCTSAlgorithm",
    **overrides: Any,
) -> MCTSAlgorithm:
    """A search for Atari games.

    Args:
        observation_spec: specs of the observation.
        action_spec: bounded spec of the action.
        discount: of rewards, per step.
        debug_summaries: write more summaries.
        name: name in summaries.
        **overrides: other arguments of `MCTSAlgorithm`.
    """
    return create_control_mcts(
        observation_spec, action_spec, discount=discount, debug_summaries=debug_summaries, name=name, **overrides
    )


@configurable
def create_control_mcts(
    observation_spec: Nest,
    action_spec: Nest,
    num_simulations: int = 50,
    discount: float = 0.997,
    debug_summaries: bool = False,
    name: str = "MCTSAlgorithm",
    **overrides: Any,
) -> MCTSAlgorithm:
    """A search for control tasks.

    Args:
        observation_spec: specs of the observation.
        action_spec: bounded spec of the action.
        num_simulations: evaluations of the model per search.
        discount: of rewards, per step.
        debug_summaries: write more summaries.
        name: name in summaries.
        **overrides: other arguments of `MCTSAlgorithm`.
    """
    settings: dict[str, Any] = {
        **_PAPER,
        "root_dirichlet_alpha": 0.25,
        "is_two_player_game": False,
        "visit_softmax_temperature_fn": VisitSoftmaxTemperatureByProgress(),
        **overrides,
    }
    return MCTSAlgorithm(
        observation_spec=observation_spec,
        action_spec=action_spec,
        num_simulations=num_simulations,
        discount=discount,
        debug_summaries=debug_summaries,
        name=name,
        **settings,
    )


@configurable
def create_board_game_mcts(
    observation_spec: Nest,
    action_spec: Nest,
    dirichlet_alpha: float,
    pb_c_init: float = 1.25,
    num_simulations: int = 800,
    debug_summaries: bool = False,
    discount: float = 1.0,
    name: str = "MCTSAlgorithm",
    **overrides: Any,
) -> MCTSAlgorithm:
    """A search for board games of two players, with rewards of -1, 0 and 1 at the end.

    Args:
        observation_spec: specs of the observation.
        action_spec: bounded spec of the action.
        dirichlet_alpha: of the noise at the root; the paper has 0.03 for Go, 0.3 for chess and 0.15 for shogi.
        pb_c_init: weight of the prior.
        num_simulations: evaluations of the model per search.
        debug_summaries: write more summaries.
        discount: of rewards, per step.
        name: name in summaries.
        **overrides: other arguments of `MCTSAlgorithm`.
    """
    settings: dict[str, Any] = {
        **_PAPER,
        "is_two_player_game": True,
        "known_value_bounds": (-1.0, 1.0),
        "visit_softmax_temperature_fn": VisitSoftmaxTemperatureByMoves([(29, 1.0), (10000, 1e-10)]),
        **overrides,
    }
    settings["pb_c_init"] = pb_c_init
    return MCTSAlgorithm(
        observation_spec=observation_spec,
        action_spec=action_spec,
        num_simulations=num_simulations,
        root_dirichlet_alpha=dirichlet_alpha,
        discount=discount,
        debug_summaries=debug_summaries,
        name=name,
        **settings,
    )
