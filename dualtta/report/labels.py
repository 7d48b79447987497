"""How a setting is called in a table: the method, the protocol it follows, and what was set otherwise."""

from typing import Any

from dualtta.method import Method
from dualtta.methods import METHODS
from dualtta.protocols import Situation
from dualtta.report.gather import Setting
from dualtta.zoo.registry import layer_norm_only

OWN = "own rate"
OWN_NOTE = f"{OWN}: the learning rate of the authors' code; the other rows have the paper's one rate for all"
WORDS: dict[tuple[str, Any], str] = {
    ("filter_sa", False): "without the altering filter",
    ("filter_sp", False): "without the preserving filter",
    ("lam", 0.0): "without D-",
}


def name(method: str) -> str:
    """The paper's name of a method, else ours.

    >>> name("source"), name("norm"), name("mine")
    ('No adapt', 'BN statistics', 'mine')
    """
    return vars(METHODS[method]).get("title", method) if method in METHODS else method


def rank(method: str) -> tuple[int, str]:
    """Where a method stands in a table; those of others come last, by name."""
    return ([*METHODS].index(method), "") if method in METHODS else (len(METHODS), method)


def follows_own(setting: Setting) -> bool:
    """Whether it has its authors' learning rate rather than the paper's, where these differ."""
    return has_own(setting) and _close(setting.about["method"].get("lr"), _protocol(setting, "own").get("lr"))


def has_own(setting: Setting) -> bool:
    """Whether its method's authors have a learning rate that is not the paper's."""
    paper, own = (_protocol(setting, protocol).get("lr") for protocol in ("paper", "own"))
    return bool(paper != own)


def changes(setting: Setting) -> dict[str, Any]:
    """What was set otherwise than by the protocol, and what a sweep or an ablation set at all."""
    base = _protocol(setting, "own" if follows_own(setting) else "paper")
    in_force = {**setting.about["method"], **setting.settings}
    otherwise = {key: in_force[key] for key, value in base.items() if key in in_force and not _close(in_force[key], value)}
    return {**{key: value for key, value in setting.settings.items() if key not in base}, **otherwise}


def label(setting: Setting) -> str:
    """One line that tells a row from the others of its table."""
    words = [OWN] if follows_own(setting) else []
    words += [_word(key, value) for key, value in sorted(changes(setting).items())]
    words += [f"in {setting.origin}"] if setting.origin else []
    return ", ".join([name(setting.method), *words])


def _word(key: str, value: Any) -> str:
    try:
        known = WORDS.get((key, value))
    except TypeError:  # a list, or a view's settings
        known = None
    return known or (f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")


def _protocol(setting: Setting, protocol: Any) -> dict[str, Any]:
    size = setting.stream.get("batch_size", 64)
    at = Situation(
        setting.dataset,
        _layer_norm_only(setting.model),
        len(setting.about["classes"]),
        setting.scenario != "mild",
        size if isinstance(size, int) else 64,
    )
    kind = METHODS.get(setting.method)
    return kind.settings_for(at, protocol) if kind else {"lr": Method.learning_rate(at, protocol)}


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 1e-12 * max(abs(one), abs(other))
    return bool(one == other)


def _layer_norm_only(model: str) -> bool:
    try:
        return layer_norm_only(model)
    except ValueError:  # another package's model that is not installed here
        return False
