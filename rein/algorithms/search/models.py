"""Models that tree search plans with: from observations to latents, from latents and actions to the next ones.

With h the representation, g the dynamics, f the prediction network (Schrittwieser et al. 2020):

    s_0 = h(o),   s_k = g(s_{k-1}, a_k),   v_k, r_k, pi_k, over_k = f(s_k)
    loss = sum_k w_k (l_v(v_k) + l_r(r_k) + l_pi(pi_k) + l_over(over_k)) + mean_k l_repr(s_k, h(o_k)),

with w_0 = `initial_loss_weight` and 1 / R for the R unrolled steps. r_k is earned on the way into step k.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein import nest
from rein.algorithms.search.model_structures import ModelOutput, ModelState, ModelTarget
from rein.algorithms.search.representation_losses import MeanSquaredLoss
from rein.algorithms.search.scalar_losses import ScalarPredictionLoss, SquareLoss
from rein.config import configurable
from rein.data_structures import LossInfo
from rein.distributions import Categorical, Distribution, compute_entropy
from rein.nest import Nest
from rein.networks import Network
from rein.runtime import summary
from rein.specs import TensorSpec


@configurable
class MCTSModel(nn.Module):
    """Three networks and the losses that train them."""

    def __init__(
        self,
        num_unroll_steps: int,
        representation_net: Network,
        dynamics_net: Network,
        prediction_net: Network,
        train_reward_function: bool,
        train_game_over_function: bool,
        train_repr_prediction: bool = False,
        train_policy: bool = True,
        predict_reward_sum: bool = False,
        value_loss_weight: float = 1.0,
        reward_loss_weight: float = 1.0,
        policy_loss_weight: float = 1.0,
        game_over_loss_weight: float = 1.0,
        repr_prediction_loss_weight: float = 1.0,
        initial_alpha: float = 0.0,
        reward_loss: ScalarPredictionLoss = SquareLoss(),  # noqa: B008 - no state
        value_loss: ScalarPredictionLoss = SquareLoss(),  # noqa: B008 - no state
        repr_loss: Callable[[Tensor, Tensor], Tensor] = MeanSquaredLoss(batch_dims=2),  # noqa: B008 - no state
        target_entropy: float | None = None,
        alpha_adjust_rate: float = 0.001,
        initial_loss_weight: float | None = 1,
        predict_initial_reward: bool = True,
        reset_reward_sum_period: int = 0,
        apply_beyond_episode_end_mask: bool = False,
        apply_partial_trajectory_mask: bool = False,
        debug_summaries: bool = False,
        name: str = "MCTSModel",
    ) -> None:
        """Makes the model.

        Args:
            num_unroll_steps: R, imagined steps in training.
            representation_net: from observations to latents.
            dynamics_net: from (latent, action) to the next latent.
            prediction_net: called as `net(latent, pred_state)`; gives (value, reward, distribution of actions, logit of the
                end) as the losses interpret them, None for what is not predicted.
            train_reward_function: predict rewards.
            train_game_over_function: predict the end of the game.
            train_repr_prediction: predict future representations.
            train_policy: predict a policy; a search needs it.
            predict_reward_sum: the reward head predicts the sum of rewards since the root.
            value_loss_weight: weight of the value loss.
            reward_loss_weight: weight of the reward loss.
            policy_loss_weight: weight of the policy loss.
            game_over_loss_weight: weight of the loss of the end.
            repr_prediction_loss_weight: weight of the representation loss.
            initial_alpha: initial weight of the policy's entropy; 0: none.
            reward_loss: what the reward head's output means.
            value_loss: what the value head's output means.
            repr_loss: from predicted and target representations [B, R + 1, ...] to losses [B, R + 1].
            target_entropy: entropy below which its weight grows; None keeps the weight.
            alpha_adjust_rate: change of the logarithm of that weight per update.
            initial_loss_weight: weight of step 0; None is 1 / R.
            predict_initial_reward: predict the reward of step 0 too.
            reset_reward_sum_period: steps after which the sum of rewards starts anew; 0: never.
            apply_beyond_episode_end_mask: leave steps after the end of an episode out of the representation loss.
            apply_partial_trajectory_mask: leave steps after the end of what is known of an unfinished episode out of all
                losses.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__()
        if num_unroll_steps < 1:
            raise ValueError(f"{name}: num_unroll_steps is {num_unroll_steps}: it must be at least 1")
        if reset_reward_sum_period:
            needed = num_unroll_steps + int(predict_initial_reward)
            if not predict_reward_sum or reset_reward_sum_period < needed:
                raise ValueError(
                    f"{name}: reset_reward_sum_period={reset_reward_sum_period} needs predict_reward_sum=True and at least "
                    f"{needed}, the rewards that are summed in training"
                )
        self._num_unroll_steps = num_unroll_steps
        self._representation_net = representation_net
        self._dynamics_net = dynamics_net
        self._prediction_net = prediction_net
        self._trains_reward, self._trains_game_over = train_reward_function, train_game_over_function
        self._trains_repr, self._trains_policy = train_repr_prediction, train_policy
        self._predict_reward_sum = predict_reward_sum
        self._weights = {
            "value": value_loss_weight,
            "reward": reward_loss_weight,
            "policy": policy_loss_weight,
            "game_over": game_over_loss_weight,
            "repr_prediction": repr_prediction_loss_weight,
        }
        self._reward_loss, self._value_loss, self._repr_loss = reward_loss, value_loss, repr_loss
        self._has_alpha = initial_alpha > 0
        self._log_alpha: Tensor
        self.register_buffer("_log_alpha", torch.tensor(math.log(initial_alpha) if initial_alpha > 0 else -math.inf))
        self._target_entropy, self._alpha_adjust_rate = target_entropy, alpha_adjust_rate
        first = 1 / num_unroll_steps if initial_loss_weight is None else float(initial_loss_weight)
        self._step_weights: Tensor
        weights = torch.tensor([first, *[1 / num_unroll_steps] * num_unroll_steps])
        self.register_buffer("_step_weights", weights, persistent=False)
        self._predict_initial_reward = predict_initial_reward
        self._reset_period = reset_reward_sum_period
        self._masks_beyond_end = apply_beyond_episode_end_mask
        self._masks_partial = apply_partial_trajectory_mask
        self._debug_summaries = debug_summaries
        self._name = name

    @property
    def name(self) -> str:
        """Name in summaries."""
        return self._name

    @property
    def num_unroll_steps(self) -> int:
        """R, imagined steps in training."""
        return self._num_unroll_steps

    @property
    def trains_reward_function(self) -> bool:
        """Whether rewards are predicted."""
        return self._trains_reward

    @property
    def repr_spec(self) -> TensorSpec:
        """Spec of the representation."""
        spec: TensorSpec = self._representation_net.output_spec
        return spec

    @property
    def pred_state_spec(self) -> Nest:
        """Specs of the state of the prediction network."""
        return self._prediction_net.state_spec

    # Predicting.

    def initial_inference(self, observation: Nest) -> ModelOutput:
        """What the model says about observations [B, ...]."""
        return self.initial_predict(self.initial_representation(observation))

    def initial_representation(self, observation: Nest) -> Tensor:
        """The latents of observations [B, ...]."""
        return self._representation_net(observation)[0]

    def initial_predict(self, latent: Tensor, pred_state: Nest = ()) -> ModelOutput:
        """What the model says about latents [B, ...] that were made from observations.

        Args:
            latent: from `initial_representation`.
            pred_state: `state.pred_state` of the previous step's output, where it is carried; `()` starts anew.
        """
        if pred_state == () and not nest.is_empty(self.pred_state_spec):
            pred_state = self._prediction_net.get_initial_state(latent.shape[0])
        step = torch.zeros(latent.shape[0], dtype=torch.int64, device=latent.device)
        output = self._described(self.prediction_model(latent, pred_state), step, None)
        if self._trains_reward and not self._predict_initial_reward:
            nothing = torch.zeros_like(output.reward)
            sum_so_far = nothing if self._predict_reward_sum else ()
            output = output._replace(reward=nothing, state=output.state._replace(prev_reward_sum=sum_so_far))
        return output

    def recurrent_inference(self, state: ModelState, action: Tensor) -> ModelOutput:
        """What the model says after imagined actions.

        Args:
            state: `state` of an earlier output, [B, ...].
            action: [B, ...].
        """
        latent, _ = self._dynamics_net((state.state, action))
        step, pred_state, reward_sum = state.step + 1, state.pred_state, state.prev_reward_sum
        if self._reset_period:
            starts_anew = step % self._reset_period == 0
            reward_sum = reward_sum.masked_fill(starts_anew, 0.0)
            pred_state = nest.map_structure(
                lambda t: t.masked_fill(starts_anew.view(-1, *(1,) * (t.ndim - 1)), 0), pred_state
            )
        return self._described(self.prediction_model(latent, pred_state), step, reward_sum)

    def _described(self, output: ModelOutput, step: Tensor, reward_sum: Nest | None) -> ModelOutput:
        """The output with its values, its own reward out of sums, its step; without raw predictions unless training."""
        reward: Any = ()
        summed: Nest = ()
        if self._trains_reward:
            reward = self._reward_loss.calc_expectation(output.reward_pred)
            if self._predict_reward_sum:
                summed = reward
                reward = reward if reward_sum is None else reward - reward_sum
        output = output._replace(
            value=self._value_loss.calc_expectation(output.value_pred),
            reward=reward,
            state=output.state._replace(step=step, prev_reward_sum=summed),
        )
        return output if self.training else output._replace(value_pred=(), reward_pred=())

    def prediction_model(self, dyn_state: Tensor, pred_state: Nest) -> ModelOutput:
        """What the prediction network says.

        A subclass may give candidates, or another rule for the end.

        Args:
            dyn_state: latents [B, ...].
            pred_state: state of the prediction network.

        Returns:
            With `value_pred`, `action_probs`, `action_distribution` and `state`; `reward_pred`, `game_over` and
            `game_over_logit` where these are predicted; `actions` where they are sampled.
        """
        (value, reward, distribution, logit), pred_state = self._prediction_net(dyn_state, pred_state)
        probs: Any = ()
        if self._trains_policy:
            if not isinstance(distribution, Categorical):
                raise ValueError(f"{self._name} gives {distribution}: define prediction_model() to sample candidates")
            probs = distribution.log_probs.exp()
        return ModelOutput(
            value_pred=value,
            reward_pred=reward if self._trains_reward else (),
            game_over=logit > 0 if self._trains_game_over else (),
            game_over_logit=logit if self._trains_game_over else (),
            action_probs=probs,
            action_distribution=distribution if self._trains_policy else (),
            state=ModelState(state=dyn_state, pred_state=pred_state),
        )

    # Learning.

    def calc_loss(self, model_output: ModelOutput, target: ModelTarget) -> LossInfo:
        """The losses of unrolls.

        Args:
            model_output: [B, R + 1, ...], of the initial step and the R unrolled ones, in training mode.
            target: [B, R + 1, ...].

        Returns:
            Losses [B]; `extra` has each loss and `td_error`, the absolute error of the value of step 0, all [B].
        """
        known = self._known_steps(target)
        losses = {"value": self._value_loss(model_output.value_pred, target.value)}
        if self._trains_reward:
            losses["reward"] = self._reward_losses(model_output, target)
        if self._trains_policy:
            losses["policy"] = self._policy_losses(model_output, target)
        if self._trains_game_over:
            ended = target.game_over.to(torch.float32)
            losses["game_over"] = F.binary_cross_entropy_with_logits(
                model_output.game_over_logit, ended, reduction="none"
            )
        extra: dict[str, Tensor] = {name: self._over_steps(loss, known) for name, loss in losses.items()}
        if self._trains_repr:
            extra["repr_prediction"] = self._repr_losses(model_output, target, known)
        loss = torch.stack([self._weights[name] * value for name, value in extra.items()]).sum(0)
        if self._has_alpha and self._trains_policy:
            entropy = compute_entropy(model_output.action_distribution)
            loss = loss - self._log_alpha.exp() * self._over_steps(entropy, known)
            extra["entropy"] = entropy.mean(1)
        with torch.no_grad():
            predicted = self._value_loss.calc_expectation(model_output.value_pred[:, 0])
            extra["td_error"] = (predicted - target.value[:, 0]).abs()
        return LossInfo(loss=loss, extra=extra)

    def _over_steps(self, loss: Tensor, known: Tensor | None) -> Tensor:
        """The weighted sum of losses [B, R + 1] over steps, [B]."""
        return ((loss if known is None else loss * known) * self._step_weights).sum(1)

    def _known_steps(self, target: ModelTarget) -> Tensor | None:
        if not self._masks_partial:
            return None
        return (~(target.is_partial_trajectory.unsqueeze(-1) & target.beyond_episode_end)).float()

    def _reward_losses(self, output: ModelOutput, target: ModelTarget) -> Tensor:
        reward = target.reward
        if not self._predict_initial_reward:
            reward = torch.cat([torch.zeros_like(reward[:, :1]), reward[:, 1:]], 1)
        losses = self._reward_loss(output.reward_pred, reward.cumsum(1) if self._predict_reward_sum else reward)
        if not self._predict_initial_reward:
            losses = torch.cat([torch.zeros_like(losses[:, :1]), losses[:, 1:]], 1)
        return losses

    def _policy_losses(self, output: ModelOutput, target: ModelTarget) -> Tensor:
        distribution: Any = output.action_distribution
        if target.action == ():
            log_probs = distribution.log_probs
        else:
            log_probs = candidate_log_probs(distribution, target.action)
        # A candidate that the policy forbids, and the search too, adds nothing.
        losses = -torch.where(target.action_policy > 0, target.action_policy * log_probs, 0.0).sum(-1)
        return losses.masked_fill(target.game_over, 0.0) if self._trains_game_over else losses

    def _repr_losses(self, output: ModelOutput, target: ModelTarget, known: Tensor | None) -> Tensor:
        with torch.no_grad():
            observed = nest.map_structure(lambda t: t.flatten(0, 1), target.observation)
            expected = self.initial_representation(observed)
        predicted = output.state.state
        losses = self.calc_repr_prediction_loss(predicted, expected.view(predicted.shape))
        if self._masks_beyond_end:
            losses = losses.masked_fill(target.beyond_episode_end, 0.0)
        elif known is not None:
            losses = losses * known
        return losses.mean(1)

    def calc_repr_prediction_loss(self, repr: Tensor, target_repr: Tensor) -> Tensor:
        """Losses [B, R + 1] of predicted representations for target ones, [B, R + 1, ...]."""
        return self._repr_loss(repr, target_repr)

    def adjust_alpha(self, entropy: Tensor) -> None:
        """Moves the weight of the entropy, after an update, by the mean entropy of the policies in it."""
        if self._has_alpha and self._target_entropy is not None:
            self._log_alpha.add_(self._alpha_adjust_rate * torch.sign(self._target_entropy - entropy.detach()))
        if self._has_alpha and self._debug_summaries and summary.should_record_summaries():
            summary.scalar(f"{self._name}/alpha", self._log_alpha.exp())


def candidate_log_probs(distribution: Distribution, candidates: Tensor) -> Tensor:
    """Log-probabilities [B, T, K] of candidates [B, T, K, ...] under a distribution [B, T]."""
    return distribution.log_prob(candidates.movedim(2, 0)).movedim(0, 2)
