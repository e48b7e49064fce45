from functools import partial

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from rein.algorithms.representation import MoNetAlgorithm, VAEOutput
from rein.algorithms.representation.seed_attention import log_masks_from_seeds
from rein.algorithms.representation.squares import squares
from rein.distributions import DiagNormal
from rein.networks import EncodingNetwork, MoNetUNet, Network, SpatialBroadcastDecodingNetwork
from rein.optimizers import Adam
from rein.specs import TensorSpec

IMAGE = TensorSpec((3, 8, 8))


def make(n_slots=3, slot_size=4, spec=IMAGE, **arguments):
    channels = spec.shape[0]
    given = {
        "attention_unet_cls": partial(MoNetUNet, filters=(4, 6), nonskip_fc_layers=(8,)),
        "encoder_cls": partial(EncodingNetwork, conv_layer_params=((4, 3, 2),)),
        "decoder_cls": partial(
            SpatialBroadcastDecodingNetwork, conv_layer_params=((4, 3, 1), (channels + 1, 3, 1)), fc_layer_params=(8,)
        ),
        **arguments,
    }
    return MoNetAlgorithm(n_slots, slot_size, spec, **given)


@pytest.mark.parametrize(
    "attention", [dict(recurrent_attention=True), dict(recurrent_attention=False), dict(pixel_embedding_size=2)]
)
@pytest.mark.parametrize("n_slots", [1, 2, 5])
def test_masks_sum_to_one(attention, n_slots):
    model = make(n_slots, **attention)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0)
        step = model.train_step(torch.rand(2, 3, 8, 8))
    mask = step.info.mask
    assert mask.shape == (2, n_slots, 8, 8)
    torch.testing.assert_close(mask.sum(1), torch.ones(2, 8, 8), rtol=0, atol=1e-5)
    if n_slots == 1:
        assert (mask == 1).all()
    assert (step.info.rec_loss >= 0).all()


class Scripted(Network):
    """Gives the next of some logits; remembers what it saw."""

    def __init__(self, input_tensor_spec, output_channels):
        super().__init__(input_tensor_spec, name="scripted")
        self.logits = [torch.tensor(pair) for pair in ([0.0, 0.0], [1.0, 0.0])]
        self.seen = []

    def forward(self, inputs, state=()):
        pair = self.logits[len(self.seen) % 2]
        self.seen.append(inputs)
        return pair.reshape(1, 2, 1, 1).expand(len(inputs), 2, *inputs.shape[2:]).contiguous(), state


def test_recurrent_attention_by_hand():
    model = make(attention_unet_cls=Scripted)
    model._attention.seen.clear()
    x = torch.rand(2, 3, 8, 8)
    mask = model.log_masks(x).exp()
    first, second = 0.5, torch.sigmoid(torch.tensor(1.0)).item()
    expected = [first, 0.5 * second, 0.5 * (1 - second)]
    assert mask[0, :, 3, 3].tolist() == pytest.approx(expected)
    seen = model._attention.seen
    assert len(seen) == 2  # one call less than there are slots
    assert torch.equal(seen[0][:, :3], x)
    assert (seen[0][:, 3] == 1).all()
    torch.testing.assert_close(seen[1][:, 3], torch.full((2, 8, 8), 0.5))


def test_losses_by_hand():
    model = make(2, gamma=0.5, beta=2.0)
    x = torch.rand(2, 3, 8, 8)
    torch.manual_seed(0)
    slots = model.slots(x)
    torch.manual_seed(0)
    step = model.train_step(x)
    k = torch.tensor([1.0, 1.25]).reshape(1, 2, 1, 1, 1)
    mask, other = slots.log_masks.exp().unsqueeze(2), slots.decoded_log_masks.exp()
    density = (mask * k * torch.exp(-k * (x.unsqueeze(1) - slots.images) ** 2)).sum(1)
    best = (mask * k).sum(1)
    torch.testing.assert_close(step.info.rec_loss, (best.log() - density.log()).sum((1, 2, 3)), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        step.info.mask_rec_loss, (mask[:, :, 0] * (mask[:, :, 0] / other).log()).sum((1, 2, 3)), rtol=1e-4, atol=1e-4
    )
    posterior = step.info.z_dist
    assert isinstance(posterior, DiagNormal)
    divergence = kl_divergence(Normal(posterior.mean, posterior.stddev), Normal(0.0, 1.0)).sum((1, 2))
    torch.testing.assert_close(step.info.kld, divergence, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(posterior.stddev, (0.5 * slots.log_variance).exp())
    loss = model.calc_loss(step.info)
    expected = step.info.rec_loss + 0.5 * step.info.mask_rec_loss + 2.0 * step.info.kld
    torch.testing.assert_close(loss.loss, expected)
    torch.testing.assert_close(step.info.full_rec, (slots.images * mask).sum(1))


def test_a_perfect_reconstruction_costs_nothing():
    model = make(3)
    x = torch.rand(2, 3, 8, 8)
    slots = model.slots(x)
    perfect = slots._replace(images=x.unsqueeze(1).expand_as(slots.images))
    torch.testing.assert_close(model._image_loss(x, perfect), torch.zeros(2))
    # A slot without mass may show anything.
    masks = torch.full_like(slots.log_masks, -1e4)
    masks[:, 1] = 0
    only = slots._replace(log_masks=masks, images=slots.images.clone().index_copy(1, torch.tensor([1]), x.unsqueeze(1)))
    assert model._image_loss(x, only).abs().max() < 1e-3


def test_a_mixture_of_pixels_by_hand():
    model = make(2, precision=4.0, mixes_pixels=True)
    x = torch.rand(2, 3, 8, 8)
    slots = model.slots(x)
    k = torch.tensor([4.0, 5.0]).reshape(1, 2, 1, 1)
    mask = slots.log_masks.exp()
    error = ((x.unsqueeze(1) - slots.images) ** 2).sum(2)
    density = (mask * k**3 * torch.exp(-k * error)).sum(1)
    expected = ((mask * k**3).sum(1).log() - density.log()).sum((1, 2))
    torch.testing.assert_close(model._image_loss(x, slots), expected, rtol=1e-4, atol=1e-4)


def two_colours(mixes_pixels):
    """The loss of an image half red, half blue, which a white and a black slot share evenly."""
    model = make(2, spec=TensorSpec((3, 8, 8)), precision=50.0, mixes_pixels=mixes_pixels)
    x = torch.zeros(1, 3, 8, 8)
    x[:, 0, :4] = 1
    x[:, 2, 4:] = 1
    slots = model.slots(x)
    images = torch.stack([torch.ones_like(x), torch.zeros_like(x)], 1)
    even = slots._replace(images=images, log_masks=torch.full_like(slots.log_masks, 0.5).log())
    return model._image_loss(x, even).item()


def test_only_a_mixture_of_pixels_minds_colours_put_together_from_several_slots():
    # Each channel is right in one of the slots, so that it costs no more than the choice; the black slot is better by log k.
    assert two_colours(False) < 3 * 64 * 1.0
    # No slot is right about a pixel: the better one, black, is wrong in one channel.
    assert two_colours(True) > 64 * 45.0


def test_outputs_and_what_is_left_out():
    model = make(3, 4)
    x = torch.rand(2, 3, 8, 8)
    step = model.train_step(x)
    assert isinstance(step.output, VAEOutput)
    assert step.output.z.shape == step.output.z_mode.shape == (2, 3, 4)
    assert step.output.z_std == step.info.kld == ()
    assert model.output_spec == TensorSpec((3, 4))
    torch.testing.assert_close(model.encode(x), step.output.z_mode)
    torch.testing.assert_close(model.predict_step(x).output.z_mode, step.output.z_mode)
    assert model.decode(step.output.z).shape == x.shape
    assert model.rollout_step(x).info == ()
    low, high = model.slots(x).images.amin(1), model.slots(x).images.amax(1)
    assert low.shape == high.shape == x.shape
    torch.manual_seed(0)
    slots = model.slots(x)
    assert (slots.whole <= slots.images.amax(1) + 1e-5).all()
    assert (slots.whole >= slots.images.amin(1) - 1e-5).all()


def test_precisions_are_a_buffer_that_differs():
    model = make(4)
    assert dict(model.named_buffers())["_precision"].tolist() == [1.0, 1.125, 1.25, 1.375]
    # Seeds tell slots apart.
    assert dict(make(4, pixel_embedding_size=2).named_buffers())["_precision"].tolist() == [1.0, 1.0, 1.0, 1.0]


def test_attention_from_seeds_sees_the_image_and_embeds_its_pixels():
    model = make(pixel_embedding_size=2)
    x = torch.rand(2, 3, 8, 8)
    embeddings, _ = model._attention(x)
    assert embeddings.shape == (2, 2, 8, 8)
    masks = model.log_masks(x)
    assert torch.equal(masks, log_masks_from_seeds(embeddings, 3))
    # Where an object of one slot is does not depend on chance, and all of the embedding learns from the loss.
    assert torch.equal(model.log_masks(x), masks)
    model.calc_loss(model.train_step(x).info).loss.mean().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model._attention.last.parameters() if parameter.ndim > 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            dict(decoder_cls=partial(SpatialBroadcastDecodingNetwork, conv_layer_params=((3, 3, 1),))),
            "one channel for each of the image and one for the mask",
        ),
        (dict(spec=TensorSpec((3, 9, 8))), "multiples of 2"),
        (dict(spec=TensorSpec((3, 8, 8), torch.uint8)), "ImageScaleTransformer"),
        (dict(spec=TensorSpec((8,))), "one image"),
        (dict(n_slots=0), "must be positive"),
        (dict(beta=-1.0), "must not be negative"),
        (dict(precision=0.0), "must be positive"),
        (dict(pixel_embedding_size=0), "pixel_embedding_size is 0"),
        (
            dict(
                encoder_cls=lambda input_tensor_spec, **_: EncodingNetwork(
                    input_tensor_spec, None, None, None, ((2, 3, 1),)
                )
            ),
            "encoder_cls makes a network that gives",
        ),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.learning
@pytest.mark.timeout(1800)
def test_it_learns_to_reconstruct_squares(fit):
    torch.manual_seed(0)
    model = make(
        3,
        4,
        TensorSpec((3, 16, 16)),
        attention_unet_cls=partial(MoNetUNet, filters=(8, 8, 8), nonskip_fc_layers=(16, 16)),
        encoder_cls=partial(EncodingNetwork, conv_layer_params=((16, 3, 2), (16, 3, 2)), fc_layer_params=(64,)),
        decoder_cls=partial(
            SpatialBroadcastDecodingNetwork, conv_layer_params=((8, 3, 1), (8, 3, 1), (4, 3, 1)), fc_layer_params=(8,)
        ),
    )
    model.add_optimizer(Adam(lr=1e-3), list(model.children()))
    contrast = 3.0  # larger values make the mixture of slots sharper
    data, _ = squares(2000, count=2)
    images, _ = squares(64, count=2)
    data, images = contrast * data, contrast * images
    before = model.train_step(images).info.rec_loss.mean()
    fit(model, data, 16, 8)
    with torch.no_grad():
        after = model.train_step(images).info.rec_loss.mean()
    print(f"loss {before:.1f} to {after:.1f}")
    assert after < before / 10
