"""What keeps policies from collapsing: entropy targets, weights of several rewards, priors."""

from rein.algorithms.regularization.prior_actor import PriorActor, SameActionPriorActor, UniformPriorActor

__all__ = ["PriorActor", "SameActionPriorActor", "UniformPriorActor"]
