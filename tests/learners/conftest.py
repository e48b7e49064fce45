"""Actors with one weight per network, batches of two rows, and actors of Rein's networks."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.learners.batches import ACT, DONE, DONE2, OBS, OBS2, REW, RHS, RHS2


class LineActor(nn.Module):
    """mu(s) = w s and Q_i(s, a) = u_i s + v_i a; for a discrete action Q_i(s, k) = u_i s + v_i k and logits w s k."""

    is_recurrent = False

    def __init__(self, discrete: bool = False) -> None:
        super().__init__()
        self.action_space: Any = (
            SimpleNamespace(n=2) if discrete else SimpleNamespace(low=[-2.0], high=[2.0], shape=(1,))
        )
        self.policy_net, self.q1, self.q2 = nn.Module(), nn.Module(), nn.Module()
        self.policy_net.w = nn.Parameter(torch.tensor(0.5))
        for critic, (u, v) in zip((self.q1, self.q2), ((1.0, 2.0), (1.5, 1.0)), strict=True):
            critic.u, critic.v = nn.Parameter(torch.tensor(u)), nn.Parameter(torch.tensor(v))

    def get_action(self, obs: Tensor, rhs: Any, done: Tensor, deterministic: bool = False) -> Any:
        if hasattr(self.action_space, "n"):
            dist: Any = torch.distributions.Categorical(logits=torch.cat([0 * obs, self.policy_net.w * obs], -1))
            action = dist.probs.argmax(-1) if deterministic else dist.sample()
            return action.unsqueeze(-1), action.unsqueeze(-1), dist.log_prob(action).unsqueeze(-1), rhs, 0.0, dist
        dist = torch.distributions.Normal(self.policy_net.w * obs, 0.5)
        action = dist.loc if deterministic else dist.loc + 0.1
        return action, action.clamp(-2, 2), dist.log_prob(action), rhs, 0.0, dist

    def get_q_scores(self, obs: Tensor, rhs: Any, done: Tensor, actions: Tensor | None = None) -> dict[str, Any]:
        arms = torch.arange(2.0) if actions is None else actions
        return {name: getattr(self, name).u * obs + getattr(self, name).v * arms for name in ("q1", "q2")} | {
            "rhs": rhs
        }


@pytest.fixture
def line_actor() -> type[LineActor]:
    return LineActor


@pytest.fixture
def two_rows() -> dict[str, Any]:
    """Rows: s = 1, a = 0.3, r = 1, s' = 2, goes on; s = -1, a = 0.5, r = 2, s' = 0, ends."""
    return {
        OBS: torch.tensor([[1.0], [-1.0]]),
        RHS: {"rhs_act": torch.zeros(2, 1)},
        DONE: torch.zeros(2, 1),
        ACT: torch.tensor([[0.3], [0.5]]),
        REW: torch.tensor([[1.0], [2.0]]),
        OBS2: torch.tensor([[2.0], [0.0]]),
        RHS2: {"rhs_act": torch.zeros(2, 1)},
        DONE2: torch.tensor([[0.0], [1.0]]),
    }


@pytest.fixture
def two_choices(two_rows: dict[str, Any]) -> dict[str, Any]:
    """The same rows with the discrete actions 1 and 0."""
    return {**two_rows, ACT: torch.tensor([[1.0], [0.0]])}
