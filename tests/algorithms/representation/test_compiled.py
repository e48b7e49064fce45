"""Compiled updates of agents with a learner of codes are those of the eager ones."""

import logging

import pytest
import torch

from tests.contract.cases.representation import CASES


@pytest.mark.parametrize("name", ["agent_vae_sac", "agent_vq_vae_sac", "agent_monet_sac"])
def test_compiled_training_is_that_of_eager_updates(name, monkeypatch, caplog):
    # The recorded graph as it is, which needs no C++ compiler.
    monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)
    agents = [CASES[name].build(compile=False), CASES[name].build(compile=True)]
    with caplog.at_level(logging.INFO):
        for agent in agents:
            torch.manual_seed(1)
            assert sum(agent.train_iter() for _ in range(3)) > 0
    assert "not compiled" not in caplog.text
    assert "is compiled" in caplog.text
    eager, compiled = (dict(agent.named_parameters()) for agent in agents)
    for key, parameter in eager.items():
        torch.testing.assert_close(compiled[key], parameter, rtol=1e-3, atol=1e-4, msg=key)
