"""MuZero: unrolling and its gradients, priorities, composition, boards, and what is refused."""

from functools import partial

import pytest
import torch

from rein import nest
from rein.agents import Agent
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.on_policy import PPOAlgorithm
from rein.algorithms.search import (
    LinearTdStepFunc,
    MCTSInfo,
    ModelTarget,
    MuzeroAlgorithm,
    MuzeroInfo,
    MuzeroRepresentationImpl,
    MuzeroRepresentationLearner,
    MuzeroRepresentationTrainingOptions,
    SimpleMCTSModel,
    create_board_game_mcts,
    create_control_mcts,
)
from rein.algorithms.search.construction import SQRT_VALUE_LOSS, call_with_known
from rein.algorithms.search.representation_impl import scale_gradient
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from rein.data_structures import LossInfo, TimeStep
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import zero_state
from rein.optimizers import Adam
from rein.runtime.run import Run
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.transforms import RewardScaling, create_data_transformer

OBSERVATION, ACTION = TensorSpec((4,)), BoundedTensorSpec((), torch.int64, 0, 1)
MODEL = partial(
    SimpleMCTSModel,
    encoding_net_ctor=partial(create_simple_encoding_net, fc_layer_params=(12,)),
    dynamics_net_ctor=partial(create_simple_dynamics_net, fc_layer_params=(12,)),
    prediction_net_ctor=partial(create_simple_prediction_net, fc_layer_params=(12,)),
)
MCTS = partial(create_control_mcts, num_simulations=6)


def impl(**options):
    settings = dict(model_ctor=MODEL, num_unroll_steps=3, td_steps=2, discount=0.9)
    return MuzeroRepresentationImpl(OBSERVATION, ACTION, **{**settings, **options})


def target(batch=2, steps=4):
    return ModelTarget(
        is_partial_trajectory=torch.zeros(batch, dtype=torch.bool),
        beyond_episode_end=torch.zeros(batch, steps, dtype=torch.bool),
        reward=torch.rand(batch, steps),
        action_policy=torch.full((batch, steps, 2), 0.5),
        game_over=torch.zeros(batch, steps, dtype=torch.bool),
        value=torch.rand(batch, steps),
    )


def test_gradients_are_scaled_once_per_imagined_step():
    x = torch.ones(2, requires_grad=True)
    y = scale_gradient(x * 3, 0.5)
    assert y.tolist() == [3.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]
    # Only the value of step 3 counts: its gradient passes the steps 2 and 1 with half the size each.
    torch.manual_seed(0)
    gradients = {}
    for factor in (1.0, 0.5):
        torch.manual_seed(0)
        learner = impl(recurrent_gradient_scaling_factor=factor)
        with torch.no_grad():
            learner.model._prediction_net.value.weight.normal_()
        weights = torch.tensor([0.0, 0.0, 0.0, 1.0])
        learner.model._step_weights.copy_(weights)
        learner.model._weights.update(reward=0.0, policy=0.0, game_over=0.0)
        info = MuzeroInfo(action=torch.tensor([[0, 1, 0], [1, 1, 0]]), target=target())
        torch.manual_seed(1)
        step = learner.train_step(TimeStep(observation=torch.randn(2, 4)), (), info._replace(target=fixed_target()))
        step.info.loss.loss.sum().backward()
        gradients[factor] = learner.model._representation_net.layers[0].weight.grad
    assert gradients[1.0].abs().sum() > 0
    torch.testing.assert_close(gradients[0.5], gradients[1.0] * 0.25)


def fixed_target():
    return target()._replace(value=torch.ones(2, 4), reward=torch.zeros(2, 4))


def test_training_steps_give_losses_and_priorities():
    learner = impl(calculate_priority=True)
    info = MuzeroInfo(action=torch.zeros(6, 3, dtype=torch.int64), target=target(6))
    step = learner.train_step(TimeStep(observation=torch.randn(6, 4)), (), info)
    loss = step.info.loss
    assert loss.loss.shape == (6,)
    assert set(loss.extra) == {"value", "reward", "policy", "game_over", "td_error"}
    stacked = nest.map_structure(lambda t: t.view(2, 3), step.info)
    result = learner.calc_loss(stacked)
    torch.testing.assert_close(result.priority, stacked.loss.extra["value"].sqrt().sum(0).detach())
    assert impl().calc_loss(stacked).priority == ()
    assert impl(config=TrainerConfig("", priority_replay=True)).calc_loss(stacked).priority.shape == (3,)
    by_error = impl(calculate_priority=True, priority_func="td_error").calc_loss(stacked)
    torch.testing.assert_close(by_error.priority, stacked.loss.extra["td_error"].sum(0))
    own = impl(calculate_priority=True, priority_func=lambda loss_info: loss_info.loss.sum(0)).calc_loss(stacked)
    torch.testing.assert_close(own.priority, stacked.loss.loss.sum(0).detach())
    assert impl(priority_func=SQRT_VALUE_LOSS)


def test_the_copy_of_the_model_follows():
    learner = impl(reanalyze_algorithm_ctor=MCTS, reanalyze_ratio=1.0, target_update_period=2)
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter.add_(1.0)
    differ = lambda: any(  # noqa: E731
        not torch.equal(a, b)
        for a, b in zip(learner.model.parameters(), learner._target_model.parameters(), strict=True)
    )
    info = MuzeroInfo(loss=LossInfo())
    learner.after_update((), info)
    assert differ()
    learner.after_update((), info)
    assert not differ()
    assert not any(p.requires_grad for p in learner._target_model.parameters())
    slow = impl(reanalyze_algorithm_ctor=MCTS, reanalyze_ratio=1.0, target_update_period=1, target_update_tau=0.25)
    ours, theirs = (model._representation_net.layers[0].bias for model in (slow.model, slow._target_model))
    before = theirs.clone()
    with torch.no_grad():
        ours.copy_(before + 1.0)
    slow.after_update((), info)
    torch.testing.assert_close(theirs, before + 0.25)


def test_observations_may_be_augmented():
    learner = impl(data_augmenter=lambda observation: observation + 1)
    steps, _ = learner._augmented(TimeStep(observation=torch.zeros(2, 3, 4)), ModelTarget())
    assert (steps.observation == 1).all()
    learner = impl(data_augmenter=lambda observation: observation + 1, train_repr_prediction=True)
    future = ModelTarget(observation=torch.zeros(2, 3, 4, 4), beyond_episode_end=torch.zeros(2, 3, 4))
    steps, changed = learner._augmented(TimeStep(observation=torch.zeros(2, 3, 4)), future)
    assert (steps.observation == 1).all()
    assert changed.observation.shape == (2, 3, 4, 4)
    assert (changed.observation == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"td_steps": -2}, "or -1 for the end"),
        ({"reanalyze_ratio": 1.5}, "must be in"),
        ({"reanalyze_ratio": 0.5}, "give reanalyze_algorithm_ctor"),
        (
            {"reanalyze_ratio": 0.5, "reanalyze_algorithm_ctor": MCTS, "config": TrainerConfig("")},
            "use_rollout_state=True",
        ),
        ({"reward_spec": TensorSpec((2,))}, "scalar reward"),
        ({"priority_func": "lambda x: x"}, "text is not run"),
        ({"data_transformer_ctor": partial(RewardScaling, 2.0)}, "give it as reward_transformer"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        impl(**options)


def test_reward_transformers_of_the_run_are_refused_too():
    learner = impl()
    learner.set_data_transformer(create_data_transformer([partial(RewardScaling, 2.0)], OBSERVATION))
    with pytest.raises(ValueError, match="RewardScaling is among the data transformers"):
        learner._transformer_of_steps()


def test_constructors_get_what_they_take():
    def takes(a, b=2):
        return a, b

    assert call_with_known(takes, {"a": 1, "b": 3, "c": 4}) == (1, 3)
    assert call_with_known(partial(takes, b=7), {"a": 1, "b": 3}) == (1, 7)
    assert call_with_known(lambda **kw: kw, {"a": 1}) == {"a": 1}


def muzero(env, learner=None, mcts=MCTS, discount=0.9, config=None, **options):
    settings = {"model_ctor": MODEL, "num_unroll_steps": 3, "td_steps": 2, **(learner or {})}
    return MuzeroAlgorithm(
        env.observation_spec,
        env.action_spec,
        discount,
        representation_learner_ctor=partial(MuzeroRepresentationImpl, **settings),
        mcts_algorithm_ctor=mcts,
        env=env,
        config=config or replay_config(),
        optimizer=Adam(lr=1e-3),
        **options,
    )


def replay_config(**changes):
    settings = dict(
        unroll_length=6,
        initial_collect_steps=12,
        mini_batch_length=1,
        mini_batch_size=16,
        num_updates_per_train_iter=2,
        whole_replay_buffer_training=False,
        clear_replay_buffer=False,
        replay_buffer_length=200,
    )
    return TrainerConfig("", **{**settings, **changes})


def test_a_reward_transformer_of_the_run_is_refused_before_training():
    algorithm = muzero(create_environment("CartPole-v1", 2, seed=0))
    transformer = create_data_transformer([partial(RewardScaling, 2.0)], algorithm.observation_spec)
    with pytest.raises(ValueError, match="give it as reward_transformer instead"):
        algorithm.set_data_transformer(transformer)


def test_a_board_game_is_played_legally_and_learnt_from():
    torch.manual_seed(0)
    env = create_environment("boards/tic_tac_toe", 4, seed=0)
    mcts = partial(create_board_game_mcts, dirichlet_alpha=0.3, num_simulations=8)
    algorithm = muzero(env, {"td_steps": -1}, mcts, discount=1.0)
    algorithm.set_path("")
    for _ in range(6):
        algorithm.train_iter()
    buffer = algorithm.replay_buffer
    stored, _ = buffer.gather_all()
    mask = stored.time_step.observation["valid_action_mask"]
    acted = stored.time_step.step_type != 2
    assert mask.gather(-1, stored.action.unsqueeze(-1)).squeeze(-1)[acted].all()
    policy = stored.rollout_info.candidate_action_policy
    assert (policy[~mask] == 0).all()
    # Players alternate, and the reward is the winner's, 1 or -1, whoever moved last.
    to_play = stored.time_step.observation["to_play"]
    assert to_play.float().mean() > 0.3
    ends = stored.time_step.reward[stored.time_step.step_type == 2]
    assert set(ends.unique().tolist()) <= {-1.0, 0.0, 1.0}


def test_parts_look_up_what_was_stored_at_the_path_of_the_composition():
    env = create_environment("CartPole-v1", 2, seed=0)
    algorithm = Agent(
        env.observation_spec,
        env.action_spec,
        rl_algorithm_cls=partial(
            MuzeroAlgorithm,
            discount=0.9,
            representation_learner_ctor=partial(
                MuzeroRepresentationImpl,
                model_ctor=MODEL,
                num_unroll_steps=2,
                td_steps=3,
                reanalyze_algorithm_ctor=MCTS,
                reanalyze_ratio=0.5,
                reanalyze_td_steps_func=LinearTdStepFunc(0.5),
            ),
            mcts_algorithm_ctor=MCTS,
        ),
        env=env,
        config=replay_config(use_rollout_state=True, priority_replay=True),
        optimizer=Adam(lr=1e-3),
    )
    algorithm.set_path("")
    with Run(seed=0):
        assert sum(algorithm.train_iter() for _ in range(4)) > 0
    assert algorithm._rl_algorithm._learner.path == "rl"


def test_the_reward_transformer_acts_on_stored_rewards():
    env = create_environment("CartPole-v1", 2, seed=0)
    algorithm = muzero(env, reward_transformer=RewardScaling(0.5))
    algorithm.set_path("")
    algorithm.train_iter()
    data, info = algorithm.replay_buffer.get_batch(8, 1)
    info = info._replace(replay_buffer=algorithm.replay_buffer)
    _, processed = algorithm.preprocess_experience(data.time_step, data.rollout_info, info)
    rewards = processed.target.reward[:, 0]
    assert set(rewards.unique().tolist()) <= {0.0, 0.5}
    assert set(data.time_step.reward.unique().tolist()) <= {0.0, 1.0}


def learner(config, optimizer=True, **options):
    settings = dict(model_ctor=MODEL, num_unroll_steps=2, td_steps=3, discount=0.9, train_policy=False, **options)
    return MuzeroRepresentationLearner(
        OBSERVATION,
        ACTION,
        config,
        MuzeroRepresentationTrainingOptions(initial_collect_steps=8, mini_batch_size=8, interval=2),
        impl_cls=partial(MuzeroRepresentationImpl, optimizer=Adam(lr=1e-3) if optimizer else None, **settings),
    )


def test_a_representation_is_trained_by_its_own_schedule():
    part = learner(TrainerConfig(""))
    assert part.output_spec == TensorSpec((12,))
    state = zero_state(part.rollout_state_spec, 3)
    before = part.model._representation_net.layers[0].weight.clone()
    torch.manual_seed(0)
    for t in range(8):
        step = TimeStep(
            step_type=torch.full((3,), min(t, 1), dtype=torch.int32),
            reward=torch.ones(3),
            discount=torch.ones(3),
            observation=torch.randn(3, 4),
            prev_action=torch.zeros(3, dtype=torch.int64),
            env_id=torch.arange(3),
        )
        result = part.rollout_step(step, state)
        assert not result.output.requires_grad
        assert result.info == ()
    part.after_train_iter(None, None)
    assert torch.equal(part.model._representation_net.layers[0].weight, before)
    part.after_train_iter(None, None)
    assert not torch.equal(part.model._representation_net.layers[0].weight, before)
    assert part.calc_loss(()) == LossInfo()
    part.set_data_transformer(create_data_transformer([partial(RewardScaling, 2.0)], OBSERVATION))
    with pytest.raises(ValueError, match="put UntransformedTimeStep first"):
        part.rollout_step(step, state)


def test_bad_representation_learners_are_refused():
    with pytest.raises(ValueError, match="give an optimizer"):
        learner(TrainerConfig(""), optimizer=False)
    with pytest.raises(ValueError, match="here it must be 0 or 1"):
        learner(TrainerConfig("", use_rollout_state=True), reanalyze_ratio=0.5, reanalyze_algorithm_ctor=MCTS)


def test_soft_actor_critic_learns_on_a_representation():
    torch.manual_seed(0)
    env = create_environment("CartPole-v1", 2, seed=0)
    algorithm = Agent(
        env.observation_spec,
        env.action_spec,
        rl_algorithm_cls=partial(SacAlgorithm, num_critic_replicas=1),
        representation_learner_cls=lambda **options: learner(options["config"]),
        env=env,
        config=replay_config(mini_batch_length=2),
        optimizer=Adam(lr=1e-3),
    )
    algorithm.set_path("")
    assert sum(algorithm.train_iter() for _ in range(4)) > 0


def test_each_step_is_stored_once_under_proximal_policy_optimization():
    torch.manual_seed(0)
    env = create_environment("CartPole-v1", 2, seed=0)
    parts = []
    algorithm = Agent(
        env.observation_spec,
        env.action_spec,
        rl_algorithm_cls=PPOAlgorithm,
        representation_learner_cls=lambda **options: parts.append(learner(options["config"])) or parts[0],
        env=env,
        config=TrainerConfig("", unroll_length=5, mini_batch_length=5, mini_batch_size=2),
        optimizer=Adam(lr=1e-3),
    )
    algorithm.set_path("")
    for iteration in (1, 2, 3):
        algorithm.train_iter()
        assert parts[0]._impl.replay_buffer.current_pos.tolist() == [5 * iteration] * 2


def test_a_search_for_two_is_refused_where_one_plays():
    with pytest.raises(ValueError, match="set is_two_player_game=False for one player"):
        MuzeroAlgorithm(
            OBSERVATION,
            ACTION,
            discount=1.0,
            representation_learner_ctor=partial(
                MuzeroRepresentationImpl, model_ctor=MODEL, num_unroll_steps=2, td_steps=-1
            ),
            mcts_algorithm_ctor=partial(create_board_game_mcts, dirichlet_alpha=0.3, num_simulations=4),
        )


def test_infos_are_documented_tuples():
    assert MuzeroInfo._fields == ("action", "value", "target", "loss")
    assert MCTSInfo._fields == ("candidate_actions", "value", "candidate_action_policy")
    options = MuzeroRepresentationTrainingOptions()
    assert tuple(options) == (1, 1, 256, 10, 100000, 2000, True, 1.2, 0.0)
