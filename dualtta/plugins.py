"""Names: the way out for a misspelt one, and what other packages register. Whoever needs this does not wait for torch."""

import difflib
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any


def nearest(word: str, words: Iterable[str]) -> str:
    """Its nearest neighbour, or all there are.

    >>> nearest("tennt", ["tent", "sar"])
    "did you mean 'tent'?"
    """
    words = sorted(words)
    match = difflib.get_close_matches(word, words, 1)
    return f"did you mean {match[0]!r}?" if match else f"there are: {', '.join(words)}"


def plug_in(registry: dict[str, Any], kind: str, fits: Callable[[Any], bool]) -> None:
    """Add what other packages register under the entry point `dualtta.<kind>s`; a name that is taken stays as it is."""
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
