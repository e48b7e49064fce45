"""Particle-based variational inference: particles that settle on a target distribution exp(-E(x)).

    SVGD    g_j = mean_i k(x_i, x_j) dE/dx_i - w mean_i d/dx_i k(x_i, x_j)      Liu & Wang 2016, arXiv:1608.04471
    GFSF    g_j = dE/dx_j + w s_j, s the smoothed score of the particles        Liu et al. 2019, arXiv:1807.01750
    minmax  g_j = -f(x_j), f the critic of the Fisher neural sampler            Hu et al. 2018, arXiv:1810.03545

Particles descend along g. With `entropy_regularization` w they settle on exp(-E / w). An optimizer sees g / N; under Adam
that is the same, under SGD the learning rate has to be N times as large.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rein.algorithms.particle_vi.critic import CriticAlgorithm
from rein.algorithms.particle_vi.propagation import LossFunction, loss_and_gradient, propagated_loss
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks.chains import LayerSizes
from rein.ops import gfsf_direction, rbf_kernel_and_gradient, smoothed_score, svgd_direction
from rein.specs import TensorSpec

METHODS = ("svgd", "gfsf", "minmax", None)
_RIDGE = 1e-4

TransformFunction = Callable[[Tensor], tuple[Tensor, Tensor]]


@configurable
class ParVIAlgorithm(Algorithm):
    """A set of particles that chase a target distribution."""

    def __init__(
        self,
        particle_dim: int,
        num_particles: int = 10,
        entropy_regularization: float = 1.0,
        par_vi: str | None = "gfsf",
        critic_input_dim: int | None = None,
        critic_hidden_layers: LayerSizes = (100, 100),
        critic_l2_weight: float = 10.0,
        critic_iter_num: int = 2,
        critic_use_bn: bool = True,
        critic_optimizer: Any | None = None,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "ParVIAlgorithm",
    ) -> None:
        """Draws the particles from the standard normal distribution.

        Args:
            particle_dim: length D of a particle.
            num_particles: their number N.
            entropy_regularization: w.
            par_vi: "svgd", "gfsf", "minmax", or None for the plain gradient of E.
            critic_input_dim: for minmax, length of the critic's input; None: `particle_dim`.
            critic_hidden_layers: for minmax, sizes of the hidden layers of the critic.
            critic_l2_weight: for minmax, weight of |f|^2; steps of the particles are scaled by 1 / (2 l2).
            critic_iter_num: for minmax, updates of the critic per training step.
            critic_use_bn: for minmax, batch normalization in the critic.
            critic_optimizer: for minmax; None: Adam with a learning rate of 1e-3.
            optimizer: of the particles.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, debug_summaries=debug_summaries, name=name)
        if par_vi not in METHODS:
            raise ValueError(f"{name}: par_vi is {par_vi!r}: choose one of {METHODS}")
        for what, number in (("particle_dim", particle_dim), ("num_particles", num_particles)):
            if number < 1:
                raise ValueError(f"{name}: {what} is {number}: at least 1 is needed")
        self._par_vi = par_vi
        self._entropy_regularization = entropy_regularization
        self._particles = nn.Parameter(torch.randn(num_particles, particle_dim))
        self._critic_iter_num, self._critic_l2_weight = critic_iter_num, critic_l2_weight
        self._critic: CriticAlgorithm | None = None
        if par_vi == "minmax":
            self._critic = CriticAlgorithm(
                TensorSpec((particle_dim if critic_input_dim is None else critic_input_dim,)),
                hidden_layers=critic_hidden_layers,
                use_bn=critic_use_bn,
                optimizer=critic_optimizer,
                name=f"{name}.critic",
            )

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_critic"]

    @property
    def num_particles(self) -> int:
        """The number of particles."""
        return int(self._particles.shape[0])

    @property
    def particles(self) -> Tensor:
        """The particles, [N, D]; a parameter."""
        return self._particles

    def predict_step(self, state: Nest = None) -> AlgStep:  # type: ignore[override]
        """The particles, [N, D]."""
        return AlgStep(output=self.particles)

    def train_step(  # type: ignore[override]
        self,
        loss_func: LossFunction,
        transform_func: TransformFunction | None = None,
        entropy_regularization: float | None = None,
        loss_mask: Tensor | None = None,
        state: Nest = None,
    ) -> AlgStep:
        """Computes the loss that moves the particles. With minmax, the critic is updated on the way.

        Args:
            loss_func: E, from [N, D] (or [N, O] after the transform) to [N], or to a tuple with such a field `loss`.
            transform_func: maps the particles to (outputs [N, O], extra outputs [N, O']), on which inference happens
                instead: E takes the outputs, the kernel both together.
            entropy_regularization: w in the place of the constructor's.
            loss_mask: [N] factors of the loss.
            state: not used.

        Returns:
            The output is the particles; `info.extra` is what `loss_func` returned.
        """
        weight = self._entropy_regularization if entropy_regularization is None else entropy_regularization
        outputs = density_outputs = self.particles
        if transform_func is not None:
            if self._critic is not None:
                raise ValueError(
                    f"{self.name}: par_vi='minmax' works on particles: choose svgd or gfsf for a transform"
                )
            outputs, extra_outputs = transform_func(self.particles)
            density_outputs = torch.cat([outputs, extra_outputs], -1)
        loss, gradient = loss_and_gradient(loss_func, outputs)
        propagated = self._propagate(outputs, density_outputs, gradient, weight)
        if loss_mask is not None:
            propagated = propagated * loss_mask
        return AlgStep(output=self.particles, info=LossInfo(loss=propagated, extra=loss))

    def _propagate(self, outputs: Tensor, density_outputs: Tensor, gradient: Tensor, weight: float) -> Tensor:
        """The loss [N] whose gradient is the direction of the chosen method."""
        if self._par_vi == "svgd":
            points = density_outputs.detach()
            if density_outputs is outputs:
                return propagated_loss(svgd_direction(points, gradient, weight), outputs)
            kernel, repulsion = rbf_kernel_and_gradient(points, points)
            attraction = kernel.t() @ gradient
            total = propagated_loss(attraction, outputs) - weight * propagated_loss(repulsion, density_outputs)
            return total / self.num_particles
        if self._par_vi == "gfsf":
            if density_outputs is outputs:
                return propagated_loss(gfsf_direction(outputs.detach(), gradient, weight, ridge=_RIDGE), outputs)
            score = smoothed_score(density_outputs.detach(), ridge=_RIDGE)
            return propagated_loss(gradient, outputs) + weight * propagated_loss(score, density_outputs)
        if self._critic is not None:
            for _ in range(self._critic_iter_num):
                self._critic.improve(outputs, gradient, weight, self._critic_l2_weight)
            return propagated_loss(-self._critic.predict_step(outputs.detach()).output, outputs)
        return propagated_loss(gradient, outputs)
