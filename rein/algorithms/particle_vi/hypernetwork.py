"""HyperNetwork: a generator of networks.

A `Generator` makes parameter vectors of a network from noise, and is trained so that the networks that it makes follow
the posterior given labelled data: one model gives as many networks as one likes. After Ratzlaff & Fuxin 2019 (HyperGAN,
arXiv:1901.11058), with one generator for all layers, without mixer and discriminator, and trained by particle-based
variational inference or GPVI (see `generator`). See `likelihoods` for the weight of the entropy that matches the
posterior; with `entropy_regularization=None` it is chosen so.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.particle_vi.function_ensemble import EnsembleCurves, FunctionEnsemble, FunctionSpace
from rein.algorithms.particle_vi.generator import FUNCTION_SPACE_METHODS, Generator
from rein.algorithms.particle_vi.labelled_data import DataCreator, LabelledData, task_sizes
from rein.algorithms.particle_vi.supervised_ensemble import SupervisedEnsemble
from rein.config import configurable
from rein.data_structures import AlgStep
from rein.framework import TrainerConfig
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network, ParamNetwork, ReluMLP
from rein.networks.chains import LayerSizes
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation
from rein.specs import TensorSpec

logger = logging.getLogger(__name__)


@configurable
class HyperNetwork(SupervisedEnsemble):
    """A generator of networks for one supervised task."""

    def __init__(
        self,
        data_creator: DataCreator | None = None,
        data_creator_outlier: DataCreator | None = None,
        input_tensor_spec: TensorSpec | None = None,
        output_dim: int | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int | tuple[Any, ...]] | None = None,
        activation: Activation = torch.relu_,
        last_activation: Activation = identity,
        last_use_bias: bool = True,
        last_use_ln: bool = False,
        noise_dim: int = 32,
        hidden_layers: LayerSizes = (64, 64),
        use_conv_bias: bool = False,
        use_conv_ln: bool = False,
        use_fc_bias: bool = True,
        use_fc_ln: bool = False,
        generator_use_fc_bn: bool = False,
        num_particles: int = 10,
        entropy_regularization: float | None = 1.0,
        critic_hidden_layers: LayerSizes = (100, 100),
        critic_iter_num: int = 2,
        critic_l2_weight: float = 10.0,
        functional_gradient: bool = False,
        init_lambda: float = 1.0,
        lambda_trainable: bool = False,
        block_inverse_mvp: bool = False,
        direct_jac_inverse: bool = False,
        inverse_mvp_solve_iters: int = 1,
        inverse_mvp_hidden_size: int = 100,
        inverse_mvp_hidden_layers: int = 1,
        function_vi: bool = False,
        function_bs: int | None = None,
        function_extra_bs_ratio: float = 0.1,
        function_extra_bs_sampler: str = "uniform",
        function_extra_bs_std: float = 1.0,
        loss_type: str = "classification",
        voting: str = "soft",
        par_vi: str | None = "svgd",
        num_train_classes: int = 10,
        critic_optimizer: Any | None = None,
        inverse_mvp_optimizer: Any | None = None,
        optimizer: Any | None = None,
        lambda_optimizer: Any | None = None,
        logging_network: bool = False,
        logging_training: bool = False,
        logging_evaluate: bool = False,
        config: TrainerConfig | None = None,
        name: str = "HyperNetwork",
    ) -> None:
        """Makes the architecture of the networks and the generator.

        Args:
            data_creator: makes the (train, test) loaders.
            data_creator_outlier: makes loaders of examples of another kind, for `eval_uncertainty`.
            input_tensor_spec: of an example; needed without `data_creator`, which says it otherwise.
            output_dim: size of the output; None: the number of classes of the data set, or else `num_train_classes`.
            conv_layer_params: see `ParamNetwork`, as for the following five.
            fc_layer_params: see `ParamNetwork`.
            activation: see `ParamNetwork`.
            last_activation: see `ParamNetwork`.
            last_use_bias: see `ParamNetwork`.
            last_use_ln: see `ParamNetwork`.
            noise_dim: length of the noise that the generator takes.
            hidden_layers: sizes of the hidden layers of the generator; without any it is linear.
            use_conv_bias: see `ParamNetwork`, as for the following three.
            use_conv_ln: see `ParamNetwork`.
            use_fc_bias: see `ParamNetwork`.
            use_fc_ln: see `ParamNetwork`.
            generator_use_fc_bn: batch normalization in the generator; not with GPVI.
            num_particles: networks that are made at a time.
            entropy_regularization: weight w of the entropy; None: batch size / size of the data set, which matches the
                posterior.
            critic_hidden_layers: see `Generator`, as for all up to `inverse_mvp_hidden_layers`.
            critic_iter_num: see `Generator`.
            critic_l2_weight: see `Generator`.
            functional_gradient: see `Generator`.
            init_lambda: see `Generator`.
            lambda_trainable: see `Generator`.
            block_inverse_mvp: see `Generator`.
            direct_jac_inverse: see `Generator`.
            inverse_mvp_solve_iters: see `Generator`.
            inverse_mvp_hidden_size: see `Generator`.
            inverse_mvp_hidden_layers: see `Generator`.
            function_vi: inference on the outputs of networks for a batch, with svgd2, svgd3 and gfsf.
            function_bs: for function_vi, the size of a mini-batch; None: that of the loader.
            function_extra_bs_ratio: for function_vi, number of additional points per example of a mini-batch.
            function_extra_bs_sampler: for function_vi, noise from examples to those points: "uniform" or "normal".
            function_extra_bs_std: for function_vi, deviation of normal noise.
            loss_type: "classification" or "regression".
            voting: how networks decide on a class together: "soft" by their mean probabilities, "hard" by their votes.
            par_vi: see `Generator`; here "svgd" is the same as "svgd3".
            num_train_classes: number of classes, where neither `output_dim` nor the data set say it.
            critic_optimizer: see `Generator`.
            inverse_mvp_optimizer: see `Generator`.
            optimizer: of the generator.
            lambda_optimizer: see `Generator`.
            logging_network: log the architectures.
            logging_training: log loss and accuracy of each pass.
            logging_evaluate: log each evaluation.
            config: settings of the run.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, config=config, name=name)
        par_vi = "svgd3" if par_vi == "svgd" else par_vi
        if function_vi and (functional_gradient or par_vi not in FUNCTION_SPACE_METHODS):
            kind = "GPVI" if functional_gradient else f"par_vi={par_vi!r}"
            raise ValueError(
                f"{name}: function_vi does not work with {kind}: choose one of {FUNCTION_SPACE_METHODS}, or "
                "function_vi=False"
            )
        if par_vi == "svgd2" and num_particles % 2 and not functional_gradient and entropy_regularization != 0:
            raise ValueError(
                f"{name}: par_vi='svgd2' splits networks in two halves: num_particles is {num_particles}, make it even"
            )
        data = LabelledData.create(name, data_creator, data_creator_outlier)
        spec, size = task_sizes(name, data, input_tensor_spec, output_dim, num_train_classes)
        self._param_net = ParamNetwork(
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
        self._has_batch_norm = generator_use_fc_bn
        net = self._make_net(noise_dim, hidden_layers, functional_gradient)
        self._generator = Generator(
            self._param_net.param_length,
            noise_dim,
            net=net,
            entropy_regularization=1.0 if entropy_regularization is None else entropy_regularization,
            par_vi=par_vi,
            functional_gradient=functional_gradient,
            init_lambda=init_lambda,
            lambda_trainable=lambda_trainable,
            block_inverse_mvp=block_inverse_mvp,
            direct_jac_inverse=direct_jac_inverse,
            inverse_mvp_solve_iters=inverse_mvp_solve_iters,
            inverse_mvp_hidden_size=inverse_mvp_hidden_size,
            inverse_mvp_hidden_layers=inverse_mvp_hidden_layers,
            critic_hidden_layers=critic_hidden_layers,
            critic_l2_weight=critic_l2_weight,
            critic_iter_num=critic_iter_num,
            critic_optimizer=critic_optimizer,
            inverse_mvp_optimizer=inverse_mvp_optimizer,
            lambda_optimizer=lambda_optimizer,
            name=f"{name}.generator",
        )
        self.set_num_particles(num_particles)
        space = FunctionSpace(
            function_bs or data.batch_size(),
            function_extra_bs_ratio,
            function_extra_bs_sampler,
            function_extra_bs_std,
        )
        self._set_task(
            data,
            FunctionEnsemble(name, self._param_net, loss_type, voting),
            space if function_vi else None,
            entropy_regularization,
            logging_training,
            logging_evaluate,
        )
        if logging_network:
            logger.info("networks: %s\ngenerator: %s", self._param_net, net)

    def _choose_weight(self) -> None:
        self._entropy_regularization = self._given_weight
        if self._given_weight is None and self._data.train is not None:
            self._entropy_regularization = self._data.batch_share()

    # Acting.

    @property
    def num_particles(self) -> int:
        """Number of networks that are made at a time."""
        return self._num_particles

    def set_num_particles(self, num_particles: int) -> None:
        """Sets the number of networks that are made at a time."""
        if num_particles < 1:
            raise ValueError(f"{self.name}: num_particles is {num_particles}: at least 1 is needed")
        self._num_particles = num_particles

    def sample_parameters(
        self, noise: Tensor | None = None, num_particles: int | None = None, training: bool = True
    ) -> Tensor:
        """Makes parameter vectors, [n, param_length].

        Args:
            noise: [n, ...] that the generator takes; drawn if None.
            num_particles: n, where noise does not say it; None: that of the constructor.
            training: use the generator's net itself rather than its moving average.
        """
        count = self._num_particles if num_particles is None else num_particles
        params: Tensor = self._generator.predict_step(noise=noise, batch_size=count, training=training).output
        return params

    def predict_step(  # type: ignore[override]
        self, inputs: Tensor, params: Tensor | None = None, num_particles: int | None = None, state: Nest = None
    ) -> AlgStep:
        """Outputs of n networks, [B, n, output_dim].

        Args:
            inputs: [B, ...].
            params: [n, param_length] parameters; made anew if None.
            num_particles: n of those; None: that of the constructor.
            state: not used.
        """
        if params is None:
            params = self.sample_parameters(num_particles=num_particles)
        return AlgStep(output=self._ensemble.predict(params, inputs))

    # Learning.

    def train_step(  # type: ignore[override]
        self,
        inputs: tuple[Tensor, Tensor],
        num_particles: int | None = None,
        entropy_regularization: float | None = None,
        state: Nest = None,
    ) -> AlgStep:
        """Computes the loss that trains the generator; see `Generator.train_step`.

        Args:
            inputs: examples [B, ...] and their labels.
            num_particles: networks to make; None: the constructor's number.
            entropy_regularization: w in the place of the constructor's.
            state: not used.
        """
        weight = self._entropy_regularization if entropy_regularization is None else entropy_regularization
        if weight is None:
            raise ValueError(f"{self.name}: entropy_regularization=None needs training data: call set_data_loader()")
        examples, targets = inputs
        count = self._num_particles if num_particles is None else num_particles
        if self._function_space is None:
            loss_func = self._ensemble.parameter_loss(examples, targets)
            return self._generator.train_step(None, loss_func, count, entropy_regularization=weight)
        transform = self._ensemble.outputs(examples, self._function_space)
        loss_func = self._ensemble.output_loss(targets)
        return self._generator.train_step(None, loss_func, count, transform, weight)

    def train_iter(self, num_particles: int | None = None, state: Nest = None) -> int:
        """Makes one pass over the training data; returns the number of mini-batches.

        Args:
            num_particles: networks to make; None: the constructor's number.
            state: not used.
        """
        return self._train_pass(
            lambda batch: self.train_step(batch, num_particles),
            lambda info: (info.extra.generator, info.extra.inverse_mvp),
        )

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Moves the average of the generator's net."""
        self._generator.after_update(info)

    # Evaluation.

    def evaluate(self, num_particles: int | None = None) -> dict[str, float]:
        """Measures one ensemble on the test data; see `FunctionEnsemble.evaluate`.

        Args:
            num_particles: its size; None: the constructor's number.
        """
        self._data.need("test")
        return self._evaluate(self._sample_for_evaluation(num_particles))

    def eval_uncertainty(self, num_particles: int | None = None) -> tuple[float, float]:
        """How well the uncertainty of one ensemble tells outliers from test data.

        Args:
            num_particles: its size; None: the constructor's number.

        Returns:
            Areas under the ROC curve: of the entropy of the mean probabilities, and of their summed variance.
        """
        self._data.need("outlier_test")
        return self._eval_uncertainty(self._sample_for_evaluation(num_particles))

    def eval_curves(self, num_particles: int | None = None) -> EnsembleCurves | None:
        """What charts of the evaluation show; None for regression.

        Args:
            num_particles: its size; None: the constructor's number.
        """
        return self._eval_curves(self._sample_for_evaluation(num_particles))

    def sample_outputs(self, inputs: Tensor, num_samples: int | None = None) -> Tensor:
        """Outputs of the ensemble to predict with, [B, N, output_dim]: probabilities of classes, or values.

        Args:
            inputs: [B, ...].
            num_samples: N; None: the constructor's number.
        """
        return self._outputs_to_predict(self._sample_for_evaluation(num_samples), inputs)

    @torch.no_grad()
    def _sample_for_evaluation(self, num_particles: int | None) -> Tensor:
        """Parameters of one ensemble, with the statistics that batch normalization has collected."""
        was_training = self._generator.training
        if self._has_batch_norm:
            self._generator.eval()
        params = self.sample_parameters(num_particles=num_particles, training=False)
        self._generator.train(was_training)
        return params

    # Building.

    def _make_net(self, noise_dim: int, hidden_layers: LayerSizes, is_gpvi: bool) -> Network:
        spec, size, name = TensorSpec((noise_dim,)), self._param_net.param_length, f"{self.name}.generator.net"
        if not is_gpvi:
            return EncodingNetwork(
                spec,
                fc_layer_params=hidden_layers,
                use_fc_bn=self._has_batch_norm,
                last_layer_size=size,
                last_activation=identity,
                name=name,
            )
        if self._has_batch_norm:
            raise ValueError(f"{self.name}: GPVI needs the Jacobian of the generator: set generator_use_fc_bn=False")
        return ReluMLP(spec, size, hidden_layers, name=name)
