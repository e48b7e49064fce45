"""All settings of a training run, in one place."""

from collections.abc import Callable, Sequence
from typing import Any

from rein.config import configurable
from rein.runtime.schedules import Scheduler


@configurable
class TrainerConfig:
    """Settings of a training run; what each means is said at the parameter."""

    def __init__(
        self,
        root_dir: str,
        conf_file: str = "",
        ml_type: str = "rl",
        algorithm_ctor: Callable[..., Any] | None = None,
        data_transformer_ctor: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        random_seed: int | None = None,
        num_iterations: int = 1000,
        num_env_steps: int = 0,
        unroll_length: float = 8,
        unroll_with_grad: bool = False,
        async_unroll: bool = False,
        max_unroll_length: int = 0,
        unroll_queue_size: int = 200,
        unroll_step_interval: float = 0,
        unroll_parameter_update_period: int = 10,
        use_rollout_state: bool = False,
        temporally_independent_train_step: bool | None = None,
        num_checkpoints: int = 10,
        confirm_checkpoint_upon_crash: bool = True,
        no_thread_env_for_conf: bool = False,
        evaluate: bool = False,
        num_evals: int | None = None,
        eval_interval: int = 10,
        epsilon_greedy: float = 0.0,
        eval_uncertainty: bool = False,
        num_eval_episodes: int = 10,
        num_eval_environments: int = 1,
        async_eval: bool = True,
        ddp_paras_check_interval: int = 0,
        num_summaries: int | None = None,
        summary_interval: int = 50,
        summarize_first_interval: bool = True,
        update_counter_every_mini_batch: bool = False,
        summaries_flush_secs: int = 1,
        summary_max_queue: int = 10,
        metric_min_buffer_size: int = 10,
        debug_summaries: bool = False,
        profiling: bool = False,
        enable_amp: bool = False,
        code_snapshots: Sequence[str] | None = None,
        summarize_grads_and_vars: bool = False,
        summarize_gradient_noise_scale: bool = False,
        summarize_action_distributions: bool = False,
        summarize_output: bool = False,
        initial_collect_steps: int = 0,
        num_updates_per_train_iter: int = 4,
        mini_batch_length: int | None = None,
        mini_batch_size: int | None = None,
        whole_replay_buffer_training: bool = True,
        replay_buffer_length: int = 1024,
        priority_replay: bool = False,
        priority_replay_alpha: float | Scheduler = 0.7,
        priority_replay_beta: float | Scheduler = 0.4,
        priority_replay_eps: float = 1e-06,
        offline_buffer_dir: str | Sequence[str] | None = None,
        offline_buffer_length: int | None = None,
        rl_train_after_update_steps: int = 0,
        rl_train_every_update_steps: int = 1,
        empty_cache: bool = False,
        normalize_importance_weights_by_max: bool = False,
        clear_replay_buffer: bool = True,
        compile: bool | str = "auto",
        num_threads: int | str = "auto",
        burn_in_steps: int = 0,
    ) -> None:
        """Collects the settings.

        Args:
            root_dir: directory of the run: summaries, checkpoints, reports.
            conf_file: the conf that set this up, for the record.
            ml_type: "rl" or "sl".
            algorithm_ctor: called as `algorithm_ctor(observation_spec=, action_spec=, reward_spec=, env=, config=,
                debug_summaries=)`; returns the root algorithm.
            data_transformer_ctor: constructor(s) called as `ctor(observation_spec)`; those that read the replay buffer
                (hindsight, frame stacking) come first.
            random_seed: seeds torch, numpy, Python and the environments; None draws one.
            num_iterations: iterations to train; ignored if 0.
            num_env_steps: environment steps to train; ignored if 0. With both, no more steps are taken once this many
                were, and the remaining iterations train on the replay buffer.
            unroll_length: steps of each environment per iteration; a fraction alternates between its neighbours.
            unroll_with_grad: whether an off-policy algorithm unrolls with gradients.
            async_unroll: whether rollouts are made in another process, at the same time as training.
            max_unroll_length: longest result of an asynchronous unroll if `unroll_length` is 0.
            unroll_queue_size: results that may wait for the trainer in an asynchronous unroll.
            unroll_step_interval: seconds between environment steps of an asynchronous unroll; 0 is as fast as possible.
            unroll_parameter_update_period: iterations between parameter updates of an asynchronous unroll.
            use_rollout_state: take recurrent states for training from the rollout; zeros otherwise.
            temporally_independent_train_step: call `train_step` once for all steps of a minibatch; None decides by
                whether the algorithm has a recurrent state.
            num_checkpoints: checkpoints to keep.
            confirm_checkpoint_upon_crash: ask before saving a checkpoint when training failed.
            no_thread_env_for_conf: never create an environment in the training process besides the training one.
            evaluate: evaluate while training.
            num_evals: evaluations over the whole training; replaces `eval_interval`.
            eval_interval: iterations between evaluations.
            epsilon_greedy: chance of sampling an action in evaluation instead of taking the mode.
            eval_uncertainty: evaluate uncertainty after supervised training.
            num_eval_episodes: episodes per evaluation.
            num_eval_environments: environments used in evaluation.
            async_eval: evaluate in another process.
            ddp_paras_check_interval: iterations between consistency checks of parameters across processes; 0 is never.
            num_summaries: summaries over the whole training; replaces `summary_interval`.
            summary_interval: iterations between summaries.
            summarize_first_interval: summarize every iteration of the first interval.
            update_counter_every_mini_batch: count minibatches instead of iterations for summaries.
            summaries_flush_secs: seconds between flushes of summaries to disk.
            summary_max_queue: summaries that may wait for a flush.
            metric_min_buffer_size: episodes over which metrics are averaged, at least.
            debug_summaries: write more summaries.
            profiling: profile the training and write the profile to `root_dir`.
            enable_amp: automatic mixed precision.
            code_snapshots: source files, relative to the package, to keep with the summaries.
            summarize_grads_and_vars: summarize gradients and parameters.
            summarize_gradient_noise_scale: summarize the gradient noise scale.
            summarize_action_distributions: summarize action distributions.
            summarize_output: summarize outputs of networks.
            initial_collect_steps: environment steps in the replay buffer before the first update.
            num_updates_per_train_iter: updates per iteration; passes over the data in whole-buffer training.
            mini_batch_length: steps per sampled sequence; None is `unroll_length`.
            mini_batch_size: sequences per minibatch; None is all of them in whole-buffer training.
            whole_replay_buffer_training: train on everything in the buffer instead of sampling from it.
            replay_buffer_length: steps that the replay buffer holds of each environment.
            priority_replay: sample by priority.
            priority_replay_alpha: power of the priority from `LossInfo`.
            priority_replay_beta: the loss is weighted by importance_weight ** -beta.
            priority_replay_eps: added to priorities.
            offline_buffer_dir: saved replay buffer(s) to train on besides the rollout.
            offline_buffer_length: steps to load from each of them; None is all.
            rl_train_after_update_steps: updates on offline data before online training starts.
            rl_train_every_update_steps: updates on offline data per online one.
            empty_cache: free cached device memory after each iteration.
            normalize_importance_weights_by_max: divide importance weights by their largest.
            clear_replay_buffer: empty the buffer after training on all of it.
            compile: compile updates to machine code where the algorithm allows it: faster by a half or more once compiled,
                which takes up to a minute the first time and seconds when the compiler remembers it. Needs a C++ compiler.
                "auto": beside training, once that is likely to pay; True: at the first update; False: never.
            num_threads: threads of one torch operation; "auto" finds the best number by measuring the run itself, unless
                `set_torch_threads` or OMP_NUM_THREADS gives one.
            burn_in_steps: first steps of each sequence of a recurrent algorithm that only bring its states up to date.
        """
        self.root_dir = root_dir
        self.conf_file = conf_file
        self.ml_type = ml_type
        self.algorithm_ctor = algorithm_ctor
        self.data_transformer_ctor = data_transformer_ctor
        self.random_seed = random_seed
        self.num_iterations = num_iterations
        self.num_env_steps = num_env_steps
        self.unroll_length = unroll_length
        self.unroll_with_grad = unroll_with_grad
        self.async_unroll = async_unroll
        self.max_unroll_length = max_unroll_length
        self.unroll_queue_size = unroll_queue_size
        self.unroll_step_interval = unroll_step_interval
        self.unroll_parameter_update_period = unroll_parameter_update_period
        self.use_rollout_state = use_rollout_state
        self.temporally_independent_train_step = temporally_independent_train_step
        self.num_checkpoints = num_checkpoints
        self.confirm_checkpoint_upon_crash = confirm_checkpoint_upon_crash
        self.no_thread_env_for_conf = no_thread_env_for_conf
        self.evaluate = evaluate
        self.num_evals = num_evals
        self.eval_interval = eval_interval
        self.epsilon_greedy = epsilon_greedy
        self.eval_uncertainty = eval_uncertainty
        self.num_eval_episodes = num_eval_episodes
        self.num_eval_environments = num_eval_environments
        self.async_eval = async_eval
        self.ddp_paras_check_interval = ddp_paras_check_interval
        self.num_summaries = num_summaries
        self.summary_interval = summary_interval
        self.summarize_first_interval = summarize_first_interval
        self.update_counter_every_mini_batch = update_counter_every_mini_batch
        self.summaries_flush_secs = summaries_flush_secs
        self.summary_max_queue = summary_max_queue
        self.metric_min_buffer_size = metric_min_buffer_size
        self.debug_summaries = debug_summaries
        self.profiling = profiling
        self.enable_amp = enable_amp
        self.code_snapshots = code_snapshots
        self.summarize_grads_and_vars = summarize_grads_and_vars
        self.summarize_gradient_noise_scale = summarize_gradient_noise_scale
        self.summarize_action_distributions = summarize_action_distributions
        self.summarize_output = summarize_output
        self.initial_collect_steps = initial_collect_steps
        self.num_updates_per_train_iter = num_updates_per_train_iter
        self.mini_batch_length = mini_batch_length
        self.mini_batch_size = mini_batch_size
        self.whole_replay_buffer_training = whole_replay_buffer_training
        self.replay_buffer_length = replay_buffer_length
        self.priority_replay = priority_replay
        self.priority_replay_alpha = priority_replay_alpha
        self.priority_replay_beta = priority_replay_beta
        self.priority_replay_eps = priority_replay_eps
        self.offline_buffer_dir = offline_buffer_dir
        self.offline_buffer_length = offline_buffer_length
        self.rl_train_after_update_steps = rl_train_after_update_steps
        self.rl_train_every_update_steps = rl_train_every_update_steps
        self.empty_cache = empty_cache
        self.compile = compile
        self.num_threads = num_threads
        self.burn_in_steps = burn_in_steps
        self.normalize_importance_weights_by_max = normalize_importance_weights_by_max
        self.clear_replay_buffer = clear_replay_buffer
        self._check()

    @property
    def trains_on_fresh_rollouts(self) -> bool:
        """Whether each iteration trains on all of its own rollout and on nothing else."""
        return self.whole_replay_buffer_training and self.clear_replay_buffer

    def check_batches(self, num_envs: int) -> None:
        """Raises `ValueError` if a rollout of `num_envs` environments cannot be split into the minibatches."""
        if not self.trains_on_fresh_rollouts:
            self._check_replay(num_envs)
            return
        if self.async_unroll:
            return
        steps = int(self.unroll_length)
        length = self.mini_batch_length or steps
        if steps < 1 or steps % length != 0:
            raise ValueError(
                f"unroll_length={self.unroll_length} cannot be cut into sequences of mini_batch_length={length}: make it "
                "a multiple"
            )
        if steps != self.unroll_length and self.mini_batch_length not in (None, 1):
            raise ValueError(
                f"unroll_length={self.unroll_length} gives rollouts of several lengths, which mini_batch_length={length} "
                "does not always divide: make unroll_length an integer, or mini_batch_length 1"
            )
        sequences = num_envs * steps // length
        if self.mini_batch_size is not None and self.mini_batch_size > sequences:
            raise ValueError(
                f"mini_batch_size={self.mini_batch_size} is more than the {sequences} sequences of an iteration "
                f"({num_envs} environments x {steps} steps / mini_batch_length {length}): make it smaller, or unroll more"
            )

    def _check_replay(self, num_envs: int) -> None:
        if self.whole_replay_buffer_training:
            return
        capacity = num_envs * self.replay_buffer_length
        if self.initial_collect_steps > capacity:
            raise ValueError(
                f"initial_collect_steps={self.initial_collect_steps} is more than the {capacity} steps that the replay "
                f"buffer holds ({num_envs} environments x replay_buffer_length {self.replay_buffer_length}), so that "
                "training would never begin: collect less, or hold more"
            )
        if self.mini_batch_length is not None and self.mini_batch_length > self.replay_buffer_length:
            raise ValueError(
                f"mini_batch_length={self.mini_batch_length} is more than replay_buffer_length={self.replay_buffer_length}: "
                "hold more, or train on shorter sequences"
            )

    def _check(self) -> None:
        if self.ml_type not in ("rl", "sl"):
            raise ValueError(f'ml_type is {self.ml_type!r}: give "rl" or "sl"')
        if not self.num_iterations and not self.num_env_steps:
            raise ValueError("num_iterations and num_env_steps are both 0: set one, or training would never end")
        for name in ("num_iterations", "num_env_steps", "initial_collect_steps", "num_checkpoints"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must not be negative")
        positive = ("mini_batch_length", "mini_batch_size", "num_updates_per_train_iter", "replay_buffer_length")
        for name in positive:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be at least 1")
        if self.unroll_length < 0 or (self.unroll_length == 0 and not self.async_unroll):
            raise ValueError(f"unroll_length is {self.unroll_length}: it must be positive")
        if not 0.0 <= self.epsilon_greedy <= 1.0:
            raise ValueError(f"epsilon_greedy is {self.epsilon_greedy}: it must be in [0, 1]")
        if self.compile not in (True, False, "auto"):
            raise ValueError(f'compile is {self.compile!r}: give "auto", True or False')
        if self.num_threads != "auto" and (not isinstance(self.num_threads, int) or self.num_threads < 1):
            raise ValueError(f'num_threads is {self.num_threads!r}: give "auto" or a number from 1')
        self._check_combinations()

    def _check_combinations(self) -> None:
        intervals = ("summary_interval", "eval_interval", "num_eval_episodes", "num_eval_environments")
        for name in (*intervals, "rl_train_every_update_steps", "metric_min_buffer_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.offline_buffer_dir is not None and self.whole_replay_buffer_training:
            raise ValueError(
                "offline_buffer_dir is set, but whole_replay_buffer_training is True: only off-policy algorithms, such as "
                "SAC, learn from data; for one of them set whole_replay_buffer_training=False and clear_replay_buffer=False"
            )
        if self.no_thread_env_for_conf and self.evaluate:
            raise ValueError("no_thread_env_for_conf forbids the environment that evaluate=True needs: set one of them")
        if self.eval_uncertainty and self.ml_type != "sl":
            raise ValueError('eval_uncertainty is True, but ml_type is "rl": it belongs to supervised learning')
