"""MoNet on 16x16 images of three coloured squares: it finds them without being told what an object is."""

from rein.agents.representation_parts import monet_codec
from rein.algorithms.representation.squares import squares_data
from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "CodecTraining",
    "data": "squares",
    "epochs": 8,
    "measure": "foreground_ari",
    "bar": 0.9,
    "in_every_seed": True,
    "reference": "Burgess et al. 2019, arXiv:1901.11390; 1 is perfect, 0 is chance",
}

pre_config({"learning_rate": 4e-3})
import_config("bases/codec.py")

config("squares_data", batch_size=8, num_examples=8_000, count=3)
config(
    "monet_codec",
    n_slots=5,
    slot_size=4,
    filters=(8, 8, 8),
    hidden_layers=(64,),
    gamma=0.0,
    beta=0.2,
    noise=0.175,
    # Slots that cannot draw: where a colour is, only attention can say.
    decoder_filters=(),
    recurrent_attention=False,
)
config("CodecTraining", codec_ctor=monet_codec, data_creator=squares_data)
config("TrainerConfig", num_iterations=8, eval_interval=1, num_checkpoints=2)
