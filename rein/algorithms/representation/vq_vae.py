"""Vector-quantized auto-encoder (van den Oord et al. 2017, arXiv:1711.00937).

With e = encode(x), q the code nearest to e, and sg what stops gradients,

    reconstruction   |decode(e + sg(q - e)) - x|^2       trains decoder and encoder (straight-through)
    quantization     |q - sg(e)|^2                       moves the codes to the encodings
    commitment       |sg(q) - e|^2                       keeps the encodings near the codes
    L = quantization + w commitment + reconstruction

all averaged over the dimensions of an example. The prior over codes is uniform, so the KL is constant and left out.

An encoder may give several vectors, [N, embedding_dim]; each takes its own code out of the same codebook.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.ops import code_perplexity, nearest_code, straight_through
from rein.runtime import summary
from rein.specs import TensorSpec


class VqvaeLossInfo(NamedTuple):
    """Parts of the loss, [B]."""

    quantization: Nest = ()
    commitment: Nest = ()
    """Before its weight."""
    reconstruction: Nest = ()


class Quantized(NamedTuple):
    """An encoding and its codes."""

    encoding: Tensor
    """[B, ..., embedding_dim] what the encoder gives."""
    codes: Tensor
    """[B, ...] int64, numbers of the nearest codes."""
    vectors: Tensor
    """[B, ..., embedding_dim] these codes, with gradient to the codebook."""

    @property
    def straight_through(self) -> Tensor:
        """The codes, with the gradient of the encoding."""
        return straight_through(self.vectors, self.encoding)


@configurable
class Vqvae(Algorithm):
    """An auto-encoder whose code is the nearest vector(s) of a codebook."""

    is_compilable = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        num_embeddings: int,
        embedding_dim: int,
        encoder_ctor: Callable[..., Network] = EncodingNetwork,
        decoder_ctor: Callable[..., Network] = EncodingNetwork,
        optimizer: Any | None = None,
        commitment_loss_weight: float = 1.0,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "Vqvae",
    ) -> None:
        """Makes the auto-encoder.

        Args:
            input_tensor_spec: spec of what is encoded.
            num_embeddings: codes in the codebook.
            embedding_dim: length of each code.
            encoder_ctor: called as `ctor(input_tensor_spec)`; gives one vector [embedding_dim], or several
                [N, embedding_dim].
            decoder_ctor: called as `ctor(spec of what the encoder gives)`; gives what is encoded.
            optimizer: of encoder, decoder and codebook; None leaves them to the parent.
            commitment_loss_weight: of the loss that keeps encodings near codes.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if num_embeddings < 2 or embedding_dim < 1:
            raise ValueError(
                f"{name}: the codebook has {num_embeddings} codes of size {embedding_dim}: there must be two codes or more"
            )
        if commitment_loss_weight < 0:
            raise ValueError(f"{name}: commitment_loss_weight is {commitment_loss_weight}: it must not be negative")
        encoder = encoder_ctor(input_tensor_spec)
        _check_encoder(name, encoder, embedding_dim)
        decoder = decoder_ctor(encoder.output_spec)
        if not isinstance(decoder.output_spec, TensorSpec) or decoder.output_spec.shape != input_tensor_spec.shape:
            raise ValueError(
                f"{name}: the decoder gives {decoder.output_spec}, what is encoded is {input_tensor_spec}: give the decoder "
                "a last layer of that shape"
            )
        super().__init__(optimizer=optimizer, checkpoint=checkpoint, debug_summaries=debug_summaries, name=name)
        self._num_embeddings = num_embeddings
        self._commitment_loss_weight = commitment_loss_weight
        self._encoder = encoder
        self._decoder = decoder
        bound = 1.0 / num_embeddings
        self._codebook = nn.Parameter(torch.empty(num_embeddings, embedding_dim).uniform_(-bound, bound))

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the quantized encoding."""
        return self._encoder.output_spec

    @property
    def codebook(self) -> Tensor:
        """[num_embeddings, embedding_dim] the codes."""
        return self._codebook

    def quantize(self, inputs: Tensor) -> Quantized:
        """The encoding of `inputs` [B, ...] and its codes."""
        encoding, _ = self._encoder(inputs)
        codes = nearest_code(encoding, self._codebook)
        return Quantized(encoding, codes, self._codebook[codes])

    def encode(self, inputs: Tensor) -> Tensor:
        """The quantized encoding, [B, ..., embedding_dim], with the gradient of the encoding."""
        return self.quantize(inputs).straight_through

    def decode(self, code: Tensor) -> Tensor:
        """What a quantized encoding [B, ..., embedding_dim] stands for, [B, ...]."""
        return self._decoder(code)[0]

    def predict_step(self, inputs: Tensor, state: Nest = ()) -> AlgStep:
        """The reconstruction; `info` is the quantized encoding."""
        quantized = self.encode(inputs)
        return AlgStep(output=self.decode(quantized), state=state, info=quantized)

    def rollout_step(self, inputs: Tensor, state: Nest = ()) -> AlgStep:
        """As `train_step`; the loss is kept only if the rollout itself is trained on."""
        step = self.train_step(inputs, state)
        return step if self.on_policy else step._replace(info=())

    def train_step(self, inputs: Tensor, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The reconstruction and the losses of it.

        Args:
            inputs: [B, ...].
            state: `()`.
            rollout_info: not used.
        """
        output, info, _ = self.learn(inputs)
        return AlgStep(output=output, state=state, info=info)

    def learn(self, inputs: Tensor) -> tuple[Tensor, LossInfo, Tensor]:
        """The reconstruction [B, ...], the loss [B], and the quantized encoding [B, ..., embedding_dim]."""
        quantized = self.quantize(inputs)
        code = quantized.straight_through
        reconstruction = self.decode(code)
        losses = VqvaeLossInfo(
            quantization=_mean_square(quantized.vectors - quantized.encoding.detach()),
            commitment=_mean_square(quantized.vectors.detach() - quantized.encoding),
            reconstruction=_mean_square(reconstruction - inputs),
        )
        loss = losses.quantization + self._commitment_loss_weight * losses.commitment + losses.reconstruction
        if summary.should_record_summaries():
            # A codebook of which few codes are in use is the usual way to fail.
            summary.scalar(f"{self.name}/code_perplexity", code_perplexity(quantized.codes, self._num_embeddings))
        return reconstruction, LossInfo(loss=loss, extra=losses), code


def _check_encoder(name: str, encoder: Network, embedding_dim: int) -> None:
    spec = encoder.output_spec
    if not isinstance(spec, TensorSpec) or spec.ndim == 0 or spec.shape[-1] != embedding_dim:
        raise ValueError(
            f"{name}: the encoder gives {spec}, codes have size {embedding_dim}: make the last dimension of the encoder "
            "embedding_dim"
        )
    if encoder.is_rnn:
        raise ValueError(f"{name}: the encoder has a state: put recurrent layers before the auto-encoder")


def _mean_square(x: Tensor) -> Tensor:
    """The mean over all dimensions but the first, [B]."""
    return x.square().flatten(1).mean(1) if x.ndim > 1 else x.square()
