"""The network that MoNet attends with: Burgess et al. (2019), arXiv:1901.11390, appendix B.2."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import fc_chain
from rein.networks.image_networks import image_shape
from rein.networks.layers import FC
from rein.networks.network import Network
from rein.specs import TensorSpec


class _Block(nn.Module):
    """A 3x3 convolution, a normalization of each channel of each image with learnt scale, and relu."""

    def __init__(self, input_channels: int, output_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(input_channels, output_channels, 3, padding=1, bias=False)
        self.norm = nn.InstanceNorm2d(output_channels, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, C, H, W] to [B, C', H, W]."""
        return torch.relu(self.norm(self.conv(x)))


@configurable
class MoNetUNet(Network):
    """Convolutions down and up again with a connection at each size, [B, C, H, W] to [B, output_channels, H, W].

    Unlike in the paper, the first block keeps the size and all others halve it:

        image 16                        16 output, 1x1 convolution
              16  ------ skip ------->  16
               8  ------ skip ------->   8
               4  -- skip and layers ->  4
    """

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        filters: Sequence[int],
        nonskip_fc_layers: Sequence[int],
        output_channels: int,
        name: str = "MoNetUNet",
    ) -> None:
        """Builds the layers, and refuses images that cannot be halved often enough.

        Args:
            input_tensor_spec: one image (C, H, W) of floats.
            filters: channels of the blocks on the way down; those on the way up have them in the other order.
            nonskip_fc_layers: sizes of the layers between the smallest images; the last is the size of the embedding.
            output_channels: of the output, which has no activation.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        channels, height, width = image_shape(input_tensor_spec, name)
        if not filters or not nonskip_fc_layers:
            raise ValueError(f"{name}: filters is {filters!r}, nonskip_fc_layers {nonskip_fc_layers!r}: give both")
        factor = 2 ** (len(filters) - 1)
        if height % factor or width % factor:
            raise ValueError(
                f"{name}: the image is {height}x{width}; {len(filters)} filters halve it {len(filters) - 1} times, so its "
                f"sides must be multiples of {factor}: give fewer filters, or pad the image"
            )
        if height * width == factor * factor:
            raise ValueError(f"{name}: {len(filters)} filters leave one pixel of the image: give fewer")
        sizes = [channels, *filters]
        self.down = nn.ModuleList(_Block(a, b) for a, b in zip(sizes, filters, strict=False))
        self._smallest = (filters[-1], height // factor, width // factor)
        flat = self._smallest[0] * self._smallest[1] * self._smallest[2]
        self.bottleneck = fc_chain(flat, tuple(nonskip_fc_layers), torch.relu_)
        self.expand = FC(nonskip_fc_layers[-1], flat, torch.relu_)
        backward = list(filters[::-1])
        before = [filters[-1], *backward]
        self.up = nn.ModuleList(_Block(a + b, b) for a, b in zip(before, backward, strict=False))
        self.last = nn.Conv2d(filters[0], output_channels, 1)
        self._encoding_dim = nonskip_fc_layers[-1]

    @property
    def encoding_dim(self) -> int:
        """Size of the embedding."""
        return self._encoding_dim

    def encode(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The way down.

        Args:
            inputs: [B, C, H, W].

        Returns:
            The embedding [B, encoding_dim], and the images of each size, the largest first.
        """
        skips = []
        x = inputs
        for number, block in enumerate(self.down):
            x = block(x) if number == 0 else F.max_pool2d(block(x), 2)
            skips.append(x)
        return self.bottleneck(x.flatten(1)), skips

    def decode(self, embedding: Tensor, skips: Sequence[Tensor]) -> Tensor:
        """The way up, from what `encode` gives; [B, output_channels, H, W]."""
        x = self.expand(embedding).reshape(-1, *self._smallest)
        for number, block in enumerate(self.up):
            if number > 0:
                x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, skips[-1 - number]], 1))
        return self.last(x)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [B, C, H, W] to [B, output_channels, H, W]."""
        return self.decode(*self.encode(inputs)), state
