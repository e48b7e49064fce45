"""Actor and critic with a layer of LSTM cells each."""

import torch

from rein.config import config

config("ActorDistributionRNNNetwork", fc_layer_params=(64,), lstm_hidden_size=(64,), activation=torch.tanh)
config("ValueRNNNetwork", fc_layer_params=(64,), lstm_hidden_size=(64,), activation=torch.tanh)
