"""`dualtta list`: the names of methods, views, datasets, models, scenarios and experiments."""

import inspect
import json as jsonlib
import shutil
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Any

WIDTH = 100  # of lines in a file or a pipe


@dataclass(frozen=True)
class Entry:
    """A name with one line about it, its settings with their defaults, and its whole description."""

    line: str
    settings: dict[str, Any] = field(default_factory=dict)
    text: str = ""


def list_(what: str | None, json: bool = False) -> int:
    """Show the names of methods, views, datasets, models, scenarios and experiments.

    Args:
        what: One of these six words, for whole lines and settings, or a name, for all about it; all names unless given.
        json: Print JSON.
    """
    found = sections()
    if json:
        print(jsonlib.dumps(as_json(found, what), indent=2))
    elif what is None:
        for section, entries in found.items():
            show(section, entries, whole=False)
        print("\n`dualtta list SECTION` shows whole lines and settings, `dualtta list NAME` all about a name.")
    elif what in found:
        show(what, found[what], whole=True)
    else:
        for section, entry in named(found, what).items():
            describe(section, what, entry)
    return 0


def sections() -> dict[str, dict[str, Entry]]:
    """All that has a name, by section."""
    from dualtta.bench.experiments import EXPERIMENTS
    from dualtta.cli.parser import first_line
    from dualtta.data.registry import DATASETS
    from dualtta.data.registry import settings as choices
    from dualtta.methods import METHODS, settings
    from dualtta.streams.scenarios import SCENARIOS
    from dualtta.views import VIEWS
    from dualtta.zoo.registry import MODELS

    def entry(thing: Any, settings: dict[str, Any] | None = None) -> Entry:
        return Entry(first_line(thing), settings or {}, inspect.getdoc(thing) or "")

    methods = {name: entry(kind, {**settings(kind()), "statistics": kind.statistics}) for name, kind in METHODS.items()}
    return {
        "methods": methods,
        "views": {name: entry(kind) for name, kind in VIEWS.items()},
        "datasets": {name: entry(kind, choices(name)) for name, kind in DATASETS.items()},
        "models": {name: Entry(spec.summary) for name, spec in MODELS.items()} | {"timm:NAME": Entry("any model of timm")},
        "scenarios": {name: Entry(line) for name, (line, _) in SCENARIOS.items()},
        "experiments": {name: entry(plan) for name, plan in EXPERIMENTS.items()},
    }


def named(found: dict[str, dict[str, Entry]], name: str) -> dict[str, Entry]:
    """The entries of a name, by section; a ValueError where there is none."""
    from dualtta.plugins import nearest

    entries = {section: names[name] for section, names in found.items() if name in names}
    if not entries:
        raise ValueError(
            f"nothing is called {name!r}; {nearest(name, [*found, *(n for names in found.values() for n in names)])}"
        )
    return entries


def as_json(found: dict[str, dict[str, Entry]], what: str | None) -> dict[str, Any]:
    """The settings of methods and the lines about everything else, of all sections or of one; or all about a name."""
    if what is not None and what not in found:
        return {section: vars(entry) for section, entry in named(found, what).items()}
    short = {
        section: {name: entry.settings if section == "methods" else entry.line for name, entry in entries.items()}
        for section, entries in found.items()
    }
    del short["models"]["timm:NAME"]  # no name of its own
    return short if what is None else short[what]


def show(section: str, entries: dict[str, Entry], whole: bool) -> None:
    """Names with one line each, shortened to fit; `whole`: wrapped instead, and with their settings."""
    print(f"\n{section.upper()}{' (join several with +)' if section == 'scenarios' else ''}")
    column = 2 + max(map(len, entries))
    for name, entry in entries.items():
        start = f"  {name:{column}}"
        line = entry.line if whole else textwrap.shorten(entry.line, max(20, width() - len(start)), placeholder=" ...")
        print_wrapped(start, line)
        if whole and entry.settings:
            print_wrapped(" " * len(start), written(entry.settings))


def describe(section: str, name: str, entry: Entry) -> None:
    """All about a name."""
    print(f"{name} ({section})\n")
    for paragraph in (entry.text or entry.line).split("\n\n"):
        print_wrapped("", " ".join(paragraph.split()))
        print()
    for key, value in entry.settings.items():
        print(f"  {key} = {_short(value)}")


def written(settings: dict[str, Any]) -> str:
    """Settings as `--set` takes them."""
    return ", ".join(f"{key}={_short(value)}" for key, value in settings.items())


def width() -> int:
    """Columns of the terminal; WIDTH in a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def print_wrapped(start: str, text: str) -> None:
    """A text beside `start`, in lines that fit the terminal."""
    lines = textwrap.wrap(text, max(20, width() - len(start)), break_long_words=False, break_on_hyphens=False) or [""]
    print(start + lines[0])
    for line in lines[1:]:
        print(" " * len(start) + line)


def _short(value: Any) -> str:
    return str(value["view"]) if isinstance(value, dict) else str(value)
