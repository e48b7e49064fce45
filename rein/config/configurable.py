"""The decorator that lets a conf give the parameters of a function or class."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from rein.config.configs import ACTIVE
from rein.config.names import CONF_MODULES, NAMED_WITH_OWNER, NAMES, Configurable

T = TypeVar("T", bound=Callable[..., Any])

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REFUSED_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "it is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "it collects positional arguments",
    inspect.Parameter.VAR_KEYWORD: "it collects keyword arguments",
}


@overload
def configurable(target: T, /) -> T: ...


@overload
def configurable(
    name: str | None = None, /, *, blacklist: Iterable[str] = (), whitelist: Iterable[str] = ()
) -> Callable[[T], T]: ...


def configurable(
    target_or_name: Any = None,
    /,
    *,
    blacklist: Iterable[str] = (),
    whitelist: Iterable[str] = (),
) -> Any:
    """The same function or class, whose parameters can be given by `config`.

    A value that was given is used for a parameter that the caller does not pass; what the caller
    passes always wins. Of a class, the parameters of `__init__` become configurable; a subclass
    gets its base's values where its `__init__` leaves a parameter of the base's out, and has a name
    of its own only if it is decorated too.

    Works bare (`@configurable`) or called (`@configurable("Alias", blacklist=["seed"])`).

    Args:
        target_or_name: what is decorated, or the name it gets in place of its qualified name within the module.
        blacklist: parameters that cannot be given by a conf.
        whitelist: the only parameters that can be given by a conf; excludes `blacklist`.
    """
    if target_or_name is None or isinstance(target_or_name, str):
        blacklist, whitelist = _names("blacklist", blacklist), _names("whitelist", whitelist)
        if blacklist and whitelist:
            raise ValueError("@configurable takes a blacklist or a whitelist, not both")
        return functools.partial(_decorate, name=target_or_name, blacklist=blacklist, whitelist=whitelist)
    return _decorate(target_or_name, name=None, blacklist=(), whitelist=())


def _names(what: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"{what}={names!r} is a string; write a list: {what}=[{names!r}]")
    return tuple(names)


def _decorate(target: Any, *, name: str | None, blacklist: tuple[str, ...], whitelist: tuple[str, ...]) -> Any:
    if isinstance(target, staticmethod | classmethod | property):
        kind = type(target).__name__
        raise TypeError(f"@configurable must stand below @{kind}, next to the def")
    if not (inspect.isclass(target) or inspect.isfunction(target)):
        raise TypeError(f"@configurable needs a function or a class, not {target!r}")
    path = _path(target, name)
    if inspect.isclass(target):
        return _decorate_class(target, path, blacklist, whitelist)
    entry = _entry(path, target, target, blacklist, whitelist)
    wrapped = _wrap(target, entry)
    entry.target = wrapped
    _register(entry)
    return wrapped


def _decorate_class(cls: type, path: tuple[str, ...], blacklist: tuple[str, ...], whitelist: tuple[str, ...]) -> type:
    init: Any = getattr(cls, "__init__")  # noqa: B009 - typed access is unsound for __init__
    if init is object.__init__:
        if getattr(cls, "__new__") is not object.__new__:  # noqa: B009
            raise TypeError(
                f"@configurable needs __init__, but {cls.__qualname__} takes its parameters in __new__. "
                "Decorate a function that builds it"
            )
        _register(Configurable(path, cls))
        return cls
    entry = _entry(path, cls, init, blacklist, whitelist)
    own: Any = cls.__dict__.get("__init__")
    if own is None:
        entry.inherits_init = True
        entry.base = getattr(init, "__configurable__", None)

        def inherited(self: Any, *args: Any, **kwargs: Any) -> None:
            super(cls, self).__init__(*args, **kwargs)  # type: ignore[arg-type,misc]

        own = functools.wraps(init)(inherited)
        own.__module__, own.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    cls.__init__ = _wrap(own, entry)  # type: ignore[misc]
    _register(entry)
    return cls


def _register(entry: Configurable) -> None:
    """Adds the name; what a conf file defines is known in its own run only."""
    in_conf = entry.target.__module__.startswith(CONF_MODULES)
    (ACTIVE.configs.conf_names if in_conf else NAMES).add(entry)


def _wrap(function: Callable[..., Any], entry: Configurable) -> Callable[..., Any]:
    active = ACTIVE

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        configs = active.configs
        shape = (entry, len(args), *kwargs) if kwargs else (entry, len(args))
        plan = configs.plans.get(shape)
        if plan is None:
            plan = configs.plan(entry, len(args), tuple(kwargs))
        if plan.adds:
            plan.add_to(kwargs)
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            configs.explain(error, entry, kwargs)
            raise

    wrapper.__configurable__ = entry  # type: ignore[attr-defined]
    return wrapper


def _path(target: Any, name: str | None) -> tuple[str, ...]:
    local = name if name is not None else target.__qualname__.replace("<locals>.", "")
    parts = tuple(local.split("."))
    if not all(part.isidentifier() for part in parts):
        raise ValueError(f"@configurable: {local!r} is not a dotted name; give one: @configurable('Name')")
    return (*target.__module__.split("."), *parts)


def _entry(
    path: tuple[str, ...],
    target: Any,
    function: Callable[..., Any],
    blacklist: tuple[str, ...],
    whitelist: tuple[str, ...],
) -> Configurable:
    parameters = inspect.signature(function).parameters
    unknown = [name for name in (*blacklist, *whitelist) if name not in parameters]
    if unknown:
        raise ValueError(
            f"@configurable: {'.'.join(path)} has no parameter {unknown[0]!r}; it has {', '.join(parameters)}"
        )
    entry = Configurable(path, target)
    entry.named_with_owner = getattr(sys.modules.get(target.__module__), NAMED_WITH_OWNER, False)
    entry.positional = tuple(name for name, one in parameters.items() if one.kind in _POSITIONAL)
    for index, (name, parameter) in enumerate(parameters.items()):
        if parameter.kind in _REFUSED_KINDS:
            entry.refused[name] = _REFUSED_KINDS[parameter.kind]
        elif index == 0 and (inspect.isclass(target) or name in ("self", "cls")):
            entry.refused[name] = "it is the object itself"
        elif name in blacklist or (whitelist and name not in whitelist):
            entry.refused[name] = "its @configurable excludes it"
        else:
            entry.defaults[name] = parameter.default
    return entry
