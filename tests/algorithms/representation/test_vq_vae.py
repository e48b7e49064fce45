from functools import partial

import pytest
import torch

from rein.algorithms.representation import Vqvae, VqvaeLossInfo
from rein.networks import EncodingNetwork, LSTMEncodingNetwork, Network
from rein.networks.layers import identity
from rein.optimizers import SGD, Adam
from rein.runtime import Run, summary
from rein.runtime.writers import create_summary_writer
from rein.specs import TensorSpec

X = TensorSpec((2,))


class Scaled(Network):
    """Its input times a number that learns."""

    def __init__(self, input_tensor_spec, factor=1.0):
        super().__init__(input_tensor_spec, name="scaled")
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, inputs, state=()):
        return self.factor * inputs, state


@pytest.fixture
def model():
    """Encodes 2 x, decodes 3 e, with the codes (0, 0) and (4, 0)."""
    made = Vqvae(X, 2, 2, partial(Scaled, factor=2.0), partial(Scaled, factor=3.0), commitment_loss_weight=0.25)
    with torch.no_grad():
        made.codebook.copy_(torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    return made


def test_losses_by_hand(model):
    x = torch.tensor([[1.5, 0.0], [0.0, 1.0]])  # encoded as (3, 0) and (0, 2)
    step = model.train_step(x)
    assert step.output.tolist() == [[12.0, 0.0], [0.0, 0.0]]
    parts = step.info.extra
    assert isinstance(parts, VqvaeLossInfo)
    assert parts.quantization.tolist() == parts.commitment.tolist() == [0.5, 2.0]
    assert parts.reconstruction.tolist() == [10.5**2 / 2, 0.5]
    assert step.info.loss.tolist() == pytest.approx([0.5 * 1.25 + 10.5**2 / 2, 2 * 1.25 + 0.5])
    predicted = model.predict_step(x)
    assert torch.equal(predicted.output, step.output)
    assert predicted.info.tolist() == [[4.0, 0.0], [0.0, 0.0]]
    assert model.calc_loss(step.info) is step.info


def test_each_loss_moves_what_it_should(model):
    x = torch.tensor([[1.5, 0.0], [0.0, 1.0]])
    parts = model.train_step(x).info.extra
    encoder, decoder, codebook = model._encoder.factor, model._decoder.factor, model.codebook

    def moves(loss):
        gradients = torch.autograd.grad(loss.sum(), [encoder, decoder, codebook], retain_graph=True, allow_unused=True)
        return [gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients]

    assert moves(parts.quantization) == [False, False, True]
    assert moves(parts.commitment) == [True, False, False]
    assert moves(parts.reconstruction) == [True, True, False]


def test_the_gradient_passes_the_codes(model):
    x = torch.tensor([[1.5, 0.0]])
    (gradient,) = torch.autograd.grad(model.train_step(x).info.extra.reconstruction.sum(), model._encoder.factor)
    # d/df of ((3 q - x)^2) / 2 with dq := df x: (12 - 1.5) * 3 * 1.5
    assert gradient.item() == pytest.approx(10.5 * 3 * 1.5)


def test_images_have_one_loss_each():
    spec = TensorSpec((1, 4, 4))
    encoder = partial(EncodingNetwork, conv_layer_params=((4, 3, 1),), last_layer_size=3, last_activation=identity)
    decoder = partial(EncodingNetwork, last_layer_size=16, last_activation=identity, output_tensor_spec=spec)
    model = Vqvae(spec, 8, 3, encoder, decoder, optimizer=SGD(lr=0.1))
    x = torch.randn(5, 1, 4, 4)
    step = model.train_step(x)
    assert step.output.shape == x.shape
    assert step.info.loss.shape == (5,)
    torch.testing.assert_close(step.info.extra.reconstruction, (step.output - x).square().mean((1, 2, 3)))


def test_several_codes_come_out_of_one_codebook():
    encoder = partial(
        EncodingNetwork, last_layer_size=12, last_activation=identity, output_tensor_spec=TensorSpec((4, 3))
    )
    decoder = partial(
        EncodingNetwork, input_preprocessors=lambda code: code.flatten(-2), last_layer_size=2, last_activation=identity
    )
    model = Vqvae(X, 8, 3, encoder, decoder)
    x = torch.randn(5, 2)
    quantized = model.quantize(x)
    assert quantized.codes.shape == (5, 4)
    assert torch.equal(quantized.vectors, model.codebook[quantized.codes])
    parts = model.train_step(x).info.extra
    expected = (quantized.vectors - quantized.encoding).square().mean((1, 2))
    torch.testing.assert_close(parts.quantization, expected)


def test_the_codebook_starts_small_and_is_optimized():
    model = Vqvae(X, 16, 2, Scaled, Scaled, optimizer=Adam(lr=1e-3))
    assert model.codebook.abs().max() <= 1 / 16
    (optimizer,) = model.optimizers()
    handled = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert handled == {id(p) for p in model.parameters()}
    assert id(model.codebook) in handled


def test_summaries_tell_how_many_codes_are_used(model, tmp_path):
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        model.train_step(torch.tensor([[1.5, 0.0], [0.0, 1.0]]))
        writer.flush()
    text = "".join(file.read_text() for file in tmp_path.glob("**/*.jsonl"))
    assert "Vqvae/code_perplexity" in text
    assert "2.0" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(embedding_dim=3), "make the last dimension of the encoder embedding_dim"),
        (dict(num_embeddings=1), "two codes or more"),
        (dict(commitment_loss_weight=-1.0), "must not be negative"),
        (dict(decoder_ctor=partial(EncodingNetwork, fc_layer_params=(3,))), "give the decoder a last layer"),
        (dict(encoder_ctor=partial(LSTMEncodingNetwork, hidden_size=2)), "has a state"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    usual = dict(num_embeddings=4, embedding_dim=2, encoder_ctor=Scaled, decoder_ctor=Scaled)
    with pytest.raises(ValueError, match=message):
        Vqvae(X, **{**usual, **arguments})


def test_it_learns_two_clusters(fit):
    torch.manual_seed(0)
    small = partial(torch.nn.init.uniform_, a=-0.03, b=0.03)
    layers = partial(
        EncodingNetwork, fc_layer_params=(256, 256), last_activation=identity, last_kernel_initializer=small
    )
    model = Vqvae(
        TensorSpec((1,)),
        num_embeddings=32,
        embedding_dim=10,
        encoder_ctor=partial(layers, last_layer_size=10),
        decoder_ctor=partial(layers, last_layer_size=1),
        optimizer=Adam(lr=1e-3),
        commitment_loss_weight=0.1,
    )

    def draw(number):
        return (torch.arange(number) % 2).float().unsqueeze(-1) + 0.1 * torch.randn(number, 1)

    fit(model, draw(10_000), 100, 10)
    x = draw(10)
    assert (model.predict_step(x).output - x).square().mean() < 0.02
