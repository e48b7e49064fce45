from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm, PPOAlgorithm, TracAlgorithm
from rein.algorithms.on_policy.trac import distance
from rein.distributions import Categorical, Deterministic, DiagNormal
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.optimizers import SGD

RECURRENT: dict[str, Any] = dict(
    actor_network_ctor=partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
    value_network_ctor=partial(ValueRNNNetwork, lstm_hidden_size=8),
)
FRESH = dict(unroll_length=6, mini_batch_length=3, mini_batch_size=4, num_updates_per_train_iter=2)


def trac(make: Any, actions: str, lr: float, clip: float = 0.01, on_policy: bool = True, **arguments: Any) -> Any:
    cls: Any = ActorCriticAlgorithm if on_policy else partial(PPOAlgorithm, loss_class=PPOLoss)
    settings = dict(unroll_length=6) if on_policy else FRESH
    inner = partial(cls, optimizer=SGD(lr=lr), **arguments)
    return make(TracAlgorithm, actions, settings, ac_algorithm_cls=inner, action_dist_clip_per_dim=clip)


def watch(alg: Any) -> list[Any]:
    """For each update: parameters before and as the optimizer left them, and what the adjustment did."""
    records: list[Any] = []
    calc_loss, after_update = alg.calc_loss, alg.after_update

    def calc(info: Any) -> Any:
        records.append({"before": [p.detach().clone() for p in alg.parameters()]})
        return calc_loss(info)

    def after(root_inputs: Any, info: Any) -> None:
        record = records[-1]
        record["full"] = [p.detach().clone() for p in alg.parameters()]
        adjust = alg._trusted_updater.adjust_step
        alg._trusted_updater.adjust_step = lambda *a: record.update(adjustment=adjust(*a)) or record["adjustment"]
        after_update(root_inputs, info)
        alg._trusted_updater.adjust_step = adjust
        record["after"] = [p.detach().clone() for p in alg.parameters()]
        with torch.no_grad():
            new = alg._action_distributions(root_inputs, _experience(root_inputs, info))
        pairs = zip(nest.flatten(info.action_distribution), nest.flatten(new), strict=True)
        record["distance"] = [distance(old, now).mean().item() for old, now in pairs]

    alg.calc_loss, alg.after_update = calc, after
    return records


def _experience(root_inputs: Any, info: Any) -> Any:
    from rein.algorithms.on_policy.trac import TracExperience

    return TracExperience(observation=info.observation, step_type=root_inputs.step_type, state=info.state)


@pytest.mark.parametrize("on_policy", [True, False], ids=["a2c", "ppo"])
@pytest.mark.parametrize("networks", [{}, RECURRENT], ids=["plain", "recurrent"])
@pytest.mark.parametrize(("actions", "limits"), [("discrete", [0.01]), ("continuous", [0.02]), ("mixed", [0.01, 0.02])])
def test_a_huge_learning_rate_cannot_move_the_policy_far(
    make: Any, actions: str, limits: list[float], networks: Any, on_policy: bool
) -> None:
    alg = trac(make, actions, lr=10.0, on_policy=on_policy, **networks)
    records = watch(alg)
    for _ in range(2):
        alg.train_iter()
    assert len(records) == (2 if on_policy else 4)
    assert any(record["adjustment"].num_shrinks > 0 for record in records)
    for record in records:
        assert all(d <= limit * 1.001 for d, limit in zip(record["distance"], limits, strict=True)), record["distance"]


def test_parameters_lie_on_the_way_from_old_to_new(make: Any) -> None:
    alg = trac(make, "discrete", lr=10.0)
    records = watch(alg)
    alg.train_iter()
    (record,) = records
    fraction = record["adjustment"].fraction
    assert 0 < fraction < 1
    for old, full, new in zip(record["before"], record["full"], record["after"], strict=True):
        assert torch.allclose(new, old + fraction * (full - old), atol=1e-5)


def test_a_small_step_is_not_touched(make: Any) -> None:
    alg = trac(make, "mixed", lr=1e-5)
    records = watch(alg)
    alg.train_iter()
    (record,) = records
    assert record["adjustment"].num_shrinks == 0
    assert all(torch.equal(a, b) for a, b in zip(record["full"], record["after"], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(record["before"], record["after"], strict=True))


def test_the_limit_is_per_dimension(make: Any) -> None:
    alg = trac(make, "mixed", lr=1e-3, clip=0.3)
    assert nest.flatten(alg._limits) == pytest.approx([0.3, 0.6])
    with pytest.raises(ValueError, match="it must be positive"):
        trac(make, "mixed", lr=1e-3, clip=0.0)


def test_loaded_parameters_are_what_the_next_update_starts_from(make: Any) -> None:
    first, second = trac(make, "discrete", lr=10.0), trac(make, "discrete", lr=10.0)
    first.train_iter()
    state = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in first.state_dict().items()}
    second.train_iter()
    second.train_iter()
    second.load_state_dict(state)
    records = watch(second)
    second.train_iter()
    weights = [v for k, v in state.items() if isinstance(v, torch.Tensor)]
    assert all(torch.equal(a, b) for a, b in zip(records[0]["before"], weights, strict=True))
    assert records[0]["distance"][0] <= 0.01001


def test_the_loss_does_not_change_what_is_trusted(make: Any) -> None:
    alg = trac(make, "discrete", lr=1e-3)
    infos = []
    calc_loss = alg.calc_loss
    alg.calc_loss = lambda info: (infos.append(info), calc_loss(info))[1]
    alg.train_iter()
    trusted = [tensor.clone() for tensor in alg._trusted_updater._trusted]
    with torch.no_grad():
        for parameter in alg.parameters():
            parameter.add_(1.0)
    calc_loss(infos[0])
    assert all(torch.equal(a, b) for a, b in zip(trusted, alg._trusted_updater._trusted, strict=True))


def test_weights_of_a_vector_reward_reach_the_actor_critic(make: Any) -> None:
    inner = partial(ActorCriticAlgorithm, optimizer=SGD(lr=0.1), reward_weights=[1.0, 3.0])
    alg = make(TracAlgorithm, "discrete", dict(unroll_length=4), reward_dim=2, ac_algorithm_cls=inner)
    assert alg.unroll(4).rollout_info.ac.reward_weights[0, 0].tolist() == [1.0, 3.0]
    assert alg.reward_weights.tolist() == [1.0, 3.0]
    alg.set_reward_weights(torch.tensor([0.0, 2.0]))
    assert alg.unroll(4).rollout_info.ac.reward_weights[0, 0].tolist() == [0.0, 2.0]
    alg.train_iter()


def test_distances_by_hand() -> None:
    a, b = Categorical(logits=torch.tensor([[[0.0, 0.0]]])), Categorical(logits=torch.tensor([[[0.0, 2.0]]]))
    shift = (a.logits - b.logits).square().sum().item()
    assert distance(a, b).item() == pytest.approx(shift)
    one, two = Deterministic(torch.zeros(1, 1, 2)), Deterministic(torch.full((1, 1, 2), 3.0))
    assert distance(one, two).item() == pytest.approx(18.0)
    first = DiagNormal(torch.zeros(1, 1, 2), torch.ones(1, 1, 2))
    second = DiagNormal(torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    # KL of unit Gaussians is half the squared distance of their means, in both directions.
    assert distance(first, second).item() == pytest.approx(2.0)
