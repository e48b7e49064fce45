"""Images of positions: what a game would be if its board were seen in a mirror, or turned."""

import numpy as np
import pytest
import torch

from rein.algorithms.search import ModelTarget
from rein.algorithms.search.symmetries import BoardSymmetries
from rein.envs.boards.tic_tac_toe import TicTacToeEnv
from rein.specs import BoundedTensorSpec, TensorSpec


def moves_spec(number: int) -> BoundedTensorSpec:
    return BoundedTensorSpec((), torch.int64, 0, number - 1)


def boards(rows: int, columns: int) -> dict[str, TensorSpec]:
    return {"board": TensorSpec((3, rows, columns))}


def test_a_mirror_changes_left_and_right_of_boards_columns_and_policies() -> None:
    symmetries = BoardSymmetries("mirror", boards(2, 3), moves_spec(3))
    drawn = torch.tensor([0, 1])
    cells = torch.arange(6.0).view(1, 1, 1, 2, 3).repeat(2, 1, 3, 1, 1)
    seen = symmetries.observation(drawn, {"board": cells, "to_play": torch.tensor([0, 1])})
    assert seen["board"][0, 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert seen["board"][1, 0, 2].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert seen["to_play"].tolist() == [0, 1]
    assert symmetries.moves(drawn, torch.tensor([[0, 1, 2], [0, 1, 2]])).tolist() == [[0, 1, 2], [2, 1, 0]]
    policy = torch.tensor([[[0.7, 0.2, 0.1]], [[0.7, 0.2, 0.1]]])
    target = symmetries.target(drawn, ModelTarget(action_policy=policy, value=torch.ones(2, 1)))
    torch.testing.assert_close(target.action_policy, torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.2, 0.7]]]))
    assert target.value.tolist() == [[1], [1]]


def test_candidates_of_a_search_are_moves_and_their_probabilities_stay_with_them() -> None:
    symmetries = BoardSymmetries("mirror", boards(2, 3), moves_spec(3))
    given = ModelTarget(action=torch.tensor([[[2, 0]]]), action_policy=torch.tensor([[[0.9, 0.1]]]))
    target = symmetries.target(torch.tensor([1]), given)
    assert target.action.tolist() == [[[0, 2]]]
    assert target.action_policy is given.action_policy


def test_a_square_has_eight_images_and_a_pass_stays_a_pass() -> None:
    symmetries = BoardSymmetries("square", boards(3, 3), moves_spec(10))
    drawn = torch.arange(8)
    board = torch.arange(9.0).view(1, 1, 3, 3).repeat(8, 3, 1, 1)
    images = symmetries.observation(drawn, {"board": board})["board"][:, 0]
    assert len({tuple(image.flatten().tolist()) for image in images}) == 8
    assert symmetries.moves(drawn, torch.full((8, 1), 9)).flatten().tolist() == [9] * 8
    for move in range(9):
        stone = symmetries.moves(drawn, torch.full((8,), move))
        assert images.flatten(1).gather(1, stone.unsqueeze(1)).flatten().tolist() == [move] * 8


def test_the_image_of_a_game_is_the_game_of_the_images_of_its_moves() -> None:
    symmetries = BoardSymmetries("square", boards(3, 3), moves_spec(9))
    generator = np.random.default_rng(0)
    for image in range(8):
        drawn, played, seen = torch.tensor([image]), TicTacToeEnv(), TicTacToeEnv()
        (before, _), (also_before, _) = played.reset(), seen.reset()
        for _ in range(5):
            move = int(generator.choice(np.flatnonzero(before["valid_action_mask"])))
            before, reward, over, *_ = played.step(move)
            also_before, same_reward, same_over, *_ = seen.step(int(symmetries.moves(drawn, torch.tensor([move]))))
            batch = {name: torch.as_tensor(part).unsqueeze(0) for name, part in before.items()}
            for name, part in symmetries.observation(drawn, batch).items():
                np.testing.assert_array_equal(part[0].numpy(), also_before[name], err_msg=name)
            assert (same_reward, same_over) == (reward, over)
            if over:
                break


def test_representations_to_predict_are_those_of_the_images() -> None:
    symmetries = BoardSymmetries("mirror", TensorSpec((1, 1, 2)), moves_spec(2))
    ahead = torch.tensor([[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]])
    target = symmetries.target(torch.tensor([1]), ModelTarget(observation=ahead))
    assert target.observation.flatten().tolist() == [2, 1, 4, 3]


@pytest.mark.parametrize(
    ("kind", "observation", "number", "message"),
    [
        ("diagonal", boards(3, 3), 9, "'mirror' or 'square'"),
        ("mirror", TensorSpec((4,)), 4, "planes, rows, columns"),
        ("square", boards(4, 5), 20, "4 rows and 5 columns"),
        ("mirror", boards(4, 5), 7, "with 5 columns and 20 cells there are 7"),
    ],
)
def test_what_has_no_such_images_is_refused(kind, observation, number, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        BoardSymmetries(kind, observation, moves_spec(number))
