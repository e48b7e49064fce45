"""Convolutional models of boards: numbers by hand, what they look at, searches and a run with them."""

from functools import partial

import pytest
import torch
from torch import nn

from rein.algorithms.search import SimpleMCTSModel
from rein.algorithms.search.board_networks import (
    BoardDynamicsNetwork,
    BoardEncodingNetwork,
    create_board_dynamics_net,
    create_board_encoding_net,
    create_board_prediction_net,
)
from rein.algorithms.search.planning import Planner, Root
from rein.algorithms.search.rules import SearchRules
from rein.specs import BoundedTensorSpec, TensorSpec

MOVES = BoundedTensorSpec((), torch.int64, 0, 4)
BOARD = BoundedTensorSpec((3, 4, 5), torch.float32, 0.0, 1.0)
OBSERVATION = {
    "board": BOARD,
    "steps": BoundedTensorSpec((), torch.int32, 0, 20),
    "to_play": BoundedTensorSpec((), torch.int8, 0, 1),
    "valid_action_mask": BoundedTensorSpec((5,), torch.bool, False, True),
}


def board_model(**options):
    torch.manual_seed(0)
    return SimpleMCTSModel(
        OBSERVATION,
        MOVES,
        num_unroll_steps=2,
        encoding_net_ctor=partial(create_board_encoding_net, channels=6),
        dynamics_net_ctor=create_board_dynamics_net,
        prediction_net_ctor=partial(create_board_prediction_net, head_channels=3, hidden_size=8),
        **options,
    )


def observations(batch):
    return {
        "board": torch.rand(batch, 3, 4, 5),
        "steps": torch.zeros(batch, dtype=torch.int32),
        "to_play": torch.zeros(batch, dtype=torch.int8),
        "valid_action_mask": torch.ones(batch, 5, dtype=torch.bool),
    }


def passes_on(conv):
    """Makes a convolution give what it gets."""
    with torch.no_grad():
        nn.init.dirac_(conv.weight)
        conv.bias.zero_()


def test_next_board_by_hand():
    net = BoardDynamicsNetwork((TensorSpec((1, 2, 2)), BoundedTensorSpec((), torch.int64, 1, 2)), num_blocks=0)
    passes_on(net.change)
    with torch.no_grad():
        net.moves.copy_(torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]], [[[0.0, 0.0], [0.0, -3.0]]]]))
    latent = torch.tensor([[[[0.0, 0.5], [0.25, 1.0]]]]).expand(2, 1, 2, 2)
    following, _ = net((latent, torch.tensor([1, 2])))
    # 1: [0, .5, .25, 1] + [1, .5, .25, 1] scaled from [.5, 2]; 2: [0, .5, .25, 1] + [0, .5, .25, -2], rectified, from [0, 1].
    expected = torch.tensor([[1 / 3, 1 / 3, 0.0, 1.0], [0.0, 1.0, 0.5, 0.0]])
    torch.testing.assert_close(following.flatten(1), expected)


def test_a_block_adds_what_it_finds():
    net = BoardDynamicsNetwork((TensorSpec((1, 2, 2)), BoundedTensorSpec((), torch.int64, 0, 1)), num_blocks=1)
    (block,) = net.blocks
    for conv in (net.change, block.conv1, block.conv2):
        passes_on(conv)
    with torch.no_grad():
        net.moves.zero_()
        block.conv2.bias.fill_(-1.0)
    latent = torch.tensor([[[[0.0, 0.25], [0.5, 1.0]]]])
    # 2 x, and then 2 x + 2 x - 1, rectified: [0, 0, 1, 3].
    torch.testing.assert_close(net((latent, torch.tensor([0])))[0].flatten(), torch.tensor([0.0, 0.0, 1 / 3, 1.0]))


def test_latents_are_boards_between_zero_and_one():
    model = board_model()
    assert model.repr_spec.shape == (6, 4, 5)
    output = model.initial_inference(observations(7))
    latent = output.state.state
    assert latent.shape == (7, 6, 4, 5)
    torch.testing.assert_close(latent.flatten(1).amin(1), torch.zeros(7))
    torch.testing.assert_close(latent.flatten(1).amax(1), torch.ones(7))
    following = model.recurrent_inference(output.state, torch.arange(7) % 5)
    assert following.state.state.shape == (7, 6, 4, 5)
    assert following.value_pred.shape == following.reward_pred.shape == (7,)
    assert following.action_probs.shape == (7, 5)


def test_the_encoder_looks_at_the_board_only():
    net = BoardEncodingNetwork(OBSERVATION, channels=4, num_blocks=1)
    seen = observations(3)
    told = {**seen, "steps": seen["steps"] + 9, "to_play": seen["to_play"] + 1}
    told["valid_action_mask"] = ~told["valid_action_mask"]
    assert torch.equal(net(seen)[0], net(told)[0])


def test_a_shifted_pattern_is_found_at_the_shifted_place():
    net = BoardEncodingNetwork(TensorSpec((1, 9, 9)), channels=4, num_blocks=0)
    board = torch.zeros(2, 1, 9, 9)
    board[0, 0, 2, 2] = board[1, 0, 5, 4] = 1.0
    here, there = net(board)[0]
    torch.testing.assert_close(here[:, 1:4, 1:4], there[:, 4:7, 3:6])


def test_every_weight_learns():
    model = board_model()
    output = model.initial_inference(observations(16))
    total = 0.0
    for move in range(5):
        output = model.recurrent_inference(output.state, torch.full((16,), move))
        total = total + output.value_pred.sum() + output.action_probs[:, 0].sum() + output.reward_pred.sum()
        total = total + output.game_over_logit.sum()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert model._dynamics_net.moves.grad.flatten(1).any(1).all()


@pytest.mark.parametrize(
    "spec", [TensorSpec((20,)), {"board": BOARD, "more": BOARD}, {"to_play": OBSERVATION["to_play"]}]
)
def test_what_is_no_board_is_refused(spec):
    with pytest.raises(ValueError, match=r"one board \[planes, rows, columns\].*create_simple_encoding_net"):
        create_board_encoding_net(spec)


@pytest.mark.parametrize("action", [BoundedTensorSpec((2,), torch.int64, 0, 4), BoundedTensorSpec((), minimum=-1.0)])
def test_what_is_no_move_is_refused(action):
    with pytest.raises(ValueError, match="one of a list of choices"):
        create_board_dynamics_net((TensorSpec((6, 4, 5)), action))


def test_searches_in_torch_and_compiled_find_the_same():
    model = board_model().eval()
    with torch.no_grad():
        for head in (model._prediction_net.value, model._prediction_net.reward):
            nn.init.normal_(head.weight)
        root = model.initial_inference(observations(12))
        trees = []
        for backend in ("torch", "compiled", "auto"):
            torch.manual_seed(0)
            start = Root(root, root.action_probs.double(), torch.zeros(12, dtype=torch.int64))
            rules = SearchRules(30, 1.0, is_two_player_game=True, known_value_bounds=(-1.0, 1.0))
            trees.append(Planner(rules, backend).search(model, start))
    for tree in trees[1:]:
        assert torch.equal(tree.child_visits(), trees[0].child_visits())
        torch.testing.assert_close(tree.root_values(), trees[0].root_values(), atol=1e-5, rtol=1e-5)
