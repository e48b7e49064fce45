"""A transformer over the recent past: each step attends to the steps before it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import vector_size
from rein.networks.layers import FC, LayerNorm, TransformerBlock
from rein.networks.network import Network
from rein.networks.preprocessing import make_preprocessing
from rein.specs import TensorSpec


class TransformerState(NamedTuple):
    """The inputs of the memory layers at the last `memory_size` steps."""

    memory: Tensor
    """[B, num_memory_layers, memory_size, d_model], the newest last."""
    length: Tensor
    """[B] int64, how many of them are filled."""


@configurable
class TransformerNetwork(Network):
    """Transformer layers within a step, then transformer layers over the last steps; a recurrent network.

    The input of a step is a vector of `d_model`, or a set of [core_size, d_model] of which the first is the summary
    that goes into the memory and out of the network.
    """

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: Nest,
        num_prememory_layers: int,
        num_attention_heads: int,
        d_ff: int,
        num_memory_layers: int,
        memory_size: int,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        name: str = "TransformerNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the input; after preprocessing a vector of d_model or a set
                [core_size, d_model].
            num_prememory_layers: transformer layers among the vectors of one step.
            num_attention_heads: of all layers; d_model is a multiple of it.
            d_ff: width of the hidden layers.
            num_memory_layers: transformer layers over the last steps.
            memory_size: number of past steps that are seen, the current one not counted.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self.preprocessing, spec = make_preprocessing(
            input_tensor_spec, input_preprocessors, preprocessing_combiner, name
        )
        if spec.ndim not in (1, 2):
            raise ValueError(f"{name}: the input must be a vector or a set of vectors, got shape {tuple(spec.shape)}")
        if num_memory_layers < 1 or memory_size < 1:
            raise ValueError(
                f"{name}: needs at least one memory layer and one step of memory, got {num_memory_layers} and "
                f"{memory_size}"
            )
        self._core_dims = spec.ndim
        core_size = 1 if spec.ndim == 1 else int(spec.shape[0])
        d_model = vector_size(TensorSpec(spec.shape[-1:], spec.dtype), name)
        self._d_model = d_model
        self._memory_size = memory_size
        self.prememory = nn.ModuleList(
            TransformerBlock(d_model, num_attention_heads, core_size, d_ff=d_ff) for _ in range(num_prememory_layers)
        )
        self.memory_layers = nn.ModuleList(
            TransformerBlock(d_model, num_attention_heads, memory_size + 1, d_ff=d_ff) for _ in range(num_memory_layers)
        )
        self.norm = LayerNorm((d_model,))

    def _initial_state(self, core: Tensor) -> TransformerState:
        shape = (*core.shape[:-1], len(self.memory_layers), self._memory_size, self._d_model)
        length = torch.zeros(core.shape[:-1], dtype=torch.int64, device=core.device)
        return TransformerState(core.new_zeros(shape), length)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """One step, [..., d_model] or [..., core_size, d_model] to [..., d_model]."""
        x = inputs if self.preprocessing is None else self.preprocessing(inputs)
        if self._core_dims == 1:
            x = x.unsqueeze(-2)
        for layer in self.prememory:
            x = layer(x)
        core = x[..., 0, :]
        memory, length = state if state else self._initial_state(core)
        places = torch.arange(self._memory_size + 1, device=core.device)
        hidden = places < self._memory_size - length.unsqueeze(-1)
        entered = []
        for i, layer in enumerate(self.memory_layers):
            entered.append(core)
            seen = torch.cat((memory[..., i, :, :], core.unsqueeze(-2)), -2)
            core = layer(seen, core.unsqueeze(-2), hidden).squeeze(-2)
        newest = torch.stack(entered, -2).unsqueeze(-2)
        new_state = TransformerState(
            torch.cat((memory[..., 1:, :], newest), -2), (length + 1).clamp(max=self._memory_size)
        )
        return self.norm(core), new_state


@configurable
class TransformerCell(Network):
    """A transformer over the recent past in the place of a recurrent cell, [B, input_size] to [B, hidden_size]."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_attention_heads: int = 4,
        d_ff: int | None = None,
        num_memory_layers: int = 1,
        memory_size: int = 16,
        name: str = "TransformerCell",
    ) -> None:
        """Builds the layers.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output, a multiple of `num_attention_heads`.
            num_attention_heads: of all layers.
            d_ff: width of the hidden layers; None: `hidden_size`.
            num_memory_layers: transformer layers over the last steps.
            memory_size: number of past steps that are seen, the current one not counted.
            name: of this network.
        """
        super().__init__(TensorSpec((input_size,)), name=name)
        if hidden_size % num_attention_heads:
            raise ValueError(
                f"{name}: hidden_size {hidden_size} is not a multiple of num_attention_heads {num_attention_heads}: "
                "change one of them"
            )
        self.into = FC(input_size, hidden_size)
        self.transformer = TransformerNetwork(
            TensorSpec((hidden_size,)),
            num_prememory_layers=0,
            num_attention_heads=num_attention_heads,
            d_ff=hidden_size if d_ff is None else d_ff,
            num_memory_layers=num_memory_layers,
            memory_size=memory_size,
            name=f"{name}.transformer",
        )

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """One step, [..., input_size] to [..., hidden_size]."""
        return self.transformer(self.into(inputs), state)
