"""MoNet (Burgess et al. 2019, arXiv:1901.11390): decomposes images into slots, one for each object.

Attention gives masks m_g, g = 0 .. G-1, that sum to one at each pixel. A variational auto-encoder encodes the image with
each mask, z_g ~ q(z | x, m_g), and decodes from each z_g an image x_g and a mask m'_g. With k_g = k (1 + g / (2 G)),

    image  L_x = sum over channels and pixels of -log sum_g m_g k_g exp(-k_g (x - x_g)^2), less what it is for x = x_g
    mask   L_m = KL(m || m'), summed over pixels
    KL     L_z = sum_g KL(q(z_g) || N(0, I))
    L = L_x + gamma L_m + beta L_z

Channels are mixed each for itself; as an option pixels are, with the errors of their channels summed before the
exponential. Then one slot has to explain the whole colour of a pixel: channels that are mixed for themselves may take
their values from several slots, none of which shows an object. The precisions k_g differ, so that slots are not alike
from the start. What L_x would be at x = x_g is a constant for
gradients: it makes a perfect reconstruction cost 0. The precision k says how much a wrong pixel costs beside the other
two terms: 1 / (2 s^2) for pixels with deviation s, which is 50 for the paper's s of about 0.1. The smaller it is, the less
a slot minds to show several objects.

*Recurrent* attention takes the slots one after the other, each out of the scope that those before have left,

    log s_0 = 0,   log m_g = log s_g + log a_g,   log s_{g+1} = log s_g + log (1 - a_g),   m_{G-1} = s_{G-1},

with a_g from a network that sees the image and s_g. Otherwise one evaluation of the network gives all masks. As a third way
it gives embeddings of pixels, and slots grow from seeds: see `seed_attention`. Seeds tell slots apart, so that k_g = k then.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rein.algorithms.representation.seed_attention import log_masks_from_seeds
from rein.algorithms.representation.vae import VAEOutput
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.distributions import DiagNormal
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, MoNetUNet, Network, SpatialBroadcastDecodingNetwork
from rein.networks.image_networks import image_shape
from rein.networks.layers import identity
from rein.ops import standard_normal_kl
from rein.specs import TensorSpec


class MoNetInfo(NamedTuple):
    """What the loss needs of a step, and what one may want to look at."""

    kld: Nest = ()
    """[B] KL of the slots, before beta; `()` if beta is 0."""
    rec_loss: Nest = ()
    """[B] loss of the image."""
    mask_rec_loss: Nest = ()
    """[B] loss of the masks, before gamma."""
    full_rec: Nest = ()
    """[B, C, H, W] the reconstructed image, of all slots."""
    mask: Nest = ()
    """[B, G, H, W] the masks of attention."""
    z_dist: Nest = ()
    """The posterior of the slots, [B, G, D]."""


class MoNetLossInfo(NamedTuple):
    """Parts of the loss, before their weights."""

    rec_loss: Nest = ()
    mask_rec_loss: Nest = ()
    kld: Nest = ()


class Slots(NamedTuple):
    """An image in parts."""

    images: Tensor
    """[B, G, C, H, W] the image of each slot."""
    log_masks: Tensor
    """[B, G, H, W] logarithms of its mask."""
    posterior: DiagNormal
    """Of its code, [B, G, D]."""
    log_variance: Tensor
    """[B, G, D] of its code."""
    z: Tensor
    """[B, G, D] a sample of its code, of which the rest was decoded."""
    decoded_log_masks: Tensor
    """[B, G, H, W] logarithms of its mask, as decoded."""

    @property
    def whole(self) -> Tensor:
        """[B, C, H, W] the images put together by the masks."""
        return (self.images * self.log_masks.exp().unsqueeze(2)).sum(1)


@configurable
class MoNetAlgorithm(Algorithm):
    """Learns to see an image as a number of objects, each with a code of its own."""

    is_compilable = True

    def __init__(
        self,
        n_slots: int,
        slot_size: int,
        input_tensor_spec: TensorSpec,
        attention_unet_cls: Callable[..., Network] = MoNetUNet,
        encoder_cls: Callable[..., Network] = EncodingNetwork,
        decoder_cls: Callable[..., Network] = SpatialBroadcastDecodingNetwork,
        recurrent_attention: bool = True,
        beta: float = 0.0,
        gamma: float = 0.0,
        name: str = "MoNetAlgorithm",
        precision: float = 1.0,
        mixes_pixels: bool = False,
        pixel_embedding_size: int | None = None,
    ) -> None:
        """Makes the networks, and refuses those that do not fit together.

        Args:
            n_slots: G, how many objects there are at most; the background is one.
            slot_size: D, size of the code of a slot.
            input_tensor_spec: one image (C, H, W) of floats.
            attention_unet_cls: called as `cls(input_tensor_spec=, output_channels=)`; from C + 1 channels (image and scope)
                to 2 for recurrent attention, from C channels to G for attention at once and to E for that from seeds;
                without activation.
            encoder_cls: called as `cls(input_tensor_spec=, last_layer_size=2 * D, last_activation=)`; from C + 1 channels
                (image and mask) to mean and log-variance of a slot.
            decoder_cls: called as `cls(spec of [D], output_height=, output_width=, output_activation=)`; gives C + 1
                channels, image and logit of the mask.
            recurrent_attention: take the slots one after the other; slower than all at once.
            beta: weight of the KL; 0 leaves it out.
            gamma: weight of the loss of the masks. It makes them more compact.
            name: name in summaries.
            precision: k; 1 / (2 s^2) for deviations s from what is decoded that count as noise.
            mixes_pixels: whether a pixel, with all its channels, is of one slot, instead of each channel for itself.
            pixel_embedding_size: E; attention from seeds, by embeddings of pixels of this size. `recurrent_attention` has
                no meaning then.
        """
        if n_slots < 1 or slot_size < 1:
            raise ValueError(f"{name}: n_slots is {n_slots} and slot_size {slot_size}: both must be positive")
        if beta < 0 or gamma < 0:
            raise ValueError(f"{name}: beta is {beta} and gamma {gamma}: they must not be negative")
        if precision <= 0:
            raise ValueError(f"{name}: precision is {precision}: it must be positive")
        if pixel_embedding_size is not None and pixel_embedding_size < 1:
            raise ValueError(f"{name}: pixel_embedding_size is {pixel_embedding_size}: it must be positive")
        super().__init__(name=name)
        channels, height, width = image_shape(input_tensor_spec, name)
        with_mask = TensorSpec((channels + 1, height, width))
        has_seeds = pixel_embedding_size is not None
        is_recurrent = recurrent_attention and not has_seeds
        seen = with_mask if is_recurrent else TensorSpec(input_tensor_spec.shape)
        attended = pixel_embedding_size or (2 if is_recurrent else n_slots)
        attention = attention_unet_cls(input_tensor_spec=seen, output_channels=attended)
        encoder = encoder_cls(input_tensor_spec=with_mask, last_layer_size=2 * slot_size, last_activation=identity)
        decoder = decoder_cls(
            TensorSpec((slot_size,)), output_height=height, output_width=width, output_activation=identity
        )
        _check_output(name, "attention_unet_cls", attention, (attended, height, width))
        _check_output(name, "encoder_cls", encoder, (2 * slot_size,))
        _check_output(name, "decoder_cls", decoder, tuple(with_mask.shape))
        # With one slot there is nothing to attend to, and nothing to train.
        self._attention = attention if n_slots > 1 else None
        self._encoder = encoder
        self._decoder = decoder
        self._n_slots = n_slots
        self._slot_size = slot_size
        self._is_recurrent = is_recurrent
        self._has_seeds = has_seeds
        self._beta = beta
        self._gamma = gamma
        self._mixes_pixels = mixes_pixels
        self._precision: Tensor
        spread = 0.0 if has_seeds else 0.5
        self.register_buffer("_precision", precision * (1 + spread * torch.arange(n_slots) / n_slots))

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of `z` and of `z_mode`, [n_slots, slot_size]."""
        return TensorSpec((self._n_slots, self._slot_size))

    # The three networks.

    def log_masks(self, inputs: Tensor) -> Tensor:
        """Logarithms of masks [B, G, H, W] that sum to one over slots; `inputs` is [B, C, H, W]."""
        scope = torch.zeros_like(inputs[:, :1])
        if self._attention is None:
            return scope
        if self._has_seeds:
            return log_masks_from_seeds(self._attention(inputs)[0], self._n_slots)
        if not self._is_recurrent:
            return self._attention(inputs)[0].log_softmax(1)
        masks = []
        for _ in range(self._n_slots - 1):
            logits, _ = self._attention(torch.cat([inputs, scope.exp()], 1))
            attended, rest = logits.log_softmax(1).split(1, 1)
            masks.append(scope + attended)
            scope = scope + rest
        return torch.cat([*masks, scope], 1)

    def posterior(self, inputs: Tensor, log_masks: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the slots, [B, G, D] each, from image and masks."""
        masks = log_masks.exp().unsqueeze(2)
        images = inputs.unsqueeze(1).expand(-1, self._n_slots, -1, -1, -1)
        features, _ = self._encoder(torch.cat([images, masks], 2).flatten(0, 1))
        mean, log_variance = features.reshape(-1, self._n_slots, 2 * self._slot_size).chunk(2, -1)
        return mean, log_variance

    def decode_slots(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """Images [B, G, C, H, W] and logarithms of masks [B, G, H, W] from codes [B, G, D]."""
        decoded, _ = self._decoder(code.flatten(0, 1))
        decoded = decoded.reshape(-1, self._n_slots, *decoded.shape[1:])
        return decoded[:, :, :-1], decoded[:, :, -1].log_softmax(1)

    def slots(self, inputs: Tensor) -> Slots:
        """The image [B, C, H, W] in parts."""
        log_masks = self.log_masks(inputs)
        mean, log_variance = self.posterior(inputs, log_masks)
        posterior = DiagNormal(mean, (0.5 * log_variance).exp(), event_ndims=2)
        z = posterior.rsample()
        images, decoded_log_masks = self.decode_slots(z)
        return Slots(images, log_masks, posterior, log_variance, z, decoded_log_masks)

    def encode(self, inputs: Tensor) -> Tensor:
        """The codes of the slots without noise, [B, G, D]."""
        return self.posterior(inputs, self.log_masks(inputs))[0]

    def decode(self, code: Tensor) -> Tensor:
        """What codes [B, G, D] stand for, [B, C, H, W], by the masks that are decoded: they learn if `gamma` is positive."""
        images, log_masks = self.decode_slots(code)
        return (images * log_masks.exp().unsqueeze(2)).sum(1)

    def reconstruct(self, inputs: Tensor) -> Tensor:
        """The image [B, C, H, W] put together again from codes without noise, by the masks of attention."""
        log_masks = self.log_masks(inputs)
        images, _ = self.decode_slots(self.posterior(inputs, log_masks)[0])
        return (images * log_masks.exp().unsqueeze(2)).sum(1)

    # The steps.

    def predict_step(self, inputs: Tensor, state: Nest = ()) -> AlgStep:
        """The codes of the slots."""
        mean, log_variance = self.posterior(inputs, self.log_masks(inputs))
        posterior = DiagNormal(mean, (0.5 * log_variance).exp(), event_ndims=2)
        return AlgStep(output=VAEOutput(z=posterior.rsample(), z_mode=mean), state=state)

    def rollout_step(self, inputs: Tensor, state: Nest = ()) -> AlgStep:
        """The codes of the slots; what the loss needs too, if the rollout itself is trained on."""
        return self.train_step(inputs, state) if self.on_policy else self.predict_step(inputs, state)

    def train_step(self, inputs: Tensor, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The codes of the slots, and the losses.

        Args:
            inputs: images [B, C, H, W].
            state: `()`.
            rollout_info: not used.

        Returns:
            `output` is a `VAEOutput`, `info` a `MoNetInfo`.
        """
        slots = self.slots(inputs)
        mean = slots.posterior.mean
        info = MoNetInfo(
            kld=standard_normal_kl(mean, slots.log_variance).sum(-1) if self._beta > 0 else (),
            rec_loss=self._image_loss(inputs, slots),
            mask_rec_loss=_mask_loss(slots),
            full_rec=slots.whole,
            mask=slots.log_masks.exp(),
            z_dist=slots.posterior,
        )
        return AlgStep(output=VAEOutput(z=slots.z, z_mode=mean), state=state, info=info)

    def learn(self, inputs: Tensor) -> tuple[Tensor, LossInfo, Tensor]:
        """The reconstruction [B, C, H, W], the loss [B], and the codes without noise [B, G, D]."""
        step = self.train_step(inputs)
        return step.info.full_rec, self.calc_loss(step.info), step.output.z_mode

    def calc_loss(self, info: MoNetInfo) -> LossInfo:
        """The weighted sum of the losses."""
        loss = info.rec_loss + self._gamma * info.mask_rec_loss
        if self._beta > 0:
            loss = loss + self._beta * info.kld
        return LossInfo(loss=loss, extra=MoNetLossInfo(info.rec_loss, info.mask_rec_loss, info.kld))

    def _image_loss(self, inputs: Tensor, slots: Slots) -> Tensor:
        """L_x, [B]."""
        precision = self._precision.reshape(-1, 1, 1, 1)
        gain = precision.log()
        error = precision * (inputs.unsqueeze(1) - slots.images).square()
        if self._mixes_pixels:
            gain, error = gain * error.shape[2], error.sum(2, keepdim=True)
        weight = gain + slots.log_masks.unsqueeze(2)
        with torch.no_grad():
            least = -weight.logsumexp(1)
        return (-(weight - error).logsumexp(1) - least).flatten(1).sum(1)


def _mask_loss(slots: Slots) -> Tensor:
    """L_m, [B]."""
    return (slots.log_masks.exp() * (slots.log_masks - slots.decoded_log_masks)).flatten(1).sum(1)


def _check_output(name: str, argument: str, network: Network, shape: tuple[int, ...]) -> None:
    spec = network.output_spec
    if not isinstance(spec, TensorSpec) or tuple(spec.shape) != shape:
        hint = ": its last layer must have one channel for each of the image and one for the mask"
        raise ValueError(
            f"{name}: {argument} makes a network that gives {spec}, expected {shape}"
            f"{hint if argument == 'decoder_cls' else ''}"
        )
