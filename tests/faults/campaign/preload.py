"""What a run imports, imported once: processes that are forked from here start in a moment."""

import gymnasium  # noqa: F401
import torch  # noqa: F401

import rein.api
import rein.cli.entry
import rein.training.launch
import rein.training.trainer
import rein.zoo  # noqa: F401
