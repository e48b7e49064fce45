"""A model of fully connected networks for any action, with candidates where there are too many to try all."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rein.algorithms.search.host_model import Block, HostModelBuilder, HostProgram
from rein.algorithms.search.model_structures import ModelOutput, ModelState
from rein.algorithms.search.models import MCTSModel
from rein.algorithms.search.representation_losses import AsymmetricSimSiamLoss
from rein.algorithms.search.scalar_losses import SquareLoss
from rein.algorithms.search.simple_networks import (
    LatentDynamicsNetwork,
    SimplePredictionNet,
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from rein.config import configurable
from rein.nest import Nest
from rein.networks import CategoricalProjectionNetwork, EncodingNetwork, Network
from rein.networks.layers import FC, identity
from rein.specs import BoundedTensorSpec, TensorSpec

MAX_HOST_PRODUCTS = 1_000_000
"""Multiplications per simulation of all trees beyond which torch's batched products are as fast as the compiled loop."""

_ACTIVATION_NAMES: dict[Any, str] = {
    torch.relu: "relu",
    torch.relu_: "relu",
    torch.tanh: "tanh",
    identity: "identity",
}


@configurable
class SimpleMCTSModel(MCTSModel):
    """An `MCTSModel` built from an encoder, a dynamics and a prediction network."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        num_unroll_steps: int,
        num_sampled_actions: int | None = None,
        encoding_net_ctor: Callable[..., Network] = create_simple_encoding_net,
        dynamics_net_ctor: Callable[..., Network] = create_simple_dynamics_net,
        prediction_net_ctor: Callable[..., Network] = create_simple_prediction_net,
        game_over_logit_thresh: float = 1.0,
        initial_alpha: float = 0.0,
        target_entropy: float | None = None,
        alpha_adjust_rate: float = 0.001,
        train_reward_function: bool = True,
        train_game_over_function: bool = True,
        train_policy: bool = True,
        train_repr_prediction: bool = False,
        debug_summaries: bool = False,
        name: str = "SimpleMCTSModel",
        **options: Any,
    ) -> None:
        """Makes the model.

        Args:
            observation_spec: nest of specs of the observation.
            action_spec: bounded spec of the action.
            num_unroll_steps: R, imagined steps in training.
            num_sampled_actions: candidates: the most probable ones of a discrete scalar action, samples of any other; None
                takes all actions of a discrete scalar.
            encoding_net_ctor: called as `ctor(observation_spec)`.
            dynamics_net_ctor: called as `ctor((latent_spec, action_spec))`.
            prediction_net_ctor: called as `ctor(latent_spec, action_spec)`.
            game_over_logit_thresh: the game counts as over where the logit is greater.
            initial_alpha: initial weight of the policy's entropy; 0: none.
            target_entropy: entropy below which its weight grows; None keeps the weight.
            alpha_adjust_rate: change of the logarithm of that weight per update.
            train_reward_function: predict rewards.
            train_game_over_function: predict the end of the game.
            train_policy: predict a policy; a search needs it.
            train_repr_prediction: predict future representations, by default up to a projection
                (`AsymmetricSimSiamLoss`).
            debug_summaries: write more summaries.
            name: name in summaries.
            **options: other arguments of `MCTSModel`.
        """
        _check_candidates(action_spec, num_sampled_actions, name)
        encoder = encoding_net_ctor(observation_spec)
        latent_spec: TensorSpec = encoder.output_spec
        if train_repr_prediction:
            options.setdefault("repr_loss", AsymmetricSimSiamLoss(latent_spec.numel))
        super().__init__(
            num_unroll_steps,
            representation_net=encoder,
            dynamics_net=dynamics_net_ctor((latent_spec, action_spec)),
            prediction_net=prediction_net_ctor(latent_spec, action_spec),
            train_reward_function=train_reward_function,
            train_game_over_function=train_game_over_function,
            train_repr_prediction=train_repr_prediction,
            train_policy=train_policy,
            initial_alpha=initial_alpha,
            target_entropy=target_entropy,
            alpha_adjust_rate=alpha_adjust_rate,
            debug_summaries=debug_summaries,
            name=name,
            **options,
        )
        for head, is_trained in (
            ("policy", train_policy),
            ("reward", train_reward_function),
            ("game_over", train_game_over_function),
        ):
            unused = None if is_trained else getattr(self._prediction_net, head, None)
            if isinstance(unused, nn.Module):
                unused.requires_grad_(False)
        self._action_spec = action_spec
        self._num_sampled = num_sampled_actions
        self._threshold = game_over_logit_thresh
        self._repr_spec = latent_spec
        self._num_host_weights: int | None = None

    @property
    def action_spec(self) -> BoundedTensorSpec:
        """Spec of the action that the model was made for."""
        return self._action_spec

    @property
    def repr_spec(self) -> TensorSpec:
        """Spec of the representation."""
        return self._repr_spec

    def prediction_model(self, dyn_state: Tensor, pred_state: Nest) -> ModelOutput:
        """See `MCTSModel`, with candidates."""
        (value, reward, distribution, logit), pred_state = self._prediction_net(dyn_state, pred_state)
        actions, probs = self._candidates(distribution, len(dyn_state)) if self._trains_policy else ((), ())
        output = ModelOutput(
            value_pred=value,
            reward_pred=reward if self._trains_reward else (),
            actions=actions,
            action_probs=probs,
            action_distribution=distribution if self._trains_policy else (),
            state=ModelState(state=dyn_state, pred_state=pred_state),
        )
        if self._trains_game_over:
            output = output._replace(game_over=logit > self._threshold, game_over_logit=logit)
        return output

    def _candidates(self, distribution: Any, batch: int) -> tuple[Any, Tensor]:
        """Candidates [B, K, ...], `()` for all, and their prior probabilities [B, K]."""
        spec, number = self._action_spec, self._num_sampled
        if spec.is_discrete and spec.ndim == 0:
            probs = distribution.log_probs.exp()
            if number is None:
                return (), probs
            top = probs.topk(number, -1)
            return top.indices, top.values / top.values.sum(-1, keepdim=True)
        assert number is not None
        actions = distribution.sample((number,)).movedim(0, 1)
        if not spec.is_discrete:
            low, high = (torch.tensor(b, device=actions.device) for b in (spec.minimum, spec.maximum))
            actions = actions.clamp(low, high)
        return actions, torch.full((batch, number), 1 / number, device=actions.device)

    # On the host.

    def host_program(self, batch_size: int) -> HostProgram | None:
        """The model for compiled searches; None if it is not small and plain.

        Args:
            batch_size: number of trees.
        """
        if self._num_host_weights is None:
            self._num_host_weights = self._count_host_weights()
        if not 0 < self._num_host_weights * batch_size <= MAX_HOST_PRODUCTS:
            return None
        parameters = [p for layer in self._host_layers() for p in layer.parameters()]
        key = tuple(p.data_ptr() for p in parameters)
        known = _PROGRAMS.get(self)
        if known is None or known[0] != key:
            steps, program = self._write_program()
            _PROGRAMS[self] = key, steps, program
            return program
        # Optimizers change weights without a trace, so they are copied for each search.
        known[1].refresh()
        return known[2]

    def _count_host_weights(self) -> int:
        """Weights of the networks if the host can run them, otherwise 0."""
        dynamics, prediction = self._dynamics_net, self._prediction_net
        if (
            type(dynamics) is not LatentDynamicsNetwork
            or type(prediction) is not SimplePredictionNet
            or type(self._value_loss) is not SquareLoss
            or type(self._reward_loss) is not SquareLoss
            or self._predict_reward_sum
            or self._num_sampled is not None
            or type(prediction.policy) is not CategoricalProjectionNetwork
            or type(prediction.trunk) is not EncodingNetwork
            or prediction.trunk.preprocessing is not None
        ):
            return 0
        if (
            type(self).initial_predict is not MCTSModel.initial_predict
            or type(self).recurrent_inference is not MCTSModel.recurrent_inference
            or type(self).prediction_model is not SimpleMCTSModel.prediction_model
        ):
            return 0
        layers = self._host_layers()
        parameters = [p for layer in layers for p in layer.parameters()]
        return sum(p.numel() for p in parameters) if all(map(_is_plain, layers)) and parameters[0].is_cpu else 0

    def _host_layers(self) -> list[Any]:
        dynamics: Any = self._dynamics_net
        prediction: Any = self._prediction_net
        heads = [prediction.value, prediction.reward, prediction.game_over, prediction.policy.logits]
        return [*dynamics.layers, *prediction.trunk.layers._modules.values(), *heads]

    def _write_program(self) -> tuple[HostModelBuilder, HostProgram]:
        dynamics: Any = self._dynamics_net
        prediction: Any = self._prediction_net
        steps = HostModelBuilder(self._repr_spec.numel, sum(dynamics.choices))
        add = functools.partial(_add, steps)
        latent = steps.min_max(functools.reduce(add, dynamics.layers, steps.latent_and_action))
        hidden = functools.reduce(add, prediction.trunk.layers._modules.values(), latent)
        program = steps.finish(
            next_latent=latent,
            value=add(hidden, prediction.value),
            logits=add(hidden, prediction.policy.logits),
            reward=add(hidden, prediction.reward) if self._trains_reward else None,
            game_over=add(hidden, prediction.game_over) if self._trains_game_over else None,
            threshold=self._threshold,
        )
        return steps, program._replace(reward_at_root=self._trains_reward and self._predict_initial_reward)


# Beside the models, not in them: copies of a model have weights of their own.
_PROGRAMS: weakref.WeakKeyDictionary[SimpleMCTSModel, tuple[tuple[int, ...], HostModelBuilder, HostProgram]] = (
    weakref.WeakKeyDictionary()
)


def _is_plain(layer: Any) -> bool:
    return type(layer) is FC and layer.norm is None and layer.activation in _ACTIVATION_NAMES


def _add(steps: HostModelBuilder, source: Block, layer: Any) -> Block:
    return steps.fully_connected(source, layer.weight, layer.bias, _ACTIVATION_NAMES[layer.activation])


def _check_candidates(action_spec: BoundedTensorSpec, number: int | None, name: str) -> None:
    if not isinstance(action_spec, BoundedTensorSpec):
        raise ValueError(f"{name} needs one bounded action, but action_spec is {action_spec}: merge it into one")
    if action_spec.is_discrete and action_spec.ndim == 0:
        if number is not None and not 0 < number < action_spec.num_values:
            raise ValueError(
                f"{name}: num_sampled_actions={number} of {action_spec.num_values} actions: give fewer, or None for all"
            )
    elif number is None or number < 1:
        raise ValueError(
            f"{name}: the action {action_spec} has no list of choices: set num_sampled_actions, e.g. to 20"
        )
