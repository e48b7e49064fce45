"""Rollouts: an algorithm acts in an environment, and what happens is kept for learning."""

from typing import TYPE_CHECKING, Any

import torch

from rein import nest
from rein.data_structures import AlgStep, Experience, TimeStep, make_experience
from rein.distributions import map_params, stack_distributions
from rein.framework.acting.actor import Acted, Actor
from rein.framework.acting.quick_rollout import QuickActor, QuickRollout
from rein.nest import Nest
from rein.runtime.timers import timer
from rein.specs import TensorSpec

if TYPE_CHECKING:
    from rein.envs import Environment
    from rein.framework.rl_algorithm import RLAlgorithm


class Rollout:
    """Where an algorithm stands in its environment, between iterations."""

    def __init__(self, algorithm: "RLAlgorithm", env: "Environment") -> None:
        """Begins where the environment stands.

        Args:
            algorithm: the root algorithm.
            env: what it acts in.
        """
        # A plain list keeps the algorithm from becoming a submodule of anything that holds the rollout.
        self._algorithm = [algorithm]
        self.env = env
        self.actor = Actor(algorithm, env.action_spec, env.batch_size, "rollout")
        self._fraction = 0.0
        self._found_quick: tuple[QuickRollout | None] | None = None

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
        quick = self.quick()
        if quick is not None:
            experience = quick.collect(length, with_grad, with_bootstrap=True)
            algorithm.learning.note_rollout_info(experience.rollout_info, from_dim=2)
            return experience
        time_steps: list[TimeStep] = []
        infos: list[Nest] = []
        states: list[Nest] = []
        keep_states = algorithm.need_full_rollout_state()
        self.actor.policy_state = nest.detach(self.actor.policy_state)
        for step in range(length + 1):
            is_bootstrap = step == length
            # The environment writes over its tensors later on, and infos may refer to them.
            raw = nest.map_structure(torch.clone, self.env.current_time_step())
            acted = self.act(raw, with_grad, keep=not is_bootstrap)
            time_steps.append(acted.time_step._replace(untransformed=()))
            infos.append(acted.step.info)
            states.append(acted.state if keep_states else ())
            if not is_bootstrap:
                self.step(acted)
        algorithm.learning.note_rollout_info(infos[0])
        return Experience(
            time_step=nest.stack_nests(time_steps),
            rollout_info=stack_distributions(infos),
            state=nest.stack_nests(states) if keep_states else (),
        )

    def quick(self) -> QuickRollout | None:
        """What takes steps in the place of `act` and `step`, where nothing but the action depends on each of them."""
        if self._found_quick is None:
            quick = self._find_quick_actor()
            rollout = None if quick is None else QuickRollout(self._algorithm[0], quick, self.env, self.actor)
            self._found_quick = (rollout,)
        return self._found_quick[0]

    def quick_for_replay(self) -> QuickRollout | None:
        """The same, for steps whose actions are stored: they must be those that were picked."""
        return None if self._algorithm[0].overwrites_policy_output else self.quick()

    def _find_quick_actor(self) -> QuickActor | None:
        algorithm = self._algorithm[0]
        seen = algorithm.observation_spec
        is_vector = isinstance(seen, TensorSpec) and seen.dtype == torch.float32
        if not is_vector or not isinstance(self.env.action_spec, TensorSpec):
            return None
        quick = algorithm.quick_actor()
        if quick is None or len(nest.flatten(algorithm.rollout_state_spec)) != quick.num_carried:
            return None
        return quick

    def collect_for_replay(self, length: int, with_grad: bool) -> Experience | None:
        """Takes `length` steps and stores them in the algorithm's replay buffer.

        Returns:
            The last step of every environment, [B, ...]; None if `length` is 0.
        """
        algorithm = self._algorithm[0]
        quick = None if with_grad or not length else self.quick_for_replay()
        if quick is not None:
            return self._collect_quickly_for_replay(quick, length)
        experience = None
        for _ in range(length):
            raw = self.env.current_time_step()
            acted = self.act(raw, with_grad, keep=True)
            alg_step = map_params(torch.Tensor.detach, acted.step) if with_grad else acted.step
            # The tensors of `raw` outlive this step of the environment, and no more.
            self.step(acted)
            experience = make_experience(raw, self.as_done(alg_step), acted.state)
            with timer("store"):
                algorithm.observe_for_replay(experience)
        return experience

    def _collect_quickly_for_replay(self, quick: QuickRollout, length: int) -> Experience:
        algorithm = self._algorithm[0]
        if length == 1:
            experience, _ = quick.step()
            with timer("store"):
                algorithm.observe_for_replay(experience)
            return experience
        experience = quick.collect(length, with_grad=False, with_bootstrap=False)
        with timer("store"):
            algorithm.observe_rollout_for_replay(experience)
        return map_params(lambda tensor: tensor.select(0, -1), experience)

    def peek(self) -> Experience:
        """What `collect_for_replay` would store next, [B, ...]; nothing is kept of it."""
        raw = self.env.current_time_step()
        acted = self.act(raw, with_grad=False, keep=False)
        return make_experience(raw, acted.step, acted.state)

    # One step.

    def act(self, raw: TimeStep, with_grad: bool, keep: bool) -> Acted:
        """`rollout_step` at the current time step; with `keep`, its new states are kept and it counts."""
        with timer("act"):
            acted = self.actor.act(raw, with_grad, keep)
        if keep:
            self._algorithm[0].observe_for_metrics(raw)
        return acted

    def step(self, acted: Acted) -> None:
        """Steps the environment."""
        with timer("env"):
            self.env.step(acted.action)

    def as_done(self, alg_step: AlgStep) -> AlgStep:
        """`alg_step` with the action that the environment says it did, where that counts; after the step."""
        if not self._algorithm[0].overwrites_policy_output:
            return alg_step
        return alg_step._replace(output=self.env.current_time_step().prev_action)

    def close(self) -> None:
        """Ends what was started for the rollout; the environment belongs to who made it."""

    def state_dict(self) -> dict[str, Any]:
        """All that continuing this rollout exactly needs, the environments included."""
        return {
            "env": self.env.get_state(),
            "policy_state": nest.flatten(nest.detach(self.actor.policy_state)),
            "transform_state": nest.flatten(self.actor.transform_state),
            "fraction": self._fraction,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.env.set_state(state["env"])
        actor = self.actor
        actor.policy_state = nest.pack_sequence_as(actor.initial_state, state["policy_state"])
        if state["transform_state"] is not None:  # None in checkpoints of version 0.1 that had not acted yet
            actor.transform_state = nest.pack_sequence_as(actor.transform_state, state["transform_state"])
        self._fraction = state["fraction"]
