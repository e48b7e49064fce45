"""Attention from seeds: pixels that an embedding puts close together are of one slot.

Stick breaking as in Engelcke et al. 2021 (GENESIS-V2, arXiv:2104.09958), with other seeds. With embeddings e(p) of pixels,

    p_g = arg max_p s_g(p),   log a_g(p) = -(|e(p) - e(p_g)|^2 + d),   log m_g = log s_g + log a_g,
    log s_0 = 0,   log s_{g+1} = log s_g + log (1 - a_g),   m_{G-1} = s_{G-1}.

The seed p_g is the pixel of which the slots before have taken least, for g = 0 the first; the paper draws it at random. So
no slot begins where another is. A network that gives masks has to learn that, and often does not: a slot that has two
objects keeps them where all others show the background, because none is nearer to one of the two. The small d leaves a part
of the seed itself to those that follow, so that gradients are finite.
"""

import torch
from torch import Tensor

_LEAST_DISTANCE = 0.01


def log_masks_from_seeds(embeddings: Tensor, n_slots: int) -> Tensor:
    """Logarithms of masks [B, G, H, W] that sum to one over slots.

    Args:
        embeddings: of pixels, [B, E, H, W].
        n_slots: G.
    """
    points = embeddings.flatten(2)
    scope = torch.zeros_like(points[:, 0])
    masks = []
    for _ in range(n_slots - 1):
        seed = scope.argmax(1).reshape(-1, 1, 1).expand(-1, points.shape[1], 1)
        distance = (points - points.gather(2, seed)).square().sum(1) + _LEAST_DISTANCE
        masks.append(scope - distance)
        scope = scope + (-torch.expm1(-distance)).log()
    return torch.stack([*masks, scope], 1).reshape(len(embeddings), n_slots, *embeddings.shape[2:])
