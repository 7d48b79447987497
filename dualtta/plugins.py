"""Entry points of other packages, and suggestions for misspelt names. Nothing here imports torch."""

import ast
import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

T = TypeVar("T")


def nearest(word: str, words: Iterable[str]) -> str:
    """The most similar of these words as a question, or a list of them all.

    >>> nearest("tennt", ["tent", "sar"])
    "did you mean 'tent'?"
    """
    words = sorted(words)
    match = difflib.get_close_matches(word, words, 1)
    return f"did you mean {match[0]!r}?" if match else f"there are: {', '.join(words)}"


class Registry(dict[str, T]):
    """Objects by name: this package's, and those that other packages register under the entry point group `dualtta.<kind>s`.

    Entry points are loaded at the first read, so that a plug-in may import anything of this package, also the registry. A name
    that is taken stays as it is. An entry that does not load, or that `fits` refuses, is a warning and is left out.

    >>> colours = Registry("colour", lambda found: isinstance(found, str), {"red": "#f00"})
    >>> list(colours), colours["red"]
    (['red'], '#f00')
    """

    def __init__(self, kind: str, fits: Callable[[Any], bool], own: Mapping[str, T] | None = None) -> None:
        super().__init__(own or {})
        self._kind, self._fits, self._loaded = kind, fits, False

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True  # a plug-in that reads the registry while it is loaded sees what there is
        for entry in entry_points(group=f"dualtta.{self._kind}s"):
            if super().__contains__(entry.name):
                continue
            try:
                found = entry.load()
                if not self._fits(found):
                    raise TypeError(f"it is no {self._kind} but {type(found).__name__}")
                self[entry.name] = found
            except (Exception, SystemExit) as error:  # a broken plug-in must not take the toolkit down with it
                said = f"the {self._kind} {entry.name!r} of {entry.value} does not load: {error}"
                warnings.warn(said, stacklevel=4)

    def __getitem__(self, name: str) -> T:
        self._load()
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._load()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._load()
        return super().__iter__()

    def __len__(self) -> int:
        self._load()
        return super().__len__()

    def get(self, name: str, default: Any = None) -> Any:
        self._load()
        return super().get(name, default)

    def keys(self) -> "dict_keys[str, T]":
        self._load()
        return super().keys()

    def values(self) -> "dict_values[str, T]":
        self._load()
        return super().values()

    def items(self) -> "dict_items[str, T]":
        self._load()
        return super().items()


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
