"""What every learner promises: gradients without side effects, steps without data, weights that travel."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rein.learners import DDPG, DDQN, MPO, SAC, TD3, NetworkActor
from rein.learners.batches import ACT, DONE, DONE2, OBS, OBS2, REW, RHS, RHS2
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    ActorNetwork,
    CriticNetwork,
    CriticRNNNetwork,
    QNetwork,
)
from rein.runtime import LinearScheduler, Run
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION, ACTION = TensorSpec((3,)), BoundedTensorSpec((2,), minimum=-1, maximum=2)
CHOICE = BoundedTensorSpec((), torch.int64, 0, 3)

KINDS = [("DDQN", True), ("DDPG", False), ("TD3", False), ("SAC", False), ("SAC", True), ("MPO", False), ("MPO", True)]
CLASSES: dict[str, Any] = {"DDQN": DDQN, "DDPG": DDPG, "TD3": TD3, "SAC": SAC, "MPO": MPO}
SMALL: dict[str, Any] = {"fc_layer_params": (8,)}


def make_actor(kind: str, discrete: bool) -> NetworkActor:
    torch.manual_seed(0)
    spec = CHOICE if discrete else ACTION
    critic: Any = (
        (lambda: QNetwork(OBSERVATION, CHOICE, **SMALL))
        if discrete
        else (lambda: CriticNetwork((OBSERVATION, ACTION), joint_fc_layer_params=(8,)))
    )
    policy = {"DDQN": None, "DDPG": ActorNetwork, "TD3": ActorNetwork}.get(kind, ActorDistributionNetwork)
    return NetworkActor(
        spec, critic(), critic() if kind in ("TD3", "SAC") else None, policy and policy(OBSERVATION, spec, **SMALL)
    )


def make_learner(kind: str, discrete: bool, **settings: Any) -> Any:
    settings = {"polyak": 0.9, "max_grad_norm": 1e6, **settings}
    if kind == "MPO":
        settings.setdefault("sample_action_num", 5)
    return CLASSES[kind]("cpu", None, make_actor(kind, discrete), **settings)


def make_batch(discrete: bool, size: int = 6, seed: int = 1) -> dict[str, Any]:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    action = torch.randint(4, (size, 1), generator=random).float() if discrete else normal(size, 2).clamp(-1, 2)
    rhs = {name: torch.zeros(size, 1) for name in ("rhs_act", "rhs_q1", "rhs_q2")}
    return {
        OBS: normal(size, 3),
        RHS: rhs,
        DONE: torch.zeros(size, 1),
        ACT: action,
        REW: normal(size, 1),
        OBS2: normal(size, 3),
        RHS2: dict(rhs),
        DONE2: (torch.arange(size) % 3 == 0).float().reshape(-1, 1),
    }


def parameters(learner: Any) -> list[torch.Tensor]:
    return [one.detach().clone() for one in learner.actor.parameters()]


def equal(ones: Any, others: Any, tolerance: float = 0.0) -> bool:
    return all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in zip(ones, others, strict=True))


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_gradients_change_neither_parameters_nor_batch(kind: str, discrete: bool) -> None:
    learner, batch = make_learner(kind, discrete), make_batch(discrete)
    before, kept, targets = parameters(learner), copy.deepcopy(batch), copy.deepcopy(learner.actor_targets.state_dict())
    learner.compute_gradients(batch)
    assert equal(before, parameters(learner))
    assert equal(targets.values(), learner.actor_targets.state_dict().values())
    assert learner.iter == 0
    assert batch.keys() == kept.keys()
    assert all(torch.equal(batch[key], kept[key]) for key in (OBS, DONE, ACT, REW, OBS2, DONE2))


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_gradients_as_arrays_and_in_place_make_the_same_step(kind: str, discrete: bool) -> None:
    learners = [make_learner(kind, discrete) for _ in range(3)]
    for learner, to_cpu in zip(learners, (True, False, True), strict=True):
        torch.manual_seed(5)
        grads, info = learner.compute_gradients(make_batch(discrete), grads_to_cpu=to_cpu)
        flat = grads if isinstance(grads, list) else [one for group in grads.values() for one in group]
        assert {type(one) for one in flat if one is not None} == {np.ndarray if to_cpu else torch.Tensor}
        assert "errors" not in info
        learner.apply_gradients(None if learner is learners[2] else pickle.loads(pickle.dumps(grads)))
        assert learner.iter == 1
    assert not equal(parameters(make_learner(kind, discrete)), parameters(learners[0]))
    assert equal(parameters(learners[0]), parameters(learners[1]))
    assert equal(parameters(learners[0]), parameters(learners[2]))


@pytest.mark.parametrize(("kind", "discrete"), [("DDQN", True), ("DDPG", False), ("SAC", True)])
def test_the_mean_of_two_halves_is_the_gradient_of_the_whole(kind: str, discrete: bool) -> None:
    learner, batch = make_learner(kind, discrete), make_batch(discrete)

    def cut(value: Any, rows: slice) -> Any:
        return {k: cut(v, rows) for k, v in value.items()} if isinstance(value, dict) else value[rows]

    def flat(rows: slice) -> list[Any]:
        grads, _ = learner.compute_gradients(cut(batch, rows))
        return grads if isinstance(grads, list) else [one for name in sorted(grads) for one in grads[name]]

    whole, first, second = flat(slice(0, 6)), flat(slice(0, 3)), flat(slice(3, 6))
    for one, a, b in zip(whole, first, second, strict=True):
        assert (one is None) == (a is None)
        if one is not None:
            np.testing.assert_allclose(one, (a + b) / 2, atol=1e-6)


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
@pytest.mark.parametrize("interval", [1, 2])
def test_receiving_every_version_keeps_targets_and_epsilon_as_stepping_does(
    kind: str, discrete: bool, interval: float
) -> None:
    learner = make_learner(kind, discrete, target_update_interval=interval)
    replica = make_learner(kind, discrete, target_update_interval=interval)
    bare = make_learner(kind, discrete, target_update_interval=interval)
    for seed in range(5):
        learner.compute_gradients(make_batch(discrete, seed=seed))
        learner.apply_gradients()
        replica.set_weights(learner.get_weights())
        bare.set_weights({name: value.numpy() for name, value in learner.actor.state_dict().items()})
    for other in (replica, bare):
        assert other.iter == 5
        assert equal(learner.actor_targets.state_dict().values(), other.actor_targets.state_dict().values())
        assert getattr(other, "epsilon", 0) == getattr(learner, "epsilon", 0)
    if kind == "SAC":
        assert replica.log_alpha.item() == learner.log_alpha.item() != 0.0


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_weights_to_begin_with_are_not_an_update(kind: str, discrete: bool) -> None:
    learner, replica = make_learner(kind, discrete), make_learner(kind, discrete)
    learner.compute_gradients(make_batch(discrete))
    learner.apply_gradients()
    replica.load_weights(learner.get_weights())
    assert replica.iter == 0
    assert equal(parameters(learner), parameters(replica))


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_a_restored_learner_goes_on_as_the_saved_one(kind: str, discrete: bool) -> None:
    learner, other = make_learner(kind, discrete), make_learner(kind, discrete, polyak=0.9)
    learner.compute_gradients(make_batch(discrete))
    learner.apply_gradients()
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    for one in (learner, other):
        torch.manual_seed(3)
        one.compute_gradients(make_batch(discrete, seed=2))
        one.apply_gradients()
    assert equal(parameters(learner), parameters(other))
    assert equal(learner.actor_targets.parameters(), other.actor_targets.parameters())


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_acting_gives_actions_within_bounds_and_no_gradient(kind: str, discrete: bool) -> None:
    learner = make_learner(kind, discrete)
    rhs = learner.actor.initial_rhs(4)
    action, clipped, _, other = learner.acting_step(torch.randn(4, 3), rhs, torch.ones(4, 1))
    assert action.shape == ((4, 1) if discrete else (4, 2))
    assert other == {}
    assert not clipped.requires_grad
    if not discrete:
        assert (clipped >= -1).all()
        assert (clipped <= 2).all()
    same = [learner.acting_step(torch.ones(4, 3), rhs, torch.ones(4, 1), deterministic=True)[0] for _ in range(2)]
    assert torch.equal(*same)


def test_ddqn_explores_in_each_environment_by_itself_and_decays_to_a_twentieth() -> None:
    learner = make_learner("DDQN", True, epsilon_decay=0.999)
    torch.manual_seed(0)
    actions, *_ = learner.acting_step(torch.ones(400, 3), learner.actor.initial_rhs(400), torch.zeros(400, 1))
    assert set(actions.flatten().tolist()) == {0, 1, 2, 3}
    for _ in range(2994):
        learner._after_update()
    assert learner.epsilon > 0.05
    for _ in range(2):
        learner._after_update()
    assert learner.epsilon == 0.05


def test_errors_come_with_weights_and_info_has_the_documented_keys() -> None:
    keys = {
        "DDQN": {"loss_q", "epsilon"},
        "DDPG": {"loss_q1", "loss_pi"},
        "TD3": {"loss_q1", "loss_q2", "loss_pi"},
        "SAC": {"loss_q1", "loss_q2", "loss_pi", "loss_alpha", "alpha"},
        "MPO": {"loss_q", "loss_pi"},
    }
    for kind, discrete in KINDS:
        batch = {**make_batch(discrete), "per_weights": torch.rand(6, 1), "n_step": 2}
        _, info = make_learner(kind, discrete).compute_gradients(batch)
        assert set(info) == keys[kind] | {"errors"}
        assert info["errors"].shape == (6, 1)
        assert (info["errors"] >= 0).all()
        assert all(isinstance(info[name], float) for name in keys[kind])


def test_td3_moves_policy_and_targets_in_the_first_of_every_d_updates() -> None:
    learner = make_learner("TD3", False, target_update_interval=2)
    moved = []
    for seed in range(4):
        policy, target = copy.deepcopy(learner.actor.policy_net), copy.deepcopy(learner.actor_targets)
        grads, info = learner.compute_gradients(make_batch(False, seed=seed))
        assert "loss_pi" in info
        learner.apply_gradients(grads)
        is_moved = not equal(policy.parameters(), learner.actor.policy_net.parameters())
        assert is_moved == ("pi_grads" in grads) == (not equal(target.parameters(), learner.actor_targets.parameters()))
        moved.append(is_moved)
    assert moved == [True, False, True, False]


def test_gradients_are_clipped_for_critics_and_policy_apart() -> None:
    grads, _ = make_learner("SAC", False, max_grad_norm=1e-3).compute_gradients(make_batch(False))
    for group in ("q_grads", "pi_grads"):
        norm = sum(float((one**2).sum()) for one in grads[group]) ** 0.5
        assert norm == pytest.approx(1e-3, rel=1e-2)


class Pull:
    """Adds the squared first parameter of the policy."""

    def setup(self, actor: Any, device: Any) -> None:
        self.parameter = next(iter((actor.policy_net or actor.q1).parameters()))

    def compute_loss_term(self, batch: Any, dist: Any, info: dict[str, Any]) -> Any:
        term = self.parameter.square().sum()
        return term, {**info, "pull": term.item()}


@pytest.mark.parametrize(("kind", "discrete"), KINDS)
def test_add_ons_add_to_the_loss_and_report(kind: str, discrete: bool) -> None:
    torch.manual_seed(0)
    plain, _ = make_learner(kind, discrete).compute_gradients(make_batch(discrete))
    torch.manual_seed(0)
    learner = make_learner(kind, discrete, policy_loss_addons=Pull())
    pulled, info = learner.compute_gradients(make_batch(discrete))
    assert info["pull"] > 0
    first = 2 * next(iter((learner.actor.policy_net or learner.actor.q1).parameters())).detach().numpy()
    plain, pulled = (one if kind == "DDQN" else one["pi_grads"] for one in (plain, pulled))
    if discrete:  # nothing random enters the loss
        np.testing.assert_allclose(pulled[0] - plain[0], first, atol=1e-5)


def test_factories_have_defaults_of_their_own_and_travel() -> None:
    make, name = TD3.create_factory(lr_q=1e-3)
    assert name == "TD3"
    learner = pickle.loads(pickle.dumps(make))("cpu", make_actor("TD3", False), None)
    assert (learner.mini_batch_size, learner.num_mini_batch, learner.start_steps, learner.test_every) == (
        100,
        50,
        1000,
        5000,
    )
    assert learner.optimizers["q_grads"].param_groups[0]["lr"] == 1e-3
    assert make_learner("TD3", False).start_steps == 20000
    with pytest.raises(TypeError, match="alpha"):
        MPO.create_factory(alpha=1.0)


def test_parameters_can_be_changed_by_name(caplog: Any) -> None:
    learner = make_learner("SAC", False)
    learner.update_algorithm_parameter("lr", 0.5)
    assert all(one.param_groups[0]["lr"] == 0.5 for one in learner.optimizers.values())
    learner.update_algorithm_parameter("lr_q", 0.25)
    assert [one.param_groups[0]["lr"] for one in learner.optimizers.values()] == [0.25, 0.5, 0.5]
    for name, value in {"gamma": 0.5, "num_mini_batch": 7, "update_every": 3, "polyak": 0.25}.items():
        learner.update_algorithm_parameter(name, value)
        assert getattr(learner, name) == value
    learner.update_algorithm_parameter("no_such", 1)
    assert "no_such" in caplog.text


def test_learning_rates_may_change_with_the_progress_of_the_run() -> None:
    falling = LinearScheduler("percent", ((0.0, 1e-2), (1.0, 0.0)))
    learner = make_learner("SAC", False, lr_q=falling, lr_pi=1e-3)
    critics, policy = (learner.optimizers[name].param_groups[0] for name in ("q_grads", "pi_grads"))
    batch = make_batch(False)
    with Run() as run:
        for progress, rate in ((0.25, 7.5e-3), (1.0, 0.0)):
            run.progress = progress
            learner.compute_gradients(batch)
            before = [one.detach().clone() for one in learner.actor.q1.parameters()]
            learner.apply_gradients()
            assert (critics["lr"], policy["lr"]) == (pytest.approx(rate), 1e-3)
            moved = any(not torch.equal(*pair) for pair in zip(before, learner.actor.q1.parameters(), strict=True))
            assert moved == (rate > 0.0)
        learner.update_algorithm_parameter("lr_q", 0.5)
        learner.apply_gradients()
    assert critics["lr"] == 0.5


def test_what_cannot_be_is_refused_at_once(caplog: Any) -> None:
    with pytest.raises(ValueError, match="q2"):
        TD3("cpu", None, make_actor("DDPG", False))
    with pytest.raises(ValueError, match="polyak"):
        make_learner("DDPG", False, polyak=1.5)
    with pytest.raises(ValueError, match="Reward"):
        make_learner("DDPG", False).compute_gradients({OBS: torch.zeros(1, 3)})
    with pytest.raises(ValueError, match="3 gradients"):
        make_learner("DDQN", True).apply_gradients([None] * 3)
    MPO("cpu", None, make_actor("MPO", False))
    assert "never move" in caplog.text


@pytest.mark.parametrize("kind", ["SAC", "MPO"])
def test_recurrent_actors_warm_up_on_the_first_half_of_sequences(kind: str) -> None:
    torch.manual_seed(0)
    small: Any = {"lstm_hidden_size": (4,), "fc_layer_params": ()}
    critics = [
        CriticRNNNetwork((OBSERVATION, ACTION), joint_fc_layer_params=(4,), lstm_hidden_size=(4,)) for _ in range(2)
    ]
    actor = NetworkActor(ACTION, *critics, ActorDistributionRNNNetwork(OBSERVATION, ACTION, **small))
    learner = CLASSES[kind]("cpu", None, actor, polyak=0.9, **({"sample_action_num": 3} if kind == "MPO" else {}))
    batch = make_batch(False, size=12)
    batch = {**batch, RHS: actor.initial_rhs(3), RHS2: actor.initial_rhs(3), "per_weights": torch.ones(12, 1)}
    before = nn.utils.parameters_to_vector(actor.parameters())
    _, info = learner.compute_gradients(batch)
    assert info["errors"].shape == (6, 1)
    learner.apply_gradients()
    assert not torch.equal(before, nn.utils.parameters_to_vector(actor.parameters()))
    # What happens before a restart in the warm-up does not matter, and what happens after it does.
    restart = {**batch, DONE: torch.tensor([0.0, 1, 0, 0] * 3).reshape(-1, 1), DONE2: torch.zeros(12, 1)}
    restart[DONE2] = restart[DONE].clone()

    def errors(row: int) -> torch.Tensor:
        changed = {**restart, OBS: restart[OBS].clone(), OBS2: restart[OBS2].clone()}
        changed[OBS][row::4] += 1
        torch.manual_seed(0)
        return learner.compute_loss_q(changed)[-1]

    torch.manual_seed(0)
    same = learner.compute_loss_q(restart)[-1]
    assert torch.equal(errors(0), same)
    assert not torch.equal(errors(1), same)
