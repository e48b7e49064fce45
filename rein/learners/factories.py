"""What the documented `create_factory` of every learner returns, and the settings that all of them share."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

NO_ADDONS: list[Any] = []
"""The documented default of `policy_loss_addons`; never written to."""

_SHARED = (
    "gamma",
    "polyak",
    "num_updates",
    "update_every",
    "test_every",
    "max_grad_norm",
    "start_steps",
    "mini_batch_size",
    "num_test_episodes",
    "target_update_interval",
    "policy_loss_addons",
)


@dataclasses.dataclass(frozen=True, eq=False)
class LearnerFactory:
    """Makes a learner where it is needed; can be sent to another process, and kept in a run's configuration."""

    kind: Callable[..., Any]
    """Of the learner."""
    settings: Mapping[str, Any]
    """Arguments of its constructor."""

    def __call__(self, device: torch.device | str, actor: Any, envs: Any) -> Any:
        """A learner of `actor`."""
        return self.kind(device, envs, actor, **self.settings)


def factory(kind: type, settings: Mapping[str, Any]) -> tuple[Callable[..., Any], str]:
    """What `create_factory` returns, from its `locals()`."""
    return LearnerFactory(kind, {name: value for name, value in settings.items() if name != "cls"}), kind.__name__


def shared(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a constructor's `locals()` that all learners have."""
    return {name: settings[name] for name in _SHARED}
