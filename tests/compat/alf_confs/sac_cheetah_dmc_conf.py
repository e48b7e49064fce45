import alf
from alf.environments import suite_dmc

alf.import_config("sac_conf.py")

alf.config(
    "create_environment",
    env_name="cartpole:swingup",
    env_load_fn=suite_dmc.load,
    num_parallel_environments=1,
)
alf.config("suite_dmc.load", from_pixels=False, max_episode_steps=20)
alf.config("TrainerConfig", unroll_length=8)
