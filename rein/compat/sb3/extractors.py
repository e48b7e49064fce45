"""Encoders of one's own for observations, by `features_extractor_class` and `features_extractor_kwargs`."""

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rein.compat.sb3.vec_wrappers import is_image


class BaseFeaturesExtractor(nn.Module):
    """A module from observations to vectors of `features_dim` numbers."""

    def __init__(self, observation_space: spaces.Space[Any], features_dim: int = 0) -> None:
        """Keeps both.

        Args:
            observation_space: with the channels of images first.
            features_dim: numbers that come out.
        """
        super().__init__()
        if features_dim < 1:
            raise ValueError(f"features_dim is {features_dim}: give at least 1")
        self._observation_space = observation_space
        self._features_dim = features_dim

    @property
    def features_dim(self) -> int:
        """Numbers that come out."""
        return self._features_dim


class Extracted(nn.Module):
    """An extractor as a preprocessor of our networks: images come in [0, 1], whole numbers as floats."""

    def __init__(self, extractor: nn.Module, space: spaces.Space[Any]) -> None:
        """Keeps the extractor.

        Args:
            extractor: called with a tensor, or a dict of them.
            space: of observations.
        """
        super().__init__()
        self.extractor = extractor
        self._space = space

    def forward(self, inputs: Any) -> Tensor:
        """Vectors, [B, features_dim]."""
        if isinstance(self._space, spaces.Dict):
            named = {key: _as_floats(inputs[key], part) for key, part in self._space.spaces.items()}
            return self.extractor(named)
        return self.extractor(_as_floats(inputs, self._space))


def _as_floats(value: Tensor, space: spaces.Space[Any]) -> Tensor:
    value = value.to(torch.float32)
    return value / 255.0 if is_image(space) else value


def extractor_inputs(space: spaces.Space[Any], extractor_class: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a network that encodes its input by an extractor; each network has one of its own.

    Args:
        space: of observations.
        extractor_class: derived from `BaseFeaturesExtractor`.
        keywords: for it.
    """
    wrapped = Extracted(extractor_class(space, **keywords), space)
    return {"preprocessing_combiner" if isinstance(space, spaces.Dict) else "input_preprocessors": wrapped}
