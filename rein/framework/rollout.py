"""Rollouts: an algorithm acts in an environment, and what happens is kept for learning."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from rein import nest
from rein.data_structures import AlgStep, Experience, TimeStep, make_experience
from rein.distributions import extract_spec, index_distributions, map_params, stack_distributions
from rein.framework.action_bounds import ActionBounds
from rein.framework.quick_rollout import QuickActor, collect_quickly
from rein.framework.update import in_mixed_precision
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state
from rein.runtime.timers import timer
from rein.specs import TensorSpec
from rein.statistics import frozen_statistics
from rein.transforms import IdentityDataTransformer

if TYPE_CHECKING:
    from rein.envs import Environment
    from rein.framework.rl_algorithm import RLAlgorithm


class Rollout:
    """Where an algorithm stands in its environment, between iterations."""

    def __init__(self, algorithm: "RLAlgorithm", env: "Environment") -> None:
        # A plain list keeps the algorithm from becoming a submodule of anything that holds the rollout.
        self._algorithm = [algorithm]
        self.env = env
        batch_size = env.batch_size
        self._initial_state = zero_state(algorithm.rollout_state_spec, batch_size)
        self.policy_state: Nest = self._initial_state
        self.transform_state: Nest = None
        self._bounds = ActionBounds(env.action_spec)
        self._fraction = 0.0
        self._found_actor: tuple[QuickActor | None] | None = None

    def next_length(self, unroll_length: float) -> int:
        """Whole steps to take now, so that on average `unroll_length` are taken."""
        self._fraction += unroll_length
        length = int(self._fraction)
        self._fraction -= length
        return length

    def collect(self, length: int, with_grad: bool) -> Experience:
        """Takes `length` steps and looks at one more; for learning from the rollout itself.

        Returns:
            [length + 1, B, ...] transformed time steps, infos and states. The last step was not acted on.
        """
        algorithm = self._algorithm[0]
        actor = self._quick_actor()
        if actor is not None:
            experience = collect_quickly(algorithm, actor, self.env, self._bounds, length, with_grad, True)
            if algorithm._rollout_info_spec is None:
                algorithm._rollout_info_spec = extract_spec(experience.rollout_info, from_dim=2)
            return experience
        time_steps: list[TimeStep] = []
        infos: list[Nest] = []
        states: list[Nest] = []
        keep_states = algorithm.need_full_rollout_state()
        self.policy_state = nest.detach(self.policy_state)
        for step in range(length + 1):
            is_bootstrap = step == length
            # The environment writes over its tensors later on, and infos may refer to them.
            raw = nest.map_structure(torch.clone, self.env.current_time_step())
            time_step, alg_step, state = self._act(raw, with_grad, keep=not is_bootstrap)
            time_steps.append(time_step._replace(untransformed=()))
            infos.append(alg_step.info)
            states.append(state if keep_states else ())
            if not is_bootstrap:
                self._step(alg_step)
        if algorithm._rollout_info_spec is None:
            algorithm._rollout_info_spec = extract_spec(infos[0])
        return Experience(
            time_step=nest.stack_nests(time_steps),
            rollout_info=stack_distributions(infos),
            state=nest.stack_nests(states) if keep_states else (),
        )

    def _quick_actor(self) -> QuickActor | None:
        """What picks the actions in the place of `rollout_step`, where nothing else depends on each step."""
        if self._found_actor is None:
            self._found_actor = (self._find_quick_actor(),)
        return self._found_actor[0]

    def _find_quick_actor(self) -> QuickActor | None:
        algorithm, env = self._algorithm[0], self.env
        transformer = algorithm._config.data_transformer if algorithm._config is not None else None
        is_raw = transformer is None or isinstance(transformer, IdentityDataTransformer)
        is_vector = isinstance(env.observation_spec, TensorSpec) and env.observation_spec.dtype == torch.float32
        if not is_raw or not is_vector or not nest.is_empty(algorithm.rollout_state_spec):
            return None
        if self.transform_state is None:
            self.transform_state = algorithm.initial_transform_state(env.batch_size)
        return algorithm.quick_actor()

    def collect_for_replay(self, length: int, with_grad: bool) -> Experience | None:
        """Takes `length` steps and stores them in the algorithm's replay buffer.

        Returns:
            The last step of every environment, [B, ...]; None if `length` is 0.
        """
        algorithm = self._algorithm[0]
        actor = None if with_grad or algorithm.overwrites_policy_output or not length else self._quick_actor()
        if actor is not None:
            return self._collect_quickly_for_replay(actor, length)
        experience = None
        for _ in range(length):
            raw = self.env.current_time_step()
            _, alg_step, state = self._act(raw, with_grad, keep=True)
            if with_grad:
                alg_step = map_params(torch.Tensor.detach, alg_step)
            # The tensors of `raw` outlive this step of the environment, and no more.
            self._step(alg_step)
            if algorithm.overwrites_policy_output:
                alg_step = alg_step._replace(output=self.env.current_time_step().prev_action)
            experience = make_experience(raw, alg_step, state)
            with timer("store"):
                algorithm.observe_for_replay(experience)
        return experience

    def _collect_quickly_for_replay(self, actor: QuickActor, length: int) -> Experience:
        algorithm = self._algorithm[0]
        experience = collect_quickly(algorithm, actor, self.env, self._bounds, length, False, False)
        with timer("store"):
            algorithm.observe_rollout_for_replay(experience)
        return index_distributions(experience, -1)

    def peek(self) -> Experience:
        """What `collect_for_replay` would store next, [B, ...]; nothing is kept of it."""
        raw = self.env.current_time_step()
        _, alg_step, state = self._act(raw, with_grad=False, keep=False)
        return make_experience(raw, alg_step, state)

    def _act(self, raw: TimeStep, with_grad: bool, keep: bool) -> tuple[TimeStep, AlgStep, Nest]:
        """`rollout_step` at the current time step; with `keep`, its new states are kept."""
        algorithm = self._algorithm[0]
        if self.transform_state is None:
            self.transform_state = algorithm.initial_transform_state(self.env.batch_size)
        # A step that is not kept will be seen again: running statistics must not count it twice.
        with nullcontext() if keep else frozen_statistics():
            time_step, transform_state = algorithm.transform_timestep(raw, self.transform_state)
            state = reset_state(self.policy_state, raw.is_first(), self._initial_state)
            with torch.set_grad_enabled(with_grad), timer("act"):
                config = algorithm._config if with_grad else None
                alg_step = in_mixed_precision(config, lambda: algorithm.rollout_step(time_step, state))
        if keep:
            algorithm.observe_for_metrics(raw)
            self.transform_state = transform_state
            self.policy_state = alg_step.state
        return time_step, alg_step, state

    def _step(self, alg_step: AlgStep) -> None:
        with timer("env"):
            self.env.step(self._bounds.clip(alg_step.output))

    def close(self) -> None:
        """Ends what was started for the rollout; the environment belongs to who made it."""

    def state_dict(self) -> dict[str, Any]:
        """All that continuing this rollout exactly needs, the environments included."""
        return {
            "env": self.env.get_state(),
            "policy_state": nest.flatten(nest.detach(self.policy_state)),
            "transform_state": None if self.transform_state is None else nest.flatten(self.transform_state),
            "fraction": self._fraction,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.env.set_state(state["env"])
        self.policy_state = nest.pack_sequence_as(self._initial_state, state["policy_state"])
        if state["transform_state"] is not None:
            structure = self._algorithm[0].initial_transform_state(self.env.batch_size)
            self.transform_state = nest.pack_sequence_as(structure, state["transform_state"])
        self._fraction = state["fraction"]
