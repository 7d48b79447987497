"""How a row of a table is called: the method, the protocol whose settings it follows, and what was set otherwise.

All functions take a row of a `Records` frame (of `itertuples`).
"""

import re
from typing import Any

from dualtta.report.methods import about, registry

OWN = "own rate"
OWN_NOTE = f"{OWN}: the learning rate of the authors' code; the other rows have the paper's one rate for all"
WORDS: dict[tuple[str, Any], str] = {
    ("filter_sa", False): "without the altering filter",
    ("filter_sp", False): "without the preserving filter",
    ("lam", 0.0): "without D-",
}


def follows_own(cell: Any) -> bool:
    """Whether it has the learning rate of its authors' code rather than the paper's, where these differ."""
    if isinstance(cell.protocol, str):
        return cell.protocol == "own" and has_own(cell)
    return has_own(cell) and _equal(cell.hyperparameters.get("lr"), published(cell, "own").get("lr"))


def has_own(cell: Any) -> bool:
    """Whether the authors of its method published another learning rate than the paper's."""
    return bool(published(cell, "paper").get("lr") != published(cell, "own").get("lr"))


def changes(cell: Any) -> dict[str, Any]:
    """What was set otherwise than by the protocol, and what a sweep or an ablation set at all."""
    base = published(cell, "own" if follows_own(cell) else "paper")
    in_force = {**cell.hyperparameters, **cell.settings}
    otherwise = {key: in_force[key] for key, value in base.items() if key in in_force and not _equal(in_force[key], value)}
    return {**{key: value for key, value in cell.settings.items() if key not in base}, **otherwise}


def label(cell: Any) -> str:
    """The label of a row: the method's title, then every setting that is not the protocol's."""
    words = [OWN] if follows_own(cell) else []
    words += [setting_word(key, value) for key, value in sorted(changes(cell).items())]
    return ", ".join([about(cell.method, cell.method_about).title, *words])


def by_number(text: str) -> list[tuple[float, str]]:
    """A sort key that compares numbers inside text as numbers.

    >>> sorted(["lam 2", "lam 0.5", "lam 0.25"], key=by_number)
    ['lam 0.25', 'lam 0.5', 'lam 2']
    """
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", text)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def published(cell: Any, protocol: Any) -> dict[str, Any]:
    """The settings of a protocol for this cell.

    Of a method that is not registered, or without torch, only a recorded protocol is known, by its learning rate.
    """
    kind = registry().get(cell.method)
    if kind is None:
        return {"lr": cell.lr} if cell.protocol == protocol else {}
    from dualtta.protocols import Situation

    size = cell.stream.get("batch_size", 64)
    at = Situation(
        cell.dataset,
        _layer_norm_only(cell.model),
        len(cell.classes),
        cell.scenario != "mild",
        size if isinstance(size, int) else 64,
    )
    return dict(kind.settings_for(at, protocol))


def earlier_defaults(cell: Any) -> dict[str, tuple[Any, Any]]:
    """Settings that were not chosen and have another default now: the value in force and that default.

    Of a method that is not registered, or without torch, none is known.
    """
    if cell.method not in registry():
        return {}
    from dualtta.methods import changed_defaults

    return changed_defaults(cell.record.cell)


def earlier_words(cell: Any) -> list[str]:
    """That a cell was computed with earlier defaults, in words; else empty."""
    changed = earlier_defaults(cell)
    if not changed:
        return []
    from dualtta.methods import change_words

    return [f"computed with earlier defaults: {change_words(changed)}"]


def setting_word(key: str, value: Any) -> str:
    """A setting in a label: "lam 0.25", or its own words."""
    try:
        known = WORDS.get((key, value))
    except TypeError:  # a list, or a view's settings
        known = None
    return known or (f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 1e-12 * max(abs(one), abs(other))
    return bool(one == other)


def _layer_norm_only(model: str) -> bool:
    from dualtta.zoo.registry import layer_norm_only

    try:
        return layer_norm_only(model)
    except ValueError:  # a model of another package that is not installed here
        return False
