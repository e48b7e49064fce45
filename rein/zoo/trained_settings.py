"""The settings that decide what a conf trains: what a record of it rests on.

They are all values in force after the conf has run, defaults included, wherever in files they were given. What only
watches a training (summaries, evaluations, checkpoints, directories) is not among them, nor is the seed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rein.config import fresh_configs
from rein.config.in_force import ValueInForce, values_in_force
from rein.config.names import REQUIRED
from rein.config.value_text import value_text
from rein.training.launch import configure

_ROOTS = ("TrainerConfig", "create_environment")
_WATCHING = {
    "TrainerConfig": {
        "root_dir",
        "conf_file",
        "random_seed",
        "num_checkpoints",
        "confirm_checkpoint_upon_crash",
        "no_thread_env_for_conf",
        "evaluate",
        "num_evals",
        "eval_interval",
        "epsilon_greedy",
        "eval_uncertainty",
        "num_eval_episodes",
        "num_eval_environments",
        "async_eval",
        "ddp_paras_check_interval",
        "num_summaries",
        "summary_interval",
        "summaries_flush_secs",
        "summary_max_queue",
        "metric_min_buffer_size",
        "profiling",
        "code_snapshots",
        "empty_cache",
        "num_threads",
    },
    "create_environment": {
        "seed",
        "num_workers",
        "start_method",
        "start_serially",
        "strict",
        "max_restarts",
        "step_timeout",
        "start_timeout",
        "num_slots",
        # They follow from the algorithm.
        "action_form",
        "action_masks",
    },
}
_LABELS = ("name", "debug_summaries")
_ROUNDING = ("TrainerConfig.compile", "UpdateSettings.compile")
"""They change how numbers are rounded, and nothing else."""


class TrainedSettings(NamedTuple):
    """Settings by short name, such as "PPOLoss.gamma", with their values as texts."""

    chosen: dict[str, str]
    """Those that differ from their defaults."""
    defaults: dict[str, str]
    """Those that do not, whether given or not."""

    @property
    def hash(self) -> str:
        """A short text that is another one if any of them is."""
        return hashlib.sha256(json.dumps([self.chosen, self.defaults], sort_keys=True).encode()).hexdigest()[:16]

    def changes_to(self, other: "TrainedSettings") -> list[str]:
        """Names of the settings that have another value in `other`.

        A parameter that only one of the two knows, and that has its default there, is no change: it came or went with
        the code, and the conf says nothing of it.
        """
        mine, others = {**self.defaults, **self.chosen}, {**other.defaults, **other.chosen}
        different = {name for name in mine.keys() & others.keys() if mine[name] != others[name]}
        alone = (self.chosen.keys() - others.keys()) | (other.chosen.keys() - mine.keys())
        return sorted((different | alone) - set(_ROUNDING))


def trained_settings(conf: Path) -> TrainedSettings:
    """The settings of a conf, which is run; nothing is built."""
    chosen: dict[str, str] = {}
    defaults: dict[str, str] = {}
    with fresh_configs():
        configure(conf)
        values = [one for one in values_in_force(_ROOTS) if not _is_watching(one)]
        names = _short_names(values)
        for one in values:
            text = value_text(one.value)
            is_default = one.default is not REQUIRED and text == value_text(one.default)
            (defaults if is_default else chosen)[names[one.owner.name] + "." + one.parameter] = text
    return TrainedSettings(chosen, defaults)


def _is_watching(one: ValueInForce) -> bool:
    return (
        one.parameter in _LABELS
        or one.parameter.startswith("summarize_")
        or one.parameter in _WATCHING.get(one.owner.path[-1], ())
    )


def _short_names(values: list[ValueInForce]) -> Mapping[str, str]:
    """Names of owners without their modules, so that code may move; in full where two are alike."""
    full = {one.owner.name: one.owner.path[-1] for one in values}
    short = list(full.values())
    return {name: last if short.count(last) == 1 else name for name, last in full.items()}
