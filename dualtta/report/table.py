"""What a table is before it is printed: values with their deviation, reported numbers beside them, marks and notes."""

from dataclasses import dataclass, field
from typing import Any

MISSING = "–"  # noqa: RUF001
MISSING_NOTE = "not measured: there is no record"
NAMED = 8  # rows in one note


@dataclass(frozen=True)
class Reported:
    """A number that a publication reports for what was measured here, and notes on it."""

    value: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Value:
    """A measured number, in the unit it is printed in (percent for accuracies); None where nothing was measured."""

    mean: float | None = None
    deviation: float | None = None  # over seeds; None with one seed
    seeds: int = 0
    samples: int = 0  # of each seed
    reported: float | None = None
    marks: tuple[str, ...] = ()  # keys into the table's notes
    best: bool = False  # above every other of its column, by the paired 95 % interval
    level: bool = False  # the highest of its column, or not below it by that interval
    whole: bool = True  # False: the mean of some of its cells, not to be compared
    cells: Any = field(default=None, repr=False, compare=False)  # the rows that it is the mean of: a frame, or a tuple

    @property
    def difference(self) -> float | None:
        """From the reported number."""
        return None if self.mean is None or self.reported is None or not self.whole else self.mean - self.reported


@dataclass(frozen=True)
class Row:
    """One line: its label, then its values, one a column."""

    label: str
    values: tuple[Value | str, ...]


@dataclass(frozen=True)
class Table:
    """`name` is the stem of its files. `notes` are printed below it, by their marks."""

    name: str
    title: str
    header: tuple[str, ...]  # the label's column, then one a value
    rows: tuple[Row, ...]
    notes: dict[str, str] = field(default_factory=dict)
    command: str | None = None  # that makes the records behind it
    digits: int = 2  # after the point
    settings: frozenset[int] = frozenset()  # whose accuracy it shows: no other table has to
    detail: bool = False  # comes after the tables of accuracies


class Notes:
    """The notes of a table: each text once, under a letter in the order of appearance."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.unmeasured: set[str] = set()  # marks that explain why there is a dash

    def mark(self, text: str) -> str:
        """
        >>> notes = Notes()
        >>> notes.mark("a subset"), notes.mark("other weights"), notes.mark("a subset")
        ('a', 'b', 'a')
        """
        return self.texts.setdefault(text, letters(len(self.texts)))

    def marks(self, texts: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.mark(text) for text in texts))

    def below(self, rows: Any, *more: str) -> dict[str, str]:
        """All notes by their marks; those without a mark come last, and the dash is explained where it occurs."""
        rows = list(rows)
        values = [v for row in rows for v in row.values if isinstance(v, Value) and v.mean is None]
        dash = {MISSING: MISSING_NOTE} if any(not self.unmeasured & set(v.marks) for v in values) else {}
        plain = {f"({i})": text for i, text in enumerate([*more, *level_note(rows), *fewer_seeds(rows)], 1)}
        return {mark: text for text, mark in self.texts.items()} | dash | plain


BEST_NOTE = "bold: above all others of its column by the paired 95 % interval over samples and seeds"
LEVEL_NOTE = "underlined: the highest of its column and those that the interval does not separate from it"


def level_note(rows: list[Row]) -> list[str]:
    """What bold and underlined values are, where there are any."""
    values = [v for row in rows for v in row.values if isinstance(v, Value)]
    said = [BEST_NOTE] if any(v.best for v in values) else []
    said += [LEVEL_NOTE] if any(v.level for v in values) else []
    return ["; ".join(said)] if said else []


def fewer_seeds(rows: list[Row]) -> list[str]:
    """Which rows are means over fewer seeds than others, in one of their values at least.

    >>> fewer_seeds([Row("Tent", (Value(1.0, seeds=2),)), Row("DeYO", (Value(1.0, seeds=3),))])
    ['on fewer seeds than 3: Tent (2)']
    """
    labels = [row.label for row in rows]
    seeds = [[v.seeds for v in row.values if isinstance(v, Value) and v.seeds] for row in rows]
    most = max((n for each in seeds for n in each), default=0)
    fewer = []
    for row, each in zip(rows, seeds, strict=True):
        if each and min(each) < most:
            words = [v for v in row.values if isinstance(v, str)] if labels.count(row.label) > 1 else []
            fewer.append(f"{' '.join([row.label, *words])} ({min(each)})")
    named = fewer if len(fewer) <= NAMED else [*fewer[:NAMED], f"and {len(fewer) - NAMED} more rows"]
    return [f"on fewer seeds than {most}: {', '.join(named)}"] if fewer else []


def letters(number: int) -> str:
    """
    >>> letters(0), letters(25), letters(26)
    ('a', 'z', 'aa')
    """
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def numbered(name: str, number: int) -> str:
    """A name, with a number where it is not the first.

    >>> numbered("wild", 0), numbered("wild", 1)
    ('wild', 'wild-2')
    """
    return name if number == 0 else f"{name}-{number + 1}"
