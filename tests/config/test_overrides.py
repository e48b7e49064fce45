"""Overrides are literals; nothing is evaluated."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rein.config import OverrideSyntaxError, Reference, configurable, parse_override, parse_overrides
from rein.config.overrides import literal_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sac.tau=0.01", ("Sac.tau", 0.01)),
        (" Sac.tau = -1e-4 ", ("Sac.tau", -1e-4)),
        ("a=(256, 256)", ("a", (256, 256))),
        ("a={'b': [1, None, True]}", ("a", {"b": [1, None, True]})),
        ("a={2, 1}", ("a", {1, 2})),
        ("a='x=y'", ("a", "x=y")),
        ('a="@Name"', ("a", "@Name")),
        ("a=''", ("a", "")),
        ("a=b'x'", ("a", b"x")),
        ("env=CartPole-v1", ("env", "CartPole-v1")),
        ("env=ALE/Pong-v5", ("env", "ALE/Pong-v5")),
        ("dir=/data/runs/first.d", ("dir", "/data/runs/first.d")),
        ("dir=../runs", ("dir", "../runs")),
        ("dir=./runs", ("dir", "./runs")),
        ("dir=~/runs", ("dir", "~/runs")),
        ("device=cuda:0", ("device", "cuda:0")),
        ("name=torch.nn.ReLU", ("name", "torch.nn.ReLU")),
        ("name=False_", ("name", "False_")),
        ("net=@ActorNetwork", ("net", Reference("ActorNetwork"))),
        ("net=@rein.networks.ActorNetwork", ("net", Reference("rein.networks.ActorNetwork"))),
    ],
)
def test_accepted(text, expected):
    name, value = parse_override(text)
    assert (name, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Sac.tau", r"has no '='. Write name=value"),
        ("=3", "is not a dotted name"),
        ("a..b=3", "is not a dotted name"),
        ("1a=3", "is not a dotted name"),
        ("a-b=3", "is not a dotted name"),
        ("a=", "has no value. Write a='' for an empty string"),
        ("a=true", "Write True, or quote it"),
        ("a=none", "Write None"),
        ("a=null", "Write None"),
        ("a=-inf", "Write 1e999"),
        ("a=nan", "no literal for nan"),
        ("a=1+1", "Expressions are not evaluated"),
        ("a=007", "no Python literal"),
        ("a=.5.5", "no Python literal"),
        ("a=two words", "quote it within the argument: \"a='...'\""),
        ("a=[1, 2", "no Python literal"),
        ("a=[@X]", "no Python literal"),
        ("a=@", "is not '@' and the name of a configurable"),
        ("a=@f()", "is not '@' and the name of a configurable"),
        ("a=__import__('os').system('true')", "no Python literal"),
        ("a=f'{1}'", "no Python literal"),
        ("a=x\x00", "no Python literal"),
        ("a=" + "(" * 100_000, "no Python literal"),
        ("a=" + "9" * 10_000, "no Python literal"),
    ],
)
def test_refused(text, message):
    with pytest.raises(OverrideSyntaxError) as error:
        parse_override(text)
    assert message in str(error.value)


def test_several():
    assert parse_overrides(["a=1", "b.c=x"]) == {"a": 1, "b.c": "x"}
    with pytest.raises(OverrideSyntaxError, match="'a' is given twice"):
        parse_overrides(["a=1", "a=2"])


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(LITERALS)
def test_literals_survive_being_written_and_read(value):
    text = literal_text(value)
    if text is None:
        assert "inf" in repr(value)
        return
    read = parse_override(f"name={text}")[1]
    assert read == value
    assert repr(read) == repr(value)


def test_what_is_no_literal_has_no_text():
    @configurable
    def registered_here():
        return None

    assert literal_text(object()) is None
    assert literal_text([1, len]) is None
    assert literal_text(math.nan) is None
    assert literal_text((math.inf, -math.inf)) == "(1e999, -1e999)"
    assert literal_text(Reference("A.b")) == "@A.b"
    assert literal_text(registered_here).endswith("registered_here")
    assert literal_text(registered_here).startswith("@")
