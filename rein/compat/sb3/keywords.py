"""Keywords of Stable-Baselines3's constructors: which we honour, and in which form they are kept."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.runtime.schedules import Scheduler

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "ELU": F.elu,
    "LeakyReLU": F.leaky_relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Sigmoid": torch.sigmoid,
    "Softplus": F.softplus,
    "Mish": F.mish,
    "SELU": F.selu,
    "CELU": F.celu,
    "ReLU6": F.relu6,
    "Softsign": F.softsign,
}
OPTIMIZERS = ("Adam", "AdamW", "RMSprop", "SGD", "NAdam", "RAdam")
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


def refuse(owner: str, keyword: str, value: Any, instead: str = "leave it out") -> None:
    """Raises the one error for a keyword that cannot be honoured."""
    raise ValueError(f"{owner}: {keyword}={value!r} cannot be honoured here: {instead}")


def require_default(owner: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuses keywords that have no counterpart here, unless they have the value that changes nothing.

    Args:
        owner: of the keywords, for the message.
        given: values by keyword.
        defaults: the values that change nothing.
    """
    for keyword, default in defaults.items():
        if given.get(keyword, default) != default:
            refuse(owner, keyword, given[keyword])


class Clock:
    """How far a call of `learn` has come.

    Attributes:
        num_timesteps: steps so far.
        total_timesteps: at which it ends.
    """

    def __init__(self) -> None:
        """Begins at 0 of 1."""
        self.num_timesteps = 0
        self.total_timesteps = 1

    @property
    def remaining(self) -> float:
        """What is left of the training, from 1 to 0."""
        return max(0.0, 1.0 - self.num_timesteps / max(1, self.total_timesteps))


class OfProgress(Scheduler):
    """A number that is a function of what is left of the training, from 1 to 0."""

    def __init__(self, function: Callable[[float], float], clock: Clock) -> None:
        """Keeps both."""
        self.function, self.clock = function, clock

    def __call__(self) -> float:
        """The number now."""
        return float(self.function(self.clock.remaining))

    def final_value(self) -> float:
        """The number at the end of training."""
        return float(self.function(0.0))


class NotSavedError(ValueError):
    """A function that was not saved with a model is needed."""


class NotSaved:
    """Stands for a function that a saved model had: using it raises an error that tells what to do."""

    def __init__(self, keyword: str) -> None:
        """Keeps the name."""
        self.keyword = keyword

    def __call__(self, *arguments: Any) -> Any:
        """Raises."""
        raise NotSavedError(
            f"{self.keyword} was a function when the model was saved, and functions are not saved: to train further, load "
            f'with custom_objects={{"{self.keyword}": ...}}'
        )

    def __repr__(self) -> str:
        return f"NotSaved({self.keyword!r})"


def number(owner: str, keyword: str, value: Any, clock: Clock) -> float | Scheduler:
    """A number or a function of remaining progress, as our settings take it."""
    if callable(value):
        return OfProgress(value, clock)
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(owner, keyword, value, "give a number, or a function of the remaining progress")
    return float(value)


class PolicyOptions:
    """What `policy` and `policy_kwargs` say.

    Attributes:
        kind: "MlpPolicy", "CnnPolicy" or "MultiInputPolicy".
        actor: sizes of the hidden layers of the actor.
        critic: of the critics, or of the value.
        activation: of the hidden layers.
    """

    _KNOWN = (
        "net_arch", "activation_fn", "ortho_init", "log_std_init", "optimizer_class", "optimizer_kwargs", "n_critics",
        "normalize_images", "share_features_extractor", "features_extractor_class", "features_extractor_kwargs",
    )  # fmt: skip

    def __init__(
        self,
        owner: str,
        policy: Any,
        given: Mapping[str, Any] | None,
        layers: tuple[int, ...],
        activation: str,
        critic: str,
    ) -> None:
        """Reads both.

        Args:
            owner: of the keywords.
            policy: as given.
            given: `policy_kwargs` as given.
            layers: hidden layers unless `net_arch` is given.
            activation: of them unless `activation_fn` is given.
            critic: what `net_arch` calls the critic, "vf" or "qf".
        """
        given = dict(given or {})
        self.kind = policy if isinstance(policy, str) else getattr(policy, "__name__", repr(policy))
        if not isinstance(policy, str) or policy not in POLICIES:
            refuse(owner, "policy", self.kind, f"give one of {', '.join(POLICIES)}, and net_arch in policy_kwargs")
        for keyword in given:
            if keyword not in self._KNOWN:
                refuse(f"{owner}, policy_kwargs", keyword, given[keyword])
        require_default(f"{owner}, policy_kwargs", given, {"normalize_images": True})
        if given.get("share_features_extractor") and self.kind != "MlpPolicy":
            refuse(
                f"{owner}, policy_kwargs",
                "share_features_extractor",
                True,
                "actor and critic have encoders of their own",
            )
        self.extractor = given.get("features_extractor_class")
        self.extractor_kwargs = dict(given.get("features_extractor_kwargs") or {})
        if isinstance(self.extractor, str):
            raise NotSavedError(
                f"features_extractor_class was {self.extractor} when the model was saved, and classes are not saved: load "
                'with custom_objects={"policy_kwargs": ...}'
            )
        if self.extractor is not None and critic == "qf" and owner != "DQN":
            refuse(f"{owner}, policy_kwargs", "features_extractor_class", self.extractor.__name__)
        sizes = given.get("net_arch")
        if sizes is None:
            sizes = [] if self.kind == "CnnPolicy" and self.extractor is None else layers
        if isinstance(sizes, Mapping):
            unknown = sorted(set(sizes) - {"pi", critic})
            if unknown:
                refuse(f"{owner}, policy_kwargs", "net_arch", dict(sizes), f'give "pi" and "{critic}"')
            self.actor, self.critic = tuple(sizes.get("pi", ())), tuple(sizes.get(critic, ()))
        else:
            if any(not isinstance(size, int) for size in sizes):
                refuse(f"{owner}, policy_kwargs", "net_arch", sizes, f"write dict(pi=[...], {critic}=[...])")
            self.actor = self.critic = tuple(sizes)
        self.activation = _activation(owner, given.get("activation_fn", activation))
        self.ortho_init = bool(given.get("ortho_init", True))
        self.log_std_init = float(given.get("log_std_init", 0.0))
        self.num_critics = int(given.get("n_critics", 2))
        optimizer = given.get("optimizer_class", "Adam")
        self.optimizer = optimizer if isinstance(optimizer, str) else optimizer.__name__
        if self.optimizer not in OPTIMIZERS:
            refuse(f"{owner}, policy_kwargs", "optimizer_class", self.optimizer, f"give one of {', '.join(OPTIMIZERS)}")
        self.names_optimizer = "optimizer_class" in given
        self.optimizer_kwargs = dict(given.get("optimizer_kwargs") or {})


def _activation(owner: str, given: Any) -> Activation:
    name = given if isinstance(given, str) else getattr(given, "__name__", repr(given))
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    if isinstance(given, type) and issubclass(given, nn.Module):
        layer = given()
        if not list(layer.parameters()):
            return layer
    refuse(
        f"{owner}, policy_kwargs", "activation_fn", name, f"give a class of torch.nn such as {', '.join(ACTIVATIONS)}"
    )
    raise AssertionError("unreachable")


def plain_policy_kwargs(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """`policy_kwargs` with classes by their names, for JSON."""
    if given is None:
        return None
    return {key: value.__name__ if isinstance(value, type) else value for key, value in given.items()}
