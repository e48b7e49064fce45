"""Building the algorithm that the settings describe, for training or for acting only."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from rein.agents.assembly import compose_agent, part_transformers
from rein.envs import Environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.framework.module_state import without_preloading
from rein.nest import Nest
from rein.specs import TensorSpec
from rein.transforms import create_data_transformer


class WorldSpecs(NamedTuple):
    """What an algorithm must know of the world it is made for; from an environment, or from a data set."""

    observation: Nest
    """As the environment gives it."""
    action: Nest
    reward: TensorSpec = TensorSpec(())
    fitted_from: tuple[Any, str] | None = None
    """The world's own action space and the form that `action` describes it in, if another."""

    @classmethod
    def of(cls, env: Environment) -> "WorldSpecs":
        """Those of an environment."""
        return cls(env.observation_spec, env.action_spec, env.reward_spec, env.fitted_from)


def build_algorithm(
    config: TrainerConfig,
    env: Environment | None,
    for_training: bool = True,
    specs: WorldSpecs | None = None,
) -> RLAlgorithm:
    """The root algorithm, with the parts of `compose_agent` and the data transformer.

    Args:
        config: settings of the run.
        env: what it acts in; None learns from offline data alone.
        for_training: False builds it to act only: it does not keep `env`, loads neither offline data nor the checkpoints
            that it would begin from.
        specs: of the world; None takes them from `env`.
    """
    if config.algorithm_ctor is None:
        raise ValueError("TrainerConfig.algorithm_ctor is not set: name the algorithm to train")
    if specs is None:
        if env is None:
            raise ValueError("there is neither an environment nor a data set: set create_environment.env_name")
        specs = WorldSpecs.of(env)
    # Those of parts read the replay buffer, so they come first.
    transformers = [*part_transformers(config.algorithm_ctor), *_several(config.data_transformer_ctor)]
    transformer = create_data_transformer(transformers, specs.observation)
    transformer.set_reward_spec(specs.reward)
    with nullcontext() if for_training else without_preloading():
        algorithm: RLAlgorithm = compose_agent(config.algorithm_ctor)(
            observation_spec=transformer.transformed_observation_spec,
            action_spec=specs.action,
            reward_spec=specs.reward,
            env=env if for_training else None,
            config=config,
            debug_summaries=config.debug_summaries,
        )
    algorithm.set_data_transformer(transformer)
    algorithm.set_path("")
    if for_training and env is not None and config.offline_buffer_dir is not None:
        algorithm.load_offline_replay_buffer(env.observation_spec)
    return algorithm


def _several(ctor: Any) -> list[Any]:
    return [] if ctor is None else [ctor] if callable(ctor) or isinstance(ctor, str) else list(ctor)


def algorithm_state(components: Mapping[str, Any]) -> dict[str, Any]:
    """The state of the algorithm in a checkpoint; version 0.1 kept the data transformer in a component of its own."""
    state = dict(components["alg"])
    transformer = components.get("data_transformer", {})
    return {**state, **{f"_data_transformer.{name}": value for name, value in transformer.items()}}
