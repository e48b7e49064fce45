"""Suffix lookup against a naive search through all names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rein.config.errors import AmbiguousNameError, UnknownNameError
from rein.config.names import Configurable, NameTable, nearest

PARTS = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(tuple)
PARAMETERS = st.sets(st.sampled_from(["x", "y", "a"]))


def _function():
    return None


def _table(entries):
    table = NameTable()
    for path, parameters in entries.items():
        table.add(Configurable(path, _function, dict.fromkeys(sorted(parameters), 0)))
    return table


def _naive(full_names, name):
    """Full names that end with `name` at a dot; an owner named in full wins."""
    matches = {full for full in full_names if full == name or full.endswith("." + name)}
    return {name} if name in matches else matches


@given(st.dictionaries(PATHS, PARAMETERS, max_size=8), PATHS, st.sampled_from(["x", "y", "a", "z"]))
def test_value_lookup_agrees_with_a_naive_search(entries, owner, parameter):
    table = _table(entries)
    full_names = [".".join((*path, one)) for path, parameters in entries.items() for one in parameters]
    name = ".".join((*owner, parameter))
    expected = _naive(full_names, name)
    if owner in entries:
        expected &= {name}
    found = {one.full_name(which) for one, which in table.find_values(name)}
    assert found == expected
    if len(expected) == 1:
        one, which = table.get_value(name)
        assert {one.full_name(which)} == expected
    else:
        with pytest.raises(AmbiguousNameError if expected else UnknownNameError):
            table.get_value(name)


@given(st.dictionaries(PATHS, PARAMETERS, min_size=1, max_size=8), st.sampled_from(["x", "y", "a", "z"]))
def test_lookup_by_parameter_alone(entries, parameter):
    table = _table(entries)
    expected = {".".join((*path, parameter)) for path, parameters in entries.items() if parameter in parameters}
    assert {one.full_name(which) for one, which in table.find_values(parameter)} == expected


@given(st.dictionaries(PATHS, PARAMETERS, min_size=1, max_size=8))
def test_short_names_lead_back_and_cannot_be_shortened(entries):
    table = _table(entries)
    for one in table:
        short = table.short_name(one)
        assert table.get_configurable(short) is one
        shorter = short.partition(".")[2]
        if shorter:
            assert table.find_configurables(shorter) != [one]


@given(st.dictionaries(PATHS, PARAMETERS, max_size=6), st.dictionaries(PATHS, PARAMETERS, max_size=6), PATHS)
def test_overlay_adds_its_names(entries, more, owner):
    whole = _table({**entries, **more})
    split = _table({path: parameters for path, parameters in entries.items() if path not in more})
    split.overlay = _table(more)
    name = ".".join(owner)
    assert {one.name for one in split.find_configurables(name)} == {one.name for one in whole.find_configurables(name)}


def test_full_name_wins_over_longer_names_that_end_with_it():
    table = _table({("a", "f"): {"x"}, ("b", "a", "f"): {"x"}})
    assert table.get_value("a.f.x")[0].path == ("a", "f")
    with pytest.raises(AmbiguousNameError, match=r"a\.f\.x\n  b\.a\.f\.x"):
        table.get_value("f.x")


def test_suggestions_ignore_case_and_compare_as_many_parts_as_were_written():
    table = _table({("pkg", "sac", "SacAlgorithm"): {"tau"}, ("pkg", "sac", "make"): set()})
    with pytest.raises(UnknownNameError, match="Did you mean 'SacAlgorithm'"):
        table.get_value("sacalgorithm.tau")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'sac.SacAlgorithm'"):
        table.get_value("sca.SacAlgorithm.tau")
    with pytest.raises(UnknownNameError, match=r"unknown configurable 'Zzz' in 'Zzz.tau'. Import the module"):
        table.get_value("Zzz.tau")
    assert nearest("tua", ["tau", "gamma"]) == ["tau"]
