"""Matches of a trained policy against others in games of two, and the ratings that come of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rein import nest
from rein.config import get_config_value, use_configs
from rein.envs import Environment
from rein.envs.boards import BoardGameEnv
from rein.envs.boards.opponents import BOTS, Bot
from rein.runtime.run import Run
from rein.runtime.seeding import spawn_seeds
from rein.training.elo import elo_ratings
from rein.training.policy import Policy, load_policy
from rein.training.prediction import Predictor
from rein.training.run_directory import RunDirectory

AGENT = "agent"
ANCHOR = "random"
_SELF_PLAY = {"opponent": "self", "reward_view": "player_0", "illegal_move": "lose"}


class MatchError(ValueError):
    """There is nobody to play against, or nothing to play."""


class Player(Protocol):
    """Who makes moves in several games side by side."""

    def begin(self) -> None:
        """New games begin."""

    def moves(self, observations: Sequence[Any], games: Sequence[BoardGameEnv], due: NDArray[np.bool_]) -> Any:
        """Moves [N]; only those of games in which this player is due count."""


class BotPlayer:
    """A bot that learns nothing."""

    def __init__(self, bot: Bot, seed: int) -> None:
        """Makes the player.

        Args:
            bot: who moves.
            seed: of what it leaves to chance.
        """
        self._bot, self._rng = bot, np.random.default_rng(seed)

    def begin(self) -> None:
        """Nothing is remembered."""

    def moves(self, observations: Sequence[Any], games: Sequence[BoardGameEnv], due: NDArray[np.bool_]) -> Any:
        """See `Player`."""
        return [self._bot(game, self._rng) if is_due else 0 for game, is_due in zip(games, due, strict=True)]


class PolicyPlayer:
    """A trained policy, which acts as in evaluation."""

    def __init__(self, policy: Policy, action_spec: Any) -> None:
        """Makes the player.

        Args:
            policy: who moves.
            action_spec: of its moves.
        """
        self._predictor = Predictor(policy.algorithm, policy.observation_spec, action_spec, policy.fitted_from)

    def begin(self) -> None:
        """See `Player`."""
        self._predictor.forget()

    def moves(self, observations: Sequence[Any], games: Sequence[BoardGameEnv], due: NDArray[np.bool_]) -> Any:
        """See `Player`."""
        return self._predictor.act(nest.map_structure(lambda *parts: np.stack(parts), *observations))


MakePlayer = Callable[[Any], Player]
"""From the spec of a move to a player."""


class MatchResult(NamedTuple):
    """Games between two, as the first of them sees it."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """How many."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """A win is 1, a draw 1/2."""
        return self.wins + 0.5 * self.draws

    def to_json(self) -> dict[str, Any]:
        """Counts and shares as plain numbers."""
        shares = {"win_rate": self.wins / self.games, "not_lost_rate": (self.wins + self.draws) / self.games}
        return {"games": self.games, "wins": self.wins, "draws": self.draws, "losses": self.losses, **shares}


class Arena:
    """Boards on which players of one game meet; a context manager."""

    def __init__(self, policy: Policy, num_games: int, seed: int) -> None:
        """Sets up the boards.

        Args:
            policy: whose game is played, with its settings.
            num_games: games per match; half of them begin with either player.
            seed: of the boards.
        """
        if num_games < 2:
            raise MatchError(f"a match of {num_games} games is impossible: give at least 2, one for either side")
        self._env: Any = make_boards(policy, (num_games + 1) // 2, seed)
        self._num_games = num_games

    @property
    def action_spec(self) -> Any:
        """Spec of a move."""
        return self._env.action_spec

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *_: object) -> None:
        self._env.close()

    def play(self, first: Player, second: Player) -> MatchResult:
        """A match, in which the players take turns in beginning."""
        half = (self._num_games + 1) // 2
        outcomes = np.concatenate(
            [self._games((first, second), half), -self._games((second, first), self._num_games - half)]
        )
        return MatchResult(int((outcomes > 0).sum()), int((outcomes == 0).sum()), int((outcomes < 0).sum()))

    def _games(self, players: tuple[Player, Player], number: int) -> NDArray[np.float64]:
        """Results of games that the first player begins, as it sees them."""
        worlds = self._env.envs[:number]
        games: list[BoardGameEnv] = [world.unwrapped for world in worlds]
        observations = [world.reset()[0] for world in worlds]
        for player in players:
            player.begin()
        while any(game.outcome() is None for game in games):
            movers = np.array([game.player_to_move() if game.outcome() is None else -1 for game in games])
            for side, player in enumerate(players):
                due = movers == side
                chosen = player.moves(observations, games, due) if due.any() else []
                for i in np.flatnonzero(due):
                    observations[i] = worlds[i].step(int(chosen[i]))[0]
        return np.array([game.outcome() for game in games], np.float64)


def make_boards(policy: Policy, number: int, seed: int) -> Environment:
    """Games of the policy's kind in which every move is made from outside.

    Args:
        policy: whose configuration says which game.
        number: of games.
        seed: of the games.

    Raises:
        MatchError: its environment is no board game.
    """
    policy.require_environment()
    with use_configs(policy.configs):
        name = get_config_value("create_environment.env_name")
        options = {**(get_config_value("create_environment.env_kwargs") or {}), **_SELF_PLAY}
    refusal = MatchError(f"{name} is no game of two players: only agents of board games (boards/...) can play matches")
    if not str(name).startswith("boards/"):
        raise refusal
    env: Any = policy.make_environment(number, seed, backend="sync", env_kwargs=options)
    if not isinstance(env.envs[0].unwrapped, BoardGameEnv):
        env.close()
        raise refusal
    for world, one in zip(env.envs, spawn_seeds(seed, number, "boards"), strict=True):
        world.reset(seed=one)
    return env


def find_opponents(names: Sequence[str], seed: int, is_trusted: bool = False) -> dict[str, MakePlayer]:
    """What makes the named players, given the spec of a move.

    Args:
        names: of bots; or directories of runs, with `@ITERATION` for an earlier checkpoint.
        seed: of the bots.
        is_trusted: whether the configurations of the runs may name any code.
    """
    found: dict[str, MakePlayer] = {}
    for name in names:
        if name in BOTS:
            found[name] = partial(_make_bot, BOTS[name], spawn_seeds(seed, 1, name)[0])
            continue
        path, _, step = name.rpartition("@") if name.rpartition("@")[2].isdigit() else (name, "", "")
        directory = RunDirectory.open(path, is_trusted) if _is_run(path) else None
        if directory is None:
            raise MatchError(f"there is no opponent {name!r}: choose {', '.join(BOTS)}, or RUN or RUN@ITERATION")
        found[name] = partial(PolicyPlayer, load_policy(directory, int(step) if step else None))
    return found


def _make_bot(bot: Bot, seed: int, action_spec: Any) -> BotPlayer:
    return BotPlayer(bot, seed)


def _is_run(path: str) -> bool:
    return (Path(path) / "run.json").exists()


def play_matches(
    policy: Policy, opponents: Mapping[str, MakePlayer], num_games: int, seed: int | None = None
) -> dict[str, Any]:
    """Matches of a policy against each opponent, and of these among each other, with ratings of all.

    Args:
        policy: called "agent" in what is returned.
        opponents: see `find_opponents`.
        num_games: per match.
        seed: chooses other games.

    Returns:
        Plain numbers: `against`, by opponent, and `elo`, by player, with 0 for chance.
    """
    with Arena(policy, num_games, policy.held_out_seed(seed)) as arena, Run(seed=policy.seed):
        players: dict[str, Player] = {AGENT: PolicyPlayer(policy, arena.action_spec)}
        players |= {name: make(arena.action_spec) for name, make in opponents.items()}
        if ANCHOR not in players:
            players[ANCHOR] = BotPlayer(BOTS[ANCHOR], 0)
        results = {pair: arena.play(players[pair[0]], players[pair[1]]) for pair in combinations(players, 2)}
    ratings = elo_ratings(
        {pair: result.points for pair, result in results.items()},
        {pair: result.games for pair, result in results.items()},
        ANCHOR,
    )
    against = {name: results[AGENT, name].to_json() for name in opponents}
    return {"against": against, "elo": {name: round(rating) for name, rating in ratings.items()}}
