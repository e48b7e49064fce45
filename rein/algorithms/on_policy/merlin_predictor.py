"""The predictor of MERLIN (Wayne et al. 2018, arXiv:1803.10760): learns what happened, and writes it into a memory.

One step, with z the code of an observation, a the action before it, h the state of an LSTM, and M the memory:

    1. h_t    = LSTM([z_{t-1}, a_{t-1}, r_{t-1}], h_{t-1})
    2. r_t    = what keys made of h_t read from M_{t-1}
    3. M_t    = M_{t-1} with z_{t-1} in its least used slot
    4. prior  = p(z_t | h_t, r_t),   posterior = q(z_t | h_t, r_t, o_t, prior)
    5. z_t    ~ q
    loss      = sum of what the decoders lose at o_t + KL(q || p)

So the predictor reads codes up to z_{t-2}, and the actor, which reads after the write, up to z_{t-1}. What is written has
no gradient; z_t in the state has, through the steps of an unroll.
"""

from typing import NamedTuple

import torch
from torch import nn

from rein import nest
from rein.algorithms.representation.vae import VariationalAutoEncoder
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import (
    ActionEncoder,
    EncodingNetwork,
    LSTMEncodingNetwork,
    MemoryReader,
    MemoryWithUsage,
    NestConcat,
    Network,
)
from rein.networks.layers import identity
from rein.specs import TensorSpec


class MBPState(NamedTuple):
    """What is remembered from step to step; all zeros at the start of an episode."""

    latent_vector: Nest = ()
    """[B, latent_dim] z of the step before."""
    mem_readout: Nest = ()
    """[B, num_read_keys * latent_dim] what was read at the step before."""
    rnn_state: Nest = ()
    memory: Nest = ()
    """`MemoryState`."""


class MBPLossInfo(NamedTuple):
    """Parts of the loss, [B]."""

    decoder: Nest = ()
    """Nest of what the decoders say of their losses."""
    vae: Nest = ()
    """The KL."""


@configurable
class MemoryBasedPredictor(Algorithm):
    """Encodes observations in the light of what it remembers, and learns to decode them."""

    def __init__(
        self,
        action_spec: Nest,
        encoders: Nest,
        decoders: Nest,
        num_read_keys: int = 3,
        lstm_size: tuple[int, ...] = (256, 256),
        latent_dim: int = 200,
        memory_size: int = 1350,
        loss_weight: float = 1.0,
        name: str = "mbp",
    ) -> None:
        """Makes the predictor.

        Args:
            action_spec: bounded specs of the action.
            encoders: nest of networks like the observation, each from its leaf to a vector.
            decoders: nest of algorithms like the observation, such as `DecodingAlgorithm`; called as
                `train_step((z, leaf))`. Note that `DecodingAlgorithm` averages over the numbers of a leaf: a weight for
                their sum is to be multiplied by how many there are.
            num_read_keys: number of reads at each step.
            lstm_size: sizes of the LSTM layers.
            latent_dim: size of z.
            memory_size: number of slots; an episode fills one at each step.
            loss_weight: factor of the loss.
            name: name in summaries.
        """
        nest.assert_same_structure(encoders, decoders)
        _check_leaves(name, "encoders", encoders, Network)
        _check_leaves(name, "decoders", decoders, Algorithm)
        memory = MemoryWithUsage(latent_dim, memory_size)
        action_encoder = ActionEncoder(action_spec)
        latent_spec, readout_spec = TensorSpec((latent_dim,)), TensorSpec((num_read_keys * latent_dim,))
        lstm = LSTMEncodingNetwork(
            (latent_spec, action_encoder.output_spec, readout_spec),
            preprocessing_combiner=NestConcat(),
            hidden_size=tuple(lstm_size),
            name=f"{name}.lstm",
        )
        state_spec = MBPState(latent_spec, readout_spec, lstm.state_spec, memory.state_spec)
        super().__init__(train_state_spec=state_spec, name=name)
        self._memory = memory
        self._reader = MemoryReader(lstm.output_spec.numel, memory, num_read_keys)
        self._action_encoder = action_encoder
        self._lstm = lstm
        self._structure = nest.structure_of(encoders)
        self._encoders = nn.ModuleList(nest.flatten(encoders))
        self._decoders: list[Algorithm] = nest.flatten(decoders)
        for number, decoder in enumerate(self._decoders):
            self.add_module(f"_decoder_{number}", decoder)  # each may have an optimizer of its own
        self._vae = self._make_vae(latent_dim, readout_spec)
        self._loss_weight = loss_weight

    def _make_vae(self, latent_dim: int, readout_spec: TensorSpec) -> VariationalAutoEncoder:
        size = 0
        for encoder in self._encoders:
            spec = encoder.output_spec
            if not isinstance(spec, TensorSpec) or spec.ndim != 1:
                raise ValueError(f"{self.name}: encoder {encoder.name} gives {spec}: it must give one vector")
            size += spec.numel
        prior = EncodingNetwork(
            (self._lstm.output_spec, readout_spec),
            preprocessing_combiner=NestConcat(),
            fc_layer_params=(2 * latent_dim, 2 * latent_dim),
            activation=torch.tanh,
            last_layer_size=2 * latent_dim,
            last_activation=identity,
            name=f"{self.name}.prior",
        )
        return VariationalAutoEncoder(latent_dim, TensorSpec((size,)), z_prior_network=prior)

    @property
    def memory(self) -> MemoryWithUsage:
        """The memory; its contents are in the state."""
        return self._memory

    def predict_step(self, inputs: tuple[Nest, Nest], state: MBPState) -> AlgStep:
        """As `train_step`, without decoders and loss."""
        step, new_state = self._encode(inputs, state)
        return AlgStep(output=step.output.z, state=new_state)

    def rollout_step(self, inputs: tuple[Nest, Nest], state: MBPState) -> AlgStep:
        """See `train_step`."""
        return self.train_step(inputs, state)

    def train_step(self, inputs: tuple[Nest, Nest], state: MBPState, rollout_info: Nest = ()) -> AlgStep:
        """A code of the observation, and the loss.

        Args:
            inputs: observation [B, ...] and the action before it.
            state: of the step before.
            rollout_info: not used.

        Returns:
            `output` is z, [B, latent_dim]; `info` a `LossInfo` with losses [B].
        """
        step, new_state = self._encode(inputs, state)
        leaves = nest.flatten(inputs[0])
        infos = [
            decoder.train_step((step.output.z, leaf), (), ()).info
            for decoder, leaf in zip(self._decoders, leaves, strict=True)
        ]
        loss = step.info.loss + sum(info.loss for info in infos)
        extra = MBPLossInfo(self._structure.unflatten([info.extra for info in infos]), step.info.kld)
        return AlgStep(output=step.output.z, state=new_state, info=LossInfo(self._loss_weight * loss, extra=extra))

    def _encode(self, inputs: tuple[Nest, Nest], state: MBPState) -> tuple[AlgStep, MBPState]:
        """The step of the auto-encoder, and the new state."""
        observation, prev_action = inputs
        action, _ = self._action_encoder(prev_action)
        hidden, rnn_state = self._lstm((state.latent_vector, action, state.mem_readout), state.rnn_state)
        readout, memory = self._reader(hidden, state.memory)
        memory = self._memory.write(memory, state.latent_vector.detach())
        leaves = zip(self._encoders, nest.flatten(observation), strict=True)
        encoded = torch.cat([encoder(leaf)[0] for encoder, leaf in leaves], -1)
        step = self._vae.train_step(((hidden, readout), encoded))
        return step, MBPState(step.output.z, readout, rnn_state, memory)


def _check_leaves(name: str, argument: str, leaves: Nest, cls: type) -> None:
    for path, leaf in nest.flatten_with_paths(leaves):
        if not isinstance(leaf, cls):
            where = f"{argument} at {path!r}" if path else argument
            raise TypeError(f"{name}: {where} is {type(leaf).__name__}: it must be of class {cls.__name__}")
