"""Shows what is in a data set, joins several, and exchanges them with Minari.

  show FILE             episodes, lengths, returns, specs, sources and checksums; all of it is read and checked
  join FILE FILE ...    one file with the episodes of all, at --out
  make NAME             what an entry of the zoo learns from, trained and recorded anew, at --out
  from-minari ID        a Minari dataset on this machine as a file, at --out
  to-minari FILE ID     a file as a Minari dataset

Example:
  rein data show expert.data
  rein data join random.data half_trained.data expert.data --out mixed.data
  rein data make bc_pendulum --out expert.data
  rein data from-minari mujoco/hopper/expert-v0 --out hopper.data
  rein data to-minari expert.data pendulum/expert-v0
"""

import argparse
from typing import Any

from rein.cli.command import BadInputError, Outcome, Session

_COUNTS = {"show": (1, 1), "join": (1, None), "make": (1, 1), "from-minari": (1, 1), "to-minari": (2, 2)}
_WRITING = ("join", "make", "from-minari")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("action", choices=_COUNTS, help="what to do")
    parser.add_argument("names", nargs="*", metavar="FILE | ID", help="data sets, and the id of a Minari dataset")
    parser.add_argument("--out", metavar="FILE", help="the file to write, for join, make and from-minari")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    parser.add_argument(
        "--directory", metavar="DIR", help="where Minari datasets are (default: where Minari keeps them)"
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Shows, joins or exchanges."""
    low, high = _COUNTS[arguments.action]
    if len(arguments.names) < low or (high is not None and len(arguments.names) > high):
        wanted = f"{low}" if high == low else f"at least {low}"
        raise BadInputError(f"rein data {arguments.action} takes {wanted} name(s), not {len(arguments.names)}")
    if (arguments.out is None) is (arguments.action in _WRITING):
        what = "needs" if arguments.out is None else "does not take"
        raise BadInputError(f"rein data {arguments.action} {what} --out FILE")
    return _ACTIONS[arguments.action](arguments, session)


def _show(arguments: argparse.Namespace, session: Session) -> Outcome:
    from rein.replay.datasets import DataSet

    data_set = DataSet.open(arguments.names[0])
    data_set.verify()
    return _describe(data_set)


def _join(arguments: argparse.Namespace, session: Session) -> Outcome:
    from rein.replay.datasets import DataSet, join_data_sets

    return _describe(DataSet.open(join_data_sets(arguments.names, arguments.out, arguments.overwrite)))


def _make(arguments: argparse.Namespace, session: Session) -> Outcome:
    import shutil
    from pathlib import Path

    from rein.replay.datasets import DataSet
    from rein.zoo import find_task
    from rein.zoo.recordings import make_recordings

    if Path(arguments.out).exists() and not arguments.overwrite:
        raise BadInputError(f"{arguments.out} exists: give another name, or --overwrite")
    entry = find_task(arguments.names[0])
    path = make_recordings(entry, Path("runs/recordings"), lambda text: print(text, file=session.stream, flush=True))
    shutil.copyfile(path, arguments.out)
    return _describe(DataSet.open(arguments.out))


def _from_minari(arguments: argparse.Namespace, session: Session) -> Outcome:
    from rein.replay.datasets import DataSet
    from rein.replay.minari import minari_to_data_set

    path = minari_to_data_set(arguments.names[0], arguments.out, arguments.directory, arguments.overwrite)
    return _describe(DataSet.open(path))


def _to_minari(arguments: argparse.Namespace, session: Session) -> Outcome:
    from rein.replay.datasets import DataSet
    from rein.replay.minari import data_set_to_minari

    file, dataset_id = arguments.names
    data_set_to_minari(DataSet.open(file), dataset_id, arguments.directory)
    return Outcome({"dataset": dataset_id}, f"written: Minari dataset {dataset_id}")


def _describe(data_set: Any) -> Outcome:
    facts = data_set.describe()
    returns, lengths = facts["returns"], facts["lengths"]
    lines = [
        f"{facts['path']}: {facts['episodes']:,} episodes, {facts['transitions']:,} transitions, "
        f"{facts['bytes'] / 2**20:,.1f} MB",
        f"returns: mean {returns['mean']:.2f}, deviation {returns['std']:.2f}, from {returns['min']:.2f} to "
        f"{returns['max']:.2f}",
        f"lengths: mean {lengths['mean']:.0f}, from {lengths['min']} to {lengths['max']}",
        "sources:",
        *(
            "  " + ", ".join(f"{key} {_short(one[key])}" for key in one if one[key] is not None)
            for one in facts["sources"]
        ),
        "columns, with the beginning of their SHA-256 and what a row is:",
    ]
    width = max(map(len, facts["checksums"]))
    for name, digest in facts["checksums"].items():
        lines.append(f"  {name:<{width}}  {digest[:16]}  {facts['specs'].get(name, '')}".rstrip())
    return Outcome(facts, "\n".join(lines))


def _short(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


_ACTIONS = {"show": _show, "join": _join, "make": _make, "from-minari": _from_minari, "to-minari": _to_minari}
