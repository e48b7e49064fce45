from functools import partial

import pytest
import torch

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy import (
    MBPLossInfo,
    MBPState,
    MemoryBasedActor,
    MemoryBasedPredictor,
    MerlinAlgorithm,
    MerlinInfo,
    MerlinLossInfo,
    MerlinState,
)
from rein.algorithms.on_policy.merlin_codecs import merlin_decoder, merlin_encoder
from rein.algorithms.representation import DecodingAlgorithm
from rein.data_structures import LossInfo, restart
from rein.distributions import stack_distributions
from rein.networks import EncodingNetwork, MemoryState, ResnetDecodingNetwork, ResnetEncodingNetwork
from rein.networks.layers import identity
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec, check_matches

X, ACTION = TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 1)
LINEAR = partial(EncodingNetwork, last_activation=identity)


def decoder(latent_dim=4, weight=1.0):
    return DecodingAlgorithm(LINEAR(TensorSpec((latent_dim,)), last_layer_size=3), loss_weight=weight)


def predictor(**arguments):
    given = dict(lstm_size=(5,), latent_dim=4, memory_size=6, num_read_keys=2, **arguments)
    return MemoryBasedPredictor(ACTION, LINEAR(X, last_layer_size=7), decoder(weight=2.0), **given)


def inputs():
    return torch.randn(2, 3), torch.tensor([0, 1])


def test_one_step_of_the_predictor_in_its_order():
    mbp = predictor()
    state = zero_state(mbp.train_state_spec, 2)
    state = state._replace(latent_vector=torch.randn(2, 4), mem_readout=torch.randn(2, 8))
    before = MemoryState(torch.randn(2, 6, 4), torch.rand(2, 6))
    state = state._replace(memory=before)
    observation, action = inputs()
    torch.manual_seed(0)
    step = mbp.train_step((observation, action), state)
    one_hot = torch.nn.functional.one_hot(action, 2).float()
    hidden, _ = mbp._lstm((state.latent_vector, one_hot, state.mem_readout), state.rnn_state)
    readout, read = mbp._reader(hidden, before)  # reads before it writes
    torch.testing.assert_close(step.state.mem_readout, readout)
    written = mbp.memory.write(read, state.latent_vector)
    torch.testing.assert_close(step.state.memory, written)
    torch.manual_seed(0)
    vae = mbp._vae.train_step(((hidden, readout), mbp._encoders[0](observation)[0]))
    torch.testing.assert_close(step.output, vae.output.z)
    torch.testing.assert_close(step.state.latent_vector, vae.output.z)
    error = (mbp._decoders[0].predict_step(vae.output.z).output - observation).square().mean(1)
    torch.testing.assert_close(step.info.loss, 2.0 * error + vae.info.kld)
    assert isinstance(step.info.extra, MBPLossInfo)
    torch.testing.assert_close(step.info.extra.vae, vae.info.kld)
    torch.testing.assert_close(step.info.extra.decoder, error)
    check_matches(step.state, mbp.train_state_spec, 1, "the state")


def test_what_is_written_has_no_gradient_and_the_code_has():
    mbp = predictor()
    state = zero_state(mbp.train_state_spec, 2)
    first = mbp.train_step(inputs(), state)
    second = mbp.train_step(inputs(), first.state)
    assert not second.state.memory.memory.requires_grad
    assert second.state.latent_vector.requires_grad
    # The loss of a step trains the encoding of the step before.
    (gradient,) = torch.autograd.grad(second.info.loss.sum(), first.output)
    assert gradient.abs().sum() > 0


def test_the_memory_holds_codes_up_to_the_step_before():
    mbp = predictor()
    state = zero_state(mbp.train_state_spec, 2)
    codes = []
    for _ in range(3):
        step = mbp.predict_step(inputs(), state)
        assert step.info == ()
        codes.append(step.output.detach())
        state = step.state
    slots = state.memory.memory[0]
    # The first step wrote the zeros of the start.
    kept = [any(torch.equal(code[0], slot) for slot in slots) for code in codes]
    assert kept == [True, True, False]


def test_the_actor_reads_the_memory_it_is_given_and_leaves_it():
    mbp = predictor()
    mba = MemoryBasedActor(TensorSpec((4,)), ACTION, mbp.memory, lstm_size=(5,), latent_dim=4)
    memory = MemoryState(torch.randn(2, 6, 4), torch.rand(2, 6))
    usage = memory.usage.clone()
    code = torch.randn(2, 4, requires_grad=True)
    time_step = restart(code, ACTION)
    step = mba.rollout_step(time_step, zero_state(mba.train_state_spec, 2), memory)
    assert torch.equal(memory.usage, usage)
    hidden, _ = mba._lstm(code)
    readout, _ = mba._reader(hidden, memory)
    expected, _ = mba._actor_network((code, hidden, readout))
    torch.testing.assert_close(step.info.action_distribution.logits, expected.logits)
    torch.testing.assert_close(step.info.value, mba._value_network(code)[0])
    other = mba.rollout_step(time_step, zero_state(mba.train_state_spec, 2))
    assert not torch.equal(other.info.action_distribution.logits, expected.logits)
    # The value trains the code, the policy does through the LSTM only.
    assert torch.autograd.grad(step.info.value.sum(), code, retain_graph=True)[0].abs().sum() > 0


def test_the_loss_of_the_actor_is_weighted(monkeypatch):
    mbp = predictor()
    given = dict(lstm_size=(5,), latent_dim=4)
    mba = MemoryBasedActor(TensorSpec((4,)), ACTION, mbp.memory, loss_weight=3.0, **given)
    monkeypatch.setattr(mba, "_loss", _Fixed())
    assert mba.calc_loss(None).loss.tolist() == [3.0, 6.0]
    loss = ActorCriticLoss(gamma=0.5)
    assert MemoryBasedActor(TensorSpec((4,)), ACTION, mbp.memory, loss=loss, **given)._loss is loss


class _Fixed(ActorCriticLoss):
    def calc_loss(self, info):
        return LossInfo(loss=torch.tensor([1.0, 2.0]))


def merlin(observation_spec=X, action_spec=ACTION, **arguments):
    given = {
        "encoders": partial(merlin_encoder, size=8),
        "decoders": merlin_decoder,
        "latent_dim": 4,
        "lstm_size": (5,),
        "memory_size": 6,
        "optimizer": Adam(lr=1e-2),
        **arguments,
    }
    return MerlinAlgorithm(observation_spec, action_spec, **given)


def test_the_whole_step_and_its_losses():
    algorithm = merlin()
    state = zero_state(algorithm.train_state_spec, 2)
    assert isinstance(state, MerlinState)
    assert isinstance(state.mbp_state, MBPState)
    infos = []
    for _ in range(3):
        step = algorithm.rollout_step(restart(torch.randn(2, 3), ACTION), state)
        state = step.state
        infos.append(step.info)
    assert isinstance(infos[0], MerlinInfo)
    info = stack_distributions(infos)
    loss = algorithm.calc_loss(info)
    assert loss.loss.shape == (3, 2)
    actor = algorithm._mba.calc_loss(info.mba_info)
    torch.testing.assert_close(loss.loss, actor.loss + info.mbp_info.loss)
    assert isinstance(loss.extra, MerlinLossInfo)
    predicted = algorithm.predict_step(restart(torch.randn(2, 3), ACTION), zero_state(algorithm.predict_state_spec, 2))
    assert predicted.info.mbp_info == ()


def test_observations_may_be_nests_with_a_network_for_each_leaf():
    specs = {"a": X, "b": TensorSpec((2,))}
    algorithm = merlin(specs)
    assert [e.input_tensor_spec for e in algorithm._mbp._encoders] == [X, TensorSpec((2,))]
    observation = {"a": torch.randn(2, 3), "b": torch.randn(2, 2)}
    info = algorithm.rollout_step(restart(observation, ACTION), zero_state(algorithm.train_state_spec, 2)).info
    assert set(info.mbp_info.extra.decoder) == {"a", "b"}
    given = {"a": LINEAR(X, last_layer_size=2), "b": LINEAR(TensorSpec((2,)), last_layer_size=2)}
    assert merlin(specs, encoders=given)._mbp._encoders[1] is given["b"]


def test_vector_rewards_reach_the_critic():
    reward_spec = TensorSpec((2,))
    algorithm = merlin(reward_spec=reward_spec)
    time_step = restart(torch.randn(3, 3), ACTION, reward_spec)
    info = algorithm.rollout_step(time_step, zero_state(algorithm.train_state_spec, 3)).info.mba_info
    assert info.value.shape == (3, 2)
    algorithm.set_reward_weights(torch.tensor([1.0, 5.0]))
    assert algorithm.reward_weights.tolist() == [1.0, 5.0]
    info = algorithm.rollout_step(time_step, zero_state(algorithm.train_state_spec, 3)).info.mba_info
    assert info.reward_weights[0].tolist() == [1.0, 5.0]


def test_encoders_and_decoders_of_usual_observations():
    image = TensorSpec((3, 16, 16))
    assert isinstance(merlin_encoder(image), ResnetEncodingNetwork)
    assert isinstance(merlin_decoder(TensorSpec((4,)), image)._decoder, ResnetDecodingNetwork)
    assert merlin_encoder(BoundedTensorSpec((), torch.int64, 0, 3), size=5).output_spec == TensorSpec((5,))
    made = merlin_decoder(TensorSpec((4,)), X, loss_weight=100.0)
    info = made.train_step((torch.zeros(1, 4), torch.ones(1, 3) + made.predict_step(torch.zeros(1, 4)).output)).info
    assert info.loss.item() == pytest.approx(300.0)  # a hundred times the sum
    with pytest.raises(ValueError, match="give a decoder of your own"):
        merlin_decoder(TensorSpec((4,)), BoundedTensorSpec((), torch.int64, 0, 3))
    with pytest.raises(ValueError, match="only vectors, images"):
        merlin_encoder(TensorSpec((2, 2)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(encoders={"a": LINEAR(X, last_layer_size=2)}), ValueError, "encoders"),
        (dict(decoders=[decoder(), decoder()]), ValueError, "decoders"),
        (dict(decoders=3), TypeError, "decoders is int"),
        (dict(encoders=partial(EncodingNetwork, output_tensor_spec=TensorSpec((3, 1)))), ValueError, "one vector"),
    ],
)
def test_bad_networks_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        merlin(**arguments)


def test_a_code_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a code of size 4"):
        MemoryBasedActor(TensorSpec((5,)), ACTION, predictor().memory, latent_dim=4)
