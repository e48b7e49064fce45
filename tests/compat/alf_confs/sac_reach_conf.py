import alf
from alf.environments import suite_robotics

alf.import_config("sac_conf.py")

alf.config(
    "create_environment",
    env_name="rein/Reach-v0",
    env_load_fn=suite_robotics.load,
    num_parallel_environments=2,
)
alf.config("suite_robotics.load", max_episode_steps=20, sparse_reward=True)
alf.config("TrainerConfig", unroll_length=8)
observation_spec = alf.get_observation_spec()
action_spec = alf.get_action_spec()
assert len(observation_spec.shape) == 1 and alf.get_reward_spec().shape == ()
