"""Agents: compositions of algorithms that act as one."""

from rein.agents.agent import Agent, AgentInfo, AgentState
from rein.agents.composition import AgentHelper
from rein.agents.dynamic_action_repeat_agent import DynamicActionRepeatAgent
from rein.agents.handcrafted import HandcraftedAlgorithm, SimpleCarlaAlgorithm

__all__ = [
    "Agent",
    "AgentHelper",
    "AgentInfo",
    "AgentState",
    "DynamicActionRepeatAgent",
    "HandcraftedAlgorithm",
    "SimpleCarlaAlgorithm",
]
