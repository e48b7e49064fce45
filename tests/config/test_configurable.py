"""What the decorator does to functions and classes."""

import copy
import dataclasses
import functools
import inspect
import multiprocessing
import pickle
from typing import NamedTuple

import pytest

from rein.config import (
    ConfigError,
    Configs,
    config,
    configurable,
    fresh_configs,
    get_config_value,
    get_operative_configs,
    pre_config,
    use_configs,
)


@configurable
def mix(a, b=2, *, c=3):
    """Doc of mix."""
    return a, b, c


@configurable
class Base:
    """Doc of Base."""

    def __init__(self, width=1, depth=1):
        self.width, self.depth = width, depth


@configurable
class Deep(Base):
    def __init__(self, depth=5, extra=0):
        super().__init__(depth=depth)
        self.extra = extra


@configurable
class Twin(Base):
    pass


class Plain(Base):
    pass


@configurable
@dataclasses.dataclass(frozen=True)
class Point:
    x: int = 0
    tags: tuple = ()


@configurable("Renamed.thing", whitelist=["size"])
def original_name(size=1, seed=0):
    return size, seed


@configurable(blacklist=["seed"])
def listed(size=1, seed=0, /, *rest, key=1, **others):
    return size, seed, rest, key, others


@configurable
def containers(options=None, sizes=(), shared=None):
    return options, sizes, shared


class Holder:
    @configurable
    def method(self, x=1):
        return self, x

    @staticmethod
    @configurable
    def static(x=1):
        return x

    @classmethod
    @configurable
    def of_class(cls, x=1):
        return cls, x


def test_unset_call_is_the_plain_call():
    assert mix(1) == (1, 2, 3)
    assert mix(1, 5, c=6) == (1, 5, 6)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        mix()


def test_given_values_fill_what_the_caller_leaves_out():
    config("mix", a=10, c=30)
    assert mix() == (10, 2, 30)
    assert mix(1) == (1, 2, 30)
    assert mix(1, 2, c=None) == (1, 2, None)
    assert mix(b=7) == (10, 7, 30)


def test_signature_doc_and_name_are_unchanged():
    assert str(inspect.signature(mix)) == "(a, b=2, *, c=3)"
    assert (mix.__doc__, mix.__name__, mix.__module__) == ("Doc of mix.", "mix", __name__)
    assert str(inspect.signature(Base)) == "(width=1, depth=1)"
    assert str(inspect.signature(Twin)) == "(width=1, depth=1)"
    assert str(inspect.signature(Deep)) == "(depth=5, extra=0)"
    assert Base.__doc__ == "Doc of Base."
    assert Twin.__init__.__qualname__ == "Twin.__init__"


def test_classes_stay_classes():
    assert isinstance(Base, type)
    assert isinstance(Deep(), Base)
    assert issubclass(Twin, Base)
    assert type(Twin()) is Twin
    assert Deep.__mro__ == (Deep, Base, object)


def test_subclass_gets_base_values_for_what_it_leaves_out():
    config({"Base.width": 7, "Base.depth": 9, "Deep.extra": 4})
    deep = Deep()
    assert (deep.width, deep.depth, deep.extra) == (7, 5, 4)


def test_subclass_without_init_is_configured_separately():
    config({"Base.width": 7, "Base.depth": 8, "Twin.width": 70})
    twin, base = Twin(), Base()
    assert (twin.width, twin.depth) == (70, 8)
    assert (base.width, base.depth) == (7, 8)
    assert (Twin(1).width, Twin(width=2).width) == (1, 2)


def test_undecorated_subclass_behaves_as_its_base():
    config("Base", width=7)
    assert Plain().width == 7
    with pytest.raises(ConfigError, match="unknown configurable 'Plain'"):
        config("Plain", width=1)


def test_value_of_an_inherited_parameter_is_the_base_value():
    config("Base", width=7)
    assert get_config_value("Twin.width") == 7
    assert get_config_value("Twin.depth") == 1


def test_inherited_parameters_are_reported_once():
    config("Base", width=7)
    Twin()
    assert get_operative_configs() == [(f"{__name__}.Base.depth", 1), (f"{__name__}.Base.width", 7)]


@pytest.mark.parametrize("make", [Base, Deep, Twin, Plain, Point])
def test_objects_pickle_and_copy(make):
    config({"Base.width": 7, "Point.x": 3})
    one = make()
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
        assert type(again) is make
        assert vars(again) == vars(one)


def test_functions_and_classes_pickle_by_name():
    for one in (mix, Base, Twin, Point):
        assert pickle.loads(pickle.dumps(one)) is one
    assert pickle.loads(pickle.dumps(functools.partial(mix, 1)))() == (1, 2, 3)
    assert copy.deepcopy(mix) is mix


def test_dataclass():
    config("Point", x=3)
    assert Point() == Point(x=3)
    assert dataclasses.replace(Point(), tags=(1,)) == Point(3, (1,))


def test_alias_replaces_the_name():
    config("Renamed.thing", size=5)
    assert original_name() == (5, 0)
    with pytest.raises(ConfigError, match="unknown configurable 'original_name'"):
        config("original_name", size=5)


def test_excluded_parameters_are_refused():
    with pytest.raises(ConfigError, match=r"'seed' of '.*Renamed.thing' cannot be configured: its @configurable excl"):
        config("Renamed.thing", seed=1)
    with pytest.raises(ConfigError, match=r"'size' of .* cannot be configured: it is positional-only"):
        config("listed", size=1)
    with pytest.raises(ConfigError, match=r"'rest' of .* collects positional"):
        config("listed", rest=1)
    with pytest.raises(ConfigError, match=r"'others' of .* collects keyword"):
        config("listed", others={})
    with pytest.raises(ConfigError, match=r"'self' of .* the object itself"):
        config({"Base.self": 1})
    config("listed", key=9)
    assert listed(4, 5, 6, z=1) == (4, 5, (6,), 9, {"z": 1})


def test_methods():
    config({"Holder.method.x": 2, "Holder.static.x": 3, "Holder.of_class.x": 4})
    holder = Holder()
    assert holder.method() == (holder, 2)
    assert (Holder.static(), holder.static()) == (3, 3)
    assert Holder.of_class() == (Holder, 4)


def test_containers_do_not_leak_between_calls():
    marker = object()
    given = {"a": [1]}
    config("containers", options=given, sizes=([1], 2), shared=marker)
    given["a"].append("changed by the giver")
    options, sizes, shared = containers()
    options["a"].append(2)
    sizes[0].append(2)
    assert containers() == ({"a": [1]}, ([1], 2), marker)
    assert shared is marker
    get_config_value("containers.options")["a"].append(3)
    assert get_config_value("containers.options") == {"a": [1]}


def test_wrong_decorations_are_refused():
    with pytest.raises(ValueError, match="not both"):
        configurable(blacklist=["a"], whitelist=["b"])
    with pytest.raises(TypeError, match=r"write a list: blacklist=\['seed'\]"):
        configurable(blacklist="seed")
    with pytest.raises(ValueError, match="has no parameter 'sead'; it has size"):
        configurable(blacklist=["sead"])(lambda_with_name())
    with pytest.raises(TypeError, match="below @staticmethod"):
        configurable(staticmethod(lambda_with_name()))
    with pytest.raises(TypeError, match="needs a function or a class, not 3"):
        configurable(3)
    with pytest.raises(ValueError, match="<lambda>' is not a dotted name"):
        configurable(lambda: 1)

    class Pair(NamedTuple):
        a: int = 1

    with pytest.raises(TypeError, match="takes its parameters in __new__"):
        configurable(Pair)


def lambda_with_name():
    def function(size):
        return size

    return function


def test_a_name_belongs_to_one_object_only():
    def first():
        return 1

    def second():
        return 2

    configurable("taken_name")(first)
    with pytest.raises(ConfigError, match=r"'.*taken_name' is taken by .*first and asked for again by .*second"):
        configurable("taken_name")(second)


def test_redefinition_replaces_the_parameters():
    def define(version):
        if version == 1:

            @configurable
            def redefined(old=1):
                return old
        else:

            @configurable
            def redefined(new=2):
                return new

        return redefined

    define(1)
    redefined = define(2)
    config("redefined", new=5)
    assert redefined() == 5
    with pytest.raises(ConfigError, match="no parameter 'old'"):
        config("redefined", old=1)


def test_class_without_parameters():
    @configurable
    class Empty:
        pass

    assert isinstance(Empty(), Empty)
    with pytest.raises(ConfigError, match=r"'Empty' has no parameter 'x'. Its parameters: none"):
        config("Empty", x=1)


def test_repeated_calls_of_one_shape_look_up_one_plan(nothing_configured, monkeypatch):
    mix(1)
    Base(1)
    planned = []
    monkeypatch.setattr(nothing_configured, "plan", lambda *args: planned.append(args))
    assert mix(2) == (2, 2, 3)
    assert Base(3).width == 3
    assert planned == []


def test_many_shapes_of_calls_keep_the_memory_bounded(nothing_configured):
    for number in range(5000):
        listed(1, 2, **{f"name_{number}": 1})
    assert len(nothing_configured.plans) <= 4096


def test_fresh_configs_isolates_values_and_uses():
    config("mix", b=20)
    assert mix(1) == (1, 20, 3)
    with fresh_configs():
        assert mix(1) == (1, 2, 3)
    with fresh_configs():
        config("mix", b=200)
        assert mix(1) == (1, 200, 3)
    assert mix(1) == (1, 20, 3)


def test_two_runs_take_turns():
    first, second = Configs(), Configs()
    for configs, b in ((first, 10), (second, 20)):
        with use_configs(configs):
            config("mix", b=b)
    for configs, b in ((first, 10), (second, 20), (first, 10)):
        with use_configs(configs):
            assert mix(1) == (1, b, 3)


def test_values_travel_to_another_process_unused(nothing_configured):
    config("mix", b=20)
    pre_config({"mix.c": 30, "not.known.yet": 1})
    mix(1)
    received = pickle.loads(pickle.dumps(nothing_configured))
    with use_configs(received):
        assert get_operative_configs() == []
        assert mix(1) == (1, 20, 30)


def _call_mix(_):
    return mix(1)


def test_forked_workers_inherit_the_values():
    config("mix", b=20)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(_call_mix, [0]) == [(1, 20, 3)]
