"""Self-play of ordinary policies: one network plays both sides of a zero-sum game of two, each from its own point of view.

What comes after a move is the other's turn, and what is good for the other is bad for the one who moved. So the value of a
position to the one who moves there is `r - gamma V(next)`: the return of any algorithm here if the discount of a step
is -1 in the place of 1: one rule for actor-critics, Q-learning (minimax-Q of turns, Littman 1994) and all others.
"""

import torch

from rein.config import configurable
from rein.data_structures import StepType, TimeStep
from rein.nest import Nest
from rein.transforms.base import SimpleDataTransformer

__all__ = ["SelfPlayTransformer"]


@configurable
class SelfPlayTransformer(SimpleDataTransformer):
    """Shows the positions of `BoardGameEnv` to the one who moves as its own.

    Where player 1 is to move, the planes of stones change places, so that those of the one who moves come first. Rewards,
    which the game gives for player 0, become those of the one who made the move. Discounts change their sign, see above.
    """

    def __init__(self, observation_spec: Nest) -> None:
        """Checks that the observation is that of a board.

        Args:
            observation_spec: with `board` [planes, rows, columns], `steps` and `to_play`.
        """
        super().__init__(observation_spec)
        missing = {"board", "steps", "to_play"} - set(observation_spec if isinstance(observation_spec, dict) else ())
        if missing:
            raise ValueError(
                f"SelfPlayTransformer needs observations of a board game, but they lack {', '.join(sorted(missing))}: use a "
                "world of the board interface (rein.envs.boards)"
            )
        self._has_stones = observation_spec["board"].shape[0] == 3

    def _transform(self, time_step: TimeStep) -> TimeStep:
        observation = dict(time_step.observation)
        if self._has_stones:
            board = observation["board"]
            is_second = (observation["to_play"] == 1).reshape(*board.shape[:-3], 1, 1, 1)
            swapped = torch.cat([board[..., 1:2, :, :], board[..., :1, :, :], board[..., 2:, :, :]], -3)
            observation["board"] = torch.where(is_second, swapped, board)
        moved_first = observation["steps"] % 2 == 1  # an odd number of moves was made: the last by player 0
        reward = torch.where(moved_first, time_step.reward, -time_step.reward)
        discount = torch.where(time_step.step_type == StepType.FIRST, time_step.discount, -time_step.discount)
        return time_step._replace(observation=observation, reward=reward, discount=discount)
