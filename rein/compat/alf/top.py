"""Names that ALF has at the top and we elsewhere."""

from rein.networks import layers as layers
from rein.networks.layers import initializers as initializers
from rein.runtime import get_default_device as get_default_device
from rein.runtime import set_default_device as set_default_device
