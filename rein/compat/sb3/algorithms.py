"""The six models, with the keywords and defaults of Stable-Baselines3."""

from collections.abc import Callable
from typing import Any

from rein.compat.sb3 import settings
from rein.compat.sb3.keywords import refuse
from rein.compat.sb3.noise import ActionNoise
from rein.compat.sb3.saved_model import BaseAlgorithm

Schedule = float | Callable[[float], float]
Options = dict[str, Any] | None


class OnPolicyAlgorithm(BaseAlgorithm):
    """A model that learns from what it has just collected."""

    is_on_policy = True
    reports_every = 1
    n_steps: int

    @property
    def steps_per_rollout(self) -> int:
        """See `TrainedModel`."""
        return self.n_steps


class OffPolicyAlgorithm(BaseAlgorithm):
    """A model that learns from a replay buffer."""

    is_on_policy = False
    reports_every = 4
    train_freq: int | tuple[int, str]
    gradient_steps: int

    @property
    def steps_per_rollout(self) -> int:
        """See `TrainedModel`."""
        number, unit = self.train_freq if isinstance(self.train_freq, tuple | list) else (self.train_freq, "step")
        if unit != "step":
            refuse(type(self).__name__, "train_freq", self.train_freq, 'give a number of steps, such as (100, "step")')
        return int(number)

    @property
    def updates_per_rollout(self) -> int:
        """See `TrainedModel`."""
        return self.steps_per_rollout * self.n_envs if self.gradient_steps < 0 else self.gradient_steps


class PPO(OnPolicyAlgorithm):
    """Proximal policy optimization (Schulman et al. 2017)."""

    settings_of = staticmethod(settings.ppo_settings)

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: Schedule = 0.2,
        clip_range_vf: Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: Any = None,
        rollout_buffer_kwargs: Options = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())


class A2C(OnPolicyAlgorithm):
    """Advantage actor-critic (Mnih et al. 2016)."""

    settings_of = staticmethod(settings.a2c_settings)
    reports_every = 100

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 7e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: Any = None,
        rollout_buffer_kwargs: Options = None,
        normalize_advantage: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())


class DQN(OffPolicyAlgorithm):
    """Deep Q-learning (Mnih et al. 2013)."""

    settings_of = staticmethod(settings.dqn_settings)
    exploration_initial_eps: float
    exploration_final_eps: float
    exploration_fraction: float

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Options = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float = 10,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())

    def exploration_schedule(self, remaining: float) -> float:
        """The chance of a random action, by what is left of the training, from 1 to 0."""
        done = min(1.0, (1.0 - remaining) / max(self.exploration_fraction, 1e-12))
        return self.exploration_initial_eps + done * (self.exploration_final_eps - self.exploration_initial_eps)

    @property
    def exploration_rate(self) -> float:
        """The chance of a random action now."""
        return self.exploration_schedule(self.clock.remaining)

    def _sampled_share(self) -> float:
        return self.exploration_rate


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic (Haarnoja et al. 2018)."""

    settings_of = staticmethod(settings.sac_settings)

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 3e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Options = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: str | float = "auto",
        target_update_interval: int = 1,
        target_entropy: str | float = "auto",
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())


class TD3(OffPolicyAlgorithm):
    """Twin delayed DDPG (Fujimoto et al. 2018)."""

    settings_of = staticmethod(settings.td3_settings)

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-3,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Options = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())

    def _sampled_share(self) -> float:
        return 0.0


class DDPG(OffPolicyAlgorithm):
    """Deep deterministic policy gradient (Lillicrap et al. 2016)."""

    settings_of = staticmethod(settings.ddpg_settings)

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-3,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Options = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        tensorboard_log: str | None = None,
        policy_kwargs: Options = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        """See `docs/from_sb3.md` for what each keyword becomes; those that cannot be honoured are refused."""
        super().__init__(locals())

    def _sampled_share(self) -> float:
        return 0.0
