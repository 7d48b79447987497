"""What is known of a method: its title, its place in a table, and how figures draw it.

A record says it (`method_about`); else the registered class does, where torch can be imported; else there is the name.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}  # matplotlib's, plotly's
SYMBOLS = {  # plotly's names of matplotlib's markers
    **{"x": "x-thin-open", "s": "square", "D": "diamond", "P": "cross", "o": "circle"},
    **{"h": "hexagon", "*": "star", "p": "pentagon"},
    **{"v": "triangle-down", "^": "triangle-up", "<": "triangle-left", ">": "triangle-right"},
}


@dataclass(frozen=True)
class Style:
    """How figures draw a method, by matplotlib's and by plotly's names."""

    color: str
    marker: str
    dash: str
    hatch: str
    symbol: str  # plotly's marker
    line: str  # plotly's dash

    @classmethod
    def of(cls, color: str, marker: str, dash: str, hatch: str = "", symbol: str = "") -> "Style":
        return cls(color, marker, dash, hatch, symbol or SYMBOLS.get(marker, "circle"), DASHES.get(dash, "solid"))


UNKNOWN = (  # for methods that have no style of their own, chosen by name
    Style.of("#b8a000", "h", ":", "oo"),
    Style.of("#8c564b", "*", "-.", "**"),
    Style.of("#5b8a9a", "p", "--", "++"),
)


@dataclass(frozen=True)
class About:
    """A method as tables and figures show it."""

    title: str
    order: tuple[Any, ...]  # tables list what learns nothing first, then by date of publication, then by name
    learns: bool
    style: Style


def about(method: str, recorded: Mapping[str, Any] | None = None) -> About:
    """What is known of a method, by its record or by its registered class.

    >>> about("mine", {"title": "Mine", "learns": True, "published": "2030-01", "appearance": {"color": "#123456"}}).style.color
    '#123456'
    >>> about("unknown", {}).title
    'unknown'
    """
    found = dict(recorded) if isinstance(recorded, Mapping) and recorded else _registered(method)
    title, published, learns = str(found.get("title") or method), str(found.get("published") or ""), found.get("learns", True)
    look = found.get("appearance")
    style = UNKNOWN[zlib.crc32(method.encode()) % len(UNKNOWN)]
    if isinstance(look, Mapping) and look.get("color"):
        defaults = {"marker": style.marker, "dash": style.dash, "hatch": ""}
        keys = ("color", "marker", "dash", "hatch", "symbol")
        style = Style.of(**{**defaults, **{key: str(look[key]) for key in keys if look.get(key) is not None}})
    return About(title, (bool(learns), not found, published, method), bool(learns), style)


@cache
def registry() -> Mapping[str, Any]:
    """The registered methods; empty where torch is not installed."""
    try:
        from dualtta.methods import METHODS
    except ImportError:
        return {}
    return METHODS


def _registered(method: str) -> dict[str, Any]:
    kind = registry().get(method)
    if kind is None:
        return {}
    own = vars(kind)  # title and appearance are not inherited: a variant of a method looks different
    look = vars(own["appearance"]) if own.get("appearance") else None
    return {"title": own.get("title"), "published": kind.published, "learns": kind.learns(), "appearance": look}
