from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from rein.agents.representation_parts import discrete_vae_codec, monet_codec, vae_codec, vq_vae_codec
from rein.algorithms.representation import AutoEncoder, CodecTraining
from rein.optimizers import Adam

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
