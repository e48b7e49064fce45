"""Parts of agents by name, so that an agent can be composed without code: `--with rnd --with entropy_target=0.5`.

A part is a function that returns arguments of `Agent`. Its parameters are what a user can set, the first one by
`NAME=VALUE`. Those of Rein are in `built_in_parts` and the files `*_parts` beside it; installed packages bring more by entry
points, see `rein.config.installed`. Nothing is imported before its name is asked for.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rein.config.installed import GROUP, InstalledComponent, installed_components
from rein.config.names import did_you_mean

SLOTS = ("representation", "goals", "intrinsic_reward", "entropy_target", "reward_weights", "replay")
"""What parts do in an agent, in the order in which they see a step; those of replay work beside it."""

ALGORITHM = "rl_algorithm_cls"
"""A part with a parameter of this name gets the constructor of the RL algorithm there; users cannot set it."""

_BUILT_IN = {
    "diayn": ("goals, intrinsic_reward", "Skills that can be told apart by where they lead (DIAYN)."),
    "discrete_vae": ("representation", "The code of a variational auto-encoder with categorical variables."),
    "encoding": ("representation", "A network between the observation and everything else."),
    "ensemble_uncertainty": ("intrinsic_reward", "Rewards observations about which an ensemble of networks disagrees."),
    "entropy_target": ("entropy_target", "Keeps the entropy of the policy near a target, in stages."),
    "goal_generator": ("goals", "One of several goals, drawn for each episode, that the policy observes."),
    "hindsight": ("replay", "Replays what was reached as if it had been the goal (hindsight experience replay)."),
    "icm": ("intrinsic_reward", "Rewards consequences of actions that cannot be predicted yet (ICM)."),
    "lagrangian": ("reward_weights", "Weighs several rewards until each reaches its threshold."),
    "lagrangian_pred": ("reward_weights", "The same, by the rewards of evaluations."),
    "monet": ("representation", "The codes of the objects in an image (MoNet)."),
    "predictive": ("representation", "An encoding that learns to predict rewards and observations."),
    "rnd": ("intrinsic_reward", "Rewards observations that were seldom seen (random network distillation)."),
    "sgd_entropy_target": ("entropy_target", "Keeps the entropy of the policy near a target, by gradient descent."),
    "vae": ("representation", "The code of a variational auto-encoder of the observation."),
    "vq_vae": ("representation", "The nearest vectors of a codebook to an encoding of the observation (VQ-VAE)."),
}
_HOME = "rein.agents.built_in_parts"
_OTHER_HOMES = {
    **dict.fromkeys(("discrete_vae", "monet", "vae", "vq_vae"), "rein.agents.representation_parts"),
    "hindsight": "rein.agents.replay_parts",
    "ensemble_uncertainty": "rein.agents.uncertainty_parts",
}


class PartListing(NamedTuple):
    """What is known of a part without importing it."""

    name: str
    slot: str
    summary: str
    """One line; of an installed part, what its entry point says."""
    source: str
    """"rein", or the package that brings it."""


class Parameter(NamedTuple):
    """Something that a user can set."""

    name: str
    annotation: Any
    default: Any
    """`inspect.Parameter.empty` if it must be given."""

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    def __str__(self) -> str:
        return self.name if self.is_required else f"{self.name}={self.default!r}"


class RegisteredPart(NamedTuple):
    """A part that was asked for."""

    name: str
    slot: str
    source: str
    function: Callable[..., dict[str, Any]]

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def parameters(self) -> dict[str, Parameter]:
        """What can be set, by name; `NAME=VALUE` sets the first."""
        signature = inspect.signature(self.function, eval_str=True)
        return {
            name: Parameter(name, one.annotation, one.default)
            for name, one in signature.parameters.items()
            if name != ALGORITHM
        }

    @property
    def needs_algorithm(self) -> bool:
        """Whether its function takes the constructor of the RL algorithm."""
        return ALGORITHM in inspect.signature(self.function).parameters


class PartError(ValueError):
    """A part cannot be had as it was asked for; the message says what to change."""


def list_parts() -> list[PartListing]:
    """All parts, those of Rein first."""
    parts = [PartListing(name, slot, summary, "rein") for name, (slot, summary) in sorted(_BUILT_IN.items())]
    for component in _installed_parts():
        summary = component.entry_point.value
        if component.name in _BUILT_IN:
            summary += " (cannot be used: Rein has a part of that name)"
        parts.append(PartListing(component.name, component.kind, summary, component.package))
    return parts


def find_part(name: str) -> RegisteredPart:
    """The part of that name, imported now.

    Raises:
        PartError: there is none, the message suggests the nearest; or its package cannot be imported.
    """
    if name in _BUILT_IN:
        home = _OTHER_HOMES.get(name, _HOME)
        return RegisteredPart(name, _BUILT_IN[name][0], "rein", getattr(import_module(home), name))
    found = [component for component in _installed_parts() if component.name == name]
    if not found:
        known = [part.name for part in list_parts()]
        hint = " `rein list parts` shows them; an RL algorithm goes with `--algorithm`, not among the parts."
        raise PartError(f"there is no part {name!r}.{did_you_mean(name, known) or hint}")
    if len(found) > 1:
        packages = " and ".join(component.package for component in found)
        raise PartError(f"part {name!r} is brought by {packages}: uninstall one of them")
    return _load(found[0])


def _installed_parts() -> list[InstalledComponent]:
    return [component for component in installed_components() if component.kind != "algorithm"]


def _load(component: InstalledComponent) -> RegisteredPart:
    where = f"part {component.name!r} of {component.package} ({component.entry_point.value})"
    if component.kind not in SLOTS:
        raise PartError(
            f"{where} is named {component.entry_point.name!r} in the entry points {GROUP!r}: the name must be SLOT.NAME "
            f"with a slot out of {', '.join(SLOTS)}; this is a mistake of that package"
        )
    try:
        function = component.entry_point.load()
    except Exception as error:  # whatever the package does wrong
        raise PartError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise PartError(f"{where} is {function!r}, not a function: this is a mistake of that package")
    return RegisteredPart(component.name, component.kind, component.package, function)
