import pytest
import torch

from rein.algorithms.representation.squares import squares, squares_data


@pytest.mark.parametrize(("count", "side", "size"), [(1, 16, 5), (3, 16, 5), (4, 14, 5), (4, 8, 3)])
def test_squares_do_not_overlap_and_have_a_colour_each(count, side, size):
    images, owners = squares(20, count, side, size)
    assert images.shape == (20, 3, side, side)
    assert owners.shape == (20, side, side)
    for index in range(count):
        is_its = owners == index
        assert (is_its.flatten(1).sum(1) == size * size).all()
        colours = images.permute(0, 2, 3, 1)[is_its]
        assert (colours == colours[0]).all()
    assert (images.permute(0, 2, 3, 1)[owners == -1] == 0).all()


@pytest.mark.parametrize(("count", "size", "message"), [(0, 5, "count is 0"), (5, 5, "1 to 4"), (3, 6, "size is 6")])
def test_squares_that_may_not_find_room_are_refused(count, size, message):
    with pytest.raises(ValueError, match=message):
        squares(1, count, 16, size)


def test_the_data_is_always_the_same_and_leaves_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train, test = squares_data(batch_size=4, num_examples=8, count=2)
    assert torch.equal(torch.rand(3), expected)
    again = squares_data(batch_size=4, num_examples=8, count=2)[1]
    assert torch.equal(next(iter(test))[0], next(iter(again))[0])
    images, owners = next(iter(train))
    assert images.shape == (4, 3, 16, 16)
    assert owners.shape == (4, 16, 16)
