from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from rein.agents.representation_parts import discrete_vae_codec, monet_codec, vae_codec, vq_vae_codec
from rein.algorithms.representation import AutoEncoder, CodecTraining
from rein.algorithms.representation.squares import squares
from rein.optimizers import Adam
from rein.specs import TensorSpec
from rein.training.supervised import measure

X = torch.linspace(-1, 1, 40).reshape(20, 2)


def data():
    """Loaders of (examples, labels) and of examples alone."""
    return DataLoader(TensorDataset(X, torch.zeros(20)), 8), [X[:5], X[5:10]]


SMALL = partial(vae_codec, z_dim=2, hidden_layers=(8,))


def make(codec=SMALL, creator=data):
    torch.manual_seed(0)
    return CodecTraining(codec, creator, optimizer=Adam(lr=1e-2))


def test_an_iteration_is_a_pass_over_the_data():
    training = make()
    assert isinstance(training.codec, AutoEncoder)
    before = training.evaluate()["test_error"]
    assert [training.train_iter() for _ in range(60)] == [20] * 60
    assert training.evaluate()["test_error"] < before
    assert set(training.progress_metrics()) == {"loss"}
    assert torch.equal(training.test_examples(), X[:5])
    assert training.predict_step(X).output.shape == (20, 2)


def test_codecs_are_measured_like_other_supervised_runs():
    training = make()
    numbers = measure(training, with_uncertainty=training.has_outliers).numbers
    assert set(numbers) == {"test_error"}


def test_the_test_error_is_that_of_all_numbers():
    training = make()
    expected = (training.codec.decode(training.codec.encode(X[:10])) - X[:10]).square().mean().item()
    assert training.evaluate()["test_error"] == pytest.approx(expected)


@pytest.mark.parametrize("codec", [vae_codec, discrete_vae_codec, vq_vae_codec])
def test_codecs_by_name(codec):
    training = make(codec)
    training.train_iter()
    assert training.codec.decode(training.codec.encode(X)).shape == X.shape


def test_images_have_codecs_too():
    images = torch.rand(4, 3, 8, 8)
    for codec in (vae_codec, partial(monet_codec, n_slots=2, filters=(4, 4))):
        training = make(codec, lambda: ([images], [images]))
        training.train_iter()
        assert training.evaluate()["test_error"] > 0


def test_data_without_batches_is_refused():
    with pytest.raises(ValueError, match="no batch"):
        make(creator=lambda: ([], []))
    with pytest.raises(ValueError, match="no test data"):
        make(creator=lambda: ([X], [])).evaluate()


SLOTS = partial(monet_codec, n_slots=3, slot_size=2, filters=(4, 4), hidden_layers=(8,))


def test_slots_are_compared_with_the_objects_of_the_data(monkeypatch):
    images, owners = squares(6, count=2, side=8, size=3)
    training = make(SLOTS, lambda: ([images], [(images[:2], owners[:2]), (images[2:], owners[2:])]))

    def agree(inputs):
        # The background is slot 0, which does not count; squares 0 and 1 are slots 2 and 1.
        found = torch.stack([owners[(images == one).flatten(1).all(1)][0] for one in inputs])
        return torch.nn.functional.one_hot((2 - found) % 3, 3).permute(0, 3, 1, 2).float().clamp_min(1e-6).log()

    monkeypatch.setattr(training.codec, "log_masks", agree)
    assert training.evaluate()["foreground_ari"] == pytest.approx(1.0)
    monkeypatch.setattr(training.codec, "log_masks", lambda inputs: torch.zeros(len(inputs), 3, 8, 8))
    assert training.evaluate()["foreground_ari"] == pytest.approx(0.0)


def test_labels_that_are_not_of_pixels_are_left_aside():
    images = torch.rand(4, 3, 8, 8)
    training = make(SLOTS, lambda: ([images], [(images, torch.zeros(4, dtype=torch.int64))]))
    assert set(training.evaluate()) == {"test_error"}
    expected = (training.codec.reconstruct(images) - images).square().mean().item()
    assert training.evaluate()["test_error"] == pytest.approx(expected)


def test_slots_without_layers_to_draw_with_show_a_colour_that_changes_evenly():
    codec = monet_codec(TensorSpec((3, 8, 8)), 2, 2, (4, 4), (8,), decoder_filters=())
    images, _ = codec.decode_slots(torch.randn(1, 2, 2))
    across, down = images.diff(dim=-1), images.diff(dim=-2)
    torch.testing.assert_close(across, across[..., :1, :1].expand_as(across), rtol=0, atol=1e-5)
    torch.testing.assert_close(down, down[..., :1, :1].expand_as(down), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="noise is 0"):
        monet_codec(TensorSpec((3, 8, 8)), noise=0)


def test_a_slot_encodes_what_its_mask_shows_however_faint_it_is():
    codec = monet_codec(TensorSpec((3, 8, 8)), 2, 2, (4, 4), (8,))
    image, mask = torch.rand(1, 3, 8, 8), torch.full((1, 2, 8, 8), 1e-12)
    mask[..., :3] = 1e-3
    mean, _ = codec.posterior(image, mask.log())
    unseen, seen = image.clone(), image.clone()
    unseen[..., 3:] = torch.rand(1, 3, 8, 5)
    seen[..., :3] = torch.rand(1, 3, 8, 3)
    torch.testing.assert_close(codec.posterior(unseen, mask.log())[0], mean)
    assert (codec.posterior(seen, mask.log())[0] - mean).abs().max() > 1e-3
