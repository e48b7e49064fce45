"""What a saved model says about itself: its keywords, spaces and counts as JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rein.compat.sb3 import archive
from rein.compat.sb3.keywords import NotSaved, plain_policy_kwargs
from rein.compat.sb3.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

_NOISES: dict[str, Any] = {
    "NormalActionNoise": NormalActionNoise,
    "OrnsteinUhlenbeckActionNoise": OrnsteinUhlenbeckActionNoise,
}


def facts_of(model: Any, keywords: Mapping[str, Any], given_space: Any, exclude: set[str]) -> dict[str, Any]:
    """The facts to save.

    Args:
        model: with its networks.
        keywords: of its constructor.
        given_space: of observations as scripts give them.
        exclude: keywords to leave out.
    """
    kept = {key: value for key, value in keywords.items() if key not in exclude}
    functions = [key for key, value in kept.items() if callable(value) and key != "action_noise"]
    plain = {
        key: value for key, value in kept.items() if key not in (*functions, "action_noise", "policy_kwargs", "device")
    }
    return {
        "class": type(model).__name__,
        "policy": model.policy_name,
        "keywords": plain,
        "policy_kwargs": plain_policy_kwargs(model.policy_kwargs),
        "functions": functions,
        "action_noise": _plain_noise(kept.get("action_noise")),
        "observation_space": archive.space_to_json(model.observation_space),
        "action_space": archive.space_to_json(model.action_space),
        "given_space": archive.space_to_json(given_space),
        "num_envs": model.n_envs,
        "num_timesteps": model.num_timesteps,
    }


def keywords_of(facts: Mapping[str, Any], known: set[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords for the constructor, but for `policy` and `env`.

    Args:
        facts: what `facts_of` gave.
        known: keywords of the constructor.
        changes: values that replace saved ones; what the constructor does not know is left out, as scripts give
            `lr_schedule` and the like, too.
    """
    keywords = {
        **{key: value for key, value in facts["keywords"].items() if key in known},
        "policy_kwargs": facts["policy_kwargs"],
        **{key: NotSaved(key) for key in facts["functions"]},
    }
    if "action_noise" in known:
        keywords["action_noise"] = _noise(facts["action_noise"])
    return {**keywords, **{key: value for key, value in changes.items() if key in known}}


def _plain_noise(noise: Any) -> Any:
    if noise is None:
        return None
    values = {name: getattr(noise, name) for name in ("mean", "sigma", "theta", "dt") if hasattr(noise, name)}
    return {"class": type(noise).__name__, **{name: np.asarray(value).tolist() for name, value in values.items()}}


def _noise(plain: Any) -> Any:
    if plain is None:
        return None
    arguments = {name: np.asarray(value) if name in ("mean", "sigma") else value for name, value in plain.items()}
    return _NOISES[plain["class"]](**{name: value for name, value in arguments.items() if name != "class"})
