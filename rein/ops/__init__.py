"""Pure tensor functions: no state, no configuration, every tensor's shape in its docstring.

`rein.ops.returns` speaks about transitions (row t is the action taken at t), `rein.ops.trajectories` about time
steps as environments give them (row t is what the environment said at step t). Their docstrings define the
conventions exactly.
"""

from rein.ops.bins import integer_bins, inverse_sqrt1p, sqrt1p, two_bins
from rein.ops.clipping import clip_by_global_norm_, clip_by_norm_, clip_by_value_, clipped_exp, global_norm
from rein.ops.clustering import adjusted_rand_index
from rein.ops.codes import categorical_kl, code_perplexity, nearest_code, straight_through
from rein.ops.elites import elite_moments
from rein.ops.ensembles import (
    area_under_roc,
    calibration_bins,
    disagreement,
    expected_calibration_error,
    hard_vote,
    predictive_entropy,
    roc_curve,
    soft_vote,
)
from rein.ops.entropy import continuous_target_entropy, discrete_target_entropy
from rein.ops.gaussians import residual_gaussian_kl, standard_normal_kl
from rein.ops.importance import (
    approximate_kl,
    clipped_surrogate,
    effective_sample_size,
    importance_ratio,
    prioritized_replay_weights,
    self_normalized_weights,
    sequence_priority,
)
from rein.ops.kernels import (
    median_bandwidth,
    paired_rbf_kernel_and_gradient,
    pairwise_squared_distance,
    rbf_kernel,
    rbf_kernel_and_gradient,
    rbf_kernel_and_repulsion,
    rbf_kernel_gradients,
)
from rein.ops.losses import (
    element_wise_huber_loss,
    element_wise_squared_loss,
    expectile_loss,
    huber_function,
    quantile_huber_loss,
)
from rein.ops.moments import explained_variance, masked_mean, masked_variance, standardize
from rein.ops.mutual_information import (
    clipped_ratio,
    donsker_varadhan,
    gaussian_mutual_information,
    jensen_shannon,
    kullback_leibler,
)
from rein.ops.particles import (
    fisher_critic_loss,
    gfsf_direction,
    hutchinson_trace,
    smoothed_score,
    solve_block_jacobian,
    solve_jacobian,
    svgd_direction,
)
from rein.ops.plan_particles import actions_by_step, mean_over_particles, spread_over_particles
from rein.ops.plans import advance_plans, best_plans, comparable_cost, normal_plans, uniform_plans
from rein.ops.puct import min_max_normalize, puct_exploration_weight, puct_score
from rein.ops.quantile import quantile_midpoints
from rein.ops.returns import lambda_return, n_step_return
from rein.ops.scan import append_dims, reverse_scan
from rein.ops.search import (
    calculate_exploration_policy,
    calculate_kl_exploration_policy,
    halving_visits,
    hashed_uniform,
    mask_prior,
    mix_noise,
    sharpen,
)
from rein.ops.shift import delay, shift
from rein.ops.td import VTraceOutput, vtrace
from rein.ops.trajectories import (
    trajectory_advantage,
    trajectory_discounted_return,
    trajectory_lambda_return,
    trajectory_n_step_return,
    trajectory_one_step_return,
)
from rein.ops.weights import exp_advantage_weight

__all__ = [
    "VTraceOutput",
    "actions_by_step",
    "adjusted_rand_index",
    "advance_plans",
    "append_dims",
    "approximate_kl",
    "area_under_roc",
    "best_plans",
    "calculate_exploration_policy",
    "calculate_kl_exploration_policy",
    "calibration_bins",
    "categorical_kl",
    "clip_by_global_norm_",
    "clip_by_norm_",
    "clip_by_value_",
    "clipped_exp",
    "clipped_ratio",
    "clipped_surrogate",
    "code_perplexity",
    "comparable_cost",
    "continuous_target_entropy",
    "delay",
    "disagreement",
    "discrete_target_entropy",
    "donsker_varadhan",
    "effective_sample_size",
    "element_wise_huber_loss",
    "element_wise_squared_loss",
    "elite_moments",
    "exp_advantage_weight",
    "expected_calibration_error",
    "expectile_loss",
    "explained_variance",
    "fisher_critic_loss",
    "gaussian_mutual_information",
    "gfsf_direction",
    "global_norm",
    "halving_visits",
    "hard_vote",
    "hashed_uniform",
    "huber_function",
    "hutchinson_trace",
    "importance_ratio",
    "integer_bins",
    "inverse_sqrt1p",
    "jensen_shannon",
    "kullback_leibler",
    "lambda_return",
    "mask_prior",
    "masked_mean",
    "masked_variance",
    "mean_over_particles",
    "median_bandwidth",
    "min_max_normalize",
    "mix_noise",
    "n_step_return",
    "nearest_code",
    "normal_plans",
    "paired_rbf_kernel_and_gradient",
    "pairwise_squared_distance",
    "predictive_entropy",
    "prioritized_replay_weights",
    "puct_exploration_weight",
    "puct_score",
    "quantile_huber_loss",
    "quantile_midpoints",
    "rbf_kernel",
    "rbf_kernel_and_gradient",
    "rbf_kernel_and_repulsion",
    "rbf_kernel_gradients",
    "residual_gaussian_kl",
    "reverse_scan",
    "roc_curve",
    "self_normalized_weights",
    "sequence_priority",
    "sharpen",
    "shift",
    "smoothed_score",
    "soft_vote",
    "solve_block_jacobian",
    "solve_jacobian",
    "spread_over_particles",
    "sqrt1p",
    "standard_normal_kl",
    "standardize",
    "straight_through",
    "svgd_direction",
    "trajectory_advantage",
    "trajectory_discounted_return",
    "trajectory_lambda_return",
    "trajectory_n_step_return",
    "trajectory_one_step_return",
    "two_bins",
    "uniform_plans",
    "vtrace",
]
