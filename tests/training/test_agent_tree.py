"""The tree of an agent: what it counts, what it says goes in and out, and both ways to draw it."""

import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
import torch

import rein
from rein.distributions import Categorical, extract_spec
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.training.agent_svg import draw_svg
from rein.training.agent_text import draw_text
from rein.training.agent_tree import AgentTree, Node, describe_agent, spec_text

SMALL = {"hidden_layers": (8,), "unroll_length": 4, "mini_batch_size": 2}


@pytest.fixture(scope="module")
def tree() -> AgentTree:
    """PPO with random network distillation and skills of two goals' worth."""
    parts = ["rnd(hidden_layers=(6,), feature_size=2)", "goal_generator=3", "encoding=(5,)"]
    with rein.make("ppo", env="CartPole-v1", parts=parts, num_parallel_environments=1, **SMALL) as agent:
        described: AgentTree = json.loads(json.dumps(describe_agent(agent.algorithm)))
    return described


def child(node: Node, path: str) -> Node:
    for name in path.split("."):
        (node,) = (one for one in node["children"] if one["name"] == name)
    return node


def test_parts_show_what_goes_in_and_out(tree: AgentTree) -> None:
    root = tree["root"]
    assert (root["type"], root["kind"]) == ("Agent", "algorithm")
    assert root["outputs"] == {"action": "0..1"}
    assert child(root, "representation_learner")["outputs"] == {"representation": "[5]"}
    assert child(root, "goal_generator")["inputs"] == {"observation": "[5]"}
    assert child(root, "goal_generator")["outputs"] == {"goal": "[3] in 0..1"}
    seen = {"observation.0": "[5]", "observation.1": "[3] in 0..1"}
    assert child(root, "irm")["inputs"] == seen
    assert child(root, "irm")["outputs"] == {"reward": "[]"}
    assert child(root, "rl_algorithm")["inputs"] == {**seen, "reward": "[]"}
    assert child(root, "rl_algorithm.actor_network")["outputs"] == {"": "Categorical [2]"}


def test_parameters_are_counted_by_hand(tree: AgentTree) -> None:
    root = tree["root"]
    assert child(root, "representation_learner.encoder")["parameters"] == 4 * 5 + 5
    random_network = 8 * 6 + 6 + 6 * 2 + 2
    irm = child(root, "irm")
    assert (irm["parameters"], irm["trained"]) == (2 * random_network, random_network)
    assert child(root, "irm.target_net")["optimizers"] == []
    assert child(root, "rl_algorithm.actor_network")["parameters"] == 8 * 8 + 8 + 8 * 2 + 2
    assert child(root, "rl_algorithm.value_network")["parameters"] == 8 * 8 + 8 + 8 + 1
    assert root["parameters"] == 25 + 2 * random_network + 90 + 81


def test_every_optimizer_says_what_it_handles(tree: AgentTree) -> None:
    handled = {one["learning_rate"]: (one["components"], one["parameters"]) for one in tree["optimizers"]}
    assert handled["0.0001"] == (["irm.predictor_net"], 68)
    assert handled["0.001"] == (["representation_learner.encoder"], 25)
    assert (["rl_algorithm.actor_network", "rl_algorithm.value_network"], 171) in handled.values()
    assert [one["number"] for one in tree["optimizers"]] == [1, 2, 3]
    numbers = {one["components"][0]: one["number"] for one in tree["optimizers"]}
    assert child(tree["root"], "irm.predictor_net")["optimizers"] == [numbers["irm.predictor_net"]]


def test_text_is_plain_unless_a_terminal_shows_it(tree: AgentTree) -> None:
    plain = draw_text(tree)
    assert "\x1b" not in plain
    assert "└── encoder  EncodingNetwork  25 parameters  Adam #" in plain
    assert "target_net  EncodingNetwork  68 parameters  not trained" in plain
    assert "in    observation.0 [5], observation.1 [3] in 0..1, reward []" in plain
    assert "lr=0.0001  68 parameters of irm.predictor_net" in plain
    assert "\x1b" in draw_text(tree, 120)


def test_the_picture_stands_alone_and_takes_the_colours_of_the_page(tree: AgentTree) -> None:
    svg = draw_svg(tree)
    root = ElementTree.fromstring(svg)
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"rl_algorithm", "PPOAlgorithm", "irm", "predictor_net"} <= set(texts)
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert root.get("fill") == "currentColor"
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    boxes = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("rx")]
    places = [tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height")) for box in boxes]
    assert all(x + w <= width and y + h <= height for x, y, w, h in places)
    for i, (x, y, w, h) in enumerate(places):
        assert not any(abs(x - a) < w and y < b + d and b < y + h for a, b, _, d in places[i + 1 :])


def test_names_are_escaped_in_the_picture(tree: AgentTree) -> None:
    root: Any = {**tree["root"], "name": "<script>", "children": []}
    assert "<script>" not in draw_svg({"root": root, "optimizers": tree["optimizers"]})


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (TensorSpec((4,)), "[4]"),
        (TensorSpec((3, 8, 8), torch.uint8), "[3, 8, 8] uint8"),
        (BoundedTensorSpec((), torch.int64, 0, 5), "0..5"),
        (BoundedTensorSpec((2,), torch.float32, -1.5, 1), "[2] in -1.5..1"),
        (BoundedTensorSpec((2,), torch.float32, -3e38, 3e38), "[2]"),
        (extract_spec(Categorical(logits=torch.zeros(2, 6))), "Categorical [6]"),
    ],
)
def test_specs_in_a_few_characters(spec: Any, text: str) -> None:
    assert spec_text(spec) == text
