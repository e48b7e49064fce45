import torch

from rein.ops.action_values import expected_action_value, select_action_value


def test_the_value_of_the_taken_action_is_selected_for_every_replica() -> None:
    q = torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]])
    taken = select_action_value(q, torch.tensor([2, 0]))
    assert taken.tolist() == [[3.0, 6.0], [7.0, 10.0]]


def test_selection_keeps_the_rewards_apart() -> None:
    q = torch.arange(12.0).reshape(1, 2, 3, 2)
    assert select_action_value(q, torch.tensor([1])).tolist() == [[[2.0, 3.0], [8.0, 9.0]]]


def test_the_value_of_a_policy_is_the_mean_under_it() -> None:
    q = torch.tensor([[1.0, 3.0]])
    assert expected_action_value(q, torch.tensor([[0.25, 0.75]])).tolist() == [2.5]


def test_the_mean_keeps_the_rewards_apart() -> None:
    q = torch.tensor([[[1.0, 10.0], [3.0, 30.0]]])
    assert expected_action_value(q, torch.tensor([[0.25, 0.75]])).tolist() == [[2.5, 25.0]]
