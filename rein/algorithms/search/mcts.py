"""Monte Carlo tree search with a model (Schrittwieser et al. 2020, arXiv:1911.08265).

All values and rewards, of models and of environments, are those of player 0, whoever is to move. With n the visits of a
node, Q the reward of entering a child plus its discounted mean value, scaled to [0, 1] and negated where player 1 moves:

    search: a = argmax Q(a) + prior(a) (log1p((n + 1) / pb_c_base) + pb_c_init) sqrt(n) / (1 + n(a)),
    act:    pi(a) ~ n(a)^(1 / temperature),       learn: pi(a) = n(a) / sum_b n(b).

Each of the three can follow the policy of Grill et al. (2020, arXiv:2007.12509) instead: `*_with_exploration_policy`.
Candidates may be samples of the policy (Hubert et al. 2021, arXiv:2104.06303). With `gumbel_actions` the root is searched
by sequential halving, and acting and learning follow the completed values (Danihelka et al. 2022).

We differ from the published pseudocode: values are scaled after the reward was added; an unexpanded child has a value
score; the root starts with one visit; a model may say that the game is over, from where nothing is expanded.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rein.algorithms.search.action_samplers import ActionSampler, MultinomialSampler
from rein.algorithms.search.host_search import HostRoots, as_array
from rein.algorithms.search.model_structures import ModelOutput
from rein.algorithms.search.modes import in_eval_mode
from rein.algorithms.search.outcomes import Found, acting_policy, learning_policy
from rein.algorithms.search.planning import Backend, Planner, Root, Tree
from rein.algorithms.search.roots import (
    SearchRoot,
    check_fits,
    check_made_for,
    checked_mask,
    halving,
    halving_table,
    is_given,
)
from rein.algorithms.search.rules import SearchRules
from rein.config import configurable
from rein.data_structures import AlgStep, TimeStep
from rein.framework import OffPolicyAlgorithm
from rein.nest import Nest
from rein.ops import mask_prior, mix_noise
from rein.runtime import summary
from rein.specs import BoundedTensorSpec, TensorSpec


class MCTSState(NamedTuple):
    """What is carried from step to step."""

    steps: Nest = ()
    """int64 [B], own steps since the start of the episode."""
    pred_state: Nest = ()
    """State of the model's prediction network, where it is kept."""
    action_sampler_state: Nest = ()
    """State of the action sampler."""
    next_predicted_reward: Nest = ()
    """[B], what the model expects the chosen action to earn; in rollouts only."""


class MCTSInfo(NamedTuple):
    """What a search found out."""

    candidate_actions: Nest = ()
    """[B, K, ...]; `()`: all actions."""
    value: Nest = ()
    """[B], mean value of the root."""
    candidate_action_policy: Nest = ()
    """[B, K], the policy to learn."""


_NO_MASK, _NO_TABLE, _NO_NUMBERS = np.zeros((1, 1), np.bool_), np.zeros((1, 1), np.int64), np.zeros(1)


@configurable
class MCTSAlgorithm(OffPolicyAlgorithm):
    """Acts by tree search with a model; has no parameters of its own.

    The observation is what `model.initial_predict` takes: a latent, or whatever a model by rules understands. If it is a
    dictionary, or a `SearchRoot`, the search uses its fields `valid_action_mask`, `steps` and `to_play`.
    """

    export_obstacle = "it searches a tree for every action, which is no fixed graph of tensor operations"
    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected: forbidden ones are not searched."""
    values_are_of_player_0: ClassVar[bool] = True
    """Whether it plays both sides of a game of two by itself, with values of player 0."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        num_simulations: int,
        root_dirichlet_alpha: float,
        root_exploration_fraction: float,
        pb_c_init: float,
        pb_c_base: float,
        discount: float,
        is_two_player_game: bool,
        visit_softmax_temperature_fn: Callable[[Tensor], Tensor],
        model: Any = None,
        keep_model_pred_state: bool = False,
        predict_action_sampler: ActionSampler = MultinomialSampler(),  # noqa: B008 - no state
        rollout_action_sampler: ActionSampler = MultinomialSampler(),  # noqa: B008 - no state
        learn_policy_temperature: float = 1.0,
        reward_spec: TensorSpec = TensorSpec(()),
        expand_all_children: bool = False,
        expand_all_root_children: bool = False,
        known_value_bounds: tuple[float, float] | None = None,
        value_min_max_delta: float = 1e-30,
        ucb_break_tie_eps: float = 0.0,
        ucb_parent_visit_count_minus_one: bool = False,
        unexpanded_value_score: float | str = 0.5,
        act_with_exploration_policy: bool = False,
        search_with_exploration_policy: bool = False,
        learn_with_exploration_policy: bool = False,
        exploration_policy_type: str = "rkl",
        max_unroll_length: int = 1000000,
        num_parallel_sims: int = 1,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "MCTSAlgorithm",
        gumbel_actions: int | None = None,
        gumbel_visit: float = 50.0,
        gumbel_scale: float = 1.0,
        search_backend: Backend = "auto",
        predict_exploration_fraction: float | None = None,
        predict_num_simulations: int | None = None,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation; a dictionary may have the fields named above.
            action_spec: one bounded spec.
            num_simulations: evaluations of the model per search, beside that of the root.
            root_dirichlet_alpha: of the noise mixed into the prior of the root.
            root_exploration_fraction: share of that noise, in evaluation too unless `predict_exploration_fraction` is given.
            pb_c_init: weight of the prior.
            pb_c_base: visits after which that weight grows.
            discount: of rewards, per step.
            is_two_player_game: whether two players move in turn, for opposite rewards.
            visit_softmax_temperature_fn: from [B] steps to [B] temperatures of acting.
            model: an `MCTSModel`, or what has its `initial_predict` and `recurrent_inference`; None: see `set_model`.
            keep_model_pred_state: carry the state of the model's prediction network from step to step.
            predict_action_sampler: draws actions in evaluation.
            rollout_action_sampler: draws actions in rollouts.
            learn_policy_temperature: the policy to learn is the one found to the power of 1 / this.
            reward_spec: must be a scalar.
            expand_all_children: expand all children of a leaf at once.
            expand_all_root_children: expand all children of the root before the first simulation.
            known_value_bounds: the smallest and the largest value; None learns them in each search.
            value_min_max_delta: smallest range of values to scale by.
            ucb_break_tie_eps: upper bound of uniform noise added to the UCB scores.
            ucb_parent_visit_count_minus_one: count the parent's visits without its own evaluation.
            unexpanded_value_score: value score of an unexpanded child: a number, or "max", "min", "mean" of its expanded
                siblings, "mean_with_parent" of these and the parent, or "none", with which an exploration policy keeps the
                prior of unexpanded children, and UCB takes "min".
            act_with_exploration_policy: act by the exploration policy instead of visit counts.
            search_with_exploration_policy: search by the exploration policy instead of UCB.
            learn_with_exploration_policy: learn the exploration policy instead of visit counts.
            exploration_policy_type: "rkl" or "kl".
            max_unroll_length: depth of the tree.
            num_parallel_sims: leaves expanded at once; divides `num_simulations`.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            gumbel_actions: actions that a Gumbel root search considers; None searches without.
            gumbel_visit: c_visit of that search.
            gumbel_scale: c_scale of that search.
            search_backend: "auto", "host", "compiled" or "torch"; see `Planner`.
            predict_exploration_fraction: share of noise in evaluation; None: the same.
            predict_num_simulations: `num_simulations` in evaluation; None: the same.
        """
        _check_specs(action_spec, reward_spec, name)
        check_made_for(model, action_spec)
        rules = SearchRules(
            num_simulations=num_simulations,
            discount=discount,
            pb_c_init=pb_c_init,
            pb_c_base=pb_c_base,
            is_two_player_game=is_two_player_game,
            num_parallel_sims=num_parallel_sims,
            expand_all_children=expand_all_children,
            expand_all_root_children=expand_all_root_children,
            known_value_bounds=known_value_bounds,
            value_min_max_delta=value_min_max_delta,
            ucb_break_tie_eps=ucb_break_tie_eps,
            ucb_parent_visit_count_minus_one=ucb_parent_visit_count_minus_one,
            unexpanded_value_score=unexpanded_value_score,
            search_with_exploration_policy=search_with_exploration_policy,
            exploration_policy_type=exploration_policy_type,
            max_unroll_length=max_unroll_length,
            gumbel_actions=gumbel_actions,
            gumbel_visit=gumbel_visit,
            gumbel_scale=gumbel_scale,
        )
        if rules.expands_root and not (act_with_exploration_policy and learn_with_exploration_policy):
            warnings.warn(
                f"{name}: where all children are expanded visit counts say little: set act_with_exploration_policy=True and "
                "learn_with_exploration_policy=True",
                stacklevel=2,
            )
        if keep_model_pred_state and model is None:
            raise ValueError(f"{name}: keep_model_pred_state needs to know the state: give model= to the constructor")
        pred_state_spec = model.pred_state_spec if keep_model_pred_state else ()
        steps = TensorSpec((), torch.int64)
        rollout = MCTSState(steps, pred_state_spec, rollout_action_sampler.state_spec, TensorSpec(()))
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=rollout._replace(next_predicted_reward=()),
            rollout_state_spec=rollout,
            predict_state_spec=MCTSState(steps, pred_state_spec, predict_action_sampler.state_spec),
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._planner = predicting = Planner(rules, search_backend)
        if predict_num_simulations is not None:
            predicting = Planner(dataclasses.replace(rules, num_simulations=predict_num_simulations), search_backend)
        self._planners = (predicting, self._planner)
        is_choice = action_spec.is_discrete and action_spec.ndim == 0
        self._num_actions = action_spec.num_values if is_choice else None
        self._rules = rules
        self._alpha = root_dirichlet_alpha
        given = predict_exploration_fraction
        self._fractions = (root_exploration_fraction if given is None else given, root_exploration_fraction)
        self._temperature = visit_softmax_temperature_fn
        self._keep_pred_state = keep_model_pred_state
        self._samplers = (predict_action_sampler, rollout_action_sampler)
        self._learn_temperature = learn_policy_temperature
        self._acts_by_policy = act_with_exploration_policy
        self._learns_policy = learn_with_exploration_policy
        self._own_model = model if isinstance(model, nn.Module) else None
        # In a tuple, hidden from torch: a model that is set later belongs to whoever set it.
        self._model: tuple[Any, ...] = (model,)

    @property
    def discount(self) -> float:
        """Discount of rewards, per step."""
        return self._rules.discount

    @property
    def rules(self) -> SearchRules:
        """The rules of the search."""
        return self._rules

    @property
    def last_tree(self) -> Tree | None:
        """The trees of the last search, until the next one; for showing what was thought."""
        return self._planner.last_tree

    def set_model(self, model: Any) -> None:
        """Searches with `model` from now on; its parameters stay with whoever made it."""
        check_made_for(model, self._action_spec)
        self._model = (model,)

    # Acting.

    def predict_step(self, time_step: TimeStep, state: MCTSState) -> AlgStep:
        """Searches from observations [B, ...] and draws actions for evaluation."""
        step, _ = self._step(time_step, state, is_rollout=False)
        return step

    def rollout_step(self, time_step: TimeStep, state: MCTSState) -> AlgStep:
        """Searches from observations [B, ...] and draws actions to collect data."""
        if self._debug_summaries and summary.should_record_summaries():
            error = (state.next_predicted_reward - time_step.reward)[~time_step.is_first()]
            if error.numel():
                summary.scalar(f"{self._name}/reward_prediction_error", error.abs().mean())
        step, reward = self._step(time_step, state, is_rollout=True)
        return step._replace(state=step.state._replace(next_predicted_reward=reward))

    @torch.no_grad()
    def _step(self, time_step: TimeStep, state: MCTSState, is_rollout: bool) -> tuple[AlgStep, Tensor]:
        model = self._require_model()
        self._planner = self._planners[1 if is_rollout else 0]
        root = SearchRoot.of(time_step.observation)
        steps = root.steps.long() if is_given(root.steps) else state.steps
        found = self._search_on_host(model, root, steps, time_step, is_rollout)
        if found is None:
            found = self._search(model, root, state, steps, time_step, is_rollout)
        choice, sampler_state = self._samplers[1 if is_rollout else 0](found.acting, state.action_sampler_state)
        action = choice
        if is_given(found.actions):
            action = found.actions[torch.arange(len(choice), device=choice.device), choice]
        new_state = MCTSState(steps=state.steps + 1, pred_state=found.pred_state, action_sampler_state=sampler_state)
        info = MCTSInfo(found.actions, found.value, found.learning)
        reward = found.rewards.gather(1, choice.unsqueeze(1)).squeeze(1).float()
        return AlgStep(output=action.to(self._action_spec.dtype), state=new_state, info=info), reward

    def _require_model(self) -> Any:
        if self._model[0] is None:
            raise ValueError(f"{self.name} has no model: give model= to the constructor or call set_model() first")
        return self._model[0]

    def _search_on_host(
        self, model: Any, root: SearchRoot, steps: Tensor, time_step: TimeStep, is_rollout: bool
    ) -> Found | None:
        """The whole search in one call, where the model can be evaluated beside the tree."""
        latent, rules = root.latent, self._planner.rules
        if not isinstance(latent, Tensor) or latent.ndim != 2 or self._keep_pred_state:
            return None
        program = self._planner.program(model, latent)
        if program is None or (program.num_actions, program.latent_size) != (self._num_actions, latent.shape[1]):
            return None
        fraction = self._fractions[1 if is_rollout else 0]
        has_mask = is_given(root.valid_action_mask)
        is_gumbel = rules.gumbel_actions is not None
        temperature = _NO_NUMBERS if is_gumbel else as_array(self._temperature(steps), torch.float64)
        roots = HostRoots(
            latent=as_array(latent, torch.float32),
            mask=as_array(root.valid_action_mask, torch.bool) if has_mask else _NO_MASK,
            has_mask=has_mask,
            to_play=as_array(self._player(root, steps, is_rollout), torch.int64),
            noise=self._noise((len(latent), program.num_actions), fraction, is_rollout).numpy(),
            fraction=float(fraction),
            table=halving_table(rules, program.num_actions).numpy() if is_gumbel else _NO_TABLE,
            temperature=temperature,
            learn_temperature=float(self._learn_temperature),
            acts_by_policy=self._acts_by_policy,
            learns_policy=self._learns_policy,
        )
        found = self._planner.search_latents(program, roots)
        if found is None:
            checked_mask(root, ModelOutput(), steps, time_step)
        assert found is not None
        acting, learning, value, rewards = (torch.from_numpy(array) for array in found[:4])
        return Found(acting, learning, value, rewards)

    def _noise(self, shape: tuple[int, ...], fraction: float, is_rollout: bool) -> Tensor:
        """Noise for the roots, float64 [B, K]; evaluation knows no Gumbel noise."""
        noise = torch.empty(shape, dtype=torch.float64)
        if self._rules.gumbel_actions is not None:
            return noise.exponential_().log_().neg_() if is_rollout else noise.zero_()
        return torch._sample_dirichlet(noise.fill_(self._alpha)) if fraction > 0.0 else noise

    def _search(
        self,
        model: Any,
        root: SearchRoot,
        state: MCTSState,
        steps: Tensor,
        time_step: TimeStep,
        is_rollout: bool,
    ) -> Found:
        with in_eval_mode(model):
            pred_state = (state.pred_state,) if self._keep_pred_state else ()
            output = model.initial_predict(root.latent, *pred_state)
            check_fits(output, self._action_spec)
            prior = output.action_probs.double()
            if is_given(root.valid_action_mask):
                prior = mask_prior(prior, checked_mask(root, output, steps, time_step))
            fraction = self._fractions[1 if is_rollout else 0]
            noise = self._noise(tuple(prior.shape), fraction, is_rollout).to(prior.device)
            if fraction > 0.0 and self._rules.gumbel_actions is None:
                prior = mix_noise(prior, noise, fraction)
            start = Root(output, prior, self._player(root, steps, is_rollout))
            if self._rules.gumbel_actions is not None:
                gumbel, considered = halving(prior, noise, self._planner.rules)
                start = start._replace(gumbel=gumbel, considered=considered)
            tree = self._planner.search(model, start)
        temperature = self._temperature(steps) if self._rules.gumbel_actions is None else None
        return Found(
            acting=acting_policy(tree, prior, temperature, self._acts_by_policy),
            learning=learning_policy(tree, prior, self._learn_temperature, self._learns_policy),
            value=tree.root_values().float(),
            rewards=tree.child_rewards(),
            actions=output.actions,
            pred_state=output.state.pred_state if self._keep_pred_state else (),
        )

    def _player(self, root: SearchRoot, steps: Tensor, is_rollout: bool) -> Tensor:
        """Whose move it is, int64 [B]."""
        told = is_given(root.to_play)
        if not self._rules.is_two_player_game:
            if is_rollout and told and bool((root.to_play == 1).any()):
                raise ValueError(
                    f"{self.name} searches for one player, but the observation says that player 1 is to move: set "
                    "is_two_player_game=True, or let the environment show rewards and turns from one side only"
                )
            return torch.zeros_like(steps)
        return root.to_play.long() if told else steps % 2


def _check_specs(action_spec: Nest, reward_spec: TensorSpec, name: str) -> None:
    if not isinstance(action_spec, BoundedTensorSpec):
        raise ValueError(
            f"{name} searches over one action, but action_spec is {action_spec}: merge it into one bounded spec"
        )
    if reward_spec.numel > 1:
        raise ValueError(f"{name} needs a scalar reward, but reward_spec is {reward_spec}: combine its dimensions")
