"""`AsyncRollout`: the rollout of an algorithm whose environments are stepped in another process."""

from typing import TYPE_CHECKING, Any

import torch

from rein import nest
from rein.data_structures import Experience, make_experience
from rein.distributions import stack_distributions
from rein.framework.acting.rollout import Rollout
from rein.framework.asynchronous.unroll import AsyncUnroller, UnrollResult
from rein.framework.trainer_config import TrainerConfig
from rein.runtime import summary
from rein.runtime.timers import timer

if TYPE_CHECKING:
    from rein.envs import Environment
    from rein.framework.rl_algorithm import RLAlgorithm


def check_async_unroll(algorithm: "RLAlgorithm", env: "Environment", config: TrainerConfig) -> None:
    """Raises `ValueError` if the settings of an asynchronous unroll make no sense for `algorithm`.

    Args:
        algorithm: the root algorithm.
        env: its environment.
        config: settings of the run.
    """
    if algorithm.on_policy:
        raise ValueError(
            f"async_unroll is True, but {algorithm.name} is on-policy: it differentiates through its own rollout, which "
            "another process cannot make; set async_unroll=False, or use an off-policy algorithm"
        )
    if config.unroll_with_grad:
        raise ValueError(
            "async_unroll and unroll_with_grad are both True: gradients do not cross processes, so set one to False"
        )
    if env.recipe is None:
        raise ValueError(
            "async_unroll is True, but the environment cannot be made in another process: make it with create_environment"
        )
    least = (config.mini_batch_length or 1) if config.trains_on_fresh_rollouts else 1
    if config.unroll_length == 0 and config.max_unroll_length < least:
        raise ValueError(
            f"unroll_length is 0, and max_unroll_length is {config.max_unroll_length}: set it to the most steps that an "
            f"iteration may take, at least {least}"
        )
    if config.unroll_length == 0 and not config.whole_replay_buffer_training and config.mini_batch_length is None:
        raise ValueError("unroll_length is 0, so set mini_batch_length: it cannot be taken from there")
    for name in ("unroll_queue_size", "unroll_parameter_update_period"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} is {getattr(config, name)}: it must be at least 1")
    if config.unroll_step_interval < 0:
        raise ValueError(f"unroll_step_interval is {config.unroll_step_interval} seconds: it must not be negative")


class AsyncRollout(Rollout):
    """Takes what another process collected, as if it had been collected here."""

    def __init__(self, algorithm: "RLAlgorithm", env: "Environment") -> None:
        """Starts nothing: the process begins when results are asked for.

        Args:
            algorithm: the root algorithm.
            env: is closed when the process begins, which has its own.
        """
        super().__init__(algorithm, env)
        self._config = algorithm.require_config()
        self._iterations = 0
        self._saved: dict[str, Any] | None = None
        self._unroller: AsyncUnroller | None = None

    @property
    def unroller(self) -> AsyncUnroller:
        """The process that unrolls."""
        if self._unroller is None:
            self._unroller = AsyncUnroller(self._algorithm[0], self._config, self._saved)
            self._saved = None
        return self._unroller

    def next_length(self, unroll_length: float) -> int:
        """Steps to take now; if `unroll_length` is 0, the most to take, which may be more than there are."""
        return super().next_length(unroll_length) if unroll_length else self._config.max_unroll_length

    def collect(self, length: int, with_grad: bool) -> Experience | None:  # type: ignore[override]
        """Takes `length` steps and looks at one more; for learning from the rollout itself.

        Returns:
            [length + 1, B, ...] transformed time steps, infos and states, the last step only looked at. With
            `unroll_length` 0, as many steps as there are, a multiple of `mini_batch_length`, at least one of it.
        """
        multiple = self._config.mini_batch_length or 1
        results = self._take(length + 1, at_least=multiple + 1)
        steps = len(results) - 1
        if not self._config.unroll_length:
            steps -= steps % multiple
        self.unroller.put_back(results[steps:])
        algorithm = self._algorithm[0]
        for result in results[:steps]:
            algorithm.observe_for_metrics(result.time_step.untransformed)
        kept = results[: steps + 1]
        algorithm.learning.note_rollout_info(kept[0].policy_step.info)
        keeps_states = algorithm.need_full_rollout_state()
        return Experience(
            time_step=nest.stack_nests([result.time_step._replace(untransformed=()) for result in kept]),
            rollout_info=stack_distributions([result.policy_step.info for result in kept]),
            state=nest.stack_nests([result.policy_state for result in kept]) if keeps_states else (),
        )

    def collect_for_replay(self, length: int, with_grad: bool) -> Experience | None:
        """Takes `length` steps and stores them in the algorithm's replay buffer.

        With `unroll_length` 0, it takes those that there are, up to `length`; at least one as long as there is too little
        to train on.

        Returns:
            The last step of every environment, [B, ...]; None if none was taken.
        """
        experience = None
        algorithm = self._algorithm[0]
        for result in self._take(length, at_least=0 if self._can_train() else 1):
            algorithm.observe_for_metrics(result.time_step)
            experience = make_experience(result.time_step, result.policy_step, result.policy_state)
            with timer("store"):
                algorithm.observe_for_replay(experience)
        return experience

    def _can_train(self) -> bool:
        algorithm = self._algorithm[0]
        return algorithm.has_offline or algorithm.learning.has_enough()

    def _take(self, length: int, at_least: int) -> list[UnrollResult]:
        """Results of this iteration: `length`; with `unroll_length` 0, those that there are, from `at_least` to `length`."""
        unroller = self.unroller
        if self._iterations and self._iterations % self._config.unroll_parameter_update_period == 0:
            unroller.update_parameter(self._algorithm[0])
        self._iterations += 1
        if self._config.unroll_length:
            results = unroller.gather_unroll_results(length, 0)
        else:
            results = unroller.gather_unroll_results(0, length)
            if len(results) < at_least:
                results += unroller.gather_unroll_results(at_least - len(results), 0)
        if results and summary.should_record_summaries():
            summary.scalar("AsyncUnroll/Length", float(len(results)))
            for name, seconds in (("EnvStepSeconds", "env_step_time"), ("StepSeconds", "step_time")):
                summary.scalar(f"AsyncUnroll/{name}", torch.stack([getattr(one, seconds) for one in results]).mean())
        return results

    def state_dict(self) -> dict[str, Any]:
        """All that continuing needs: where the process stands, and the results that were not taken yet."""
        state = self._saved if self._unroller is None else self._unroller.state_dict()
        return {"unroll": state, "fraction": self._fraction}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Lets the process begin where `state_dict` was taken."""
        if "unroll" not in state:
            raise ValueError("the rollout was saved with async_unroll=False: go on with the same setting")
        self._saved, self._fraction = state["unroll"], state["fraction"]

    def close(self) -> None:
        """Ends the process."""
        if self._unroller is not None:
            self._unroller.close()
