"""The values of one run: what was given, where, and what has been used."""

import dataclasses
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rein.config.errors import (
    AmbiguousNameError,
    ConfigError,
    ConfigWarning,
    GivenTooLateError,
    GivenTwiceError,
    Place,
    UnknownNameError,
    caller_place,
)
from rein.config.names import ALIASES, NAMES, REQUIRED, USER_PATH, Configurable, NameTable, did_you_mean
from rein.config.overrides import Reference
from rein.config.settings import ConfFile, Plan, PreSetting, Setting, Use, copy_containers

_LOG = logging.getLogger(__name__)
_MAX_PLANS = 4096
_MOST_EXPLAINED, _LONGEST_EXPLAINED = 4, 60


class Configs:
    """Everything that was configured in one run. Sent to another process, it takes along the values only.

    Attributes:
        settings: values by full name.
        pre_settings: values given in advance, in order.
        used: first uses by full name.
        user: owner of the values made by `define_config`.
        conf_names: configurables that the conf files themselves define.
        conf_files: conf files that were run, by real path; `main_files` are those that no other one imported.
        loading: conf files that are running now, outermost first.
        redirected_imports: (importer, path as written) to the file that stands in for it in a saved configuration.
        plans: what to add to a call, by configurable and shape of the call.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Setting] = {}
        self.pre_settings: list[PreSetting] = []
        self.used: dict[str, Use] = {}
        self.user = Configurable(USER_PATH, None)
        self.conf_names = NameTable()
        self.conf_files: dict[str, ConfFile] = {}
        self.main_files: list[str] = []
        self.loading: list[str] = []
        self.redirected_imports: dict[tuple[str, str], str] = {}
        self.plans: dict[tuple, Plan] = {}
        self._bound_versions = (-1, -1)

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "pre_settings": self.pre_settings, "user": self.user.defaults}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Configs.__init__(self)
        self.settings, self.pre_settings = state["settings"], state["pre_settings"]
        self.user.defaults.update(state["user"])

    def snapshot(self) -> dict[str, Any]:
        """What `restore` needs to undo everything that happens from now on."""
        return {
            "settings": dict(self.settings),
            "pre_settings": [dataclasses.replace(pre) for pre in self.pre_settings],
            "used": dict(self.used),
            "user": dict(self.user.defaults),
            "conf_names": list(self.conf_names),
            "conf_files": dict(self.conf_files),
            "loading": list(self.loading),
            "main_files": list(self.main_files),
            "redirected_imports": dict(self.redirected_imports),
        }

    def restore(self, before: dict[str, Any]) -> None:
        """Goes back to a snapshot."""
        self.settings, self.pre_settings = before["settings"], before["pre_settings"]
        self.used, self.user.defaults = before["used"], before["user"]
        self.conf_files, self.loading = before["conf_files"], before["loading"]
        self.conf_names.replace_all(before["conf_names"])
        self.main_files = before["main_files"]
        self.redirected_imports = before["redirected_imports"]
        self.plans = {}
        self._bound_versions = (-1, -1)

    def plan(self, configurable: Configurable, num_args: int, keywords: tuple[str, ...]) -> Plan:
        """The values for the parameters that a call does not pass; marks them as used.

        Args:
            configurable: what is called.
            num_args: number of positional arguments, `self` included.
            keywords: names of the keyword arguments.
        """
        self.bind_pre_settings()
        plans = self.plans
        passed = {*configurable.positional[:num_args], *keywords}
        values = {}
        for parameter in configurable.defaults:
            if parameter in passed:
                continue
            setting = self.settings.get(configurable.full_name(parameter))
            if setting is not None:
                values[parameter] = setting.value
            if setting is not None or configurable.defaults[parameter] is not REQUIRED:
                self._mark_used(configurable, parameter)
        plan = Plan(values)
        if len(plans) >= _MAX_PLANS:
            plans.clear()
        plans[(configurable, num_args, *keywords)] = plan
        return plan

    def explain(self, error: Exception, configurable: Configurable, keywords: Mapping[str, Any]) -> None:
        """Notes on an error of a call which settings the call was made with, and where they were given.

        Only the innermost call that was given settings is noted: the error is most likely about one of them.
        """
        if isinstance(error, ConfigError) or hasattr(error, "__rein_explained__"):
            return
        given = {name: self.settings.get(configurable.full_name(name)) for name in keywords}
        settings = {name: one for name, one in given.items() if one is not None and one.value is keywords[name]}
        outside = {name: one for name, one in settings.items() if one.outside}
        if settings:
            error.__rein_explained__ = True  # type: ignore[attr-defined]
            shown = list((outside or settings).items())[:_MOST_EXPLAINED]
            texts = [f"{name}={_short(one.value)} ({one.place})" for name, one in shown]
            error.add_note(f"in {configurable.path[-1]} with {', '.join(texts)}")

    def locate(self, name: str) -> tuple[Configurable, str]:
        """The configurable and the parameter that `name` means."""
        plain = name.removeprefix("_CONFIG.").removeprefix("_USER.")
        if plain in self.user.defaults:
            return self.user, plain
        if name.startswith(("_CONFIG.", "_USER.")):
            guess = did_you_mean(plain, self.user.defaults)
            raise UnknownNameError(f"no define_config('{plain}', ...) was run.{guess}")
        found = NAMES.get_value(name, also_known=self.user.defaults)
        self.bind_pre_settings()
        return found

    def get(self, name: str) -> Any:
        """The value that `name` has now; marks it as used."""
        configurable, parameter = self.locate(name)
        return copy_containers(self._effective(configurable, parameter))

    def set(
        self, values: Mapping[str, tuple[Any, Place]], *, mutable: bool, raise_if_used: bool, replace: bool
    ) -> None:
        """Gives values by name; all of them or, if one is wrong, none."""
        accepted: dict[str, Setting] = {}
        for name, (value, place) in values.items():
            with _located(place):
                full_name = _full_name(*self.locate(name))
                if full_name in accepted:
                    first = accepted[full_name].place
                    raise GivenTwiceError(f"'{full_name}' is given twice, also at {first}. Keep one of them")
                if self._may_set(full_name, place, mutable=mutable, replace=replace):
                    if raise_if_used:
                        self._raise_if_used(full_name)
                    if isinstance(value, Reference):
                        value = value.resolve()
                    accepted[full_name] = Setting(copy_containers(value), place, self._source(), mutable)
        self.settings.update(accepted)
        self.plans = {}

    def set_before(self, values: Mapping[str, tuple[Any, Place]]) -> None:
        """Gives values that win over `set`, whose names need not be known yet."""
        self.bind_pre_settings()
        added = []
        for name, (value, place) in values.items():
            plain = name.removeprefix("_CONFIG.").removeprefix("_USER.")
            if plain in self.user.defaults:
                self._raise_if_used(self.user.full_name(plain), place)
            added.append(PreSetting(name, copy_containers(value), place, self._source()))
        before = self.snapshot()
        self.pre_settings.extend(added)
        self._bound_versions = (-1, -1)
        try:
            self.bind_pre_settings()
        except ConfigError:
            self.restore(before)
            raise

    def define(self, name: str, default: Any, place: Place) -> Any:
        """Creates the user's value `name` and returns what it is."""
        if name in self.user.defaults:
            raise GivenTwiceError(
                f"{place}: define_config('{name}', ...) was already run at {self._first_use(name)}. Keep one of them, "
                f"or read the other's value: get_config_value('{name}')"
            )
        self.user.defaults[name] = copy_containers(default)
        full_name = self.user.full_name(name)
        for pre in self.pre_settings:
            if pre.name in (name, f"_USER.{name}", full_name) or ALIASES.get(pre.name) == name:
                self._bind(pre, full_name)
        if full_name in self.settings:
            _check_kind(name, self.settings[full_name], default)
        return copy_containers(self._effective(self.user, name))

    def bind_pre_settings(self) -> None:
        """Binds values given in advance to names that have become known since.

        A name without a dot waits for `validate`, since a conf may yet define a value of that name.
        """
        versions = (NAMES.version, self.conf_names.version)
        if self._bound_versions == versions:
            return
        for pre in self.pre_settings:
            if "." not in pre.name:
                continue
            found = NAMES.find_values(pre.name, resolve=False)
            names = {one.full_name(parameter) for one, parameter in found}
            if pre.bound_to is not None:
                names.add(pre.bound_to)
            if len(names) > 1:
                listed = "\n  ".join(sorted(names))
                raise AmbiguousNameError(
                    f"{pre.place}: '{pre.name}' is ambiguous; write more of the path of the one you mean:\n  {listed}"
                )
            if names and pre.bound_to is None:
                self._bind(pre, names.pop())
        self._bound_versions = versions

    def validate(self) -> None:
        """Raises unless every value given in advance has found its owner; the error lists all that have not."""
        self.bind_pre_settings()
        errors = []
        for pre in self.pre_settings:
            if pre.bound_to is None:
                try:
                    with _located(pre.place):
                        full_name = self._meant(pre.name)
                    if pre.bound_to is None:
                        self._bind(pre, full_name)
                except ConfigError as error:
                    errors.append(error)
        self.bind_pre_settings()
        if errors:
            raise type(errors[0])("\n".join(map(str, errors)))

    def _meant(self, name: str) -> str:
        """What a name that somebody typed stands for: of several values of that name, the one that the conf sets."""
        name = ALIASES.get(name, name)
        try:
            return _full_name(*self.locate(name))
        except AmbiguousNameError:
            candidates = [one.full_name(parameter) for one, parameter in NAMES.find_values(name)]
            in_use = [full_name for full_name in candidates if full_name in self.settings]
            if len(in_use) != 1:
                raise
            return in_use[0]

    def _bind(self, pre: PreSetting, full_name: str) -> None:
        existing = self.settings.get(full_name)
        if existing is not None and existing.outside:
            if existing.source is None and pre.source is not None:
                _LOG.info("%s: ignored, '%s' was given at %s", pre.place, full_name, existing.place)
                pre.bound_to = full_name
                return
            if (existing.source is None) == (pre.source is None):
                raise GivenTwiceError(
                    f"{pre.place}: '{full_name}' is given twice, also at {existing.place}. Keep one of them"
                )
        self._raise_if_used(full_name, pre.place)
        with _located(pre.place):
            value = pre.value.resolve() if isinstance(pre.value, Reference) else pre.value
        pre.bound_to = full_name
        self.settings[full_name] = Setting(value, pre.place, pre.source, mutable=False, outside=True)
        self.plans = {}

    def _may_set(self, full_name: str, place: Place, *, mutable: bool, replace: bool) -> bool:
        existing = self.settings.get(full_name)
        if existing is not None and not existing.mutable:
            if existing.outside:
                _LOG.info("'%s' keeps the value given at %s", full_name, existing.place)
            elif not mutable:
                raise GivenTwiceError(
                    f"'{full_name}' is given as immutable twice, also at {existing.place}. Keep one of them"
                )
            else:
                message = f"'{full_name}' keeps the immutable value given at {existing.place}"
                warnings.warn_explicit(message, ConfigWarning, place.file, place.line)
            return False
        if existing is not None and not replace and not self._may_replace(existing.source):
            if self.loading and existing.source not in (None, self.loading[-1]):
                message = f"'{full_name}' is given twice: this replaces the value given at {existing.place}"
                warnings.warn_explicit(message, ConfigWarning, place.file, place.line)
                return True
            raise GivenTwiceError(
                f"'{full_name}' is given twice, also at {existing.place}. Keep one of them, or mean it: "
                "config(..., replace=True)"
            )
        return True

    def _may_replace(self, source: str | None) -> bool:
        """Whether the code running now may replace what `source` gave without a word: an importer may."""
        if not self.loading:
            return source is not None
        seen, waiting = set(), [self.loading[-1]]
        while waiting:
            for imported in self.conf_files[waiting.pop()].imports.values():
                if imported == source:
                    return True
                if imported not in seen:
                    seen.add(imported)
                    waiting.append(imported)
        return False

    def _raise_if_used(self, full_name: str, place: Place | None = None) -> None:
        if full_name in self.used:
            raise GivenTooLateError(
                (f"{place}: " if place else "") + f"'{full_name}' is given too late: it was first used at "
                f"{self.used[full_name].place}. Give it before that line"
            )

    def _effective(self, configurable: Configurable, parameter: str) -> Any:
        full_name = configurable.full_name(parameter)
        setting, default = self.settings.get(full_name), configurable.defaults[parameter]
        base = configurable.base
        if setting is not None:
            value = setting.value
        elif base is not None and parameter in base.defaults:
            value = self._effective(base, parameter)
        elif default is REQUIRED:
            raise ConfigError(f"'{full_name}' has no default and was not given a value")
        else:
            value = default
        self._mark_used(configurable, parameter)
        return value

    def _mark_used(self, configurable: Configurable, parameter: str) -> None:
        full_name = configurable.full_name(parameter)
        if full_name not in self.used:
            default = configurable.defaults[parameter]
            self.used[full_name] = Use(caller_place(), default, configurable.inherits_init)

    def _first_use(self, user_name: str) -> Place:
        return self.used[self.user.full_name(user_name)].place

    def _source(self) -> str | None:
        return self.loading[-1] if self.loading else None


class _Active:
    """Holds the values in force; one attribute, so that a call finds them in one step."""

    def __init__(self) -> None:
        self.put(Configs())

    def put(self, configs: Configs) -> None:
        """Puts `configs` in force, and with it the names that its conf files define."""
        self.configs = configs
        NAMES.overlay = configs.conf_names


ACTIVE = _Active()


@contextmanager
def use_configs(configs: Configs) -> Iterator[Configs]:
    """Puts `configs` in force for the block, in every thread of the process."""
    before = ACTIVE.configs
    ACTIVE.put(configs)
    try:
        yield configs
    finally:
        ACTIVE.put(before)


def fresh_configs() -> AbstractContextManager[Configs]:
    """A block that starts with nothing configured or used and leaves the values outside untouched."""
    return use_configs(Configs())


def reset_configs() -> None:
    """Forgets all that was configured, used or loaded; the names stay known."""
    ACTIVE.put(Configs())


def _full_name(configurable: Configurable, parameter: str) -> str:
    return configurable.full_name(parameter)


@contextmanager
def _located(place: Place) -> Iterator[None]:
    """Puts the place before the message of a configuration error."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(f"{place}: {error}") from None


def _check_kind(name: str, setting: Setting, default: Any) -> None:
    """Raises `ConfigError` if a value is a text or a number where the conf has a number or a list."""
    value, is_number = setting.value, isinstance(default, int | float) and not isinstance(default, bool)
    if is_number and isinstance(value, str | bytes):
        raise ConfigError(f"{setting.place}: {name} is {value!r}: give a number, such as {default!r}")
    if isinstance(default, tuple | list) and not isinstance(value, tuple | list | None):
        raise ConfigError(f"{setting.place}: {name} is {value!r}: give several, such as {tuple(default)!r}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_EXPLAINED else f"{text[:_LONGEST_EXPLAINED]}..."
