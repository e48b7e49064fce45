"""Auto-encoders on data: a variational one, unless another is given."""

from rein.agents.representation_parts import vae_codec
from rein.algorithms.representation import CodecTraining
from rein.config import config, define_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "CodecTraining",
    "data": "examples",
    "reference": "Kingma & Welling 2014, arXiv:1312.6114",
}

learning_rate = define_config("learning_rate", 1e-3)

config("CodecTraining", codec_ctor=vae_codec, optimizer=Adam(lr=learning_rate))
config(
    "TrainerConfig",
    ml_type="sl",
    algorithm_ctor=CodecTraining,
    num_iterations=100,
    evaluate=True,
    eval_interval=10,
    summary_interval=1,
    num_checkpoints=5,
)
