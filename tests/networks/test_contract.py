"""What every network promises: specs, copies, round trips, replicas, sequences, tracing."""

import copy
import pickle
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from rein import nest
from rein.distributions.params import distributions_to_params
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    ActorNetwork,
    ActorRNNNetwork,
    BetaProjectionNetwork,
    Branch,
    CriticNetwork,
    CriticRNNNetwork,
    Delay,
    DynamicsNetwork,
    Echo,
    EmbeddingPreprocessor,
    EncodingNetwork,
    GRUCell,
    GRUEncodingNetwork,
    ImageDecodingNetwork,
    ImageEncodingNetwork,
    LSTMCell,
    LSTMEncodingNetwork,
    MdqCriticNetwork,
    MixtureProjectionNetwork,
    NestConcat,
    NestSum,
    Network,
    NormalProjectionNetwork,
    OnehotCategoricalProjectionNetwork,
    Parallel,
    ParamNetwork,
    QNetwork,
    QRNNNetwork,
    RecurrentEncodingNetwork,
    ReluMLP,
    ResidualCell,
    ResnetDecodingNetwork,
    ResnetEncodingNetwork,
    Sequential,
    SpatialBroadcastDecodingNetwork,
    StableNormalProjectionNetwork,
    TransformerCell,
    TransformerNetwork,
    TruncatedProjectionNetwork,
    UnitNormalActorDistributionNetwork,
    ValueNetwork,
    ValueRNNNetwork,
    layers,
)
from rein.specs import BoundedTensorSpec, TensorSpec
from tests import tolerances

VECTOR = TensorSpec((5,))
IMAGE = TensorSpec((2, 12, 12))
ACTION = BoundedTensorSpec((2,), minimum=(-1.0, -2.0), maximum=(1.0, 3.0))
CHOICE = BoundedTensorSpec((), torch.int64, minimum=0, maximum=3)
CHOICES = BoundedTensorSpec((2,), torch.int64, minimum=0, maximum=(2, 4))
NESTED = {"image": IMAGE, "pair": (VECTOR, CHOICE)}
CONV = ((4, 3, 2), (6, 3, 1, 1))
ATTENTION = partial(TransformerCell, num_attention_heads=2, memory_size=3)


def preprocessors() -> dict:
    return {
        "image": EmbeddingPreprocessor(IMAGE, 8, CONV),
        "pair": (EmbeddingPreprocessor(VECTOR, 8, fc_layer_params=(6,)), EmbeddingPreprocessor(CHOICE, 8)),
    }


def nested_encoder() -> Network:
    return EncodingNetwork(
        NESTED,
        input_preprocessors=preprocessors(),
        preprocessing_combiner=NestSum(activation=torch.relu_),
        fc_layer_params=(7,),
    )


def echo() -> Network:
    spec = {"input": VECTOR, "echo": TensorSpec((3,))}
    block = Sequential(NestConcat(), layers.FC(8, 3, torch.tanh), input_tensor_spec=spec)
    return Echo(Branch(output=block.copy(), echo=block, input_tensor_spec=spec))


NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": partial(EncodingNetwork, VECTOR, fc_layer_params=(8, 8), last_layer_size=3, last_activation=torch.tanh),
    "mlp_layer_norm": partial(EncodingNetwork, VECTOR, fc_layer_params=(8,), use_fc_ln=True),
    "mlp_batch_norm": partial(EncodingNetwork, VECTOR, fc_layer_params=(8,), use_fc_bn=True),
    "cnn": partial(EncodingNetwork, IMAGE, conv_layer_params=CONV, fc_layer_params=(8,)),
    "nested": nested_encoder,
    "nested_concat": partial(
        EncodingNetwork,
        (VECTOR, TensorSpec((3,))),
        preprocessing_combiner=NestConcat(),
        fc_layer_params=(8,),
    ),
    "image": partial(ImageEncodingNetwork, IMAGE, ((4, 3, 1, 1, 2),), use_ln=True),
    "image_batch_norm": partial(ImageEncodingNetwork, IMAGE, CONV, use_bn=True, flatten_output=True),
    "image_decoder": partial(ImageDecodingNetwork, VECTOR, ((4, 3, 2), (1, 4, 2, 1)), 3, 5),
    "broadcast_decoder": partial(SpatialBroadcastDecodingNetwork, VECTOR, 6, 7, ((4, 3), (2, 3)), (6,)),
    "resnet_encoder": partial(ResnetEncodingNetwork, TensorSpec((3, 16, 16)), output_size=10),
    "resnet_decoder": partial(ResnetDecodingNetwork, VECTOR, TensorSpec((3, 16, 16))),
    "lstm": partial(LSTMEncodingNetwork, VECTOR, hidden_size=(6, 7), post_fc_layer_params=(4,)),
    "lstm_all_outputs": partial(LSTMEncodingNetwork, VECTOR, hidden_size=(6, 7), lstm_output_layers=(0, -1)),
    "gru": partial(GRUEncodingNetwork, VECTOR, hidden_size=6),
    "lstm_cell": partial(LSTMCell, 5, 4),
    "gru_cell": partial(GRUCell, 5, 4),
    "residual_cell": partial(ResidualCell, 5, 4),
    "residual": partial(RecurrentEncodingNetwork, VECTOR, ResidualCell, hidden_size=(6, 4)),
    "actor": partial(ActorNetwork, VECTOR, ACTION, fc_layer_params=(8,)),
    "actor_nested": partial(ActorNetwork, VECTOR, {"a": ACTION, "b": (ACTION,)}, fc_layer_params=(8,)),
    "actor_gru": partial(ActorRNNNetwork, VECTOR, ACTION, lstm_hidden_size=(6, 5), cell=layers.GRULayer),
    "actor_rnn": partial(ActorRNNNetwork, VECTOR, ACTION, lstm_hidden_size=6),
    "policy_normal": partial(ActorDistributionNetwork, VECTOR, ACTION, fc_layer_params=(8,)),
    "policy_mixed": partial(
        ActorDistributionNetwork, VECTOR, (CHOICE, {"x": ACTION, "y": CHOICES}), fc_layer_params=(8,)
    ),
    "policy_sac": partial(
        ActorDistributionNetwork,
        VECTOR,
        ACTION,
        fc_layer_params=(8,),
        continuous_projection_net_ctor=partial(
            NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False
        ),
    ),
    "policy_stable": partial(
        ActorDistributionNetwork,
        VECTOR,
        ACTION,
        continuous_projection_net_ctor=partial(StableNormalProjectionNetwork, state_dependent_std=True, max_std=2.0),
    ),
    "policy_clip": partial(
        ActorDistributionNetwork,
        VECTOR,
        ACTION,
        continuous_projection_net_ctor=partial(
            NormalProjectionNetwork, scale_distribution=True, dist_squashing_transform="clip"
        ),
    ),
    "policy_beta": partial(
        ActorDistributionNetwork, VECTOR, ACTION, continuous_projection_net_ctor=BetaProjectionNetwork
    ),
    "policy_truncated": partial(
        ActorDistributionNetwork, VECTOR, ACTION, continuous_projection_net_ctor=TruncatedProjectionNetwork
    ),
    "policy_mixture": partial(
        ActorDistributionNetwork,
        VECTOR,
        ACTION,
        continuous_projection_net_ctor=partial(MixtureProjectionNetwork, num_components=3),
    ),
    "policy_onehot": partial(
        ActorDistributionNetwork,
        VECTOR,
        TensorSpec((4,)),
        continuous_projection_net_ctor=OnehotCategoricalProjectionNetwork,
    ),
    "policy_attention": partial(
        ActorDistributionRNNNetwork, VECTOR, (CHOICE, ACTION), lstm_hidden_size=(8, 6), cell=ATTENTION
    ),
    "policy_rnn": partial(ActorDistributionRNNNetwork, VECTOR, (CHOICE, ACTION), lstm_hidden_size=6),
    "policy_unit": partial(UnitNormalActorDistributionNetwork, NESTED, TensorSpec((3,))),
    "critic": partial(CriticNetwork, (VECTOR, ACTION), joint_fc_layer_params=(8, 8)),
    "critic_encoders": partial(
        CriticNetwork,
        (NESTED, CHOICE),
        TensorSpec((3,)),
        observation_input_processors=preprocessors(),
        observation_preprocessing_combiner=NestConcat(),
        observation_fc_layer_params=(8,),
        action_fc_layer_params=(8,),
        observation_action_combiner=NestSum(),
    ),
    "critic_attention": partial(CriticRNNNetwork, (VECTOR, ACTION), lstm_hidden_size=6, cell=ATTENTION),
    "critic_gru": partial(CriticRNNNetwork, (VECTOR, ACTION), lstm_hidden_size=6, cell=GRUCell),
    "critic_rnn": partial(CriticRNNNetwork, (VECTOR, ACTION), joint_fc_layer_params=(8,), lstm_hidden_size=6),
    "value": partial(ValueNetwork, VECTOR, fc_layer_params=(8,)),
    "value_vector": partial(ValueNetwork, VECTOR, TensorSpec((3,))),
    "value_gru": partial(ValueRNNNetwork, VECTOR, lstm_hidden_size=6, cell=layers.GRULayer),
    "value_rnn": partial(ValueRNNNetwork, VECTOR, lstm_hidden_size=6),
    "q": partial(QNetwork, VECTOR, CHOICE, fc_layer_params=(8,)),
    "q_rainbow": partial(QNetwork, VECTOR, CHOICE, fc_layer_params=(8,), num_quantiles=5, dueling=True, noisy=True),
    "q_universal": partial(
        QNetwork, (VECTOR, ACTION), CHOICE, preprocessing_combiner=NestConcat(), fc_layer_params=(8,)
    ),
    "q_gru": partial(QRNNNetwork, VECTOR, CHOICE, lstm_hidden_size=6, cell=layers.GRULayer),
    "q_rnn": partial(QRNNNetwork, VECTOR, CHOICE, lstm_hidden_size=6, dueling=True),
    "dynamics": partial(DynamicsNetwork, (VECTOR, CHOICE), VECTOR, joint_fc_layer_params=(8,)),
    "dynamics_prob": partial(DynamicsNetwork, (VECTOR, ACTION), VECTOR, joint_fc_layer_params=(8,), prob=True),
    "relu_mlp": partial(ReluMLP, VECTOR, hidden_layers=(6, 7)),
    "transformer": partial(
        TransformerNetwork, TensorSpec((3, 8)), 1, num_attention_heads=2, d_ff=16, num_memory_layers=2, memory_size=4
    ),
    "delay": partial(Delay, VECTOR, delay=2),
    "sequential": lambda: Sequential(
        layers.FC(5, 6, torch.relu_),
        memory=LSTMCell(6, 4),
        skip=(("input", "memory"), NestConcat()),
        output={"last": "skip", "memory": "memory"},
        input_tensor_spec=VECTOR,
    ),
    "parallel": lambda: Parallel({"a": layers.FC(5, 3), "b": LSTMCell(5, 4)}, {"a": VECTOR, "b": VECTOR}),
    "branch": lambda: Branch(layers.FC(5, 3), GRUCell(5, 4), input_tensor_spec=VECTOR),
    "echo": echo,
}
OTHER_NETWORKS: dict[str, Callable[[], Network]] = {
    "mdq": partial(MdqCriticNetwork, (VECTOR, ACTION), free_form_fc_layer_params=(8,)),
    "param": partial(ParamNetwork, VECTOR, fc_layer_params=(6,), last_layer_size=2, n_groups=3),
}
ALL = NETWORKS | OTHER_NETWORKS
BATCH = 3


def inputs_for(spec, *lead: int):
    generator = torch.Generator().manual_seed(1)

    def one(s: TensorSpec) -> Tensor:
        if s.is_discrete:
            return s.sample(lead, generator)
        return torch.randn(*lead, *s.shape, generator=generator)

    return nest.map_structure(one, spec)


def build(name: str) -> Network:
    torch.manual_seed(0)
    network = ALL[name]()
    with torch.no_grad():  # away from special initial values
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network.eval()


def tensors(output) -> list[Tensor]:
    return nest.flatten(distributions_to_params(output))


def assert_equal(left, right) -> None:
    for x, y in zip(tensors(left), tensors(right), strict=True):
        assert torch.equal(x, y)


def assert_close(left, right, network: Network, steps: int = 1) -> None:
    """Equal but for the order of the sums in `network`."""
    for x, y in zip(tensors(left), tensors(right), strict=True):
        tolerances.assert_close(x, y, **tolerances.sums_of(network, steps))


@pytest.mark.parametrize("name", ALL)
def test_specs_describe_what_is_returned(name):
    network = build(name)
    output, state = network(inputs_for(network.input_tensor_spec, BATCH))
    nest.assert_same_structure(
        nest.map_structure(lambda _: 0, output), nest.map_structure(lambda _: 0, network.output_spec)
    )
    specs = nest.flatten(nest.map_structure(lambda s: getattr(s, "input_params_spec", s), network.output_spec))
    for tensor, spec in zip(tensors(output), specs, strict=True):
        assert tensor.shape == (BATCH, *spec.shape)
        assert tensor.dtype == spec.dtype
    for tensor, spec in zip(nest.flatten(state), nest.flatten(network.state_spec), strict=True):
        assert tensor.shape == (BATCH, *spec.shape)
        assert tensor.dtype == spec.dtype
    nest.assert_same_structure(network.get_initial_state(2), state)


@pytest.mark.parametrize("name", ALL)
def test_asking_for_specs_leaves_no_trace(name):
    network = build(name).train()
    random_state = torch.get_rng_state()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    network._found_specs = None
    assert network.output_spec is not None
    assert torch.equal(torch.get_rng_state(), random_state)
    assert network.training
    for key, value in network.state_dict().items():
        assert torch.equal(value, before[key])
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("name", ALL)
def test_round_trips_keep_the_function(name):
    network = build(name)
    inputs = inputs_for(network.input_tensor_spec, BATCH)
    expected = network(inputs)
    assert_equal(copy.deepcopy(network)(inputs), expected)
    assert_equal(pickle.loads(pickle.dumps(network))(inputs), expected)
    if name != "param":  # its parameters are given from outside
        other = network.copy().eval()
        other.load_state_dict(network.state_dict())
        assert_equal(other(inputs), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_copy_has_fresh_parameters_of_the_same_shapes(name):
    network = build(name)
    clone = network.copy()
    assert type(clone) is type(network)
    mine, others = dict(network.named_parameters()), dict(clone.named_parameters())
    assert {key: value.shape for key, value in mine.items()} == {k: v.shape for k, v in others.items()}
    assert not {id(p) for p in mine.values()} & {id(p) for p in others.values()}
    for key, value in mine.items():
        assert not torch.equal(value, others[key])


@pytest.mark.parametrize("name", NETWORKS)
def test_replicas_equal_separate_networks(name):
    network = build(name)
    parallel = network.make_parallel(3).eval()
    spec = network.input_tensor_spec
    shared, own = inputs_for(spec, BATCH), inputs_for(spec, BATCH, 3)
    replicas = [parallel.replica(i).eval() for i in range(3)]
    output, state = parallel(shared)
    second, _ = parallel(own, state)
    for i, replica in enumerate(replicas):
        expected, replica_state = replica(shared)
        expected_second, _ = replica(nest.map_structure(lambda x, i=i: x[:, i], own), replica_state)
        assert_close([got[:, i] for got in tensors(output)], expected, network)
        assert_close([got[:, i] for got in tensors(second)], expected_second, network, steps=2)
    # Replicas differ from each other, and loading a network makes a replica equal to it.
    parallel.load_replica(1, network)
    loaded, _ = parallel(shared)
    assert_close([got[:, 1] for got in tensors(loaded)], network(shared)[0], network)


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm", "nested", "policy_sac", "critic", "mlp_batch_norm"])
def test_replicas_get_the_gradients_of_separate_networks(name):
    network = build(name).train()
    parallel = network.make_parallel(2).train()
    inputs = inputs_for(network.input_tensor_spec, BATCH)
    replicas = [parallel.replica(i).train() for i in range(2)]
    sum(x.square().sum() for x in tensors(parallel(inputs)[0])).backward()
    sum(x.square().sum() for replica in replicas for x in tensors(replica(inputs)[0])).backward()
    total = sum(p.grad.square().sum() for p in parallel.parameters())
    expected = sum(p.grad.square().sum() for replica in replicas for p in replica.parameters())
    tolerances.assert_close(total, expected, **tolerances.sums_of(network, steps=2))


@pytest.mark.parametrize("name", NETWORKS)
def test_parallel_networks_round_trip(name):
    parallel = build(name).make_parallel(2).eval()
    inputs = inputs_for(parallel.input_tensor_spec, BATCH)
    expected = parallel(inputs)
    assert_equal(pickle.loads(pickle.dumps(parallel))(inputs), expected)
    assert_equal(copy.deepcopy(parallel)(inputs), expected)
    other = parallel.copy().eval()
    other.load_state_dict(parallel.state_dict())
    assert_equal(other(inputs), expected)


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_unroll_equals_step_by_step(name, resets):
    network = build(name)
    time = 5
    inputs = inputs_for(network.input_tensor_spec, BATCH, time)
    is_first = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 1, 0, 0, 0]]).bool() if resets else None
    state, outputs = network.get_initial_state(BATCH), []
    for t in range(time):
        if is_first is not None:
            state = nest.map_structure(
                lambda s, t=t: s * (~is_first[:, t]).reshape(-1, *(1,) * (s.ndim - 1)).to(s.dtype), state
            )
        output, state = network(nest.map_structure(lambda x, t=t: x[:, t], inputs), state)
        outputs.append(tensors(output))
    got, last = network.unroll(inputs, (), is_first)
    assert_close(got, [torch.stack(steps, 1) for steps in zip(*outputs, strict=True)], network, time)
    assert_close(last, state, network, time)


@pytest.mark.parametrize("name", ["lstm", "policy_rnn", "critic", "sequential", "transformer"])
def test_parallel_unroll_equals_step_by_step(name):
    network = build(name).make_parallel(2).eval()
    inputs = inputs_for(network.input_tensor_spec, BATCH, 4)
    is_first = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]).bool()
    state, outputs = network.get_initial_state(BATCH), []
    for t in range(4):
        keep = ~is_first[:, t]
        state = nest.map_structure(lambda s, k=keep: s * k.reshape(-1, *(1,) * (s.ndim - 1)).to(s.dtype), state)
        output, state = network(nest.map_structure(lambda x, t=t: x[:, t], inputs), state)
        outputs.append(tensors(output))
    got, last = network.unroll(inputs, (), is_first)
    assert_close(got, [torch.stack(steps, 1) for steps in zip(*outputs, strict=True)], network, 4)
    assert_close(last, state, network, 4)


@pytest.mark.parametrize("name", ["lstm", "gru", "critic_rnn"])
def test_unroll_has_the_gradients_of_stepping(name):
    network = build(name)
    inputs = inputs_for(network.input_tensor_spec, BATCH, 4)
    is_first = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]).bool()
    fused, _ = network.unroll(inputs, (), is_first)
    fused.square().sum().backward()
    expected = {key: parameter.grad.clone() for key, parameter in network.named_parameters()}
    network.zero_grad()
    stepped, _ = network._unroll_steps(inputs, (), is_first)
    stepped.square().sum().backward()
    for key, parameter in network.named_parameters():
        tolerances.assert_close(parameter.grad, expected[key], **tolerances.sums_of(network, steps=2 * 4))


def test_unroll_with_resets_is_traced_without_graph_breaks():
    torch._dynamo.reset()
    network = build("lstm")
    assert network.is_rnn  # the specs are found before tracing
    inputs, is_first = inputs_for(VECTOR, BATCH, 4), torch.tensor([[0, 0, 1, 0]] * BATCH).bool()
    compiled = torch.compile(lambda x, first: network.unroll(x, (), first), fullgraph=True, backend="eager")
    assert_close(compiled(inputs, is_first), network.unroll(inputs, (), is_first), network, steps=4)


QUICKLY_TRACED = ("mlp", "cnn", "nested", "lstm", "policy_mixed", "policy_sac", "critic", "q", "parallel")


@pytest.mark.parametrize(
    "name", [name if name in QUICKLY_TRACED else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]
)
def test_traced_without_graph_breaks(name):
    torch._dynamo.reset()
    network = build(name)
    inputs = inputs_for(network.input_tensor_spec, BATCH)
    expected = network(inputs)
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    assert_close(compiled(inputs, ()), expected, network)
    if network.is_rnn:
        assert_close(compiled(inputs, expected[1]), network(inputs, expected[1]), network)


@pytest.mark.parametrize("name", ["mlp", "lstm", "nested", "critic"])
def test_parallel_networks_traced_without_graph_breaks(name):
    torch._dynamo.reset()
    network = build(name).make_parallel(2).eval()
    inputs = inputs_for(network.input_tensor_spec, BATCH)
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    assert_close(compiled(inputs, ()), network(inputs), network)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["critic", "policy_sac", "lstm"])
def test_compiled_by_inductor_gives_the_same(name):
    torch._dynamo.reset()
    network = build(name)
    inputs = inputs_for(network.input_tensor_spec, BATCH)
    compiled = torch.compile(network, fullgraph=True)
    assert_close(compiled(inputs, ()), network(inputs), network)
