"""MoNet finds three squares in 16x16 images without being told what an object is; colours are drawn for each image.

Attention is from seeds (Engelcke et al. 2021, arXiv:2104.09958), not the recurrent one of the paper; a slot shows one colour.
"""

from rein.agents.representation_parts import monet_codec
from rein.algorithms.representation.squares import squares_data
from rein.config import config, import_config, pre_config
from rein.runtime import LinearScheduler

ENTRY = {
    "algorithm": "CodecTraining",
    "data": "squares",
    "epochs": 8,
    "measure": "foreground_ari",
    "bar": 0.9,
    "in_every_seed": True,
    "reference": "1 is perfect, 0 is chance; Burgess et al. 2019, arXiv:1901.11390",
}

pre_config({"learning_rate": LinearScheduler("percent", ((0.0, 4e-3), (0.5, 4e-3), (1.0, 0.0)))})
import_config("bases/codec.py")

config("squares_data", batch_size=8, num_examples=4_000, count=3, draws_colours=True)
config(
    "monet_codec",
    n_slots=4,
    slot_size=4,
    filters=(8, 8, 8),
    hidden_layers=(64,),
    gamma=0.0,
    noise=0.175,
    # Slots that cannot draw: where a colour is, only attention can say.
    decoder_filters=(),
    pixel_embedding_size=4,
)
config("CodecTraining", codec_ctor=monet_codec, data_creator=squares_data)
config("TrainerConfig", num_iterations=8, eval_interval=1, num_checkpoints=2)
