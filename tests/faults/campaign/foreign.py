"""Worlds and run directories that come from elsewhere."""

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.faults.campaign.processes import start, train_arguments
from tests.faults.campaign.rows import Found


def mutate_worlds(number: int, work: Path, chance: random.Random) -> Found:
    """Worlds that are wrong in one way each; each must be named with its path and what to do, in one line."""
    from tests.faults.test_mutations import check_named

    failed = 0
    for seed in range(number):
        try:
            check_named(seed)
        except AssertionError:
            failed += 1
    return Found(number, failed)


def spoil_returns(number: int, work: Path, chance: random.Random) -> Found:
    """Lets worlds return something that they must not; each must be named with world, step and field."""
    import torch

    from rein.envs import create_environment
    from rein.envs.faults import EnvironmentFaultError
    from tests.faults.test_bad_returns import BAD, Faulty

    failed = 0
    for index in range(number):
        field, value = BAD[index % len(BAD)]
        env = create_environment(lambda f=field, v=value: Faulty(f, v), 2, backend="sync", strict=True, seed=index)
        with env:
            try:
                env.reset()
                for _ in range(3):
                    env.step(torch.zeros(2, dtype=torch.int64))
                failed += 1
            except EnvironmentFaultError as error:
                named = "returned" if field == "all" else field
                failed += not (error.fault.step == 3 and error.fault.env_id == 0 and named in str(error))
    return Found(number, failed)


def open_hostile_runs(number: int, work: Path, chance: random.Random) -> Found:
    """Opens run directories whose confs, values and overrides try to run code; nothing may be run."""
    run, marker = work / "run", work / "executed"
    begun = start(train_arguments("ppo", run, "TrainerConfig.num_env_steps=32"))
    assert begun.wait(120) == 0
    (work / "evil_module.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    sys.path.insert(0, str(work))
    failed = 0
    try:
        for index in range(number):
            copy = Path(shutil.copytree(run, work / f"copy-{index}"))
            _make_hostile(copy, marker, chance)
            failed += _opens_and_executes(copy, marker)
            shutil.rmtree(copy)
    finally:
        sys.path.remove(str(work))
    return Found(number, failed)


def _make_hostile(run: Path, marker: Path, chance: random.Random) -> None:
    touch = f"open({str(marker)!r}, 'w').close()"
    for conf in (run / "config/conf").rglob("*.py"):
        conf.write_text(f"{touch}\n{conf.read_text()}")
    (run / "config/operative.py").write_text(touch)
    values = json.loads((run / "config/values.json").read_text())
    hostile: list[Any] = [
        {"$name": "os:system"},
        {"$partial": "os:system", "args": [f"touch {marker}"], "keywords": {}},
        {"$partial": "builtins:exec", "args": [touch], "keywords": {}},
        {"$call": "subprocess:Popen", "args": [["touch", str(marker)]], "keywords": {}, "number": 0},
        {"$partial": "runpy:run_module", "args": ["evil_module"], "keywords": {}},
        {"$partial": "importlib:import_module", "args": ["evil_module"], "keywords": {}},
        {"$name": "evil_module:Thing"},
        {
            "$partial": "rein.config.conf_files:load_config",
            "args": [str(marker.parent / "evil_module.py")],
            "keywords": {},
        },
        {"$partial": "torch.hub:load", "args": ["x"], "keywords": {}},
        "evil_module:World-v0",
    ]
    kind = chance.randrange(4)
    if kind == 0:
        (run / "config/values.json").unlink()
    elif kind == 1:
        index = json.loads((run / "config/overrides.json").read_text())
        index["overrides"]["create_environment.env_name"] = "'evil_module:CartPole-v1'"
        (run / "config/overrides.json").write_text(json.dumps(index))
    else:
        name = chance.choice(sorted(values["settings"]))
        values["settings"][name]["value"] = chance.choice(hostile)
        (run / "config/values.json").write_text(json.dumps(values))


def _opens_and_executes(run: Path, marker: Path) -> bool:
    import rein

    try:
        rein.load(run).close()
    except Exception as error:
        del error  # Refused, or no use: either is fine, as long as nothing was run.
    is_hit = marker.exists() or "evil_module" in sys.modules
    marker.unlink(missing_ok=True)
    return is_hit
