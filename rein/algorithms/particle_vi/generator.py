"""Generators trained by amortized particle-based variational inference.

A generator makes outputs x = net(noise), or net([noise, inputs]), that shall minimize

    E(x) - w H(x)        w = entropy_regularization, H the entropy of the outputs (given the inputs)

so that with w = 1 and E a negative log density the outputs follow that density. The outputs of a batch are moved as
particles are (see `amortized` and `gpvi`), and the net follows them.

    amortized SVGD    Feng et al. 2017, arXiv:1707.06626
    amortized GFSF    Liu et al. 2019, arXiv:1807.01750
    minmax            Hu et al. 2018, arXiv:1810.03545
    GPVI              Ratzlaff et al. 2021, arXiv:2107.00107

With `mi_weight` the mutual information of noise and outputs is maximized besides (Hjelm et al. 2019), against collapse.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest, optimizers
from rein.algorithms.particle_vi import amortized
from rein.algorithms.particle_vi.amortized import GeneratedBatch, KernelWidth, Method, Transform
from rein.algorithms.particle_vi.critic import CriticAlgorithm
from rein.algorithms.particle_vi.gpvi import FunctionalGradient
from rein.algorithms.particle_vi.inverse_mvp import InverseMVPAlgorithm
from rein.algorithms.particle_vi.mi_estimator import MIEstimator
from rein.algorithms.particle_vi.propagation import LossFunction
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, NestConcat, Network, ReluMLP
from rein.networks.chains import LayerSizes
from rein.networks.layers import identity
from rein.specs import TensorSpec
from rein.statistics import TargetUpdater

METHODS = ("svgd", "svgd2", "svgd3", "gfsf", "minmax")
FUNCTION_SPACE_METHODS = ("svgd2", "svgd3", "gfsf")


class GeneratorLossInfo(NamedTuple):
    """Losses by part; `()` where there is none."""

    generator: Nest = ()
    """What the loss function of `train_step` returned."""
    mi_estimator: Nest = ()
    """[N] loss of the estimator of mutual information."""
    inverse_mvp: Nest = ()
    """[] squared error of the helper of GPVI."""


@configurable
class Generator(Algorithm):
    """Makes outputs from noise, and from inputs if it is conditional."""

    def __init__(
        self,
        output_dim: int,
        noise_dim: int = 32,
        input_tensor_spec: Nest | None = None,
        hidden_layers: LayerSizes = (256,),
        net: Network | None = None,
        net_moving_average_rate: float | None = None,
        entropy_regularization: float = 0.0,
        mi_weight: float | None = None,
        mi_estimator_cls: Callable[..., MIEstimator] = MIEstimator,
        par_vi: str | None = None,
        use_kernel_averager: bool = False,
        functional_gradient: bool = False,
        init_lambda: float = 1.0,
        lambda_trainable: bool = False,
        block_inverse_mvp: bool = False,
        direct_jac_inverse: bool = False,
        inverse_mvp_solve_iters: int = 1,
        inverse_mvp_hidden_size: int = 100,
        inverse_mvp_hidden_layers: int = 1,
        critic_input_dim: int | None = None,
        critic_hidden_layers: LayerSizes = (100, 100),
        critic_l2_weight: float = 10.0,
        critic_iter_num: int = 2,
        critic_relu_mlp: bool = False,
        critic_use_bn: bool = True,
        minmax_resample: bool = True,
        critic_optimizer: Any | None = None,
        inverse_mvp_optimizer: Any | None = None,
        optimizer: Any | None = None,
        lambda_optimizer: Any | None = None,
        name: str = "Generator",
    ) -> None:
        """Makes the generator.

        Args:
            output_dim: length D of the output.
            noise_dim: length K of the noise that the net takes.
            input_tensor_spec: nest of specs of the inputs; None: there are none.
            hidden_layers: sizes of the hidden layers of the default net.
            net: from noise, or [noise, inputs], to outputs; a `ReluMLP` for GPVI. None: fully connected layers.
            net_moving_average_rate: predictions are made by a copy of the net that moves towards it by this share at
                each update; None: by the net itself.
            entropy_regularization: w.
            mi_weight: weight of the mutual information; None: none.
            mi_estimator_cls: makes the estimator, called with (x_spec, y_spec, sampler="shift").
            par_vi: "svgd", "svgd2", "svgd3", "gfsf" or "minmax", needed for w > 0 without GPVI. A conditional generator
                needs "svgd".
            use_kernel_averager: average the width of the kernel over batches; not for gfsf.
            functional_gradient: train by GPVI.
            init_lambda: for GPVI with K < D, the weight of the noise that is added to the output, positive.
            lambda_trainable: train that weight.
            block_inverse_mvp: for GPVI with K < D, invert the K x K block of the Jacobian only.
            direct_jac_inverse: for GPVI, solve with the Jacobian instead of training a helper network.
            inverse_mvp_solve_iters: updates of the helper per training step.
            inverse_mvp_hidden_size: see `InverseMVPAlgorithm`.
            inverse_mvp_hidden_layers: see `InverseMVPAlgorithm`.
            critic_input_dim: for minmax, length of the critic's input; None: `output_dim`.
            critic_hidden_layers: for minmax, sizes of the hidden layers of the critic.
            critic_l2_weight: for minmax, weight of |f|^2.
            critic_iter_num: for minmax, updates of the critic per training step.
            critic_relu_mlp: for minmax, the critic is a `ReluMLP`, whose trace is exact.
            critic_use_bn: for minmax, batch normalization in the critic.
            minmax_resample: for minmax, each update of the critic sees other outputs.
            critic_optimizer: for minmax; None: Adam with a learning rate of 1e-3.
            inverse_mvp_optimizer: of the helper; None: Adam with a learning rate of 1e-4 and a weight decay of 1e-5.
            optimizer: of the net and of the estimator of mutual information.
            lambda_optimizer: None: Adam with a learning rate of 1e-3.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, name=name)
        self._output_dim, self._noise_dim = output_dim, noise_dim
        self._input_tensor_spec = input_tensor_spec
        self._entropy_regularization = entropy_regularization
        self._par_vi, self._uses_gpvi = par_vi, functional_gradient
        self._check_settings(init_lambda)
        self._adds_noise = functional_gradient and noise_dim < output_dim
        self._latent_dim = output_dim if self._adds_noise else noise_dim
        self._net = self._default_net(hidden_layers) if net is None else net
        self._log_lambda: nn.Parameter | None = None
        self._fixed_lambda = init_lambda
        if self._adds_noise and lambda_trainable:
            self._log_lambda = nn.Parameter(torch.tensor(math.log(init_lambda)))
            self.add_optimizer(
                optimizers.Adam(lr=1e-3) if lambda_optimizer is None else lambda_optimizer, [self._log_lambda]
            )
        self._moving_net: Network | None = None
        self._net_updater: TargetUpdater | None = None
        if net_moving_average_rate is not None:
            self._moving_net = self._net.copy()
            self._net_updater = TargetUpdater(self._net, self._moving_net, tau=net_moving_average_rate)
        self._mi_weight = mi_weight
        self._mi_estimator: MIEstimator | None = None
        if mi_weight is not None:
            self._mi_estimator = mi_estimator_cls(
                self._net_input_spec(self._latent_dim), TensorSpec((output_dim,)), sampler="shift"
            )
        self._kernel_width = KernelWidth(use_kernel_averager)
        self._critic: CriticAlgorithm | None = None
        self._inverse_mvp: InverseMVPAlgorithm | None = None
        if functional_gradient:
            self._method: Method | None = self._make_functional_gradient(
                block_inverse_mvp,
                direct_jac_inverse,
                inverse_mvp_solve_iters,
                inverse_mvp_hidden_size,
                inverse_mvp_hidden_layers,
                inverse_mvp_optimizer,
            )
        elif par_vi == "minmax":
            self._critic = CriticAlgorithm(
                TensorSpec((output_dim if critic_input_dim is None else critic_input_dim,)),
                hidden_layers=critic_hidden_layers,
                use_relu_mlp=critic_relu_mlp,
                use_bn=critic_use_bn,
                optimizer=critic_optimizer,
                name=f"{name}.critic",
            )
            self._method = amortized.FisherSampler(self._critic, critic_iter_num, critic_l2_weight, minmax_resample)
        else:
            self._method = _particle_method(par_vi, self._kernel_width)

    # Acting.

    @property
    def noise_dim(self) -> int:
        """Length K of the noise that the net takes."""
        return self._noise_dim

    def predict_step(  # type: ignore[override]
        self,
        inputs: Nest = None,
        noise: Tensor | None = None,
        batch_size: int | None = None,
        training: bool = False,
        state: Nest = None,
    ) -> AlgStep:
        """Makes outputs [B, D].

        Args:
            inputs: nest of [B, ...]; None without inputs.
            noise: [B, K], or [B, D] for GPVI with K < D; drawn if None.
            batch_size: B, needed if neither inputs nor noise say it.
            training: use the net itself rather than its moving average.
            state: not used.
        """
        outputs, _ = self._sample(inputs, noise, batch_size, training)
        return AlgStep(output=outputs)

    def _sample(
        self, inputs: Nest, noise: Tensor | None, batch_size: int | None, training: bool
    ) -> tuple[Tensor, Tensor]:
        """Outputs [B, D] and the noise that they were made from."""
        if (inputs is None) != (self._input_tensor_spec is None):
            given = "were not given" if inputs is None else "were given"
            raise ValueError(f"{self.name}: inputs {given}, but input_tensor_spec is {self._input_tensor_spec}")
        if noise is None:
            count = batch_size if inputs is None else nest.get_nest_batch_size(inputs)
            if count is None:
                raise ValueError(f"{self.name}: batch_size is needed where neither inputs nor noise are given")
            noise = torch.randn(count, self._latent_dim)
        elif noise.shape[-1] != self._latent_dim:
            raise ValueError(f"{self.name}: noise has {noise.shape[-1]} columns, {self._latent_dim} are needed")
        net = self._net if training or self._moving_net is None else self._moving_net
        head = noise[:, : self._noise_dim]
        outputs, _ = net(head if inputs is None else [head, inputs])
        if self._adds_noise:
            outputs = outputs + self._lambda() * noise
        return outputs, noise

    def _lambda(self) -> Tensor:
        """The weight of the noise that is added to the outputs, []."""
        return torch.tensor(self._fixed_lambda) if self._log_lambda is None else self._log_lambda.exp()

    # Learning.

    def train_step(  # type: ignore[override]
        self,
        inputs: Nest,
        loss_func: LossFunction,
        batch_size: int | None = None,
        transform_func: Transform | None = None,
        entropy_regularization: float | None = None,
        state: Nest = None,
    ) -> AlgStep:
        """Computes the loss that trains the generator. Critic and helper are trained on the way.

        Args:
            inputs: nest of [B, ...]; None without inputs.
            loss_func: E, from outputs [N, D], or [outputs, inputs], to [N], or to a tuple with such a field `loss`.
            batch_size: N, needed without inputs.
            transform_func: inference happens on what it makes of the outputs, see `amortized.Transform`; for svgd2,
                svgd3 and gfsf.
            entropy_regularization: w in the place of the constructor's.
            state: not used.

        Returns:
            The outputs, and a `LossInfo` with `GeneratorLossInfo` as `extra`.
        """
        weight = self._entropy_regularization if entropy_regularization is None else entropy_regularization
        method = self._choose_method(weight, transform_func)
        outputs, noise = self._sample(inputs, None, batch_size, training=True)

        def resample() -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                return self._sample(inputs, None, batch_size, training=True)

        moved = method(GeneratedBatch(outputs, noise, inputs, loss_func, transform_func, weight, resample))
        loss, mi_loss = moved.loss, ()
        if self._mi_estimator is not None:
            count = moved.loss.shape[0]
            seen = noise[:count] if inputs is None else [noise, inputs]
            mi_loss = self._mi_estimator.train_step((seen, outputs[:count])).info.loss
            loss = loss + self._mi_weight * mi_loss
        extra = GeneratorLossInfo(moved.user_loss, mi_loss, moved.inverse_mvp_loss)
        return AlgStep(output=outputs, info=LossInfo(loss=loss, extra=extra))

    def after_update(self, training_info: Nest, info: Nest = ()) -> None:
        """Moves the average of the net.

        Args:
            training_info: not used.
            info: not used.
        """
        if self._net_updater is not None:
            self._net_updater.update()

    def _choose_method(self, weight: float, transform_func: Transform | None) -> Method:
        if weight == 0:
            return amortized.plain
        if self._method is None:
            raise ValueError(f"{self.name}: entropy_regularization is {weight}: par_vi must be one of {METHODS}")
        if self._input_tensor_spec is not None and self._par_vi != "svgd":
            raise ValueError(f"{self.name}: a conditional generator needs par_vi='svgd', got {self._par_vi!r}")
        if transform_func is not None and (self._uses_gpvi or self._par_vi not in FUNCTION_SPACE_METHODS):
            kind = "GPVI" if self._uses_gpvi else repr(self._par_vi)
            raise ValueError(f"{self.name}: {kind} takes no transform_func: choose one of {FUNCTION_SPACE_METHODS}")
        return self._method

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_moving_net", "_critic", "_inverse_mvp"]

    # Building.

    def _check_settings(self, init_lambda: float) -> None:
        name, par_vi = self.name, self._par_vi
        if par_vi is not None and par_vi not in METHODS:
            raise ValueError(f"{name}: par_vi is {par_vi!r}: choose one of {METHODS}")
        if self._entropy_regularization != 0 and par_vi is None and not self._uses_gpvi:
            raise ValueError(f"{name}: entropy_regularization > 0 needs par_vi, one of {METHODS}")
        if self._input_tensor_spec is not None and (self._uses_gpvi or par_vi not in (None, "svgd")):
            raise ValueError(f"{name}: a conditional generator is trained with par_vi='svgd' or without par_vi")
        if self._uses_gpvi and self._noise_dim > self._output_dim:
            raise ValueError(
                f"{name}: noise_dim is {self._noise_dim}, above output_dim {self._output_dim}: GPVI needs a Jacobian "
                f"that can be inverted, so lower noise_dim to {self._output_dim} or less"
            )
        if not init_lambda > 0:
            raise ValueError(f"{name}: init_lambda is {init_lambda}: it must be positive")

    def _net_input_spec(self, noise_dim: int) -> Nest:
        noise_spec = TensorSpec((noise_dim,))
        return noise_spec if self._input_tensor_spec is None else [noise_spec, self._input_tensor_spec]

    def _default_net(self, hidden_layers: LayerSizes) -> Network:
        if self._uses_gpvi:
            return ReluMLP(TensorSpec((self._noise_dim,)), self._output_dim, hidden_layers, name=f"{self.name}.net")
        return EncodingNetwork(
            self._net_input_spec(self._noise_dim),
            preprocessing_combiner=None if self._input_tensor_spec is None else NestConcat(),
            fc_layer_params=hidden_layers,
            last_layer_size=self._output_dim,
            last_activation=identity,
            name=f"{self.name}.net",
        )

    def _make_functional_gradient(
        self, uses_blocks: bool, is_direct: bool, iterations: int, hidden_size: int, hidden_layers: int, optimizer: Any
    ) -> FunctionalGradient:
        if not isinstance(self._net, ReluMLP):
            raise ValueError(f"{self.name}: GPVI needs a ReluMLP as net, got {type(self._net).__name__}")
        if (self._net.input_size, self._net.output_size) != (self._noise_dim, self._output_dim):
            raise ValueError(
                f"{self.name}: net maps {self._net.input_size} to {self._net.output_size} numbers, but noise_dim is "
                f"{self._noise_dim} and output_dim {self._output_dim}"
            )
        if not is_direct:
            self._inverse_mvp = InverseMVPAlgorithm(
                self._noise_dim,
                self._noise_dim if uses_blocks else self._output_dim,
                hidden_size,
                hidden_layers,
                optimizer=optimizers.Adam(lr=1e-4, weight_decay=1e-5) if optimizer is None else optimizer,
                name=f"{self.name}.inverse_mvp",
            )
        return FunctionalGradient(
            self._net,
            lambda: self._lambda().detach(),
            self._kernel_width,
            uses_blocks,
            self._inverse_mvp,
            iterations,
        )


def _particle_method(par_vi: str | None, width: KernelWidth) -> Method | None:
    """How outputs are moved; None without `par_vi`."""
    methods: dict[str | None, Method] = {
        "gfsf": amortized.smoothed_flow,
        "svgd": amortized.PairedStein(width),
        "svgd2": amortized.SplitStein(width),
        "svgd3": amortized.ResampledStein(width),
    }
    return methods.get(par_vi)
