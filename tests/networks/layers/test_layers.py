"""Layers by hand, and each parallel layer against separate ones."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rein.config import config, fresh_configs
from rein.networks import layers
from rein.networks.layers import (
    FC,
    BatchNorm,
    BottleneckBlock,
    Conv2D,
    ConvTranspose2D,
    Embedding,
    LayerNorm,
    LearnedTensor,
    MultiHeadAttention,
    NoisyFC,
    OneHot,
    ResidualFC,
    ResidueBlock,
    TransformerBlock,
    activation_gain,
    stack_layers,
    torch_linear_init,
    variance_scaling_init,
)
from tests import tolerances


def test_fc_by_hand():
    fc = FC(2, 1, torch.relu_)
    with torch.no_grad():
        fc.weight.copy_(torch.tensor([[2.0, -1.0]]))
        fc.bias.fill_(0.5)
    assert fc(torch.tensor([[1.0, 1.0], [0.0, 3.0]])).tolist() == [[1.5], [0.0]]
    assert fc(torch.ones(4, 5, 2)).shape == (4, 5, 1)


@pytest.mark.parametrize(
    ("activation", "gain"),
    [(torch.relu, math.sqrt(2)), (layers.identity, 1.0), (torch.tanh, 1.5927), (F.elu, 1.2457)],
)
def test_activation_gain(activation, gain):
    assert activation_gain(activation) == pytest.approx(gain, abs=2e-3)


@pytest.mark.parametrize("columns", [1, 3, 8, 9])
def test_parallel_fc_is_the_same_with_its_gradients_however_few_its_columns(columns):
    torch.manual_seed(0)
    parallel = stack_layers([FC(5, columns) for _ in range(2)])
    x = torch.randn(2, 7, 5, requires_grad=True)
    expected = torch.einsum("nbi,nio->nbo", x, parallel.weight) + parallel.bias
    with torch.no_grad():
        torch.testing.assert_close(parallel(x), expected)
        assert parallel(x).is_contiguous()
    torch.testing.assert_close(parallel(x), expected)
    inputs, weights = (x, *parallel.parameters()), torch.randn_like(expected)
    for got, wanted in zip(
        torch.autograd.grad(parallel(x), inputs, weights), torch.autograd.grad(expected, inputs, weights), strict=True
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_initial_weights_keep_the_scale(distribution):
    torch.manual_seed(0)
    weight = torch.empty(500, 300)
    variance_scaling_init(weight, distribution=distribution, activation=torch.relu)
    assert weight.std().item() == pytest.approx(math.sqrt(2 / 300), rel=0.02)
    x = torch.randn(200, 300)
    assert torch.relu(x @ weight.t()).square().mean().item() == pytest.approx(1.0, rel=0.1)


def test_initial_weights_reject_unknown_settings():
    with pytest.raises(ValueError, match="mode is 'fan'"):
        variance_scaling_init(torch.empty(2, 2), mode="fan")
    with pytest.raises(ValueError, match="distribution is 'cauchy'"):
        variance_scaling_init(torch.empty(2, 2), distribution="cauchy")
    with pytest.raises(ValueError, match="2 or more dimensions"):
        variance_scaling_init(torch.empty(2))


def test_initializer_and_bias_value_are_used():
    fc = FC(3, 2, kernel_initializer=nn.init.ones_, bias_init_value=0.25)
    assert fc.weight.tolist() == [[1.0] * 3] * 2
    assert fc.bias.tolist() == [0.25] * 2
    assert FC(3, 2, use_bias=False).bias is None
    assert FC(3, 2, kernel_init_gain=0.0).weight.abs().sum() == 0


def test_all_layers_can_start_from_the_weights_of_torch():
    torch.manual_seed(0)
    linear = nn.Linear(400, 300)
    with fresh_configs():
        config("FC", initializer=torch_linear_init)
        fc = FC(400, 300, torch.relu, kernel_initializer=nn.init.ones_, bias_init_value=7.0)
    for ours, theirs in ((fc.weight, linear.weight), (fc.bias, linear.bias)):
        assert ours.abs().max().item() <= 1 / 20
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.1)
    assert FC(3, 2, use_bias=False, initializer=torch_linear_init).bias is None


LAYERS = {
    "fc": (lambda: FC(5, 4, torch.tanh), (5,)),
    "fc_no_bias": (lambda: FC(5, 4, use_bias=False), (5,)),
    "fc_one_output": (lambda: FC(5, 1), (5,)),
    "fc_ln": (lambda: FC(5, 4, use_ln=True), (5,)),
    "fc_bn": (lambda: FC(5, 4, use_bn=True), (5,)),
    "noisy": (lambda: NoisyFC(5, 4), (5,)),
    "layer_norm": (lambda: LayerNorm((2, 5)), (2, 5)),
    "batch_norm": (lambda: BatchNorm(5), (5,)),
    "conv": (lambda: Conv2D(2, 3, 3, strides=2, padding=1), (2, 7, 7)),
    "conv_ln": (lambda: Conv2D(2, 3, (3, 2), use_ln=True), (2, 7, 7)),
    "conv_bn": (lambda: Conv2D(2, 3, 3, use_bn=True), (2, 7, 7)),
    "conv_transpose": (lambda: ConvTranspose2D(2, 3, 3, strides=2, padding=1, output_padding=1), (2, 5, 5)),
    "residue": (lambda: ResidueBlock(2, 3, stride=2), (2, 6, 6)),
    "bottleneck": (lambda: BottleneckBlock(2, 3, (4, 4, 6), 2), (2, 6, 6)),
    "bottleneck_up": (lambda: BottleneckBlock(2, 3, (4, 4, 6), 2, transpose=True), (2, 6, 6)),
    "residual_fc": (lambda: ResidualFC(5), (5,)),
    "transformer": (lambda: TransformerBlock(8, 2, 3), (3, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_parallel_layer_equals_separate_ones(name, shared, training):
    if name == "noisy" and training:
        pytest.skip("draws noise")
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    plain = [make().train(training) for _ in range(3)]
    for layer in plain:
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.data += 0.1 * torch.rand_like(tensor)
    parallel = stack_layers(plain)
    x = torch.randn(4, *shape).expand(3, 4, *shape) if shared else torch.randn(3, 4, *shape)
    got = parallel(x)
    expected = torch.stack([layer(x[i]) for i, layer in enumerate(plain)])
    tolerances.assert_close(got, expected, **tolerances.sums_of(plain[0]))
    assert sum(p.numel() for p in parallel.parameters()) == 3 * sum(p.numel() for p in plain[0].parameters())
    if training and name.endswith("bn"):  # running statistics moved alike
        again = parallel.eval()(x)
        torch.testing.assert_close(again, torch.stack([p.eval()(x[i]) for i, p in enumerate(plain)]))
    if name in ("fc", "conv"):
        with torch.no_grad():
            tolerances.assert_close(parallel(x), expected, **tolerances.sums_of(plain[0]))


@pytest.mark.parametrize("name", LAYERS)
def test_make_parallel_draws_independent_replicas(name):
    make, shape = LAYERS[name]
    layer = make()
    parallel = layer.make_parallel(2)
    assert parallel(torch.randn(2, 4, *shape)).shape[:2] == (2, 4)
    with pytest.raises(ValueError, match="positive int"):
        layer.make_parallel(0)


@pytest.mark.parametrize("name", LAYERS)
def test_further_leading_dimensions_are_kept(name):
    make, shape = LAYERS[name]
    layer = make().eval()
    x = torch.randn(2, 3, *shape)
    expected = torch.stack([layer(x[0]), layer(x[1])])
    tolerances.assert_close(layer(x), expected, **tolerances.sums_of(layer))


def test_parallel_embedding_and_learned_tensor():
    plain = [Embedding(4, 3) for _ in range(2)]
    x = torch.tensor([[0, 3, 1], [2, 2, 0]])
    got = stack_layers(plain)(x)
    assert torch.equal(got, torch.stack([plain[0](x[0]), plain[1](x[1])]))
    tensors = [LearnedTensor((3,), value) for value in (1.0, 2.0)]
    got = stack_layers(tensors)(torch.zeros(2, 5, 7), 1)
    assert got.shape == (2, 5, 3)
    assert got[1].unique().tolist() == [2.0]


def test_one_hot_and_shaping_by_hand():
    assert OneHot(3)(torch.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    x = torch.arange(12.0).reshape(2, 6)
    assert layers.Reshape((3, 2))(x).shape == (2, 3, 2)
    assert layers.Reshape((3, 2))(x.expand(5, 2, 6)).shape == (5, 2, 3, 2)
    assert layers.Reshape((-1,))(x.reshape(2, 3, 2)).shape == (2, 6)
    assert layers.Permute(1, 0)(x.reshape(1, 2, 6)).shape == (1, 6, 2)
    assert layers.Transpose()(x).shape == (6, 2)
    assert layers.Cast(torch.int64)(x).dtype == torch.int64
    assert layers.Sum()(x).tolist() == [15.0, 51.0]
    assert layers.Mean(-2)(x)[0].item() == 3.0
    assert layers.Scale(2.0)(x)[0, 1].item() == 2.0
    assert layers.Flatten(0)(x).shape == (2, 6, 1)


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_scale_gradient(scale):
    x = torch.tensor([3.0], requires_grad=True)
    y = layers.ScaleGradient(scale)(x * 1)
    assert y.item() == 3.0
    (y * 2 + x * 0).backward()
    assert x.grad.item() == 2 * scale


def test_noisy_layer_has_noise_in_training_only():
    torch.manual_seed(0)
    layer, x = NoisyFC(4, 3), torch.randn(5, 4)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    layer.train()
    samples = torch.stack([layer(x) for _ in range(3000)])
    torch.testing.assert_close(samples.mean(0), layer.eval()(x), atol=0.1, rtol=0)
    parallel = layer.make_parallel(2).train()
    y = parallel(x.expand(2, 5, 4))
    assert not torch.equal(y, parallel(x.expand(2, 5, 4)))


def test_batch_norm_keeps_running_statistics():
    norm = BatchNorm(1, momentum=0.5)
    norm(torch.tensor([[1.0], [3.0]]))
    assert norm.running_mean.item() == 1.0
    assert norm.running_var.item() == 0.5 * 1 + 0.5 * 2
    norm.reset_parameters()
    assert norm.running_mean.item() == 0.0


def test_attention_ignores_masked_memory():
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2)
    query, memory = torch.randn(3, 2, 8), torch.randn(3, 4, 8)
    mask = torch.tensor([False, False, True, True]).expand(3, 4)
    torch.testing.assert_close(attention(query, memory, mask), attention(query, memory[:, :2]))
    reference = nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([m.weight for m in (attention.query, attention.key, attention.value)]))
        reference.in_proj_bias.zero_()
        reference.out_proj.weight.copy_(attention.output.weight)
        reference.out_proj.bias.zero_()
    torch.testing.assert_close(attention(query, memory), reference(query, memory, memory)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FC(0, 3), "input_size must be a positive int, got 0"),
        (lambda: FC(3, True), "output_size must be a positive int, got True"),
        (lambda: FC(3, 3, use_bn=True, use_ln=True), "exclude each other"),
        (lambda: Conv2D(1, 2, 0), "kernel_height"),
        (lambda: Conv2D(1, 2, 3, padding=-1), "padding must not be negative"),
        (lambda: Conv2D(1, 2, 3, strides=0), "stride_height"),
        (lambda: Conv2D(1, 2, 5).output_size(3, 9), "smaller than the kernel"),
        (lambda: ConvTranspose2D(1, 2, 3, output_padding=1), "less than strides"),
        (lambda: ConvTranspose2D(1, 2, 1, padding=1).output_size(2, 2), "cuts everything"),
        (lambda: ResidueBlock(1, 2, kernel_size=2), "must be odd"),
        (lambda: BottleneckBlock(1, 3, (4, 4), 1), "three numbers"),
        (lambda: MultiHeadAttention(7, 2), "not a multiple"),
        (lambda: TransformerBlock(8, 2, 3, positional_encoding="rel"), "choose 'abs' or 'none'"),
        (lambda: layers.Permute(0, 2), "not a permutation"),
        (lambda: layers.Transpose(0, 1), "from the end"),
        (lambda: layers.NestConcat(dim=1), "from the end"),
        (lambda: layers.Sum(0), "from the end"),
        (lambda: Embedding(0, 3), "num_embeddings"),
        (lambda: layers.LSTMLayer(3, 0), "hidden_size"),
        (lambda: layers.Reshape((3, 2))(torch.zeros(2, 5)), "do not make"),
    ],
)
def test_impossible_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_layers_equal_those_of_torch(kind):
    torch.manual_seed(0)
    ours = layers.LSTMLayer(3, 4) if kind == "lstm" else layers.GRULayer(3, 4)
    theirs = nn.LSTM(3, 4, batch_first=True) if kind == "lstm" else nn.GRU(3, 4, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input_gates.weight)
        theirs.weight_hh_l0.copy_(ours.hidden_gates.weight)
        theirs.bias_ih_l0.copy_(ours.input_gates.bias)
        theirs.bias_hh_l0.zero_()
        if kind == "gru":
            theirs.bias_hh_l0.copy_(ours.hidden_gates.bias)
    x = torch.randn(2, 6, 3)
    expected, _ = theirs(x)
    got, state = ours.unroll(x, ours.initial_state(x[:, 0]))
    sums = tolerances.sums_of(ours, steps=6)
    tolerances.assert_close(got, expected, **sums)
    stepwise, states = [], ours.initial_state(x[:, 0])
    general = ours.initial_state(x[:, 0])
    for t in range(6):
        general = ours.advance(ours.input_gates(x[:, t]), general)
        states = ours(x[:, t], states)
        tolerances.assert_close(general[0], states[0], **sums)
        stepwise.append(states[0])
    tolerances.assert_close(torch.stack(stepwise, 1), expected, **sums)
    for mine, last in zip(state, states, strict=True):
        tolerances.assert_close(mine, last, **sums)


def test_lstm_starts_with_forget_bias_also_in_copies():
    layer = layers.LSTMLayer(3, 2, forget_bias=1.5)
    assert layer.input_gates.bias.tolist() == [0, 0, 1.5, 1.5, 0, 0, 0, 0]
    assert layer.copy().input_gates.bias.tolist() == [0, 0, 1.5, 1.5, 0, 0, 0, 0]


def test_copy_of_a_module_without_reset_is_refused():
    class Odd(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Module()
            self.inner.register_parameter("p", nn.Parameter(torch.zeros(1)))

    with pytest.raises(TypeError, match=r"'inner' .*no reset_parameters"):
        Odd().copy()
