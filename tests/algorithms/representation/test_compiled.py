"""Compiled updates of agents with a learner of codes are those of the eager ones."""

import logging
from functools import partial

import pytest
import torch

from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.representation import AutoEncoder, DiscreteVAE
from rein.networks.layers import Flatten
from rein.runtime.schedules import ConstantScheduler, Scheduler
from rein.specs import BoundedTensorSpec, TensorSpec
from tests.contract.cases.representation import CASES, LAYERS, agent


def discrete_vae(spec, **arguments):
    encoder = DiscreteVAE(BoundedTensorSpec((4,), torch.int64, 0, 2), spec, LAYERS, **arguments)
    return AutoEncoder(encoder, partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=spec.numel))


def discrete_agent(**arguments):
    """As the agent with a VAE, with categorical variables."""
    return CASES["agent_vae_sac"]._replace(
        arguments=partial(agent, SacAlgorithm, partial(discrete_vae, mode="st-gumbel", **arguments))
    )


AGENTS = {
    **{
        name: CASES[name]
        for name in ("agent_vae_sac", "agent_vq_vae_sac", "agent_monet_sac", "agent_monet_from_seeds_sac")
    },
    "discrete_vae": discrete_agent(gumbel_temp_scheduler=0.5),
}


@pytest.mark.parametrize("name", AGENTS)
def test_compiled_training_is_that_of_eager_updates(name, monkeypatch, caplog):
    # The recorded graph as it is, which needs no C++ compiler.
    monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)
    agents = [AGENTS[name].build(compile=False), AGENTS[name].build(compile=True)]
    with caplog.at_level(logging.INFO):
        for agent in agents:
            torch.manual_seed(1)
            assert sum(agent.train_iter() for _ in range(3)) > 0
    assert "not compiled" not in caplog.text
    assert "is compiled" in caplog.text
    eager, compiled = (dict(agent.named_parameters()) for agent in agents)
    # What the loss does not depend on, such as a number added to all logits, has gradients of rounding errors, and Adam makes
    # steps of full length by them.
    roots = {p: one["exp_avg_sq"].sqrt() for o in agents[0].optimizers() for p, one in o.state.items()}
    smallest = 1e-6 * max(root.max() for root in roots.values())
    moves = {key: roots.get(p, torch.ones(p.shape)) > smallest for key, p in eager.items()}
    assert torch.cat([one.flatten() for one in moves.values()]).float().mean() > 0.5
    for key, parameter in eager.items():
        found, expected = compiled[key][moves[key]], parameter[moves[key]]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, msg=key)


class Falling(Scheduler):
    """A temperature that is half as high each time it is asked for, and needs no run."""

    def __init__(self):
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return 0.5**self.asked

    def final_value(self):
        return 0.0


def test_a_temperature_that_changes_is_not_frozen_by_compilation(monkeypatch, caplog):
    monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)
    schedule = Falling()
    learner = discrete_agent(gumbel_temp_scheduler=schedule).build(compile=True)
    with caplog.at_level(logging.INFO):
        assert sum(learner.train_iter() for _ in range(3)) > 0
    asked = schedule.asked
    assert "has a number that changes with progress" in caplog.text
    learner.train_iter()
    assert schedule.asked > asked


def test_only_temperatures_that_are_used_and_change_keep_an_update_from_being_compiled():
    spec = TensorSpec((3,))
    assert discrete_vae(spec, mode="st-gumbel", gumbel_temp_scheduler=Falling())._encoder.changes_with_progress
    assert not discrete_vae(spec, mode="st", gumbel_temp_scheduler=Falling())._encoder.changes_with_progress
    constant = ConstantScheduler(0.5)
    assert not discrete_vae(spec, mode="st-gumbel", gumbel_temp_scheduler=constant)._encoder.changes_with_progress
