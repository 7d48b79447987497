"""Methods by name: one paper, one file.

Every file of this folder is found without a list; methods of other packages register by the entry point `dualtta.methods`.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import Any

from dualtta.method import Method
from dualtta.plugins import Registry, nearest
from dualtta.views import VIEWS, View


def is_method(kind: Any) -> bool:
    """Whether it is a method's class that can be instantiated."""
    return isinstance(kind, type) and issubclass(kind, Method) and not isabstract(kind)


def _own() -> Iterator[type[Method]]:
    """The methods of this folder: every class with a name of its own."""
    for module in iter_modules(__path__):
        for kind in vars(import_module(f"{__name__}.{module.name}")).values():
            here = is_method(kind) and kind.__module__ == f"{__name__}.{module.name}"
            if here and "name" in vars(kind):
                yield kind


def _by_date(kind: type[Method]) -> tuple[bool, str, str]:
    return kind.learns(), kind.published, kind.name


def _fits(found: Any) -> bool:
    return is_method(found) and bool(found())  # its defaults are what `dualtta list` shows


METHODS: Registry[type[Method]] = Registry("method", _fits, {kind.name: kind for kind in sorted(_own(), key=_by_date)})


def make_method(method: str | Method | type[Method], *others: str, **hyperparameters: Any) -> Method:
    """A method from its name, class or an instance, with its hyper-parameters; a view may be given by name.

    `others` are further keywords of the caller, for the hint at a misspelt one.

    >>> make_method("deyo", tau_plpd=0.2, alter="occ").alter
    Occlusion(share=0.5)
    >>> make_method("deyo", tau_plbd=0.2)
    Traceback (most recent call last):
    ...
    ValueError: deyo has no setting 'tau_plbd'; did you mean 'tau_plpd'?
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"there is no method {method!r}; {nearest(method, METHODS)}")
        name, kind = method, METHODS[method]
    else:
        kind = method if isinstance(method, type) else type(method)
        name = method_name(kind)
    if not is_method(kind):
        raise ValueError(f"a method is a name in dualtta.METHODS, a Method with a select() or its class, but {name} is none")
    specs = {spec.name: spec for spec in dataclasses.fields(kind)}
    named = {key if key in specs else kind.aliases.get(key, key): value for key, value in hyperparameters.items()}
    if len(named) < len(hyperparameters):
        raise ValueError(f"{name}: a setting is given by two of its names: {', '.join(map(repr, hyperparameters))}")
    hyperparameters = named
    for key, value in hyperparameters.items():
        if key not in specs:
            raise ValueError(f"{name} has no setting {key!r}; {nearest(key, [*specs, *others])}")
        if isinstance(specs[key].default, View) and isinstance(value, str):
            if value not in VIEWS:
                raise ValueError(f"there is no view {value!r}; {nearest(value, VIEWS)}")
            hyperparameters[key] = VIEWS[value]()
        elif isinstance(specs[key].default, View) and not isinstance(value, View):
            raise ValueError(f"{name}: {key} must be a view or the name of one, not {value!r}")
    if isinstance(method, Method):
        return dataclasses.replace(method, **hyperparameters) if hyperparameters else method
    return kind(**hyperparameters)


def method_name(kind: type[Method]) -> str:
    """The registered name of a method's class, or the class's own."""
    return next((name for name, registered in METHODS.items() if registered is kind), kind.__name__)


def settings(method: Method) -> dict[str, Any]:
    """A method's hyper-parameters as JSON can hold them.

    >>> settings(make_method("deyo"))["alter"]
    {'view': 'patch', 'grid': 4}
    """
    values = {spec.name: getattr(method, spec.name) for spec in dataclasses.fields(method)}
    return {
        key: {"view": value.name, **dataclasses.asdict(value)} if isinstance(value, View) else value  # type: ignore[call-overload]
        for key, value in values.items()
    }


def stored_settings(method: Method) -> dict[str, Any]:
    """The same under the names that records and saved states use.

    >>> settings(make_method("deyo"))["frozen_top"] == stored_settings(make_method("deyo"))["spare"]
    True
    """
    stored = {field: name for name, field in method.aliases.items()}
    return {stored.get(key, key): value for key, value in settings(method).items()}


def changed_defaults(about: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """By setting, the value that a record (its cell.json) was computed with and the method's default now.

    Settings that were chosen are left out, and those whose default is None now: what None stands for depends on the model.
    """
    name = about["cell"]["method"]["name"]
    if name not in METHODS:  # of a plug-in that is not installed
        return {}
    kind, classes = METHODS[name], len(about.get("classes", ()))
    chosen, used = (kind.from_earlier(values, classes) for values in (about["cell"]["method"], about["method"]))
    own = {*kind.aliases, *(spec.name for spec in dataclasses.fields(kind))}
    try:
        now = stored_settings(make_method(name, **{key: value for key, value in chosen.items() if key in own}))
    except ValueError:  # a choice that the method no longer has: nothing to compare with
        return {}
    now = json.loads(json.dumps({**now, "statistics": kind.statistics}))
    fixed = {*chosen, "preserve"} if "layer" in chosen else set(chosen)
    return {
        key: (used[key], value)
        for key, value in now.items()
        if key in used and key not in fixed and value is not None and not _equal(used[key], value)
    }


def _equal(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return math.isclose(one, other, rel_tol=1e-9) if numbers else bool(one == other)


def change_words(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """
    >>> change_words({"reduction": ("sum", "mean"), "tau_sp": (0.5, 0.7)})
    'reduction sum, now mean, tau_sp 0.5, now 0.7'
    """

    def word(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{key} {word(used)}, now {word(now)}" for key, (used, now) in changes.items())
