"""Networks with mathematics of their own: Jacobians, given parameters, memories, factored critics."""

import itertools
import weakref

import pytest
import torch

from rein.networks import (
    ActionQuantizer,
    AMPWrapper,
    Delay,
    EncodingNetwork,
    MdqCriticNetwork,
    MemoryReader,
    MemoryWithUsage,
    ParamNetwork,
    ReluMLP,
    TransformerNetwork,
)
from rein.specs import BoundedTensorSpec, TensorSpec

VECTOR = TensorSpec((4,))


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5), (6, 5, 7)])
def test_jacobian_products_equal_autograd(hidden):
    torch.manual_seed(0)
    network, x = ReluMLP(VECTOR, 3, hidden), torch.randn(5, 4)
    expected = torch.stack([torch.autograd.functional.jacobian(lambda v: network(v[None])[0][0], row) for row in x])
    torch.testing.assert_close(network.compute_jac(x), expected)
    vec, direction = torch.randn(5, 3), torch.randn(5, 4)
    vjp, outputs = network.compute_vjp(x, vec)
    torch.testing.assert_close(vjp, torch.einsum("bo,boi->bi", vec, expected))
    torch.testing.assert_close(outputs, network(x)[0])
    torch.testing.assert_close(network.compute_jvp(x, direction)[0], torch.einsum("boi,bi->bo", expected, direction))
    last = slice(1, None)
    torch.testing.assert_close(network.compute_jac(x, last), expected[:, 1:])
    torch.testing.assert_close(
        network.compute_vjp(x, vec[:, 1:], last)[0], torch.einsum("bo,boi->bi", vec[:, 1:], expected[:, 1:])
    )
    torch.testing.assert_close(
        network.compute_jvp(x, direction, last)[0], torch.einsum("boi,bi->bo", expected[:, 1:], direction)
    )
    square = ReluMLP(VECTOR, hidden_layers=hidden)
    diagonal = square.compute_jac_diag(x)
    torch.testing.assert_close(diagonal, square.compute_jac(x).diagonal(dim1=1, dim2=2))
    diagonal.sum().backward()
    assert square.last.weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="no diagonal"):
        network.compute_jac_diag(x)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"input_tensor_spec": VECTOR, "fc_layer_params": (5, (6, False)), "last_layer_size": 2},
        {"input_tensor_spec": VECTOR, "fc_layer_params": (5,), "use_fc_ln": True, "last_layer_size": 2},
        {
            "input_tensor_spec": TensorSpec((2, 8, 8)),
            "conv_layer_params": ((3, 3, 1, 1, 2), (4, 3, 1)),
            "use_conv_bias": True,
            "use_conv_ln": True,
            "fc_layer_params": (5,),
            "last_layer_size": 2,
        },
    ],
)
def test_param_network_evaluates_each_particle(kwargs):
    torch.manual_seed(0)
    network = ParamNetwork(**kwargs, n_groups=3)
    spec = kwargs["input_tensor_spec"]
    theta = torch.randn(3, network.param_length, requires_grad=True)
    x = torch.randn(6, *spec.shape)
    network.set_parameters(theta)
    y, _ = network(x)
    assert y.shape == (6, 3, 2)
    assert network.output_spec == TensorSpec((3, 2))
    y.square().sum().backward()
    assert (theta.grad.abs().sum(1) > 0).all()
    for i in range(3):
        network.set_parameters(theta[i].detach())
        torch.testing.assert_close(network(x)[0][:, 0], y[:, i].detach(), atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="parameters must have shape"):
        network.set_parameters(theta[:, 1:])


def test_param_network_by_hand():
    network = ParamNetwork(TensorSpec((2,)), last_layer_size=1)
    assert network.param_length == 3
    network.set_parameters(torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 0.0]]))
    assert network(torch.tensor([[3.0, 4.0]]))[0].tolist() == [[[11.5], [-4.0]]]
    own = torch.tensor([[[3.0, 4.0], [1.0, 1.0]]])
    assert network(own)[0].tolist() == [[[11.5], [-1.0]]]


def test_param_network_takes_what_was_set_last_and_holds_no_graph():
    network = ParamNetwork(TensorSpec((2,)), fc_layer_params=(3,), last_layer_size=1)
    x = torch.ones(1, 2)
    first = torch.zeros(2, network.param_length, requires_grad=True)
    network.set_parameters(first)
    network(x)
    graph = weakref.ref(first)
    network.set_parameters(torch.ones(2, network.param_length))
    del first
    assert graph() is None
    # relu(1 + 1 + 1) three times, summed, and 1.
    assert network(x)[0].flatten().tolist() == [10.0, 10.0]


def test_memory_reads_what_was_written_and_overwrites_the_least_used():
    memory = MemoryWithUsage(mem_dim=2, mem_size=2, scale=50.0)
    state = memory.initial_state(1)
    first, second, third = (torch.tensor([v]) for v in ([1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]))
    state = memory.write(memory.write(state, first), second)
    assert sorted(state.memory[0].tolist()) == [[0.0, 1.0], [1.0, 0.0]]
    read, state = memory.read(state, first[:, None] * 3)
    torch.testing.assert_close(read[:, 0], first, atol=1e-4, rtol=0)
    state = memory.write(state, third)  # `second` was not read: it goes
    contents = state.memory[0].tolist()
    assert [1.0, 0.0] in contents
    assert [-1.0, -1.0] in contents
    snapshot = MemoryWithUsage(2, 2, snapshot_only=True)
    _, unchanged = snapshot.read(state, first[:, None])
    assert torch.equal(unchanged.usage, state.usage)


def test_memory_reader_gets_gradient():
    memory = MemoryWithUsage(3, 4)
    reader = MemoryReader(5, memory, num_keys=2)
    state = memory.write(memory.initial_state(2), torch.randn(2, 3))
    read, _ = reader(torch.randn(2, 5), state)
    assert read.shape == (2, 6)
    read.sum().backward()
    assert reader.keys.weight.grad is not None


def test_transformer_sees_exactly_its_memory():
    torch.manual_seed(0)
    network = TransformerNetwork(TensorSpec((8,)), 0, 2, 16, num_memory_layers=1, memory_size=2).eval()
    x = torch.randn(1, 6, 8)
    last, _ = network.unroll(x)
    for start, same in ((3, True), (4, False)):
        part, _ = network.unroll(x[:, start:])
        assert torch.allclose(part[:, -1], last[:, -1], atol=1e-6) == same


def test_factored_critic_is_consistent():
    torch.manual_seed(0)
    action_spec = BoundedTensorSpec((2,), minimum=-1.0, maximum=1.0)
    quantizer = ActionQuantizer(action_spec, 3)
    network = MdqCriticNetwork(
        (VECTOR, action_spec),
        quantizer,
        obs_encoding_layer_params=(6,),
        pre_encoding_layer_params=(5,),
        mid_encoding_layer_params=(6,),
        post_encoding_layer_params=(6,),
    )
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    x, alpha = torch.randn(4, 4), 0.7
    actions = [torch.tensor(pair) for pair in itertools.product((-1.0, 0.0, 1.0), repeat=2)]
    forms = [network.adv_form((x, action.expand(4, 2)), alpha) for action in actions]
    total = torch.stack([form.log_pi.exp() for form in forms]).sum(0)
    torch.testing.assert_close(total, torch.ones(4))
    # The soft maximum of the advantage form over all actions is the state's value.
    critics = torch.stack([form.critic for form in forms])
    soft = alpha * (torch.logsumexp(critics / alpha, 0) - torch.log(torch.tensor(9.0)))
    value = network.value(network.observation_encoder(x)[0])[0].squeeze(-1)
    torch.testing.assert_close(soft, value, atol=1e-5, rtol=1e-5)
    chosen = network.get_action(x, alpha)
    assert set(chosen.action.flatten().tolist()) <= {-1.0, 0.0, 1.0}
    again = network.adv_form((x, chosen.action), alpha)
    torch.testing.assert_close(again.log_pi, chosen.log_pi)
    torch.testing.assert_close(again.kl_wrt_prior, chosen.kl_wrt_prior)
    assert (chosen.kl_wrt_prior >= 0).all()
    greedy = network.get_action(x, alpha, greedy=True)
    assert torch.equal(greedy.action, network.get_action(x, alpha, greedy=True).action)
    torch.testing.assert_close(network.get_uniform_prior_logpi(x), -torch.full((4,), 9.0).log())
    assert network((x, chosen.action))[0].shape == (4, 2)


def test_factored_policy_samples_its_probabilities():
    torch.manual_seed(0)
    action_spec = BoundedTensorSpec((1,), minimum=0.0, maximum=1.0)
    network = MdqCriticNetwork((VECTOR, action_spec), ActionQuantizer(action_spec, 2))
    for parameter in network.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    x = torch.ones(1, 4).expand(4000, 4)
    share = network.get_action(x, 1.0).action.mean().item()
    probability = network.adv_form((x[:1], torch.ones(1, 1)), 1.0).log_pi.exp().item()
    assert share == pytest.approx(probability, abs=0.03)


def test_delay_returns_earlier_inputs():
    network = Delay(VECTOR, delay=2)
    state, seen = (), []
    for value in range(4):
        output, state = network(torch.full((1, 4), float(value)), state)
        seen.append(output[0, 0].item())
    assert seen == [0.0, 0.0, 0.0, 1.0]
    assert Delay(VECTOR, delay=0)(torch.ones(1, 4))[0].sum() == 4
    with pytest.raises(ValueError, match="must not be negative"):
        Delay(VECTOR, delay=-1)


@pytest.mark.parametrize("enabled", [False, True])
def test_mixed_precision_wrapper_returns_full_precision(enabled):
    network = AMPWrapper(enabled, EncodingNetwork(VECTOR, fc_layer_params=(8,)))
    output, _ = network(torch.randn(2, 4))
    assert output.dtype == torch.float32
    assert network.output_spec == TensorSpec((8,))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ReluMLP(VECTOR, use_bn=True), "batch normalization"),
        (lambda: ParamNetwork(VECTOR), "no layer with parameters"),
        (lambda: ParamNetwork(TensorSpec((2, 3)), last_layer_size=1), "give conv_layer_params"),
        (lambda: TransformerNetwork(VECTOR, 0, 2, 8, 0, 3), "at least one memory layer"),
        (lambda: TransformerNetwork(TensorSpec((5,)), 0, 2, 8, 1, 3), "not a multiple"),
        (lambda: ActionQuantizer(TensorSpec((2,))), "continuous action with bounds"),
        (lambda: ActionQuantizer(BoundedTensorSpec((2,)), 1), "at least 2 bins"),
    ],
)
def test_impossible_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
