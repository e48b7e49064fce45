"""Auto-encoders on scikit-learn's 8x8 digits, beside PCA and k-means; errors are per pixel, of pixels in [0, 1]."""

from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rein.algorithms.representation import AutoEncoder, DiscreteVAE, VariationalAutoEncoder, Vqvae
from rein.networks import EncodingNetwork
from rein.networks.layers import Flatten, identity
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

pytestmark = pytest.mark.learning

IMAGE = TensorSpec((64,))
LAYERS = partial(EncodingNetwork, fc_layer_params=(256, 256), last_activation=identity)


class Digits(NamedTuple):
    train: Tensor
    test: Tensor
    train_labels: Tensor
    test_labels: Tensor

    def error(self, model) -> float:
        with torch.no_grad():
            return (model.predict_step(self.test).output - self.test).square().mean().item()


@pytest.fixture(params=[0, 1, 2])
def digits(request) -> Digits:
    """A quarter for tests, drawn by the seed."""
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    torch.manual_seed(request.param)
    parts = train_test_split(
        data.data / 16, data.target, test_size=0.25, random_state=request.param, stratify=data.target
    )
    train, test, train_labels, test_labels = (torch.as_tensor(part) for part in parts)
    return Digits(train.float(), test.float(), train_labels, test_labels)


def test_vae(fit, digits):
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KNeighborsClassifier

    encoder = VariationalAutoEncoder(8, preprocess_network=LAYERS(IMAGE, last_layer_size=64), beta=3e-4)
    model = AutoEncoder(encoder, partial(LAYERS, last_layer_size=64), optimizer=Adam(lr=1e-3))
    fit(model, digits.train, 64, 150)
    error = digits.error(model)
    with torch.no_grad():
        train, test = model.encode(digits.train), model.encode(digits.test)
    neighbours = KNeighborsClassifier(5).fit(train, digits.train_labels).score(test, digits.test_labels)
    pca = PCA(8).fit(digits.train)
    by_pca = (pca.inverse_transform(pca.transform(digits.test)) - digits.test.numpy()) ** 2
    print(f"VAE with 8 latents: error {error:.4f} (PCA {by_pca.mean():.4f}), 5-NN {neighbours:.3f}")
    assert error < 0.0242
    assert neighbours >= 0.95


def test_discrete_vae(fit, digits):
    z_spec = BoundedTensorSpec((16,), torch.int64, 0, 7)
    encoder = DiscreteVAE(z_spec, IMAGE, LAYERS, beta=1e-5)
    decoder = partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=64)
    model = AutoEncoder(encoder, decoder, optimizer=Adam(lr=1e-3))
    fit(model, digits.train, 64, 150)
    error = digits.error(model)
    print(f"discrete VAE with 16 variables of 8: error {error:.4f}")
    assert error < 0.030


def test_vq_vae(fit, digits):
    from sklearn.cluster import KMeans

    model = Vqvae(
        IMAGE,
        num_embeddings=64,
        embedding_dim=8,
        encoder_ctor=partial(LAYERS, last_layer_size=32, output_tensor_spec=TensorSpec((4, 8))),
        decoder_ctor=partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=64),
        optimizer=Adam(lr=1e-3),
        commitment_loss_weight=0.25,
    )
    fit(model, digits.train, 64, 150)
    error = digits.error(model)
    used = len(model.quantize(digits.test).codes.unique())
    means = KMeans(256, n_init=1, random_state=0).fit(digits.train.numpy())
    by_means = (means.cluster_centers_[means.predict(digits.test.numpy())] - digits.test.numpy()) ** 2
    print(f"VQ-VAE with 4 codes of 64: error {error:.4f} (256 means {by_means.mean():.4f}), {used} codes in use")
    assert error < 0.0210
    assert used >= 32
