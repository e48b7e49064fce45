import pytest
import torch

from rein.algorithms.representation.squares import _pure_colours, squares, squares_data


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


def test_pure_colours_by_hand():
    expected = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0.5]]
    torch.testing.assert_close(_pure_colours(torch.tensor([0, 1 / 6, 1 / 3, 2 / 3, 11 / 12])), torch.tensor(expected))


@pytest.mark.parametrize("count", [1, 3, 4])
def test_colours_drawn_for_each_image_differ_within_it_and_between_images(count):
    images, owners = squares(50, count, draws_colours=True)
    seen = torch.stack([(images * (owners == index).unsqueeze(1)).amax((2, 3)) for index in range(count)], 1)
    for image, owner, colours in zip(images, owners, seen, strict=True):
        for index, colour in enumerate(colours):
            assert (image[:, owner == index] == colour.unsqueeze(1)).all()
    assert (seen.amax(2) == 1).all()
    assert (seen.amin(2) == 0).all()
    # A sixth of the circle of hues: a channel goes all the way up or down, or two of them share it.
    apart = (seen.unsqueeze(1) - seen.unsqueeze(2)).abs().sum(-1) + 9 * torch.eye(count)
    assert apart.min() >= 1 - 1e-5
    assert seen[:, 0].std(0).min() > 0.2


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
