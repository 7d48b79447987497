"""Entry points of other packages, and suggestions for misspelt names. Nothing here imports torch."""

import ast
import difflib
import warnings
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from pathlib import Path
from typing import Any


def nearest(word: str, words: Iterable[str]) -> str:
    """The most similar of these words as a question, or a list of them all.

    >>> nearest("tennt", ["tent", "sar"])
    "did you mean 'tent'?"
    """
    words = sorted(words)
    match = difflib.get_close_matches(word, words, 1)
    return f"did you mean {match[0]!r}?" if match else f"there are: {', '.join(words)}"


def plug_in(registry: dict[str, Any], kind: str, fits: Callable[[Any], bool]) -> None:
    """Add the objects that packages register under the entry point group `dualtta.<kind>s`.

    A name that is taken stays as it is. An entry that does not load, or that `fits` refuses, is a warning and is left out.
    """
    for entry in entry_points(group=f"dualtta.{kind}s"):
        if entry.name in registry:
            continue
        try:
            found = entry.load()
            if not fits(found):
                raise TypeError(f"it is no {kind} but {type(found).__name__}")
            registry[entry.name] = found
        except (Exception, SystemExit) as error:  # a broken plug-in must not take the toolkit down with it
            warnings.warn(f"the {kind} {entry.name!r} of {entry.value} does not load: {error}", stacklevel=3)


def commands(taken: Iterable[str]) -> dict[str, EntryPoint]:
    """Commands that packages register under `dualtta.commands`, not loaded; without the names that are taken."""
    return {entry.name: entry for entry in entry_points(group="dualtta.commands") if entry.name not in taken}


def load_command(entry: EntryPoint) -> Callable[..., int]:
    """The function of a command; a ValueError where it does not load."""
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:
        raise ValueError(f"the command {entry.name!r} of {entry.value} does not load: {error}") from error
    if not callable(found):
        raise ValueError(f"the command {entry.name!r} of {entry.value} does not load: it is no function")
    command: Callable[..., int] = found
    return command


def summary(entry: EntryPoint) -> str:
    """The first line of a function's docstring, read from its source file: importing it may take seconds."""
    try:
        places, file = None, ""
        for module in accumulate(entry.module.split("."), "{}.{}".format):
            spec = PathFinder.find_spec(module, places)
            assert spec is not None
            places, file = spec.submodule_search_locations, spec.origin or ""
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == entry.attr)
        return (ast.get_docstring(function) or "").split("\n")[0] or entry.value
    except Exception:  # no source, or not a plain function
        return entry.value
