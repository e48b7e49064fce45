import pytest
import torch
from torch import nn

from rein.algorithms.representation import DecodingAlgorithm, EncodingAlgorithm
from rein.data_structures import restart
from rein.networks import LSTMEncodingNetwork, Network
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION, ACTION = TensorSpec((2,)), BoundedTensorSpec((), torch.int64, 0, 1)


class Parts(Network):
    """A code, and two losses: the squared norm of the input, and a constant."""

    def __init__(self, input_tensor_spec):
        super().__init__(input_tensor_spec, name="parts")
        self.weight = nn.Parameter(torch.tensor(3.0))

    def forward(self, inputs, state=()):
        square = inputs.square().sum(-1)
        return {"code": self.weight * inputs, "losses": (self.weight * square, torch.full_like(square, 2.0))}, state


class OfTimeStep(Network):
    """The reward beside the observation."""

    def forward(self, inputs, state=()):
        return torch.cat([inputs.observation, inputs.reward.unsqueeze(-1)], -1), state


def make(**arguments):
    return EncodingAlgorithm(OBSERVATION, ACTION, encoder_cls=Parts, **arguments)


@pytest.fixture
def inputs():
    return restart(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), ACTION)


def test_fields_of_the_output_are_the_representation(inputs):
    algorithm = make(output_fields="code")
    assert algorithm.output_spec == TensorSpec((2,))
    for step in (
        algorithm.predict_step(inputs, ()),
        algorithm.train_step(inputs, ()),
        algorithm.rollout_step(inputs, ()),
    ):
        torch.testing.assert_close(step.output, 3.0 * inputs.observation)
        assert step.info == ()
    assert set(make().output_spec) == {"code", "losses"}
    assert make(output_fields={"x": "losses.1"}).output_spec == {"x": TensorSpec(())}


def test_losses_among_the_outputs_are_weighted(inputs):
    algorithm = make(output_fields="code", loss_fields=["losses.0", "losses.1"], loss_weights=[0.5, 10.0])
    info = algorithm.train_step(inputs, ()).info
    # 0.5 * 3 * (5, 1) + 10 * 2
    assert info.loss.tolist() == pytest.approx([27.5, 21.5])
    assert info.extra["losses.0"].tolist() == pytest.approx([15.0, 3.0])
    assert make(loss_fields=["losses.0"]).train_step(inputs, ()).info.loss.tolist() == pytest.approx([15.0, 3.0])
    assert algorithm.rollout_step(inputs, ()).info == ()
    algorithm.set_on_policy(True)
    assert algorithm.rollout_step(inputs, ()).info.loss.tolist() == pytest.approx([27.5, 21.5])


def test_an_encoder_can_be_trained_by_its_own_loss(inputs):
    algorithm = make(loss_fields="losses.0", optimizer=SGD(lr=0.1))
    algorithm.update_with_gradient(algorithm.calc_loss(algorithm.train_step(inputs, ()).info))
    assert algorithm._encoder.weight.item() == pytest.approx(3.0 - 0.1 * 3.0)  # the mean of 5 and 1


def test_the_whole_time_step_can_be_the_input(inputs):
    algorithm = EncodingAlgorithm(OBSERVATION, ACTION, encoder_cls=OfTimeStep, time_step_as_input=True)
    assert algorithm.output_spec == TensorSpec((3,))
    full = inputs._replace(reward=torch.tensor([7.0, 8.0]), untransformed=inputs, env_info={"cost": torch.zeros(2)})
    assert algorithm.predict_step(full, ()).output[:, 2].tolist() == [7.0, 8.0]


def test_recurrent_encoders_keep_their_state(inputs):
    algorithm = EncodingAlgorithm(
        OBSERVATION, ACTION, encoder_cls=lambda spec: LSTMEncodingNetwork(spec, hidden_size=4)
    )
    assert algorithm.train_state_spec == algorithm._encoder.state_spec != ()
    state = algorithm._encoder.get_initial_state(2)
    step = algorithm.train_step(inputs, state)
    assert not torch.equal(algorithm.train_step(inputs, step.state).output, step.output)


def test_wrong_fields_are_refused():
    with pytest.raises(ValueError, match="it must be a scalar"):
        make(loss_fields="code")
    with pytest.raises(ValueError, match="without loss_fields"):
        make(loss_weights=[1.0])
    with pytest.raises(ValueError, match="nothing"):
        make(output_fields="nothing")


class Doubled(Network):
    def __init__(self, input_tensor_spec=OBSERVATION):
        super().__init__(input_tensor_spec, name="doubled")
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, inputs, state=()):
        return self.weight * inputs, state


def test_decoding_by_hand():
    algorithm = DecodingAlgorithm(Doubled(), loss_weight=10.0)
    value, target = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 4.0], [0.0, 4.0]])
    step = algorithm.train_step((value, target))
    torch.testing.assert_close(step.output, 2.0 * value)
    # squared errors (1, 0) and (0, 4), averaged over elements
    assert step.info.loss.tolist() == [5.0, 20.0]
    assert step.info.extra.tolist() == [0.5, 2.0]
    assert torch.equal(algorithm.predict_step(value).output, step.output)
    assert algorithm.rollout_step((value, target)).info == ()


def test_decoding_refuses_what_it_cannot_compare():
    value = torch.zeros(2, 2)
    with pytest.raises(ValueError, match="reduction='none'"):
        DecodingAlgorithm(Doubled(), nn.MSELoss()).train_step((value, value))
    with pytest.raises(ValueError, match="make their shapes the same"):
        DecodingAlgorithm(Doubled()).train_step((value, torch.zeros(2)))
