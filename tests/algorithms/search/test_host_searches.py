"""Searches on the host from latents to policies, against the same searches with the model in torch."""

import copy

import pytest
import torch
from torch import nn

from rein.algorithms.search import (
    MCTSAlgorithm,
    ModelOutput,
    ModelState,
    SearchRoot,
    SimpleMCTSModel,
    VisitSoftmaxTemperatureByMoves,
)
from rein.algorithms.search.host_model import HostModelBuilder
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from rein.data_structures import StepType, TimeStep
from rein.networks import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

BATCH, LATENT, ACTIONS = 24, 19, 5


def model(**options):
    torch.manual_seed(0)
    made = SimpleMCTSModel(
        TensorSpec((3,)),
        BoundedTensorSpec((), torch.int64, 0, ACTIONS - 1),
        num_unroll_steps=2,
        encoding_net_ctor=lambda spec: create_simple_encoding_net(spec, (LATENT,)),
        dynamics_net_ctor=lambda spec: create_simple_dynamics_net(spec, (70,)),
        prediction_net_ctor=lambda spec, action: create_simple_prediction_net(spec, action, (33,)),
        **options,
    )
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.6)
    return made


def mcts(backend, made, **options):
    settings = {
        "num_simulations": 16,
        "root_dirichlet_alpha": 0.3,
        "root_exploration_fraction": 0.25,
        "pb_c_init": 1.25,
        "pb_c_base": 19652,
        "discount": 0.97,
        "is_two_player_game": False,
        "visit_softmax_temperature_fn": VisitSoftmaxTemperatureByMoves([(2, 1.0), (5, 0.5), (9, 1e-4)]),
    }
    return MCTSAlgorithm(
        observation_spec=TensorSpec((LATENT,)),
        action_spec=BoundedTensorSpec((), torch.int64, 0, ACTIONS - 1),
        model=made,
        search_backend=backend,
        **{**settings, **options},
    )


def time_step(root):
    batch = len(root.latent)
    return TimeStep(
        step_type=torch.full((batch,), StepType.MID, dtype=torch.int32),
        reward=torch.zeros(batch),
        observation=root,
        env_id=torch.arange(batch) + 10,
    )


def found(backend, made, root, is_rollout=True, **options):
    algorithm = mcts(backend, made, **options)
    torch.manual_seed(5)
    if is_rollout:
        result = algorithm.rollout_step(time_step(root), zero_state(algorithm.rollout_state_spec, BATCH))
    else:
        result = algorithm.predict_step(time_step(root), zero_state(algorithm.predict_state_spec, BATCH))
    return result, algorithm.last_tree


MASK = torch.rand(BATCH, ACTIONS, generator=torch.Generator().manual_seed(1)) < 0.5
MASK[:, 2] = True
ROOT = SearchRoot(torch.rand(BATCH, LATENT, generator=torch.Generator().manual_seed(2)))
MASKED = ROOT._replace(valid_action_mask=MASK, steps=torch.arange(BATCH) % 12, to_play=torch.arange(BATCH) % 2)


@pytest.mark.parametrize("is_rollout", [True, False])
@pytest.mark.parametrize(
    ("options", "root"),
    [
        ({}, ROOT),
        ({"is_two_player_game": True}, MASKED),
        ({"is_two_player_game": True, "known_value_bounds": (-9.0, 9.0), "num_parallel_sims": 2}, MASKED),
        ({"gumbel_actions": 4}, ROOT),
        ({"gumbel_actions": 3, "is_two_player_game": True}, MASKED),
        ({"act_with_exploration_policy": True, "learn_policy_temperature": 0.5}, ROOT),
        ({"learn_with_exploration_policy": True, "search_with_exploration_policy": True}, ROOT),
        ({"unexpanded_value_score": "none", "act_with_exploration_policy": True}, ROOT),
    ],
)
def test_the_host_finds_what_torch_finds(options, root, is_rollout):
    made = model(game_over_logit_thresh=5.9)
    host, tree = found("host", made, root, is_rollout, **options)
    plain, plain_tree = found("compiled", made, root, is_rollout, **options)
    # Sums in another order may decide near ties otherwise: nearly all trees are the same.
    same = (tree.child_visits() == plain_tree.child_visits()).all(1)
    assert same.float().mean() >= 0.85
    over = torch.as_tensor(tree.arrays.game_over)
    assert 0 < over[:, 0].sum() < BATCH / 2
    assert tree.child_visits().sum() == 16 * (~over[:, 0]).sum()
    torch.testing.assert_close(tree.root_gumbel(), plain_tree.root_gumbel())
    for ours, theirs in ((host.info.value, plain.info.value), (host.output, plain.output)):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours[same], theirs[same], atol=1e-5, rtol=1e-5)
    ours, theirs = host.info.candidate_action_policy, plain.info.candidate_action_policy
    torch.testing.assert_close(ours[same], theirs[same], atol=1e-4, rtol=0)
    if is_rollout:
        ours, theirs = host.state.next_predicted_reward, plain.state.next_predicted_reward
        torch.testing.assert_close(ours[same], theirs[same], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"train_reward_function": False},
        {"train_game_over_function": False},
        {"predict_initial_reward": False},
        {"game_over_logit_thresh": -1e9},
    ],
)
def test_roots_are_what_the_model_says_of_them(options):
    made = model(**options)
    searches = [found(backend, made, ROOT, num_simulations=1) for backend in ("host", "compiled")]
    for read in ("visits", "raw_value", "reward", "prior", "game_over", "to_play", "bounds"):
        ours, theirs = (torch.as_tensor(getattr(tree.arrays, read)[:, :1]) for _, tree in searches)
        torch.testing.assert_close(ours, theirs, atol=3e-6, rtol=1e-5, msg=read)
    (ours, _), (theirs, _) = searches
    torch.testing.assert_close(ours.info, theirs.info, atol=3e-6, rtol=1e-5)


def test_a_search_on_the_host_may_be_followed_by_another():
    made = model()
    algorithm = mcts("host", made, gumbel_actions=4)
    first = algorithm.rollout_step(time_step(ROOT), zero_state(algorithm.rollout_state_spec, BATCH))
    kept = copy.deepcopy(first)
    for batch in (BATCH, 3, BATCH):
        root = ROOT._replace(latent=ROOT.latent[:batch].flip(1))
        algorithm.rollout_step(time_step(root), zero_state(algorithm.rollout_state_spec, batch))
    torch.testing.assert_close(first.info, kept.info, atol=0, rtol=0)
    assert algorithm.last_tree.child_visits().shape == (BATCH, ACTIONS)


def test_what_is_wrong_with_roots_is_said():
    made = model()
    stuck = MASK.clone()
    stuck[3] = False
    algorithm = mcts("host", made, is_two_player_game=True)
    state = zero_state(algorithm.rollout_state_spec, BATCH)
    with pytest.raises(ValueError, match="environment 13 allows no action at step 3"):
        algorithm.rollout_step(time_step(MASKED._replace(valid_action_mask=stuck)), state)
    with torch.no_grad():
        made._prediction_net.policy.logits.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        algorithm.rollout_step(time_step(MASKED), state)


def test_a_model_for_another_action_is_refused_when_it_is_given():
    other = BoundedTensorSpec((), torch.int64, 0, ACTIONS)
    arguments = (TensorSpec((LATENT,)), other, 4, 0.3, 0.0, 1.25, 19652, 1.0, False, lambda steps: steps + 1.0)
    with pytest.raises(ValueError, match="the model was made for the action"):
        MCTSAlgorithm(*arguments, model())
    with pytest.raises(ValueError, match="build it for that"):
        MCTSAlgorithm(*arguments).set_model(model())


@pytest.mark.parametrize(
    ("hidden", "latent_size", "actions"), [(1, 1, 2), (15, 16, 3), (16, 17, 20), (64, 5, 16), (130, 33, 4)]
)
def test_layers_of_all_sizes_are_packed(hidden, latent_size, actions):
    torch.manual_seed(hidden)
    first, second = nn.Linear(latent_size + actions, hidden), nn.Linear(hidden, latent_size, bias=False)
    heads = {"value": nn.Linear(latent_size, 1), "logits": nn.Linear(latent_size, actions)}
    steps = HostModelBuilder(latent_size, actions)
    between = steps.fully_connected(steps.latent_and_action, first.weight, first.bias, "tanh")
    latent = steps.fully_connected(between, second.weight, None, "relu")
    told = {name: steps.fully_connected(latent, head.weight, head.bias) for name, head in heads.items()}
    program = steps.finish(next_latent=latent, **told)

    class Layers:
        def initial_predict(self, latent):
            return ModelOutput(
                value=heads["value"](latent)[:, 0],
                action_probs=heads["logits"](latent).softmax(1),
                state=ModelState(state=latent),
            )

        def recurrent_inference(self, state, action):
            chosen = nn.functional.one_hot(action, actions).float()
            middle = first(torch.cat([state.state, chosen], 1)).tanh()
            return self.initial_predict(second(middle).relu())

        def host_program(self, batch_size):
            return program

    root = SearchRoot(torch.randn(8, latent_size))
    results = []
    for backend in ("host", "compiled"):
        algorithm = MCTSAlgorithm(
            TensorSpec((latent_size,)),
            BoundedTensorSpec((), torch.int64, 0, actions - 1),
            1,
            0.3,
            0.0,
            1.25,
            19652,
            0.9,
            False,
            lambda steps: torch.full(steps.shape, 1.0),
            Layers(),
            search_backend=backend,
        )
        results.append(algorithm.rollout_step(time_step(root), zero_state(algorithm.rollout_state_spec, 8)))
    torch.testing.assert_close(results[0].info, results[1].info, atol=3e-6, rtol=1e-5)
    assert torch.equal(results[0].output, results[1].output)
