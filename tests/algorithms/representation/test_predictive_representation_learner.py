from functools import partial

import pytest
import torch
from torch import nn

from rein import nest
from rein.algorithms.representation import PredictiveRepresentationLearner, SimpleDecoder
from rein.data_structures import BatchInfo, Experience, TimeStep
from rein.networks import EncodingNetwork, LSTMEncodingNetwork, Network
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec, TensorSpec, extract_spec

OBSERVATION, ACTION = TensorSpec((1,)), BoundedTensorSpec((1,), torch.float32, -1, 1)


class Same(Network):
    """The input times a weight; with `scalar`, its only element."""

    def __init__(self, input_tensor_spec, weight=1.0, scalar=False):
        super().__init__(input_tensor_spec, name="same")
        self.weight = nn.Parameter(torch.tensor(weight))
        self.scalar = scalar

    def forward(self, inputs, state=()):
        output = self.weight * inputs
        return (output.squeeze(-1) if self.scalar else output), state


class Adds(Network):
    """z' = z + a, with z as the state."""

    def __init__(self, action_spec):
        super().__init__(action_spec, state_spec=TensorSpec((1,)), name="adds")

    def forward(self, inputs, state=()):
        latent = inputs if isinstance(state, tuple) else state + inputs
        return latent, latent


def decoder(field, **arguments):
    ctor = partial(Same, scalar=field == "reward")
    return lambda spec: SimpleDecoder(spec, field, ctor, partial(nn.MSELoss, reduction="none"), **arguments)


def make(steps=2, fields=("reward",), **arguments):
    learner = PredictiveRepresentationLearner(
        OBSERVATION, ACTION, steps, [decoder(field) for field in fields], Same, Adds, **arguments
    )
    if steps:
        # The initial state of the dynamics is the latent itself.
        with torch.no_grad():
            layer = learner._latent_to_state
            for param in layer.parameters():
                param.copy_(torch.ones_like(param) if param.ndim == 2 else torch.zeros_like(param))
    return learner


def experience(length=7):
    """Two environments; rewards are 10 e + t, actions 0.1 t led to step t; e = 0 ends at t = 3, begins anew at t = 4."""
    steps = []
    for t in range(length):
        reward = torch.tensor([0.0, 10.0]) + t
        step_type = torch.tensor([[1, 1, 1, 2, 0, 1, 1][t], 1], dtype=torch.int32)
        time_step = TimeStep(
            step_type=step_type,
            reward=reward,
            discount=torch.ones(2),
            observation=reward.unsqueeze(1),
            prev_action=torch.full((2, 1), 0.1 * t),
            env_id=torch.arange(2),
        )
        steps.append(Experience(time_step=time_step))
    return steps


def filled_buffer(steps):
    buffer = ReplayBuffer(extract_spec(steps[0]), 2, 20)
    for step in steps:
        buffer.add_batch(step, step.env_id)
    return buffer


# Sequences of two steps that begin at t = 1 of the first environment, and at t = 4 of the second.
MASK = [[[True, True, True], [True, True, False]], [[True, True, True], [True, True, False]]]
TARGET = [[[1.0, 2.0, 3.0], [2.0, 3.0]], [[14.0, 15.0, 16.0], [15.0, 16.0]]]


def check(info):
    assert info.mask.tolist() == MASK
    assert info.target.shape == (2, 2, 3)
    for b in range(2):
        for t in range(2):
            assert info.target[b, t][info.mask[b, t]].tolist() == TARGET[b][t]
    torch.testing.assert_close(info.action[0, 0].squeeze(-1), torch.tensor([0.2, 0.3]))
    torch.testing.assert_close(info.action[1, 0].squeeze(-1), torch.tensor([0.5, 0.6]))


def test_what_follows_is_read_from_the_replay_buffer_up_to_the_end_of_the_episode():
    steps = experience()
    buffer = filled_buffer(steps)
    batch = BatchInfo(env_ids=torch.tensor([0, 1]), positions=torch.tensor([1, 4]), replay_buffer=buffer)
    sampled = nest.stack_nests([step.time_step for step in steps])
    first = nest.map_structure(lambda x: torch.stack([x[1:3, 0], x[4:6, 1]]), sampled)
    inputs, info = make().preprocess_experience(first, (), batch)
    assert inputs is first
    # t = 2 of the first environment sees its LAST step at 3 and nothing after it; the second has nothing after 6.
    check(info)


def test_what_follows_is_found_in_a_fresh_rollout():
    steps = experience()
    rollout = nest.map_structure(lambda x: x.transpose(0, 1), nest.stack_nests([step.time_step for step in steps]))
    _, info = make().preprocess_experience(rollout, (), BatchInfo())
    assert info.mask.shape == (2, 7, 3)
    check(nest.map_structure(lambda x: torch.stack([x[0, 1:3], x[1, 4:6]]), info))
    assert info.mask[0, 3].tolist() == [True, False, False]  # after LAST there is nothing
    assert info.mask[0, 4].tolist() == [True, True, True]
    assert info.mask[1, 6].tolist() == [True, False, False]


def test_the_loss_by_hand():
    learner = make()
    steps = experience()
    batch = BatchInfo(torch.tensor([0, 1]), torch.tensor([1, 4]), replay_buffer=filled_buffer(steps))
    stacked = nest.stack_nests([step.time_step for step in steps])
    inputs = nest.map_structure(lambda x: torch.stack([x[1:3, 0], x[4:6, 1]]), stacked)
    inputs, info = learner.preprocess_experience(inputs, (), batch)
    time_step, part = nest.map_structure(lambda x: x[:, 1], (inputs, info))
    step = learner.train_step(time_step, (), part)
    assert step.output.tolist() == [[2.0], [15.0]]
    # latents 2, 2.3 against 2, 3 (the third is masked), and 15, 15.6 against 15, 16; the mean over three predictions
    assert step.info.loss.tolist() == pytest.approx([0.7**2 / 3, 0.4**2 / 3], rel=1e-4)


def test_no_steps_ahead_is_plain_decoding():
    learner = make(steps=0)
    time_step = nest.map_structure(lambda x: x.unsqueeze(1), experience()[2].time_step)
    _, info = learner.preprocess_experience(time_step, (), BatchInfo())
    assert info.action == ()
    assert info.mask.shape == (2, 1, 1)
    assert learner._dynamics_net is None
    step = learner.train_step(*nest.map_structure(lambda x: x[:, 0], (time_step, (), info)))
    assert step.info.loss.tolist() == [0.0, 0.0]


def test_several_decoders():
    learner = make(fields=("reward", "observation"))
    rollout = nest.map_structure(lambda x: x.transpose(0, 1), nest.stack_nests([s.time_step for s in experience()]))
    _, info = learner.preprocess_experience(rollout, (), BatchInfo())
    assert [tuple(target.shape) for target in info.target] == [(2, 7, 3), (2, 7, 3, 1)]
    step = learner.train_step(*nest.map_structure(lambda x: x[:, 1], (rollout, (), info)))
    assert set(step.info.extra) == {"SimpleDecoder.reward", "SimpleDecoder.observation"}
    assert learner.get_decoder("observation") is learner._decoders[1]
    with pytest.raises(ValueError, match="no decoder predicts 'discount'"):
        learner.get_decoder("discount")


def test_predictions_of_many_steps():
    learner = make(fields=("reward", "observation"))
    actions = torch.tensor([[[0.5], [0.25]], [[-1.0], [0.0]]])
    reward, observation = learner.predict_multi_step(torch.tensor([[1.0], [2.0]]), actions)
    torch.testing.assert_close(reward, torch.tensor([[1.0, 1.5, 1.75], [2.0, 1.0, 1.0]]))
    torch.testing.assert_close(observation, reward.unsqueeze(-1))
    one = learner.predict_multi_step(torch.tensor([[1.0], [2.0]]), actions, "reward")
    torch.testing.assert_close(one, reward)


def test_dynamics_begin_with_the_state_of_the_encoder_if_they_are_alike():
    cell = partial(LSTMEncodingNetwork, hidden_size=3)
    learner = PredictiveRepresentationLearner(OBSERVATION, ACTION, 1, decoder_of_vectors, cell, cell)
    assert learner._latent_to_state is None
    with pytest.raises(ValueError, match="give it as state="):
        learner.predict_multi_step(torch.zeros(2, 3), torch.zeros(2, 1, 1))
    state = learner._encoding_net.get_initial_state(2)
    assert learner.predict_multi_step(torch.zeros(2, 3), torch.zeros(2, 1, 1), state=state).shape == (2, 2, 3)


def decoder_of_vectors(spec):
    return SimpleDecoder(spec, "observation", Same)


def test_the_postprocessor_makes_the_representation():
    assert make(postprocessor=lambda latent: torch.cat([latent, latent], -1)).output_spec == TensorSpec((2,))
    network = EncodingNetwork(TensorSpec((1,)), fc_layer_params=(4,))
    learner = make(postprocessor=network)
    assert learner.output_spec == TensorSpec((4,))
    assert learner.predict_step(experience()[0].time_step, ()).output.shape == (2, 4)


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="on-policy"):
        make().set_on_policy(True)
    with pytest.raises(ValueError, match="must be recurrent"):
        PredictiveRepresentationLearner(OBSERVATION, ACTION, 1, decoder("reward"), Same, Same)
    wide = partial(LSTMEncodingNetwork, hidden_size=3)
    with pytest.raises(ValueError, match="outputs must have the same spec"):
        PredictiveRepresentationLearner(OBSERVATION, ACTION, 1, decoder("reward"), Same, wide)
    with pytest.raises(ValueError, match="must not be negative"):
        make(steps=-1)


def test_a_decoder_masks_and_weights():
    algorithm = decoder("observation", loss_weight=2.0)(TensorSpec((2,)))
    target = torch.tensor([[[1.0, 1.0], [5.0, 5.0]]])
    predicted = torch.tensor([[[0.0, 3.0], [0.0, 0.0]]])
    loss = algorithm.calc_loss(target, predicted, torch.tensor([[True, False]]))
    assert loss.loss.tolist() == [[5.0, 0.0]]
    assert loss.extra.tolist() == [[2.5, 0.0]]
    assert algorithm.name == "SimpleDecoder.observation"
    with pytest.raises(ValueError, match="make their shapes the same"):
        algorithm.calc_loss(target, predicted[..., 0])


def test_a_decoder_can_measure_errors_in_deviations():
    algorithm = decoder("reward", normalize_target=True)(TensorSpec((1,)))
    target = torch.tensor([[1.0, 5.0, 100.0]])
    predicted = torch.tensor([[3.0, 5.0, 0.0]])
    loss = algorithm.calc_loss(target, predicted, torch.tensor([[True, True, False]]))
    # the deviation of 1 and 5 is 2: an error of 2 is one deviation
    assert loss.loss[0].tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert algorithm.predict_step(torch.tensor([[3.0]])).output.tolist() == [3.0]
