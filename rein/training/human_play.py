"""A person plays a board game against a trained policy, in text."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from rein import nest
from rein.envs.boards import BoardGameEnv
from rein.runtime.run import Run
from rein.training.matches import make_boards
from rein.training.policy import Policy
from rein.training.prediction import Predictor

_QUIT = ("quit", "q", "exit")


class HumanGames(NamedTuple):
    """Results as the person sees them."""

    won: int = 0
    drawn: int = 0
    lost: int = 0
    moves: int = 0
    """Of the person."""

    def to_json(self) -> dict[str, Any]:
        """As plain numbers."""
        return self._asdict()


def play_by_hand(
    policy: Policy,
    side: int,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    num_games: int = 1,
    seed: int | None = None,
) -> HumanGames:
    """Plays games, until all are played or the person stops.

    Args:
        policy: against whom.
        side: the person is player 0, who begins, or 1, in the first game; then they take turns.
        ask: shows a question and returns the answer; raises EOFError at the end of input.
        say: shows text.
        num_games: how many.
        seed: chooses other games, where chance plays a part.

    Raises:
        MatchError: the policy plays no board game.
    """
    results = HumanGames()
    with make_boards(policy, 1, policy.held_out_seed(seed)) as env, Run(seed=policy.seed):
        say("Moves are named as in the picture; `quit` ends the game. x begins.")
        for number in range(num_games):
            world: Any = env.envs[0]  # type: ignore[attr-defined]
            game = _Game(policy, env.action_spec, world, (side + number) % 2, ask, say)
            outcome, moves = game.play()
            results = results._replace(moves=results.moves + moves)
            if outcome is None:
                break
            kind = {1.0: "won", 0.0: "drawn", -1.0: "lost"}[outcome]
            results = results._replace(**{kind: getattr(results, kind) + 1})
    return results


class _Game:
    """One game."""

    def __init__(
        self,
        policy: Policy,
        action_spec: Any,
        world: Any,
        side: int,
        ask: Callable[[str], str],
        say: Callable[[str], None],
    ) -> None:
        self._policy, self._side = policy, side
        self._predictor = Predictor(policy.algorithm, policy.observation_spec, action_spec, policy.fitted_from)
        self._world, self._ask, self._say = world, ask, say
        self._board: BoardGameEnv = world.unwrapped
        self._notation = self._board.notation()

    def play(self) -> tuple[float | None, int]:
        """The result for the person, None if they stopped; and how often they moved."""
        observation = self._world.reset()[0]
        self._say(f"You are {'xo'[self._side]}.")
        moves = 0
        while self._board.outcome() is None:
            if self._board.player_to_move() == self._side:
                self._say(self._board.text())
                move = self._asked()
                if move is None:
                    self._say("stopped")
                    return None, moves
                moves += 1
            else:
                move = self._answer(observation)
            observation = self._world.step(move)[0]
        self._say(self._board.text())
        outcome = self._board.outcome()
        assert outcome is not None
        points = outcome if self._side == 0 else -outcome
        self._say({1.0: "You have won.", 0.0: "A draw.", -1.0: "You have lost."}[points])
        return points, moves

    def _asked(self) -> int | None:
        """A legal move; None to stop."""
        while True:
            try:
                text = self._ask("your move: ")
            except EOFError:
                return None
            if text.strip().lower() in _QUIT:
                return None
            try:
                return self._notation.move(text, self._board.legal_moves())
            except ValueError as error:
                self._say(str(error))

    def _answer(self, observation: Any) -> int:
        move = int(self._predictor.act(nest.map_structure(lambda part: np.asarray(part)[None], observation))[0])
        tree = getattr(self._policy.algorithm, "last_tree", None)
        if tree is not None:
            visits = tree.child_visits()[0].round().to(torch.int64).tolist()
            counts = {at: visits[at] for at in self._board.legal_moves()}
            value = float(tree.root_values()[0])
            self._say(
                f"visits of the search, value {value if self._side == 1 else -value:+.2f} for the agent:\n"
                f"{self._notation.draw_counts(counts)}"
            )
        self._say(f"the agent plays {self._notation.name(move)}")
        return move
