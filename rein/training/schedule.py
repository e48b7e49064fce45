"""When things happen in a run: how far it has come, and what is due."""

import math

from rein.framework import TrainerConfig


class Budget:
    """How long a run lasts, in iterations or environment steps.

    Attributes:
        steps_per_iteration: environment steps at most.
    """

    def __init__(self, config: TrainerConfig, num_envs: int) -> None:
        """Reads the budget from the settings.

        Args:
            config: settings of the run.
            num_envs: environments that step together.
        """
        self.num_iterations = config.num_iterations
        self.num_env_steps = config.num_env_steps
        # An asynchronous unroll of any length takes at most this many; then there are more iterations than expected.
        per_iteration = (config.unroll_length or config.max_unroll_length) * num_envs
        self.steps_per_iteration = math.ceil(per_iteration)
        if not num_envs and not self.num_iterations:
            raise ValueError("without an environment there are no environment steps to count: set num_iterations")
        if self.num_iterations and self.num_env_steps and not config.async_unroll:
            possible = math.ceil(self.num_iterations * per_iteration)
            if possible < self.num_env_steps:
                raise ValueError(
                    f"num_iterations={self.num_iterations} take {possible} environment steps, fewer than "
                    f"num_env_steps={self.num_env_steps}: set num_iterations=0, or make it larger"
                )
        self.expected_iterations = self.num_iterations or math.ceil(self.num_env_steps / per_iteration)

    def progress(self, iterations: int, env_steps: int) -> float:
        """The part of the run that is done, in [0, 1]."""
        if self.num_iterations:
            return min(1.0, iterations / self.num_iterations)
        return min(1.0, env_steps / self.num_env_steps)


class Every:
    """Something that is due every so many iterations."""

    def __init__(self, interval: int | None, times: int | None, expected_iterations: int) -> None:
        """Makes a period.

        Args:
            interval: iterations between two times.
            times: how often in all; replaces `interval`.
            expected_iterations: length of the run.
        """
        if times is not None:
            interval = max(1, expected_iterations // max(1, times))
        self.interval = max(1, interval or 1)

    def is_due(self, iteration: int) -> bool:
        """Whether it is due after `iteration` iterations."""
        return iteration % self.interval == 0
