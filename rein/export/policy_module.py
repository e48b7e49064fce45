"""A policy as a module with plain tensors in and out, built from the one place that acts."""

from collections.abc import Callable, Collection, Sequence
from itertools import count

import torch
from torch import Tensor, nn

from rein import nest
from rein.export.noise import NoiseFrom
from rein.export.signature import Port, Signature, named, structure_of
from rein.framework import RLAlgorithm
from rein.framework.acting.actor import Actor, Purpose
from rein.nest import Nest
from rein.specs import extract_spec
from rein.training.prediction import time_step_to_predict

IS_FIRST = "is_first"
_BATCH = 2  # Sizes 0 and 1 would be taken for constants when tracing.


class PolicyModule(nn.Module):
    """One step of `predict`: observation, beginnings of episodes and states in, action and next states out.

    States are what `predict` remembers from step to step: the action before, what data transformers carry, and the recurrent
    state of the policy. Zeros stand for the beginning.
    """

    def __init__(
        self,
        algorithm: RLAlgorithm,
        observation_spec: Nest,
        decode: Callable[[Nest], Nest] | None = None,
        purpose: Purpose = "predict",
        draws: Sequence[Port] = (),
        kept: Collection[str] | None = None,
    ) -> None:
        """Looks at the specs.

        Args:
            algorithm: the policy.
            observation_spec: specs of the observation as the environment gives it.
            decode: from the action of the algorithm to that of the world, tensors [B, ...]; None if they are the same.
            purpose: "predict" for the best action, "rollout" for one that is drawn as in training.
            draws: for each call for random numbers in a step, in order, the input to take them from; with none, they are
                drawn.
            kept: names of the inputs besides the observation; the others are zero. None is all.
        """
        super().__init__()
        self.algorithm = algorithm
        self._observation_spec = observation_spec
        self._decode = decode
        self._purpose: Purpose = purpose
        transformer = algorithm.data_transformer
        self._remembered = {
            "prev_action": algorithm.action_spec,
            "transformer": () if transformer is None else transformer.state_spec,
            "policy": algorithm.predict_state_spec if purpose == "predict" else algorithm.rollout_state_spec,
        }
        self._draws = tuple(draws)
        states = named("state", "state", self._remembered)
        others = [Port(IS_FIRST, "is_first", "", (), "bool"), *states, *draws]
        self.inputs: tuple[Port, ...] = (
            *named("observation", "observation", observation_spec),
            *(port for port in others if kept is None or port.name in kept),
        )
        self._kept_states = [index for index, port in enumerate(states) if kept is None or port.name in kept]

    def signature(self, facts: dict[str, object]) -> Signature:
        """What goes in and comes out; states and noise are numbered.

        Args:
            facts: where the policy came from.
        """
        numbers = {kind: count() for kind in ("state", "noise")}
        inputs = [
            port._replace(name=f"{port.kind}_{next(numbers[port.kind])}") if port.kind in numbers else port
            for port in self.inputs
        ]
        action_spec = self.algorithm.action_spec
        if self._decode is not None:
            example = nest.map_structure(lambda spec: spec.zeros((_BATCH,)), action_spec)
            action_spec = extract_spec(self._decode(example))
        actions = named("action", "action", action_spec)
        following = [
            port._replace(name=f"next_{port.name}", kind="next_state") for port in inputs if port.kind == "state"
        ]
        return Signature(tuple(inputs), (*actions, *following), structure_of(action_spec), facts)

    def example(self) -> tuple[Tensor, ...]:
        """Inputs to trace with."""
        return tuple(torch.zeros(_BATCH, *port.shape, dtype=port.torch_dtype) for port in self.inputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """One step.

        Args:
            *tensors: [B, ...] for each of `inputs`.

        Returns:
            [B, ...] for each output of `signature`.
        """
        given = {port.name: tensor for port, tensor in zip(self.inputs, tensors, strict=True)}
        size = tensors[0].shape[0]

        def take(port: Port) -> Tensor:
            found = given.get(port.name)
            return torch.zeros(size, *port.shape, dtype=port.torch_dtype) if found is None else found

        states = nest.pack_sequence_as(self._remembered, map(take, named("state", "state", self._remembered)))
        actor = Actor(self.algorithm, self.algorithm.action_spec, size, self._purpose)
        actor.policy_state, actor.transform_state = states["policy"], states["transformer"]
        observed = tensors[: len(nest.flatten(self._observation_spec))]
        time_step = time_step_to_predict(
            self.algorithm,
            nest.pack_sequence_as(self._observation_spec, observed),
            take(Port(IS_FIRST, "is_first", "", (), "bool")),
            states["prev_action"],
            self.algorithm.action_spec,
        )
        with NoiseFrom([take(port) for port in self._draws] if self._draws else None):
            action = actor.act(time_step).action
        following = nest.flatten(
            {"prev_action": action, "transformer": actor.transform_state, "policy": actor.policy_state}
        )
        given_out = action if self._decode is None else self._decode(action)
        return (*nest.flatten(given_out), *(following[i] for i in self._kept_states))
