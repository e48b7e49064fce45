"""Tic-tac-toe with a perfect model: never lost to chance, and the best move in fifty positions."""

import functools

import pytest
import torch
from search_worlds import LINES, TicTacToeModel, board

from rein.algorithms.search import EpsilonGreedySampler, SearchRoot, create_board_game_mcts
from rein.data_structures import StepType, TimeStep
from rein.networks import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

# All positions are reached by play; x, who is player 0, has begun.
HAND_MADE = [
    "xx./oo./...",
    "x.x/oo./...",
    "x../x.o/.o.",
    ".x./.xo/..o",
    "x.o/.xo/...",
    "..x/.x./oo.",
    "xox/.x./o.o",
    "xo./ox./...",
    "o.x/o.x/...",
    ".ox/.ox/...",
    "oo./x../.x.",
    "x.o/..o/x..",
    ".o./.o./x.x",
    "o../xo./x..",
    "..o/.ox/x..",
    "xox/o../.x.",
    "o.o/x../..x",
    ".../oo./x.x",
    "x../oox/x..",
    "x.o/xo./...",
    "xx./.o./...",
    "x../xo./...",
    ".x./.x./o..",
    "x../.x./..o",
    "..x/.xo/...",
    "xxo/.../...",
    ".../xx./.o.",
    "x../.../xo.",
    "o.x/..x/...",
    ".../.ox/..x",
    "oox/.x./...",
    "oo./xx./..x",
    "ox./ox./..x",
    "xo./xo./..x",
    "..o/xxo/..x",
    "oxx/.o./x..",
    "x.x/oo./.x.",
    "o.x/.ox/x..",
    "xxo/.o./..x",
    "xox/.o./..x",
    "x../.../...",
    ".x./.../...",
    "..x/.../...",
    ".../x../...",
    ".../.x./...",
    ".../..x/...",
    ".../.../x..",
    ".../.../.x.",
    ".../.../..x",
    ".../.../...",
]


def winner(cells):
    for player in (1, 2):
        if any(all(cells[i] == player for i in line) for line in LINES.tolist()):
            return 3 - 2 * player
    return 0 if all(cells) else None


@functools.cache
def value(cells):
    """What player 0 gets if both play perfectly."""
    known = winner(cells)
    if known is not None:
        return known
    outcomes = [value(after(cells, move)) for move in moves(cells)]
    return max(outcomes) if sum(c > 0 for c in cells) % 2 == 0 else min(outcomes)


def moves(cells):
    return [i for i in range(9) if cells[i] == 0]


def after(cells, move):
    player = 1 + sum(c > 0 for c in cells) % 2
    return (*cells[:move], player, *cells[move + 1 :])


def best_moves(cells):
    return [move for move in moves(cells) if value(after(cells, move)) == value(cells)]


@functools.cache
def table():
    """The value of each position, by the number that its cells are in base 3; 0 for those that are never reached."""
    values, waiting, seen = torch.zeros(3**9), [(0,) * 9], set()
    while waiting:
        cells = waiting.pop()
        if cells not in seen:
            seen.add(cells)
            values[sum(c * 3**i for i, c in enumerate(cells))] = value(cells)
            waiting += [after(cells, move) for move in moves(cells)] if winner(cells) is None else []
    return values


class PerfectModel(TicTacToeModel):
    """Knows the rules, and what each position is worth."""

    def _output(self, cells, reward, game_over):
        worth = table()[(cells * 3 ** torch.arange(9)).sum(1)]
        return super()._output(cells, reward, game_over)._replace(value=worth)


class PlayoutModel(TicTacToeModel):
    """Knows the rules, and values a position by random games from there."""

    games = 8

    def _output(self, cells, reward, game_over):
        boards = cells.repeat_interleave(self.games, 0)
        going = ~game_over.repeat_interleave(self.games)
        result = torch.zeros(len(boards))
        while bool(going.any()):
            player = 1 + (boards > 0).sum(1, keepdim=True) % 2
            free = (boards == 0) | ~going.unsqueeze(1)
            moved = boards.scatter(1, torch.multinomial(free.float(), 1), player)
            boards = torch.where(going.unsqueeze(1), moved, boards)
            won = (boards == player)[:, LINES].all(2).any(1) & going
            result = torch.where(won, 3.0 - 2.0 * player.squeeze(1), result)
            going &= ~won & (boards == 0).any(1)
        return super()._output(cells, reward, game_over)._replace(value=result.view(-1, self.games).mean(1))


def search(cells, model, simulations, **options):
    """Moves [B] at positions [B, 9]."""
    algorithm = create_board_game_mcts(
        TensorSpec((9,), torch.int64),
        BoundedTensorSpec((), torch.int64, 0, 8),
        0.3,
        num_simulations=simulations,
        root_exploration_fraction=0.0,
        model=model,
        predict_action_sampler=EpsilonGreedySampler(0.0),
        **options,
    )
    played = (cells > 0).sum(1)
    step = TimeStep(
        step_type=torch.full((len(cells),), StepType.MID, dtype=torch.int32),
        observation=SearchRoot(cells, steps=played, to_play=played % 2),
    )
    return algorithm.predict_step(step, zero_state(algorithm.predict_state_spec, len(cells))).output


def test_the_positions_are_fifty_different_ones_that_go_on():
    positions = [tuple(board(text).tolist()) for text in HAND_MADE]
    assert len(set(positions)) == len(positions) == 50
    for cells in positions:
        assert winner(cells) is None
        assert 0 <= cells.count(1) - cells.count(2) <= 1


# By the rules alone, with nothing known of positions, the search must see the end of games itself.
RULES = {"pb_c_init": 0.25, "discount": 0.9}


@pytest.mark.parametrize(
    ("model", "simulations", "options"),
    [
        (PerfectModel(), 200, {}),
        (PerfectModel(), 200, {"num_parallel_sims": 4}),
        (PerfectModel(), 200, {"gumbel_actions": 9}),
        (PlayoutModel(), 200, {}),
        (TicTacToeModel(), 1800, RULES),
        (TicTacToeModel(), 1800, {**RULES, "num_parallel_sims": 4}),
    ],
)
def test_the_best_move_in_fifty_positions(model, simulations, options):
    torch.manual_seed(0)
    cells = torch.stack([board(text) for text in HAND_MADE])
    chosen = search(cells, model, simulations, **options).tolist()
    wrong = {
        text: move
        for text, move, position in zip(HAND_MADE, chosen, cells.tolist(), strict=True)
        if move not in best_moves(tuple(position))
    }
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "simulations", "settings"), [(PerfectModel(), 200, {}), (TicTacToeModel(), 1800, RULES)]
)
def test_a_thousand_games_against_chance_are_never_lost(model, simulations, settings):
    torch.manual_seed(0)
    games = torch.zeros(1000, 9, dtype=torch.int64)
    side = torch.arange(1000) % 2  # the search begins in half of the games
    results = torch.full((1000,), 9)
    for turn in range(9):
        going = (results == 9).nonzero().flatten()
        searched = going[side[going] == turn % 2]
        if len(searched):
            moves_found = search(games[searched], model, simulations, **settings)
            games[searched] = games[searched].scatter(1, moves_found.unsqueeze(1), 1 + turn % 2)
        chance = going[side[going] != turn % 2]
        if len(chance):
            drawn = torch.multinomial((games[chance] == 0).float(), 1)
            games[chance] = games[chance].scatter(1, drawn, 1 + turn % 2)
        for game in going.tolist():
            outcome = winner(tuple(games[game].tolist()))
            if outcome is not None:
                results[game] = outcome
    points = torch.where(side == 0, results, -results)
    assert (points == -1).sum() == 0
    assert (points == 1).float().mean() > 0.9
