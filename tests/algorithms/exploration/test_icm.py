import math

import pytest
import torch

from rein import nest
from rein.algorithms.exploration import ICMAlgorithm
from rein.algorithms.exploration.icm import ICMState
from rein.framework.steps import steps_in_order
from rein.networks import EncodingNetwork
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

CONTINUOUS = BoundedTensorSpec((1,), torch.float32, -1, 1)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 1)


@pytest.fixture
def by_hand(networks):
    """phi(s) = 2 s, f(phi, a) = phi + a, g(phi, phi') = -phi + phi'."""

    def make(**arguments):
        spec = TensorSpec((1,))
        return ICMAlgorithm(
            CONTINUOUS,
            encoding_net=networks.scaled(spec, 2.0),
            forward_net=networks.of_first(1.0, (1, 1)),
            inverse_net=networks.of_first(-1.0, (1, 1)),
            **arguments,
        )

    return make


def test_losses_by_hand(by_hand, step):
    icm = by_hand()
    state = ICMState(torch.tensor([[1.0], [5.0]]), torch.ones(2))
    inputs = step(torch.tensor([[2.0], [3.0]]), torch.tensor([[0.5], [-1.0]]))
    result = icm.train_step(inputs, state)
    # phi' = 4, 6; predictions 1.5, 4; guesses 3, 1
    assert result.info.forward_loss.tolist() == [2.5**2, 2.0**2]
    assert result.info.inverse_loss.tolist() == [2.5**2, 2.0**2]
    assert result.state.feature.tolist() == [[4.0], [6.0]]
    loss = icm.calc_loss(nest.batch_nested_tensor(result.info))
    assert loss.scalar_loss.item() == pytest.approx(2 * (6.25 + 4.0) / 2)
    loss.scalar_loss.backward()
    # forward trains f only: d/dw of (w phi + a - phi')^2 = 2 (w phi + a - phi') phi, at w = 1: 2 (-2.5) 1, 2 (-2) 5
    assert icm._forward_net.weight.grad.item() == pytest.approx((-5.0 - 20.0) / 2)
    # inverse trains phi: d/du of (phi' - phi - a)^2 with phi' = u s and phi fixed here = 2 (guess - a) s
    assert icm._encoding_net.weight.grad.item() == pytest.approx((2 * 2.5 * 2 + 2 * 2.0 * 3) / 2)


def test_the_reward_is_the_normalized_forward_error(by_hand, step):
    icm = by_hand()
    state = ICMState(torch.tensor([[1.0], [5.0], [0.0]]), torch.tensor([1.0, 1.0, 0.0]))
    inputs = step(torch.tensor([[2.0], [3.0], [9.0]]), torch.tensor([[0.5], [-1.0], [0.0]]))
    result = icm.rollout_step(inputs, state)
    # errors 6.25 and 4: mean 5.125, deviation 1.125; the third has no observation before it
    assert result.output.tolist() == pytest.approx([1.0, -1.0, 0.0])
    assert result.info == ()
    assert result.state.is_known.tolist() == [1.0, 1.0, 1.0]


def test_first_steps_have_neither_reward_nor_loss(by_hand, step):
    icm = by_hand()
    icm.set_on_policy(True)
    state = ICMState(torch.tensor([[1.0], [1.0]]), torch.ones(2))
    inputs = step(torch.tensor([[2.0], [2.0]]), torch.tensor([[0.5], [0.5]]), step_type=[0, 2])
    result = icm.rollout_step(inputs, state)
    assert result.output[0].item() == 0.0
    assert result.info.is_valid.tolist() == [0.0, 1.0]
    loss = icm.calc_loss(nest.batch_nested_tensor(result.info))
    assert loss.scalar_loss.item() == pytest.approx(6.25 + 6.25)  # the LAST step counts, alone


def test_discrete_actions_are_guessed_by_cross_entropy(networks, step):
    icm = ICMAlgorithm(
        DISCRETE,
        encoding_net=networks.scaled(TensorSpec((2,)), 1.0),
        forward_net=networks.of_first(1.0, (2, 2)),
        inverse_net=networks.of_first(0.0, (2, 2)),
    )
    state = ICMState(torch.zeros(1, 2), torch.ones(1))
    inputs = step(torch.tensor([[3.0, 0.0]]), torch.tensor([1]))
    info = icm.train_step(inputs, state).info
    # both logits are 3, so that -log g = log 2; the code of action 1 is [0, 1], whose first element f adds
    assert info.inverse_loss.item() == pytest.approx(math.log(2))
    assert info.forward_loss.item() == pytest.approx(9.0)


def test_any_nest_of_actions():
    torch.manual_seed(0)
    spec = {
        "a": BoundedTensorSpec((2,), torch.int64, [0, 1], [1, 3]),
        "b": BoundedTensorSpec((2,), torch.float32, -1, 1),
        "c": BoundedTensorSpec((), torch.int64, 2, 3),
    }
    icm = ICMAlgorithm(spec, TensorSpec((4,)), hidden_size=(8, 8))
    code = icm._action_code
    assert code.size == (2 + 3) + 2 + 2
    action = {"a": torch.tensor([[1, 3]]), "b": torch.tensor([[0.5, -0.5]]), "c": torch.tensor([2])}
    assert code.encode(action).tolist() == [[0, 1, 0, 0, 1, 0.5, -0.5, 1, 0]]
    guess = torch.tensor([[0.0, 0, 0, 0, 0, 1.5, -0.5, 0, 0]])
    assert code.error(guess, action).item() == pytest.approx(math.log(2) + math.log(3) + 1.0 + math.log(2))


def assert_same(found, expected):
    """The same losses where they count."""
    assert torch.equal(found.is_valid, expected.is_valid)
    for part in ("forward_loss", "inverse_loss"):
        valid = found.is_valid > 0
        torch.testing.assert_close(getattr(found, part)[valid], getattr(expected, part)[valid])


@pytest.mark.parametrize("has_state", [False, True])
def test_sequences_equal_single_steps(step, has_state):
    torch.manual_seed(0)
    icm = ICMAlgorithm(DISCRETE, hidden_size=8, encoding_net=EncodingNetwork(TensorSpec((3,)), fc_layer_params=(4,)))
    step_type = torch.tensor([[1, 1, 2, 0, 1], [0, 1, 1, 1, 1]], dtype=torch.int32)
    inputs = step(torch.randn(2, 5, 3), torch.randint(2, (2, 5)), step_type=step_type.tolist())
    state = zero_state(icm.train_state_spec, 2)
    if has_state:
        state = ICMState(torch.randn(2, 4), torch.ones(2))
    expected = steps_in_order(icm.train_step, inputs, state, ()).info
    found = icm.train_recurrent_sequences(inputs, state)
    assert_same(found, expected)
    assert found.is_valid[:, 0].tolist() == [float(has_state), 1, 1, 0, 1]
    if not has_state:
        assert_same(icm.train_sequences(inputs, ()), expected)


def test_features_must_be_vectors():
    with pytest.raises(ValueError, match="give an encoding_net"):
        ICMAlgorithm(DISCRETE, TensorSpec((3, 8, 8)))
    with pytest.raises(ValueError, match="give an encoding_net"):
        ICMAlgorithm(DISCRETE)
    with pytest.raises(ValueError, match="give a BoundedTensorSpec"):
        ICMAlgorithm(TensorSpec((1,), torch.int64), TensorSpec((3,)))


def test_continuous_actions_need_no_bounds():
    spec = {"a": TensorSpec((2,)), "b": DISCRETE}
    icm = ICMAlgorithm(spec, TensorSpec((3,)), hidden_size=8)
    action = {"a": torch.tensor([[5.0, -7.0]]), "b": torch.tensor([1])}
    assert icm._action_code.encode(action).tolist() == [[5.0, -7.0, 0.0, 1.0]]
    guess = torch.tensor([[4.0, -7.0, 0.0, 0.0]])
    assert icm._action_code.error(guess, action).item() == pytest.approx(1.0 + math.log(2))


def test_it_learns_what_can_be_predicted(step):
    """In a world where the action moves the state, the forward error falls and the actions are found."""
    from rein.optimizers import Adam

    torch.manual_seed(0)
    icm = ICMAlgorithm(DISCRETE, TensorSpec((2,)), hidden_size=32, optimizer=Adam(lr=1e-2))
    losses = []
    for _ in range(150):
        before = torch.randn(64, 2)
        action = torch.randint(2, (64,))
        after = before + torch.stack([2.0 * action - 1, torch.zeros(64)], 1)
        inputs = step(
            torch.stack([before, after], 1), torch.stack([torch.zeros_like(action), action], 1), [[1, 1]] * 64
        )
        icm._observation_normalizer.update(after)
        loss, _ = icm.update_with_gradient(icm.calc_loss(icm.train_sequences(inputs, ())))
        losses.append(loss.extra)
    assert losses[-1]["inverse"] < 0.1 < 0.5 < losses[0]["inverse"]
    assert losses[-1]["forward"] < 0.1 * losses[0]["forward"]
