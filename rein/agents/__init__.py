"""Agents: compositions of algorithms that act as one."""

from rein.agents.dynamic_action_repeat_agent import DynamicActionRepeatAgent

__all__ = ["DynamicActionRepeatAgent"]
