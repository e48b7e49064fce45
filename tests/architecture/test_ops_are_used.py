"""What is in `rein.ops` is there because something uses it."""

import re
from pathlib import Path

import pytest

import rein
from rein import ops

ROOT = Path(rein.__file__).parent
# Written before those who will use them: ops by name, or all of a module.
AWAITED = {
    "vtrace": "asynchronous on-policy training",
    "VTraceOutput": "asynchronous on-policy training",
    "effective_sample_size": "asynchronous on-policy training",
    "self_normalized_weights": "asynchronous on-policy training",
    "prioritized_replay_weights": "the update from a prioritized buffer",
    "lambda_return": "returns of imagined transitions",
    "trajectory_n_step_return": "targets of searched values",
    "rein.ops.bins": "tree search",
    "rein.ops.puct": "tree search",
    "rein.ops.kernels": "particle methods",
    "rein.ops.particles": "particle methods",
    "gaussian_mutual_information": "the exact value that estimators are tested against",
}


@pytest.fixture(scope="module")
def words() -> dict[str, set[str]]:
    """The words of every module of Rein, by path."""
    return {
        str(path.relative_to(ROOT)): set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        for path in ROOT.rglob("*.py")
        if path != ROOT / "ops" / "__init__.py"
    }


@pytest.mark.parametrize("name", sorted(ops.__all__))
def test_an_op_is_used(name: str, words: dict[str, set[str]]) -> None:
    module = getattr(ops, name).__module__
    home = str(Path(*module.split(".")[1:]).with_suffix(".py"))
    users = [path for path, found in words.items() if name in found and path != home]
    inside = (ROOT / home).read_text(encoding="utf-8")
    is_used_at_home = len(re.findall(rf"\b{name}\(", inside)) > 1  # beside its definition
    is_awaited = bool(AWAITED.keys() & {name, module})
    assert users or is_used_at_home or is_awaited, f"nothing uses rein.ops.{name}: use it, or take it out"
