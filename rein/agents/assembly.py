"""An agent composed of an RL algorithm and parts that are named by texts.

The texts are a setting like any other, `compose_agent.parts`, so that a conf, an override, `rein train --with` and
`rein.make(parts=)` all mean the same, and a saved run finds its parts again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rein.agents.agent import Agent
from rein.agents.part_networks import with_combined_inputs
from rein.agents.part_text import read_parts
from rein.agents.registry import PartError
from rein.config import configurable, get_config_value
from rein.transforms import DataTransformer


@configurable(whitelist=["parts"])
def compose_agent(algorithm_ctor: Callable[..., Any], parts: Sequence[str] = ()) -> Callable[..., Any]:
    """A constructor of an agent of the algorithm and the parts; `algorithm_ctor` itself if there are no parts.

    Args:
        algorithm_ctor: constructor of an RL algorithm, or of an `Agent`, whose other parts then stay as they are.
        parts: such as `rnd`, `rnd=0.5` or `rnd(coef=0.5, learning_rate=1e-3)`; `rein list parts` shows them.
    """
    if not parts:
        return algorithm_ctor
    calls = read_parts(parts)
    is_agent = _is_agent(algorithm_ctor)
    rl = _rl_algorithm_of(algorithm_ctor) if is_agent else algorithm_ctor
    arguments: dict[str, Any] = {}
    for call in calls:
        if call.part.slot == "replay":
            continue  # see `part_transformers`
        made = call.make(rl)
        rl = made.pop("rl_algorithm_cls", rl)
        twice = sorted(set(made) & set(arguments))
        if twice:
            raise PartError(f"part {call.text!r} gives {', '.join(twice)} of the agent, and so does one before it")
        arguments.update(made)
    if not arguments and not is_agent:
        return rl
    if "goal_generator" in arguments:
        rl = with_combined_inputs(rl)
    return partial(algorithm_ctor if is_agent else Agent, rl_algorithm_cls=rl, **arguments)


def part_transformers(algorithm_ctor: Callable[..., Any]) -> list[Callable[..., DataTransformer]]:
    """Constructors of the data transformers of those parts of `compose_agent` that change what is replayed.

    Args:
        algorithm_ctor: see `compose_agent`.
    """
    calls = [call for call in read_parts(get_config_value("compose_agent.parts")) if call.part.slot == "replay"]
    return [call.make(algorithm_ctor)["data_transformer_ctor"] for call in calls]


def _is_agent(ctor: Callable[..., Any]) -> bool:
    target = ctor.func if isinstance(ctor, partial) else ctor
    return isinstance(target, type) and issubclass(target, Agent)


def _rl_algorithm_of(agent_ctor: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(agent_ctor, partial) and "rl_algorithm_cls" in agent_ctor.keywords:
        return agent_ctor.keywords["rl_algorithm_cls"]
    return get_config_value("rein.agents.agent.Agent.rl_algorithm_cls")
