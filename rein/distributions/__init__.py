"""Distributions of actions and latents, nests of them, and their conversion to tensors and back."""

from rein.distributions.actions import (
    compute_entropy,
    compute_log_probability,
    epsilon_greedy_sample,
    get_base_dist,
    get_mode,
    get_rmode,
    rsample_action_distribution,
    sample_action_distribution,
    sum_over_nest,
)
from rein.distributions.base import Distribution, Recipe
from rein.distributions.beta import Beta
from rein.distributions.bounded_normal import ClippedNormal, TruncatedNormal
from rein.distributions.bounds import Bounds
from rein.distributions.categorical import (
    Categorical,
    MultiCategorical,
    OneHotCategorical,
    OneHotCategoricalGumbelSoftmax,
    OneHotCategoricalStraightThrough,
    standard_gumbel,
)
from rein.distributions.deterministic import Deterministic
from rein.distributions.divergence import kl_divergence
from rein.distributions.entropy import (
    calc_default_max_entropy,
    calc_default_target_entropy,
    calc_default_target_entropy_quantized,
    calc_target_entropy_by_count,
    calc_uniform_log_prob,
    entropy_with_fallback,
    estimated_entropy,
)
from rein.distributions.mixture import Mixture
from rein.distributions.normal import DiagNormal, SquashedNormal
from rein.distributions.params import (
    DistributionSpec,
    distributions_to_params,
    extract_spec,
    index_distributions,
    map_params,
    params_to_distributions,
    stack_distributions,
    to_distribution_param_spec,
)

__all__ = [
    "Beta",
    "Bounds",
    "Categorical",
    "ClippedNormal",
    "Deterministic",
    "DiagNormal",
    "Distribution",
    "DistributionSpec",
    "Mixture",
    "MultiCategorical",
    "OneHotCategorical",
    "OneHotCategoricalGumbelSoftmax",
    "OneHotCategoricalStraightThrough",
    "Recipe",
    "SquashedNormal",
    "TruncatedNormal",
    "calc_default_max_entropy",
    "calc_default_target_entropy",
    "calc_default_target_entropy_quantized",
    "calc_target_entropy_by_count",
    "calc_uniform_log_prob",
    "compute_entropy",
    "compute_log_probability",
    "distributions_to_params",
    "entropy_with_fallback",
    "epsilon_greedy_sample",
    "estimated_entropy",
    "extract_spec",
    "get_base_dist",
    "get_mode",
    "get_rmode",
    "index_distributions",
    "kl_divergence",
    "map_params",
    "params_to_distributions",
    "rsample_action_distribution",
    "sample_action_distribution",
    "stack_distributions",
    "standard_gumbel",
    "sum_over_nest",
    "to_distribution_param_spec",
]
