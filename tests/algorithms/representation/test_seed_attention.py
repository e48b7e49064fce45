import math

import pytest
import torch

from rein.algorithms.representation.seed_attention import log_masks_from_seeds


def test_masks_of_four_pixels_by_hand():
    # Pixels in a row, embedded at 0, 1, 3 and 1.5; the distance of a pixel to itself counts as 0.01.
    embeddings = torch.tensor([0.0, 1.0, 3.0, 1.5]).reshape(1, 1, 2, 2)
    masks = log_masks_from_seeds(embeddings, 3).exp().reshape(3, 4)
    first = [math.exp(-distance) for distance in (0.01, 1.01, 9.01, 2.26)]
    # The first pixel is the first seed; it leaves most of the third, which is the second seed.
    second = [math.exp(-distance) for distance in (9.01, 4.01, 0.01, 2.26)]
    assert masks[0].tolist() == pytest.approx(first, rel=1e-4)
    assert masks[1].tolist() == pytest.approx([(1 - a) * b for a, b in zip(first, second, strict=True)], rel=1e-4)
    assert masks[2].tolist() == pytest.approx([(1 - a) * (1 - b) for a, b in zip(first, second, strict=True)], rel=1e-4)


def test_each_image_has_seeds_of_its_own_and_groups_far_apart_have_a_slot_each():
    places = torch.tensor([[0, 0, 1, 2], [2, 0, 1, 1]])
    embeddings = 5.0 * torch.nn.functional.one_hot(places).float().transpose(1, 2).reshape(2, 3, 1, 4)
    slots = log_masks_from_seeds(embeddings, 5).argmax(1).flatten(1)
    assert slots[0, 0] == slots[0, 1] == 0
    assert len({int(slot) for slot in slots[0]}) == 3
    assert slots[1, 2] == slots[1, 3]
    assert len({int(slot) for slot in slots[1]}) == 3
    assert slots[1, 0] == 0


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_masks_sum_to_one_with_finite_gradients(scale):
    embeddings = (scale * torch.randn(2, 3, 4, 4)).requires_grad_()
    masks = log_masks_from_seeds(embeddings, 4)
    torch.testing.assert_close(masks.exp().sum(1), torch.ones(2, 4, 4))
    masks.logsumexp((1, 2, 3)).sum().backward()
    assert embeddings.grad.isfinite().all()


def test_one_slot_has_everything():
    assert (log_masks_from_seeds(torch.randn(2, 3, 4, 4), 1) == 0).all()
