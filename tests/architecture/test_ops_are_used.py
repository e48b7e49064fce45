"""What is in `rein.ops` is there because something uses it."""

import re
from pathlib import Path

import pytest

import rein
from rein import ops

ROOT = Path(rein.__file__).parent
# Written before those who will use them.
AWAITED = {
    "VTraceOutput": "asynchronous on-policy training",
    "vtrace": "asynchronous on-policy training",
    "effective_sample_size": "asynchronous on-policy training",
    "self_normalized_weights": "asynchronous on-policy training",
    "prioritized_replay_weights": "the update from a prioritized buffer",
    "lambda_return": "returns of imagined transitions",
    "trajectory_n_step_return": "targets of searched values",
    "min_max_normalize": "tree search",
    "puct_exploration_weight": "tree search",
    "integer_bins": "tree search",
    "puct_score": "tree search",
    "gfsf_direction": "particle methods",
    "rbf_kernel": "particle methods",
    "svgd_direction": "particle methods",
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
    home = str(Path(*getattr(ops, name).__module__.split(".")[1:]).with_suffix(".py"))
    users = [path for path, found in words.items() if name in found and path != home]
    inside = (ROOT / home).read_text(encoding="utf-8")
    is_used_at_home = len(re.findall(rf"\b{name}\(", inside)) > 1  # beside its definition
    assert users or is_used_at_home or name in AWAITED, f"nothing uses rein.ops.{name}: use it, or take it out"
