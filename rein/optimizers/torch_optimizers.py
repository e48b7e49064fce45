"""The optimizers of torch, constructed without parameters; see `BoundLater` for what they have in common.

All take these arguments:

- `lr`: learning rate, or a `Scheduler` that is asked at every step.
- `gradient_clipping`: limit for the gradients; None for no clipping.
- `clip_by_global_norm`: limits the norm of all gradients together; by default each tensor's own norm is limited.
- `clip_by_value`: limits each element instead.
- `fused`, `foreach`: which kernels of torch to use; by default the fused ones where the device has them.
- `name`: shown in summaries.
"""

from __future__ import annotations

from torch import optim

from rein.config import configurable
from rein.optimizers.bound_later import BoundLater, LearningRate
from rein.optimizers.fused_adam import fused_adam_step


@configurable
class Adam(BoundLater, optim.Adam):
    """Adam (Kingma & Ba 2015), as `torch.optim.Adam`.

    Args:
        lr: learning rate or its schedule.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the root of the average square, after bias correction.
        weight_decay: weight of the L2 penalty, added to the gradient.
        amsgrad: whether to divide by the largest average square so far (Reddi et al. 2018).
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        fused: see the module.
        foreach: see the module.
        name: see the module.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        fused: bool | None = None,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            fused,
            foreach,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
        )

    def _torch_step(self) -> None:
        if not fused_adam_step(self):
            super()._torch_step()


@configurable
class AdamW(BoundLater, optim.AdamW):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), as `torch.optim.AdamW`.

    Args:
        lr: learning rate or its schedule.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the root of the average square, after bias correction.
        weight_decay: share of each weight, times `lr`, that is taken away per step.
        amsgrad: whether to divide by the largest average square so far (Reddi et al. 2018).
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        fused: see the module.
        foreach: see the module.
        name: see the module.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        fused: bool | None = None,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            fused,
            foreach,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
        )


@configurable
class SGD(BoundLater, optim.SGD):
    """Stochastic gradient descent, as `torch.optim.SGD`.

    Args:
        lr: learning rate or its schedule.
        momentum: share of the last step that is kept.
        dampening: share of the gradient that momentum leaves out.
        weight_decay: weight of the L2 penalty, added to the gradient.
        nesterov: whether to look ahead along the momentum.
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        fused: see the module.
        foreach: see the module.
        name: see the module.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        fused: bool | None = None,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            fused,
            foreach,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )


@configurable
class RMSprop(BoundLater, optim.RMSprop):
    """Steps divided by the root of the average square of the gradient, as `torch.optim.RMSprop`.

    Args:
        lr: learning rate or its schedule.
        alpha: decay rate of the average square.
        eps: added to the root.
        weight_decay: weight of the L2 penalty, added to the gradient.
        momentum: share of the last step that is kept.
        centered: whether to divide by the standard deviation instead.
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        foreach: see the module; there is no fused kernel.
        name: see the module.
    """

    has_fused_kernel = False

    def __init__(
        self,
        lr: LearningRate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            None,
            foreach,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )


@configurable
class NAdam(BoundLater, optim.NAdam):
    """Adam with Nesterov momentum (Dozat 2016), as `torch.optim.NAdam`.

    Args:
        lr: learning rate or its schedule.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the root of the average square, after bias correction.
        weight_decay: weight of the L2 penalty, added to the gradient.
        momentum_decay: how fast the momentum grows to its final value.
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        foreach: see the module; there is no fused kernel.
        name: see the module.
    """

    has_fused_kernel = False

    def __init__(
        self,
        lr: LearningRate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            None,
            foreach,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
        )


@configurable
class RAdam(BoundLater, optim.RAdam):
    """Adam with a rectified start (Liu et al. 2020), as `torch.optim.RAdam`.

    Args:
        lr: learning rate or its schedule.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the root of the average square, after bias correction.
        weight_decay: weight of the L2 penalty, added to the gradient.
        gradient_clipping: see the module.
        clip_by_global_norm: see the module.
        clip_by_value: see the module.
        foreach: see the module; there is no fused kernel.
        name: see the module.
    """

    has_fused_kernel = False

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            gradient_clipping,
            clip_by_global_norm,
            clip_by_value,
            name,
            None,
            foreach,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
        )
