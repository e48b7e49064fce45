"""Building the algorithm that the settings describe, for training or for acting only."""

from rein.agents.assembly import compose_agent
from rein.envs import Environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.transforms import create_data_transformer


def build_algorithm(config: TrainerConfig, env: Environment, for_training: bool = True) -> RLAlgorithm:
    """The root algorithm, with the parts of `compose_agent` and `config.data_transformer` made for the environment.

    Args:
        config: settings of the run.
        env: what it acts in.
        for_training: False builds it to act only: it does not keep `env`, and offline data is not loaded.
    """
    if config.algorithm_ctor is None:
        raise ValueError("TrainerConfig.algorithm_ctor is not set: name the algorithm to train")
    config.data_transformer = create_data_transformer(config.data_transformer_ctor, env.observation_spec)
    config.data_transformer.set_reward_spec(env.reward_spec)
    algorithm: RLAlgorithm = compose_agent(config.algorithm_ctor)(
        observation_spec=config.data_transformer.transformed_observation_spec,
        action_spec=env.action_spec,
        reward_spec=env.reward_spec,
        env=env if for_training else None,
        config=config,
        debug_summaries=config.debug_summaries,
    )
    algorithm.set_path("")
    if for_training:
        algorithm.preload_checkpoints()
        if config.offline_buffer_dir is not None:
            algorithm.load_offline_replay_buffer(env.observation_spec)
    return algorithm
