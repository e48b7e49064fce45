"""A variational auto-encoder whose code is a vector of categorical variables.

With l the logits of L variables of K categories each (plus those of the prior, if it is learnt), a code is a one-hot
sample for each variable,

    z ~ Cat(softmax l),   KL = sum over variables of KL(Cat(softmax l) || prior),

and gradients pass the choice by an estimator: straight-through (Bengio et al. 2013, arXiv:1308.3432), where the gradient
of z is that of the probabilities, or straight-through Gumbel-softmax (Jang et al. 2017, arXiv:1611.01144), where it is
that of the relaxed sample.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.representation.vae import LatentBottleneck, VAEOutput, VariationalAutoEncoder
from rein.config import configurable
from rein.distributions import OneHotCategoricalGumbelSoftmax, OneHotCategoricalStraightThrough
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.networks.layers import identity
from rein.ops import categorical_kl
from rein.runtime.schedules import ConstantScheduler, Scheduler, as_scheduler
from rein.specs import BoundedTensorSpec

_MODES = ("st", "st-gumbel")


@configurable
class DiscreteVAE(VariationalAutoEncoder):
    """Encodes into categorical variables, draws from them, and gives their KL to the prior."""

    is_compilable = True

    def __init__(
        self,
        z_spec: BoundedTensorSpec,
        input_tensor_spec: Nest | None = None,
        z_network_cls: Callable[..., Network] = EncodingNetwork,
        prior_input_tensor_spec: Nest | None = None,
        prior_z_network_cls: Callable[..., Network] | None = None,
        mode: str = "st",
        gumbel_temp_scheduler: float | Scheduler = 1.0,
        beta: float = 1.0,
        target_kld_per_categorical: float | None = None,
        beta_optimizer: Any | None = None,
        name: str = "DiscreteVAE",
    ) -> None:
        """Makes the encoder.

        Args:
            z_spec: the variables, [L], of an integer type from 0 to K - 1 each.
            input_tensor_spec: nest of specs of what is encoded.
            z_network_cls: called as `cls(input_tensor_spec=, last_layer_size=L * K, last_activation=)`; makes logits. With
                a prior its input is the triple (condition, what is encoded, output of the prior network), which it
                must be able to combine.
            prior_input_tensor_spec: nest of specs of the condition of the prior.
            prior_z_network_cls: called like `z_network_cls`, on the condition. None is a uniform prior.
            mode: how gradients pass the samples, "st" (straight-through) or "st-gumbel".
            gumbel_temp_scheduler: temperature of Gumbel-softmax, or its schedule.
            beta: weight of the KL.
            target_kld_per_categorical: if given, beta is tuned until the KL is L times this, in nats.
            beta_optimizer: of beta's logarithm; None leaves it to the optimizer of the rest.
            name: name in summaries.
        """
        # The networks of the Gaussian encoder are not made.
        LatentBottleneck.__init__(self, name=name)
        self._num_variables, self._num_categories = _sizes(z_spec, name)
        if input_tensor_spec is None:
            raise ValueError(f"{name}: give input_tensor_spec")
        if (prior_input_tensor_spec is None) != (prior_z_network_cls is None):
            raise ValueError(f"{name}: prior_input_tensor_spec and prior_z_network_cls go together: give both or none")
        if mode not in _MODES:
            raise ValueError(f"{name}: mode is {mode!r}: it must be one of {', '.join(_MODES)}")
        self._mode = mode
        self._temperature = as_scheduler(gumbel_temp_scheduler)
        if isinstance(self._temperature, ConstantScheduler) and self._temperature.value <= 0:
            raise ValueError(f"{name}: the temperature is {self._temperature.value}: it must be positive")
        size = self._num_variables * self._num_categories
        last = {"last_layer_size": size, "last_activation": identity}
        prior, spec = None, input_tensor_spec
        if prior_z_network_cls is not None:
            prior = prior_z_network_cls(input_tensor_spec=prior_input_tensor_spec, **last)
            spec = (prior_input_tensor_spec, input_tensor_spec, prior.output_spec)
        found = self._take_networks(z_network_cls(input_tensor_spec=spec, **last), prior, size)
        if found != size:
            raise ValueError(f"{name}: z_network_cls gives {found} logits: heed last_layer_size, which is {size}")
        target = target_kld_per_categorical
        self._take_beta(beta, None if target is None else target * self._num_variables, beta_optimizer)

    @property
    def output_spec(self) -> BoundedTensorSpec:
        """Spec of `z` and of `z_mode`: one-hot vectors, [L, K]."""
        return BoundedTensorSpec((self._num_variables, self._num_categories), torch.float32, 0, 1)

    @property
    def changes_with_progress(self) -> bool:
        """Whether the temperature changes while training goes on, so that a compiled update would be wrong."""
        return self._mode == "st-gumbel" and not isinstance(self._temperature, ConstantScheduler)

    def _posterior(self, features: Tensor, prior: Tensor | None) -> tuple[VAEOutput, Tensor]:
        shape = (*features.shape[:-1], self._num_variables, self._num_categories)
        logits = (features if prior is None else features + prior).reshape(shape)
        kld = categorical_kl(logits, None if prior is None else prior.reshape(shape)).sum(-1)
        choice = OneHotCategoricalStraightThrough(logits)
        if self._mode == "st-gumbel":
            choice = OneHotCategoricalGumbelSoftmax(logits, temperature=self._temperature())
        return VAEOutput(z=choice.rsample(), z_mode=choice.rmode), kld


def _sizes(spec: BoundedTensorSpec, name: str) -> tuple[int, int]:
    """L and K of a vector of categorical variables."""
    if not isinstance(spec, BoundedTensorSpec) or not spec.is_discrete or spec.ndim != 1:
        raise ValueError(f"{name}: z_spec is {spec}: it must be a bounded vector of an integer type")
    if (spec.minimum != 0).any() or (spec.maximum != spec.maximum.flat[0]).any():
        raise ValueError(f"{name}: z_spec is {spec}: all variables must have minimum 0 and the same maximum")
    return spec.numel, int(spec.maximum.flat[0]) + 1
