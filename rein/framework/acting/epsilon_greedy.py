"""Settings that algorithms share for acting in evaluation."""

from rein.config import get_config_value
from rein.framework.trainer_config import TrainerConfig


def default_epsilon_greedy(epsilon_greedy: float | None, config: TrainerConfig | None) -> float:
    """The chance of sampling in evaluation: as given, else from `config`, else as configured for the run."""
    if epsilon_greedy is None:
        epsilon_greedy = (
            config.epsilon_greedy if config is not None else get_config_value("TrainerConfig.epsilon_greedy")
        )
    if not 0.0 <= epsilon_greedy <= 1.0:
        raise ValueError(f"epsilon_greedy is {epsilon_greedy}: it must be in [0, 1]")
    return float(epsilon_greedy)
