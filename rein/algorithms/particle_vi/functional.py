"""Particle-based variational inference on networks: an ensemble whose members keep apart.

Each particle is the parameter vector of a network. Inference happens on the parameters, or, with `function_vi`, on the
outputs of the networks for a batch and for a few points near it. See `particle_vi` for the methods, and `likelihoods` for
the weight of the entropy that matches the posterior.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.particle_vi.function_ensemble import EnsembleCurves, FunctionEnsemble, FunctionSpace
from rein.algorithms.particle_vi.labelled_data import DataCreator, LabelledData, task_sizes
from rein.algorithms.particle_vi.particle_vi import ParVIAlgorithm
from rein.algorithms.particle_vi.supervised_ensemble import SupervisedEnsemble
from rein.config import configurable
from rein.data_structures import AlgStep
from rein.framework import TrainerConfig
from rein.nest import Nest
from rein.networks import ParamNetwork
from rein.networks.chains import LayerSizes
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation
from rein.specs import TensorSpec

logger = logging.getLogger(__name__)
FUNCTION_SPACE_METHODS = ("svgd", "gfsf")


@configurable
class FuncParVIAlgorithm(SupervisedEnsemble, ParVIAlgorithm):
    """An ensemble of networks, trained together on labelled data."""

    def __init__(
        self,
        data_creator: DataCreator | None = None,
        data_creator_outlier: DataCreator | None = None,
        input_tensor_spec: TensorSpec | None = None,
        output_dim: int | None = None,
        param_net: ParamNetwork | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int | tuple[Any, ...]] | None = None,
        use_conv_bias: bool = False,
        use_conv_ln: bool = False,
        use_fc_bias: bool = True,
        use_fc_ln: bool = False,
        activation: Activation = torch.relu_,
        last_activation: Activation = identity,
        last_use_bias: bool = True,
        last_use_ln: bool = False,
        num_particles: int = 10,
        entropy_regularization: float | None = 1.0,
        loss_type: str = "classification",
        voting: str = "soft",
        par_vi: str | None = "svgd",
        function_vi: bool = False,
        function_bs: int | None = None,
        function_extra_bs_ratio: float = 0.1,
        function_extra_bs_sampler: str = "uniform",
        function_extra_bs_std: float = 1.0,
        critic_hidden_layers: LayerSizes = (100, 100),
        critic_iter_num: int = 2,
        critic_l2_weight: float = 10.0,
        critic_use_bn: bool = True,
        num_train_classes: int = 10,
        optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        logging_network: bool = False,
        logging_training: bool = False,
        logging_evaluate: bool = False,
        config: TrainerConfig | None = None,
        debug_summaries: bool = False,
        name: str = "FuncParVIAlgorithm",
    ) -> None:
        """Draws the networks independently.

        Args:
            data_creator: makes the (train, test) loaders.
            data_creator_outlier: makes loaders of examples of another kind, for `eval_uncertainty`.
            input_tensor_spec: of an example; needed without `data_creator`, which says it otherwise.
            output_dim: size of the output; None: the number of classes of the data set, or else `num_train_classes`.
            param_net: the architecture, instead of one of the layers that follow.
            conv_layer_params: see `ParamNetwork`, as for the following seven.
            fc_layer_params: see `ParamNetwork`.
            use_conv_bias: see `ParamNetwork`.
            use_conv_ln: see `ParamNetwork`.
            use_fc_bias: see `ParamNetwork`.
            use_fc_ln: see `ParamNetwork`.
            activation: see `ParamNetwork`.
            last_activation: see `ParamNetwork`.
            last_use_bias: see `ParamNetwork`.
            last_use_ln: see `ParamNetwork`.
            num_particles: number of networks.
            entropy_regularization: weight w of the entropy; None: batch size / size of the data set, which matches the
                posterior.
            loss_type: "classification" or "regression".
            voting: how networks decide on a class together: "soft" by their mean probabilities, "hard" by their votes.
            par_vi: "svgd", "gfsf", "minmax", or None for independent networks.
            function_vi: inference on outputs, with svgd and gfsf.
            function_bs: for function_vi, the size of a mini-batch; None: that of the loader.
            function_extra_bs_ratio: for function_vi, number of additional points per example of a mini-batch.
            function_extra_bs_sampler: for function_vi, noise from examples to those points: "uniform" or "normal".
            function_extra_bs_std: for function_vi, deviation of normal noise.
            critic_hidden_layers: see `ParVIAlgorithm`, as for the following three.
            critic_iter_num: see `ParVIAlgorithm`.
            critic_l2_weight: see `ParVIAlgorithm`.
            critic_use_bn: see `ParVIAlgorithm`.
            num_train_classes: number of classes, where neither `output_dim` nor the data set say it.
            optimizer: of the networks.
            critic_optimizer: see `ParVIAlgorithm`.
            logging_network: log the architecture.
            logging_training: log loss and accuracy of each pass.
            logging_evaluate: log each evaluation.
            config: settings of the run.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if function_vi and par_vi not in FUNCTION_SPACE_METHODS:
            raise ValueError(
                f"{name}: function_vi does not work with par_vi={par_vi!r}: choose one of {FUNCTION_SPACE_METHODS}, or "
                "function_vi=False"
            )
        data = LabelledData.create(name, data_creator, data_creator_outlier)
        if param_net is None:
            spec, size = task_sizes(name, data, input_tensor_spec, output_dim, num_train_classes)
            param_net = ParamNetwork(
                spec,
                conv_layer_params,
                fc_layer_params,
                use_conv_bias,
                use_conv_ln,
                use_fc_bias,
                use_fc_ln,
                activation=activation,
                last_layer_size=size,
                last_activation=last_activation,
                last_use_bias=last_use_bias,
                last_use_ln=last_use_ln,
                name=f"{name}.net",
            )
        super().__init__(
            param_net.param_length,
            num_particles,
            entropy_regularization=1.0 if entropy_regularization is None else entropy_regularization,
            par_vi=par_vi,
            critic_hidden_layers=critic_hidden_layers,
            critic_l2_weight=critic_l2_weight,
            critic_iter_num=critic_iter_num,
            critic_use_bn=critic_use_bn,
            critic_optimizer=critic_optimizer,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._config = config
        self._param_net = param_net
        with torch.no_grad():
            self._particles.copy_(param_net.draw_parameters(num_particles))
        space = FunctionSpace(
            function_bs or data.batch_size(),
            function_extra_bs_ratio,
            function_extra_bs_sampler,
            function_extra_bs_std,
        )
        self._set_task(
            data,
            FunctionEnsemble(name, param_net, loss_type, voting),
            space if function_vi else None,
            entropy_regularization,
            logging_training,
            logging_evaluate,
        )
        if logging_network:
            logger.info("each of %d networks: %s", num_particles, param_net)

    def _choose_weight(self) -> None:
        if self._given_weight is not None:
            self._entropy_regularization = self._given_weight
        elif self._data.train is not None:
            self._entropy_regularization = self._data.batch_share()

    # Acting.

    def predict_step(  # type: ignore[override]
        self, inputs: Tensor, params: Tensor | None = None, state: Nest = None
    ) -> AlgStep:
        """Outputs of all networks, [B, N, output_dim].

        Args:
            inputs: [B, ...].
            params: [N, param_length] parameters; None: the particles.
            state: not used.
        """
        return AlgStep(output=self._ensemble.predict(self.particles if params is None else params, inputs))

    # Learning.

    def train_step(  # type: ignore[override]
        self,
        inputs: tuple[Tensor, Tensor],
        entropy_regularization: float | None = None,
        loss_mask: Tensor | None = None,
        state: Nest = None,
    ) -> AlgStep:
        """Computes the loss that moves the networks; see `ParVIAlgorithm.train_step`.

        Args:
            inputs: examples [B, ...] and their labels.
            entropy_regularization: w in the place of the constructor's.
            loss_mask: [N] factors of the loss.
            state: not used.
        """
        examples, targets = inputs
        space = self._function_space
        if space is None:
            loss_func = self._ensemble.parameter_loss(examples, targets)
            return super().train_step(loss_func, None, entropy_regularization, loss_mask)
        outputs = self._ensemble.outputs(examples, space)
        loss_func = self._ensemble.output_loss(targets)
        return super().train_step(loss_func, lambda params: outputs(params)[:2], entropy_regularization, loss_mask)

    def train_iter(self, state: Nest = None) -> int:
        """Makes one pass over the training data; returns the number of mini-batches."""
        return self._train_pass(self.train_step, lambda info: (info.extra, ()))

    # Evaluation.

    def evaluate(self) -> dict[str, float]:
        """Measures the ensemble on the test data; see `FunctionEnsemble.evaluate`."""
        return self._evaluate(self.particles)

    def eval_uncertainty(self) -> tuple[float, float]:
        """How well the ensemble's uncertainty tells outliers from test data.

        Returns:
            Areas under the ROC curve: of the entropy of the mean probabilities, and of their summed variance.
        """
        return self._eval_uncertainty(self.particles)

    def eval_curves(self) -> EnsembleCurves | None:
        """What charts of the evaluation show; None for regression."""
        return self._eval_curves(self.particles)

    def sample_outputs(self, inputs: Tensor) -> Tensor:
        """Outputs of the ensemble to predict with, [B, N, output_dim]: probabilities of classes, or values.

        Args:
            inputs: [B, ...].
        """
        return self._outputs_to_predict(self.particles, inputs)
