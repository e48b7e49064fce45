"""Callbacks that evaluate the model on the way, and what follows from it."""

import os
from typing import Any

import numpy as np

from rein.compat.sb3.callbacks import BaseCallback, EventCallback
from rein.compat.sb3.evaluation import evaluate_policy
from rein.compat.sb3.vec_env import VecEnv
from rein.compat.sb3.vec_normalize import sync_envs_normalization
from rein.compat.sb3.worlds import as_vec_env


class EvalCallback(EventCallback):
    """Evaluates every so many steps of the batch, keeps the best model and writes `evaluations.npz`.

    Attributes:
        best_mean_reward: of all evaluations so far.
        last_mean_reward: of the last one.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
    ) -> None:
        """Keeps the settings.

        Args:
            eval_env: a world or a batch of its own.
            callback_on_new_best: called when there is a new best.
            callback_after_eval: called after every evaluation.
            n_eval_episodes: how many.
            eval_freq: steps of the batch between evaluations.
            log_path: folder for `evaluations.npz`.
            best_model_save_path: folder for `best_model.zip`.
            deterministic: whether the policy draws no lots.
            render: whether to render.
            verbose: 1 prints each evaluation.
            warn: see `evaluate_policy`.
        """
        super().__init__(callback_after_eval, verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.eval_env: VecEnv = as_vec_env(eval_env)
        self.n_eval_episodes, self.eval_freq = n_eval_episodes, eval_freq
        self.deterministic, self.render, self.warn = deterministic, render, warn
        self.best_model_save_path = best_model_save_path
        self.log_path = None if log_path is None else os.path.join(log_path, "evaluations")
        self.best_mean_reward = self.last_mean_reward = -np.inf
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[list[float]] = []
        self.evaluations_length: list[list[int]] = []
        self.evaluations_successes: list[list[bool]] = []
        self._successes: list[bool] = []

    def _init_callback(self) -> None:
        folders = [self.best_model_save_path, self.log_path and os.path.dirname(self.log_path)]
        for folder in folders:
            if folder:
                os.makedirs(folder, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _note_success(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        if locals_["done"] and "is_success" in locals_["info"]:
            self._successes.append(bool(locals_["info"]["is_success"]))

    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq:
            return True
        sync_envs_normalization(self.training_env, self.eval_env)
        self._successes = []
        found: Any = evaluate_policy(
            self.model,
            self.eval_env,
            self.n_eval_episodes,
            self.deterministic,
            self.render,
            self._note_success,
            return_episode_rewards=True,
            warn=self.warn,
        )
        returns, lengths = found
        self._keep(returns, lengths)
        self.last_mean_reward = float(np.mean(returns))
        self._report(returns, lengths)
        goes_on = True
        if self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            if self.verbose >= 1:
                print("New best mean reward!")
            if self.best_model_save_path is not None:
                self.model.save(os.path.join(self.best_model_save_path, "best_model"))
            if self.callback_on_new_best is not None:
                goes_on = self.callback_on_new_best.on_step()
        return goes_on and self._on_event()

    def _keep(self, returns: list[float], lengths: list[int]) -> None:
        if self.log_path is None:
            return
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(returns)
        self.evaluations_length.append(lengths)
        arrays = {
            "timesteps": self.evaluations_timesteps,
            "results": self.evaluations_results,
            "ep_lengths": self.evaluations_length,
        }
        if self._successes:
            self.evaluations_successes.append(self._successes)
            arrays["successes"] = self.evaluations_successes  # type: ignore[assignment]
        np.savez(self.log_path, **{name: np.array(values) for name, values in arrays.items()})  # type: ignore[arg-type]

    def _report(self, returns: list[float], lengths: list[int]) -> None:
        if self.verbose >= 1:
            print(
                f"Eval num_timesteps={self.num_timesteps}, "
                f"episode_reward={np.mean(returns):.2f} +/- {np.std(returns):.2f}"
            )
        self.logger.record("eval/mean_reward", float(np.mean(returns)))
        self.logger.record("eval/mean_ep_length", float(np.mean(lengths)))
        if self._successes:
            self.logger.record("eval/success_rate", float(np.mean(self._successes)))
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """See `BaseCallback`."""
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)


class StopTrainingOnRewardThreshold(BaseCallback):
    """Stops once the best mean return of an `EvalCallback` has reached a number; give it as `callback_on_new_best`."""

    parent: EvalCallback | None  # type: ignore[assignment]

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        """Keeps the settings."""
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        if self.parent is None:
            raise ValueError(
                "StopTrainingOnRewardThreshold works with an EvalCallback: give it as callback_on_new_best"
            )
        goes_on = bool(self.parent.best_mean_reward < self.reward_threshold)
        if not goes_on and self.verbose >= 1:
            print(f"Stopping training: mean reward {self.parent.best_mean_reward:.2f} reached {self.reward_threshold}")
        return goes_on


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Stops after so many evaluations without a new best; give it as `callback_after_eval`."""

    parent: EvalCallback | None  # type: ignore[assignment]

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        """Keeps the settings."""
        super().__init__(verbose)
        self.max_no_improvement_evals, self.min_evals = max_no_improvement_evals, min_evals
        self.last_best_mean_reward = -np.inf
        self.no_improvement_evals = 0

    def _on_step(self) -> bool:
        if self.parent is None:
            raise ValueError(
                "StopTrainingOnNoModelImprovement works with an EvalCallback: give it as callback_after_eval"
            )
        goes_on = True
        if self.n_calls > self.min_evals:
            if self.parent.best_mean_reward > self.last_best_mean_reward:
                self.no_improvement_evals = 0
            else:
                self.no_improvement_evals += 1
                goes_on = self.no_improvement_evals <= self.max_no_improvement_evals
        self.last_best_mean_reward = self.parent.best_mean_reward
        if not goes_on and self.verbose >= 1:
            print(f"Stopping training: {self.no_improvement_evals} evaluations without a new best")
        return goes_on
