"""Learns a representation that predicts what follows.

From the observation at t an encoder makes a latent z_t, and a recurrent model of the dynamics predicts the latents after
the actions that were taken,

    z_t = encode(s_t),   z_{t+k} = dynamics(z_{t+k-1}, a_{t+k-1})   for k = 1 .. K,

from each of which decoders predict targets at t + k, such as the reward. Targets after the end of the episode, or not
stored yet, are masked. The loss of step t is the mean of the losses of its K + 1 predictions.

What follows a step is read from the replay buffer, as it was stored, without data transformers; where learning is from
fresh rollouts, it is found in the rollout.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, StepType, TimeStep
from rein.framework.algorithm import Algorithm
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating.lookup import steps_ahead
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.networks.layers import identity
from rein.replay import ReplayBuffer
from rein.specs import TensorSpec, extract_spec
from rein.transforms import DataTransformer


class PredictiveRepresentationLearnerInfo(NamedTuple):
    """What follows a step."""

    action: Nest = ()
    """[B, T, K, ...] the actions that were taken at t .. t + K - 1."""
    mask: Nest = ()
    """bool [B, T, K + 1], whether there is a target at t .. t + K."""
    target: Nest = ()
    """[B, T, K + 1, ...] of the decoder; a list, if there are several decoders."""


@configurable
class PredictiveRepresentationLearner(Algorithm):
    """Learns a representation by predicting what follows; the representation is the encoding of the observation."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        num_unroll_steps: int,
        decoder_ctor: Callable[..., Algorithm] | Sequence[Callable[..., Algorithm]],
        encoding_net_ctor: Callable[..., Network],
        dynamics_net_ctor: Callable[..., Network],
        reward_spec: TensorSpec = TensorSpec(()),
        config: TrainerConfig | None = None,
        postprocessor: Callable[..., Any] | None = None,
        encoding_optimizer: Any | None = None,
        dynamics_optimizer: Any | None = None,
        postprocessor_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "PredictiveRepresentationLearner",
    ) -> None:
        """Makes the learner.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            num_unroll_steps: K, steps to look ahead; 0 leaves `dynamics_net_ctor` out.
            decoder_ctor: one or several, each called as `ctor(latent_spec)`; makes a decoder such as `SimpleDecoder`.
            encoding_net_ctor: called as `ctor(observation_spec)`; may be recurrent.
            dynamics_net_ctor: called as `ctor(action_spec)`; recurrent, from actions to latents. Its state begins as that
                of the encoder if both have the same specs, otherwise as a linear function of the latent.
            reward_spec: not used.
            config: not used.
            postprocessor: called as `postprocessor(latent)`; makes the representation of the latent.
            encoding_optimizer: of the encoder.
            dynamics_optimizer: of the model of the dynamics.
            postprocessor_optimizer: of the postprocessor.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if num_unroll_steps < 0:
            raise ValueError(f"{name}: num_unroll_steps is {num_unroll_steps}: it must not be negative")
        encoder = encoding_net_ctor(observation_spec)
        super().__init__(
            train_state_spec=encoder.state_spec, checkpoint=checkpoint, debug_summaries=debug_summaries, name=name
        )
        self._num_unroll_steps = num_unroll_steps
        self._encoding_net = encoder
        self._latent_spec = encoder.output_spec
        ctors = decoder_ctor if isinstance(decoder_ctor, Sequence) else [decoder_ctor]
        self._decoders = [ctor(self._latent_spec) for ctor in ctors]
        for number, decoder in enumerate(self._decoders):
            self.add_module(f"_decoder_{number}", decoder)
        self._dynamics_net: Network | None = None
        self._latent_to_state: Network | None = None
        if num_unroll_steps > 0:
            self._make_dynamics(dynamics_net_ctor(action_spec), dynamics_optimizer)
        self._postprocessor = postprocessor
        self._output_spec = _postprocessed_spec(self._latent_spec, postprocessor)
        if encoding_optimizer is not None:
            self.add_optimizer(encoding_optimizer, [encoder])
        if postprocessor_optimizer is not None:
            if not isinstance(postprocessor, nn.Module):
                raise ValueError(f"{name}: postprocessor_optimizer is given, but the postprocessor is not a module")
            self.add_optimizer(postprocessor_optimizer, [postprocessor])

    def _make_dynamics(self, dynamics: Network, optimizer: Any | None) -> None:
        if nest.is_empty(dynamics.state_spec):
            raise ValueError(f"{self.name}: the dynamics network has no state: it must be recurrent")
        if dynamics.output_spec != self._latent_spec:
            raise ValueError(
                f"{self.name}: the dynamics network gives {dynamics.output_spec}, the encoder {self._latent_spec}: their "
                "outputs must have the same spec"
            )
        self._dynamics_net = dynamics
        if dynamics.state_spec != self._encoding_net.state_spec:
            size = sum(spec.numel for spec in nest.flatten(dynamics.state_spec))
            self._latent_to_state = EncodingNetwork(
                self._latent_spec, last_layer_size=size, last_activation=identity, name=f"{self.name}.latent_to_state"
            )
        if optimizer is not None:
            modules = [dynamics] if self._latent_to_state is None else [dynamics, self._latent_to_state]
            self.add_optimizer(optimizer, modules)

    @property
    def output_spec(self) -> Nest:
        """Specs of the representation."""
        return self._output_spec

    @property
    def num_unroll_steps(self) -> int:
        """Steps that are looked ahead."""
        return self._num_unroll_steps

    @property
    def has_postprocessor(self) -> bool:
        """Whether the representation is something else than the latent."""
        return self._postprocessor is not None

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Refuses training on the rollout itself, where a step does not know what follows."""
        if is_on_policy:
            raise ValueError(
                f"{self.name} learns from what follows a step, which an on-policy algorithm does not know when it acts: "
                "use it with an off-policy algorithm, or PPO"
            )
        super().set_on_policy(is_on_policy)

    def get_decoder(self, target_field: str) -> Algorithm:
        """The decoder that predicts a field."""
        for decoder in self._decoders:
            if decoder.get_target_fields() == target_field:  # type: ignore[operator]
                return decoder
        fields = [decoder.get_target_fields() for decoder in self._decoders]  # type: ignore[operator]
        raise ValueError(f"{self.name}: no decoder predicts {target_field!r}: there are {fields}")

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The representation of the observation."""
        latent, state = self._encoding_net(inputs.observation, state)
        return AlgStep(output=_postprocess(self._postprocessor, latent), state=state)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The representation of the observation."""
        return self.predict_step(inputs, state)

    def predict_multi_step(
        self, init_latent: Tensor, actions: Nest, target_field: str | Sequence[str] | None = None, state: Nest = None
    ) -> Tensor | list[Tensor]:
        """What the decoders predict while actions are taken.

        Args:
            init_latent: [B, ...], before the first action.
            actions: [B, K, ...].
            target_field: which decoder(s) to ask; None is all.
            state: of the encoder, where the dynamics begin with it.

        Returns:
            [B, K + 1, ...]; a list of these for several targets.
        """
        latents = self._unroll(init_latent, state, actions)
        if target_field is None:
            decoders = self._decoders
        else:
            fields = [target_field] if isinstance(target_field, str) else list(target_field)
            decoders = [self.get_decoder(field) for field in fields]
        predictions = [self._decode(decoder, latents).transpose(0, 1) for decoder in decoders]
        return predictions[0] if len(predictions) == 1 else predictions

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: Nest, batch_info: BatchInfo
    ) -> tuple[TimeStep, PredictiveRepresentationLearnerInfo]:
        """Finds the actions and targets that follow each step of sequences [B, T, ...]."""
        fields = [decoder.get_target_fields() for decoder in self._decoders]  # type: ignore[operator]
        if isinstance(batch_info.replay_buffer, ReplayBuffer):
            future = _from_buffer(root_inputs, batch_info, fields, self._num_unroll_steps, self.data_transformer)
        else:
            future = _from_rollout(root_inputs, fields, self._num_unroll_steps)
        step_type, prev_action, targets = future
        is_over = (step_type[..., :-1] == StepType.LAST).cumsum(-1) > 0
        mask = torch.cat([torch.ones_like(step_type[..., :1], dtype=torch.bool), ~is_over], -1) & (step_type >= 0)
        action = nest.map_structure(lambda tensor: tensor[:, :, 1:], prev_action) if self._num_unroll_steps else ()
        target = targets[0] if len(targets) == 1 else targets
        return root_inputs, PredictiveRepresentationLearnerInfo(action, mask, target)

    def train_step(
        self, root_inputs: TimeStep, state: Nest, rollout_info: PredictiveRepresentationLearnerInfo
    ) -> AlgStep:
        """The representation, and the loss of what it predicts.

        Args:
            root_inputs: [B, ...].
            state: of the encoder.
            rollout_info: from `preprocess_experience`, [B, ...].
        """
        latent, new_state = self._encoding_net(root_inputs.observation, state)
        latents = self._unroll(latent, new_state, rollout_info.action)
        mask = rollout_info.mask.transpose(0, 1)
        targets = [rollout_info.target] if len(self._decoders) == 1 else rollout_info.target
        total, extra = torch.zeros_like(mask[0], dtype=torch.float32), {}
        for decoder, target in zip(self._decoders, targets, strict=True):
            loss = decoder.calc_loss(target.transpose(0, 1), self._decode(decoder, latents), mask)  # type: ignore[call-arg]
            total = total + loss.loss.mean(0)
            extra[decoder.name] = loss.extra.mean(0)
        output = _postprocess(self._postprocessor, latent)
        return AlgStep(output=output, state=new_state, info=LossInfo(loss=total, extra=extra))

    def _unroll(self, latent: Tensor, state: Nest, actions: Nest) -> Tensor:
        """The latents z_t .. z_{t+K}, [K + 1, B, ...]."""
        if self._dynamics_net is None or nest.is_empty(actions):
            return latent.unsqueeze(0)
        following, _ = self._dynamics_net.unroll(actions, self._initial_dynamics_state(latent, state))
        return torch.cat([latent.unsqueeze(0), following.transpose(0, 1)])

    def _initial_dynamics_state(self, latent: Tensor, state: Nest) -> Nest:
        assert self._dynamics_net is not None
        if self._latent_to_state is None:
            if state is None or nest.is_empty(state):
                raise ValueError(f"{self.name}: the dynamics begin with the state of the encoder: give it as state=")
            return state
        flat, _ = self._latent_to_state(latent)
        specs = nest.flatten(self._dynamics_net.state_spec)
        parts = flat.split([spec.numel for spec in specs], dim=1)
        leaves = [part.reshape(-1, *spec.shape) for part, spec in zip(parts, specs, strict=True)]
        return nest.pack_sequence_as(self._dynamics_net.state_spec, leaves)

    def _decode(self, decoder: Algorithm, latents: Tensor) -> Tensor:
        """Predictions [K + 1, B, ...] from latents."""
        merged = decoder.train_step(latents.flatten(0, 1), ()).output  # type: ignore[call-arg]
        return merged.reshape(*latents.shape[:2], *merged.shape[1:])


def _from_buffer(
    inputs: TimeStep, batch_info: BatchInfo, fields: list[str], num_steps: int, transformer: DataTransformer | None
) -> tuple[Tensor, Nest, list[Tensor]]:
    """Step types (-1 where nothing is stored), previous actions and targets [B, T, K + 1, ...] from the buffer."""
    ahead, is_stored = steps_ahead(batch_info, inputs.step_type.shape[1], num_steps, transformer)
    targets = [nest.get_field(ahead, field) for field in fields]
    return ahead.step_type.masked_fill(~is_stored, -1), ahead.prev_action, targets


def _from_rollout(inputs: TimeStep, fields: list[str], num_steps: int) -> tuple[Tensor, Nest, list[Tensor]]:
    """Step types (-1 after the end), previous actions and targets [B, T, K + 1, ...] from the rollout itself."""
    length = inputs.step_type.shape[1]
    steps = torch.arange(length).unsqueeze(1) + torch.arange(num_steps + 1)
    index = steps.clamp(max=length - 1)

    def ahead(field: str) -> Nest:
        return nest.map_structure(lambda tensor: tensor[:, index], nest.get_field(inputs, field))

    step_type = ahead("step_type").masked_fill(steps >= length, -1)
    return step_type, ahead("prev_action"), [ahead(field) for field in fields]


def _postprocess(postprocessor: Callable[..., Any] | None, latent: Tensor) -> Nest:
    if postprocessor is None:
        return latent
    output = postprocessor(latent)
    return output[0] if isinstance(postprocessor, Network) else output


def _postprocessed_spec(latent_spec: TensorSpec, postprocessor: Callable[..., Any] | None) -> Nest:
    if postprocessor is None:
        return latent_spec
    if isinstance(postprocessor, Network):
        return postprocessor.output_spec
    with torch.no_grad():
        return extract_spec(postprocessor(latent_spec.zeros((1,))))
