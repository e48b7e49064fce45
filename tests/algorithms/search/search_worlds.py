"""Models of tree search for tests: random ones, and small games whose rules are known."""

import torch

from rein.algorithms.search.model_structures import ModelOutput, ModelState
from rein.runtime.summary import SummaryWriter


class ScalarsInMemory(SummaryWriter):
    """Keeps the last number of each summary."""

    def __init__(self):
        self.last = {}

    def scalar(self, name, value, step):
        self.last[name] = value


class RandomModel:
    """A fixed random function of latent and action, in double precision so that all batch sizes give the same numbers."""

    def __init__(self, seed, actions=4, latent=5, rewards=True, ends=True, illegal=False, sampled=False):
        generator = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
        self.actions, self.rewards, self.ends, self.illegal, self.sampled = actions, rewards, ends, illegal, sampled
        self.action_size = 2 if sampled else actions
        self.dynamics, self.heads = draw(latent + self.action_size, latent), draw(latent, actions + 3)
        self.candidates = draw(latent, actions * 2)
        self.latent = latent

    def roots(self, batch, seed):
        return torch.randn(batch, self.latent, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def initial_predict(self, latent, pred_state=()):
        heads = (latent.unsqueeze(-1) * self.heads).sum(1)
        logits = heads[:, : self.actions]
        if self.illegal:
            logits = torch.where((heads[:, -1:] > 0) & (torch.arange(self.actions) == 1), -torch.inf, logits)
        actions = ()
        if self.sampled:
            actions = (latent.unsqueeze(-1) * self.candidates).sum(1).tanh().view(-1, self.actions, 2)
        return ModelOutput(
            value=heads[:, -3].tanh().float(),
            reward=(0.5 * heads[:, -2].tanh()).float() if self.rewards else (),
            game_over=heads[:, -1] > 3.0 if self.ends else (),
            actions=actions,
            action_probs=logits.softmax(-1).float(),
            state=ModelState(state=latent),
        )

    def recurrent_inference(self, state, action):
        if not self.sampled:
            action = torch.nn.functional.one_hot(action, self.actions).double()
        latent = (torch.cat([state.state, action], 1).unsqueeze(-1) * self.dynamics).sum(1).tanh()
        return self.initial_predict(latent)


class Game:
    """A model by rules: `play(state, action)` returns the next state, the reward and whether the game is over."""

    def __init__(self, actions, play, prior=None):
        self.actions, self.play = actions, play
        self.prior = torch.full((actions,), 1 / actions) if prior is None else torch.tensor(prior)
        self.calls = 0

    def initial_predict(self, latent, pred_state=()):
        zeros = torch.zeros(len(latent))
        return self._output(latent, zeros, zeros.bool())

    def recurrent_inference(self, state, action):
        self.calls += 1
        assert not state.step.bool().any(), "a state after the end was unrolled"
        outcomes = [self.play(tuple(s.tolist()), int(a)) for s, a in zip(state.state, action, strict=True)]
        latent = torch.tensor([s for s, _, _ in outcomes])
        return self._output(
            latent, torch.tensor([float(r) for _, r, _ in outcomes]), torch.tensor([o for *_, o in outcomes])
        )

    def _output(self, latent, reward, game_over):
        return ModelOutput(
            value=torch.zeros(len(latent)),
            reward=reward,
            game_over=game_over,
            action_probs=self.prior.expand(len(latent), -1),
            state=ModelState(state=latent, step=game_over.long()),
        )


def bandit(rewards, prior=None):
    """One action, then the game is over."""
    return Game(len(rewards), lambda state, action: ((1,), rewards[action], True), prior)


def delayed():
    """Action 0 pays 1 and ends; action 1 pays nothing, then anything pays 3 and ends."""

    def play(state, action):
        if state[0] == 1:
            return (2,), 3.0, True
        return ((2,), 1.0, True) if action == 0 else ((1,), 0.0, False)

    return Game(2, play, [0.5, 0.5])


def matrix(rows):
    """Player 0 picks a row, player 1 a column; the entry is paid to player 0."""

    def play(state, action):
        if state[0] < 0:
            return (action,), 0.0, False
        return (state[0],), rows[state[0]][action], True

    return Game(2, play)


LINES = torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])


class TicTacToeModel:
    """The rules of tic-tac-toe: cells are 0, 1 (x, player 0) or 2 (o, player 1); value 0, uniform legal priors."""

    pred_state_spec = ()

    def initial_predict(self, latent, pred_state=()):
        cells = latent.reshape(len(latent), 9).long()
        return self._output(cells, torch.zeros(len(cells)), torch.zeros(len(cells), dtype=torch.bool))

    def recurrent_inference(self, state, action):
        cells = state.state
        player = 1 + (cells > 0).sum(1) % 2
        rows = torch.arange(len(cells))
        illegal = cells[rows, action] > 0
        cells = cells.clone()
        cells[rows, action] = player
        own = cells == player.unsqueeze(1)
        won = own[:, LINES].all(2).any(1) & ~illegal
        sign = 3.0 - 2.0 * player
        reward = torch.where(illegal, -sign, torch.where(won, sign, 0.0))
        return self._output(cells, reward, illegal | won | (cells > 0).all(1))

    def _output(self, cells, reward, game_over):
        free = (cells == 0).float()
        return ModelOutput(
            value=torch.zeros(len(cells)),
            reward=reward,
            game_over=game_over,
            action_probs=free / free.sum(1, keepdim=True).clamp_min(1),
            state=ModelState(state=cells),
        )


def board(text):
    """Cells [9] of a position such as "x.o/.x./..o"."""
    return torch.tensor([".xo".index(mark) for mark in text.replace("/", "")])
