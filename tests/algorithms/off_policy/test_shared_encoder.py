"""Images are encoded once for actor and critics, and what encodes them is trained by the critics alone."""

from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.off_policy import (
    DdpgAlgorithm,
    DqnAlgorithm,
    OacAlgorithm,
    QrsacAlgorithm,
    SacAlgorithm,
    Td3Algorithm,
)
from rein.algorithms.off_policy.ddpg import DdpgInfo
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.data_structures import BatchInfo, Experience, StepType, TimeStep
from rein.framework import Batch, TrainerConfig
from rein.networks import (
    ActorDistributionNetwork,
    ActorNetwork,
    CriticNetwork,
    NestConcat,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.networks.layers.layer import Layer
from rein.networks.state import zero_state
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

IMAGE = BoundedTensorSpec((12, 12, 3), torch.uint8, 0, 255)
SPEC = {"image": IMAGE, "vector": TensorSpec((2,))}
BOX = BoundedTensorSpec((2,), torch.float32, -1.0, 1.0)
CHOICE = BoundedTensorSpec((), torch.int64, 0, 2)
NETWORKS = {
    "actor_network_cls": partial(
        ActorDistributionNetwork, fc_layer_params=(4,), continuous_projection_net_ctor=NormalProjectionNetwork
    ),
    "critic_network_cls": partial(CriticNetwork, joint_fc_layer_params=(4,)),
    "q_network_cls": partial(QNetwork, fc_layer_params=(4,)),
}
DETERMINISTIC = {
    "actor_network_ctor": partial(ActorNetwork, fc_layer_params=(4,)),
    "critic_network_ctor": partial(CriticNetwork, joint_fc_layer_params=(4,)),
}
ALGORITHMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sac": (SacAlgorithm, BOX, NETWORKS),
    "discrete sac": (SacAlgorithm, CHOICE, NETWORKS),
    "mixed sac": (SacAlgorithm, (CHOICE, BOX), NETWORKS),
    "oac": (OacAlgorithm, BOX, NETWORKS),
    "qrsac": (QrsacAlgorithm, BOX, {name: NETWORKS[name] for name in ("actor_network_cls", "critic_network_cls")}),
    "dqn": (DqnAlgorithm, CHOICE, {"q_network_cls": NETWORKS["q_network_cls"]}),
    "ddpg": (DdpgAlgorithm, BOX, DETERMINISTIC),
    "td3": (Td3Algorithm, BOX, DETERMINISTIC | {"actor_update_period": 1}),
}


def make(name: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    cls, action_spec, networks = ALGORITHMS[name]
    config = TrainerConfig(root_dir="", mini_batch_length=2, mini_batch_size=4, whole_replay_buffer_training=False)
    return cls(SPEC, action_spec, config=config, **{**networks, **changes})


def batch(name: str, length: int = 2, size: int = 4) -> Experience:
    cls, action_spec, _ = ALGORITHMS[name]
    torch.manual_seed(1)
    action = nest.map_structure(lambda spec: spec.sample((size, length)), action_spec)
    time_step = TimeStep(
        step_type=torch.full((size, length), StepType.MID, dtype=torch.int32),
        reward=torch.randn(size, length),
        discount=torch.ones(size, length),
        observation=nest.map_structure(lambda spec: spec.sample((size, length)), SPEC),
        prev_action=action,
        env_id=torch.zeros(size, length, dtype=torch.int64),
    )
    info = DdpgInfo(action=action) if cls in (DdpgAlgorithm, Td3Algorithm) else SacInfo(action=action)
    return Experience(time_step=time_step, rollout_info=info, batch_info=BatchInfo())


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("one_transition", [True, False])
def test_it_learns_and_its_target_follows(name: str, one_transition: bool) -> None:
    optimizer = "q_optimizer" if name == "dqn" else "critic_optimizer"
    algorithm = make(name, one_transition=one_transition, target_update_tau=0.5, **{optimizer: SGD(lr=1.0)})
    assert not any(part is not algorithm._encoder for part in _encoders(algorithm, but="_target_encoder"))
    before = [parameter.clone() for parameter in algorithm._encoder.parameters()]
    assert all(map(torch.equal, before, algorithm._target_encoder.parameters()))
    algorithm.learning.update([Batch(batch(name))])
    after, target = list(algorithm._encoder.parameters()), algorithm._target_encoder.parameters()
    assert not all(map(torch.equal, before, after))
    assert all(torch.allclose(c, (a + b) / 2, atol=1e-6) for a, b, c in zip(before, after, target, strict=True))


def _encoders(algorithm: Any, but: str) -> list[Any]:
    parts = algorithm.named_modules()
    return [part for path, part in parts if type(part).__name__ == "ImageEncoders" and not path.startswith(but)]


@pytest.mark.parametrize("name", ["sac", "mixed sac", "ddpg", "td3"])
@pytest.mark.parametrize("one_transition", [True, False])
def test_the_loss_of_the_actor_does_not_reach_it(name: str, one_transition: bool) -> None:
    algorithm = make(name, one_transition=one_transition)
    data = batch(name)
    info = algorithm.train_sequences(data.time_step, (), data.rollout_info)
    loss = info.actor_loss if name in ("ddpg", "td3") else info.actor.loss
    loss.sum().backward()
    assert all(parameter.grad is None for parameter in algorithm._encoder.parameters())
    assert any(parameter.grad is not None for parameter in algorithm._actor_network.parameters())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_critics_see_the_same_by_steps_and_by_sequences(name: str) -> None:
    algorithm, data = make(name), batch(name)
    by_sequences = algorithm.train_sequences(data.time_step, (), data.rollout_info)
    first, info = nest.map_structure(lambda x: x[:, 0], (data.time_step, data.rollout_info.action))
    state = zero_state(algorithm._train_state_spec, 4)
    by_steps = algorithm.train_step(first, state, data.rollout_info._replace(action=info)).info
    assert torch.allclose(by_sequences.critic[0][0], by_steps.critic[0], atol=1e-5)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_acts(name: str) -> None:
    algorithm = make(name)
    inputs = nest.map_structure(lambda x: x[:, 0], batch(name).time_step)
    step = algorithm.predict_step(inputs, zero_state(algorithm.predict_state_spec, 4))
    nest.assert_same_structure(step.output, ALGORITHMS[name][1])
    algorithm.rollout_step(inputs, zero_state(algorithm.rollout_state_spec, 4))


def test_networks_that_are_told_what_to_do_with_images_keep_their_own() -> None:
    told = partial(QNetwork, preprocessing_combiner=NestConcat(), input_preprocessors={"image": Flat(), "vector": None})
    algorithm = make("discrete sac", q_network_cls=told)
    assert algorithm._encoder is None
    algorithm.learning.update([Batch(batch("discrete sac"))])


class Flat(Layer):
    """An image as a vector."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(-3).to(torch.float32)
