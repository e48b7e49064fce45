"""Rein in a few lines, for people who never write a conf.

    agent = rein.make("ppo", env="CartPole-v1")
    agent.train(50_000)
    print(agent.evaluate(10).mean)
    agent.save("my_agent")
    action = rein.load("my_agent").predict(observation)

An agent is a run: the same confs, algorithm and trainer as behind `rein train`, and what it saves is a run directory that
`rein evaluate`, `rein play` and `rein resume` understand.
"""

from rein.api.agent import AgentHandle
from rein.api.loading import load
from rein.api.making import DataSource, EnvSource, make

__all__ = ["AgentHandle", "DataSource", "EnvSource", "load", "make"]
