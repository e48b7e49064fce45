"""Where the names of ALF's modules live here."""

_ALGORITHMS = (
    "rein.compat.alf.functions",
    "rein.algorithms.on_policy",
    "rein.algorithms.off_policy",
    "rein.algorithms.offline",
    "rein.algorithms.model_based",
    "rein.algorithms.search",
    "rein.algorithms.representation",
    "rein.algorithms.exploration",
    "rein.algorithms.regularization",
    "rein.algorithms.particle_vi",
    "rein.algorithms.losses",
    "rein.agents",
    "rein.framework",
    "rein.transforms",
    "rein.replay",
)
_LAYERS = ("rein.networks.layers", "rein.networks.layers.initializers", "rein.networks")
_UTILS = (
    "rein.compat.alf.functions",
    "rein.compat.alf.datagen",
    "rein.ops",
    "rein.runtime",
    "rein.runtime.schedules",
    "rein.runtime.summary",
    "rein.distributions",
    "rein.statistics",
    "rein.specs",
    "rein.optimizers",
    "rein.config",
    "rein.framework.updating.update_summaries",
    "rein.compat.alf.distributed",
    "rein.algorithms.search",
    "rein.algorithms.search.scalar_losses",
    "rein.algorithms.search.representation_losses",
    "rein.algorithms.model_based",
    "rein.networks.layers",
)
HOMES: dict[str, tuple[str, ...]] = {
    "alf": ("rein.compat.alf.functions", "rein", "rein.compat.alf.top"),
    "alf.algorithms": _ALGORITHMS,
    "alf.bin": (),
    "alf.config_helpers": ("rein", "rein.config"),
    "alf.config_util": ("rein.config",),
    "alf.data_structures": ("rein.data_structures",),
    "alf.device_ctx": ("rein.runtime",),
    "alf.environments": ("rein.envs", "rein.envs.loaders", "rein.envs.wrappers"),
    "alf.examples": (),
    "alf.experience_replayers": ("rein.replay",),
    "alf.initializers": ("rein.networks.layers.initializers", "rein.networks.layers"),
    "alf.layers": _LAYERS,
    "alf.math": ("rein.compat.alf.functions", "rein.ops", "rein.algorithms.search"),
    "alf.metrics": ("rein.envs.metrics",),
    "alf.module": ("torch.nn",),
    "alf.nest": ("rein.nest", "rein.networks.layers"),
    "alf.networks": ("rein.networks", "rein.networks.layers"),
    "alf.nn": ("rein.networks", "rein.networks.layers"),
    "alf.optimizers": ("rein.optimizers",),
    "alf.pretrained": (),
    "alf.summary": ("rein.runtime.summary",),
    "alf.tensor_specs": ("rein.specs",),
    "alf.trainers": ("rein.framework", "rein.training.trainer", "rein.training"),
    "alf.utils": _UTILS,
}
"""Packages to look a name up in, by the ALF module, or by the one above it."""

REAL = {
    "alf.environments.suite_gym": "rein.envs.loaders.suite_gym",
    "alf.environments.suite_dmc": "rein.envs.loaders.suite_dmc",
    "alf.environments.suite_robotics": "rein.envs.loaders.suite_robotics",
    "alf.nest": "rein.nest",
    "alf.summary": "rein.runtime.summary",
}
"""Modules of ours that are the counterpart of one, with its functions."""

NOT_TO_BE_HAD = {
    "carla": "CARLA",
    "metadrive": "MetaDrive",
    "suite_highway": "Highway",
    "suite_mario": "Super Mario",
    "suite_socialbot": "SocialBot",
    "suite_unittest": "the worlds of ALF's own tests",
    "suite_procgen": "Procgen",
    "suite_safety_gym": "Safety Gym",
    "suite_babyai": "BabyAI",
    "suite_simple": "the simple suite",
    "suite_dmlab": "DeepMind Lab",
    "suite_go": "Go",
}
"""Worlds by what stands in the names of their modules: for want of the worlds there is nothing to give."""


def missing_world(module: str) -> str | None:
    """The world that an ALF module is about, if it is not to be had here."""
    found = (world for part, world in NOT_TO_BE_HAD.items() if part in module.rpartition("alf.environments.")[2])
    return next(found, None) if module.startswith("alf.environments.") else None


def homes_of(module: str) -> tuple[str, ...] | None:
    """Packages to look the names of an ALF module up in, those of the nearest one above it that is known; None without."""
    while module not in HOMES and module.count(".") > 1:
        module = module.rpartition(".")[0]
    return HOMES.get(module)
