"""Multi-head attention and transformer blocks: Vaswani et al. (2017), "Attention Is All You Need"."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.fc import FC
from rein.networks.layers.initializers import Activation
from rein.networks.layers.layer import Layer, check_sizes
from rein.networks.layers.normalization import LayerNorm
from rein.networks.layers.parameter import LearnedTensor


@configurable
class MultiHeadAttention(Layer):
    """Scaled dot-product attention of queries over a memory."""

    def __init__(self, d_model: int, num_heads: int, d_k: int | None = None, d_v: int | None = None) -> None:
        """Draws the projections.

        Args:
            d_model: length of each input and output vector.
            num_heads: number of attention heads.
            d_k: length of a key in each head; None: ``d_model / num_heads``.
            d_v: length of a value in each head; None: ``d_model / num_heads``.
        """
        check_sizes("MultiHeadAttention", d_model=d_model, num_heads=num_heads)
        if (d_k is None or d_v is None) and d_model % num_heads:
            raise ValueError(
                f"MultiHeadAttention: d_model {d_model} is not a multiple of num_heads {num_heads}; "
                "change one, or give d_k and d_v"
            )
        super().__init__()
        self.num_heads = num_heads
        d_k = d_model // num_heads if d_k is None else d_k
        d_v = d_model // num_heads if d_v is None else d_v
        self.query = FC(d_model, num_heads * d_k)
        self.key = FC(d_model, num_heads * d_k)
        self.value = FC(d_model, num_heads * d_v)
        self.output = FC(num_heads * d_v, d_model)

    def _heads(self, x: Tensor) -> Tensor:
        """From [..., L, num_heads * d] to [..., num_heads, L, d]."""
        return x.reshape(*x.shape[:-1], self.num_heads, -1).transpose(-2, -3)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attends from each query to the memory.

        Args:
            query: [..., N, d_model].
            memory: [..., M, d_model].
            mask: [..., M] or [..., N, M] bool, True where the memory must not be seen.

        Returns:
            [..., N, d_model].
        """
        q, k, v = (self._heads(f) for f in (self.query(query), self.key(memory), self.value(memory)))
        allowed = None
        if mask is not None:
            per_query = mask if mask.ndim == query.ndim else mask.unsqueeze(-2)
            allowed = ~per_query.unsqueeze(-3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.output(y.transpose(-2, -3).flatten(-2))


@configurable
class TransformerBlock(Layer):
    """Attention and a two-layer network, each with a shortcut and normalized input (pre-norm)."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        memory_size: int,
        d_k: int | None = None,
        d_v: int | None = None,
        d_ff: int | None = None,
        positional_encoding: str = "abs",
        dropout: float = 0.0,
        activation: Activation = torch.relu_,
    ) -> None:
        """Draws the weights.

        Args:
            d_model: length of each vector.
            num_heads: number of attention heads.
            memory_size: number of vectors in the memory.
            d_k: length of a key in each head; None: ``d_model / num_heads``.
            d_v: length of a value in each head; None: ``d_model / num_heads``.
            d_ff: width of the hidden layer; None: four times `d_model`.
            positional_encoding: "abs" adds a learnt vector to each place of the memory, "none" does not.
            dropout: probability of zeroing each entry of what is added, in training mode.
            activation: of the hidden layer.
        """
        check_sizes("TransformerBlock", memory_size=memory_size)
        if positional_encoding not in ("abs", "none"):
            raise ValueError(f"positional_encoding is {positional_encoding!r}; choose 'abs' or 'none'")
        super().__init__()
        self.memory_size = memory_size
        self.attention = MultiHeadAttention(d_model, num_heads, d_k, d_v)
        self.attention_norm = LayerNorm((d_model,))
        self.fc_norm = LayerNorm((d_model,))
        hidden = 4 * d_model if d_ff is None else d_ff
        self.fc1 = FC(d_model, hidden, activation)
        self.fc2 = FC(hidden, d_model)
        self.dropout = dropout
        self.positions: nn.Module | None = None
        if positional_encoding == "abs":
            self.positions = LearnedTensor((memory_size, d_model))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def forward(self, memory: Tensor, query: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Transforms the queries by what they find in the memory.

        Args:
            memory: [..., memory_size, d_model].
            query: [..., N, d_model]; None: the memory itself.
            mask: [..., memory_size] or [..., N, memory_size] bool, True where the memory must not be seen.

        Returns:
            [..., N, d_model].
        """
        if self.positions is not None:
            memory = memory + self.positions(memory)
        if query is None:
            query = memory
        norm = self.attention_norm
        y = query + self._drop(self.attention(norm(query), norm(memory), mask))
        return y + self._drop(self.fc2(self.fc1(self.fc_norm(y))))
