import alf
from alf.environments import suite_gym
from alf.environments.alf_wrappers import ActionObservationWrapper

alf.import_config("sac_conf.py")

alf.config("create_environment", env_name="Pendulum-v1", env_load_fn=suite_gym.load, num_parallel_environments=8)
alf.config("suite_gym.load", max_episode_steps=50, alf_env_wrappers=[ActionObservationWrapper])
alf.config("TrainerConfig", mini_batch_size=32)
