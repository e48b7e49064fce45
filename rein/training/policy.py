"""Policies of runs, loaded to act: for evaluation, for play, and for the Python API."""

from collections.abc import Callable, Mapping
from typing import Any

from rein.config import Configs, fresh_configs, get_config_value, install_name_resolver, load_saved_config, use_configs
from rein.data_structures import TimeStep
from rein.envs import Environment, create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.runtime.run import Run
from rein.runtime.seeding import spawn_seeds
from rein.training.checkpoints import find_checkpoint, load_parameters
from rein.training.construction import WorldSpecs, algorithm_state, build_algorithm
from rein.training.evaluation import EvaluationResult, evaluate
from rein.training.offline import has_environment, load_specs
from rein.training.run_directory import RunDirectory, RunDirectoryError
from rein.training.supplying import ONLY_TO_TRAIN

_MOST_ENVIRONMENTS = 10


class Policy:
    """An algorithm to act with, and the configuration that its environments are made by."""

    def __init__(
        self,
        algorithm: RLAlgorithm,
        observation_spec: Nest,
        configs: Configs,
        seed: int,
        checkpoint: int | None = None,
        fitted_from: tuple[Any, str] | None = None,
    ) -> None:
        """Puts the parts together; `load_policy` makes one from a run.

        Args:
            algorithm: built and filled.
            observation_spec: specs of the observation as the environment gives it.
            configs: in force while environments are made.
            seed: of the run that trained it.
            checkpoint: iterations after which it was saved.
            fitted_from: see `WorldSpecs`.
        """
        self.algorithm = algorithm
        self.observation_spec = observation_spec
        self.configs = configs
        self.seed = seed
        self.checkpoint = checkpoint
        self.fitted_from = fitted_from

    def held_out_seed(self, seed: int | None = None) -> int:
        """A seed for environments that neither training nor its evaluations have used.

        Args:
            seed: to get another one.
        """
        return spawn_seeds(self.seed, 1, "held-out" if seed is None else f"held-out {seed}")[0]

    def require_environment(self) -> None:
        """Raises `RunDirectoryError` if it is not known what to act in."""
        with use_configs(self.configs):
            if not has_environment():
                raise RunDirectoryError(
                    "this policy was trained from data, without an environment: name one with --env ID, or rein.load(path, "
                    "env=ID)"
                )

    def make_environment(self, num_environments: int, seed: int, **arguments: Any) -> Environment:
        """Environments as in training.

        Args:
            num_environments: batch size.
            seed: of the batch.
            **arguments: for `create_environment`, to differ from training.
        """
        self.require_environment()
        with use_configs(self.configs):
            return create_environment(num_parallel_environments=num_environments, seed=seed, **arguments)

    def make_rendered_environment(self, seed: int, render_mode: str = "rgb_array") -> Environment:
        """One environment that renders.

        Args:
            seed: of the environment.
            render_mode: "rgb_array" for frames, "human" for a window.
        """
        with use_configs(self.configs):
            arguments = {**(get_config_value("create_environment.env_kwargs") or {}), "render_mode": render_mode}
        return self.make_environment(1, seed, backend="sync", env_kwargs=arguments)

    def evaluate(
        self, num_episodes: int, seed: int | None = None, on_step: Callable[[TimeStep], None] | None = None
    ) -> EvaluationResult:
        """Whole episodes of the deterministic policy on held-out seeds.

        Args:
            num_episodes: how many.
            seed: chooses other held-out seeds.
            on_step: called with every time step.
        """
        if num_episodes < 1:
            raise ValueError(f"evaluating {num_episodes} episodes is impossible: give at least 1")
        num_environments = min(num_episodes, _MOST_ENVIRONMENTS)
        env = self.make_environment(num_environments, self.held_out_seed(seed), count_successes=True)
        with env, Run(seed=self.seed):
            return evaluate(self.algorithm, env, num_episodes, on_step)


def load_policy(
    directory: RunDirectory, step: int | str | None = None, supply: Mapping[str, Any] | None = None
) -> Policy:
    """The policy of a run, as saved in its newest checkpoint.

    Args:
        directory: of the run.
        step: the checkpoint of that iteration instead of the newest one, or the name that a callback has kept a policy
            under, such as "best".
        supply: values that could not be saved with the run, by name.
    """
    find_checkpoint(directory, step)
    install_name_resolver()
    with fresh_configs() as configs:
        load_saved_config(directory.config, supply, directory.is_trusted, optional=ONLY_TO_TRAIN)
        settings = TrainerConfig(root_dir=str(directory.path))
        seed = int(directory.record().get("seed") or 0)
        with Run(directory.path, seed=seed):
            specs = _world_specs(directory, seed)
            algorithm = build_algorithm(settings, None, for_training=False, specs=specs)
        checkpoint = load_parameters(directory, step)
        algorithm.load_state_dict(algorithm_state(checkpoint.components))
    algorithm.eval()
    return Policy(algorithm, specs.observation, configs, seed, checkpoint.step, specs.fitted_from)


def _world_specs(directory: RunDirectory, seed: int) -> WorldSpecs:
    """What the run says about its world: its environment, or what it kept of its data."""
    if not has_environment():
        return load_specs(directory)
    with create_environment(num_parallel_environments=1, seed=seed) as env:
        return WorldSpecs.of(env)
