"""What a table is before it is printed: values with their spread, what the paper reports beside them, marks and notes."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    """A measured number, in the unit it is printed in (percent for accuracies); None where nothing was measured."""

    mean: float | None = None
    deviation: float | None = None  # over seeds; None with one seed
    seeds: int = 0
    samples: int = 0  # that each seed was measured on
    reported: float | None = None  # by the paper
    marks: tuple[str, ...] = ()  # keys into the table's notes
    best: bool = False  # among the methods
    whole: bool = True  # False: a mean of some of its cells alone, to be compared with nothing

    @property
    def difference(self) -> float | None:
        """From what the paper reports."""
        return None if self.mean is None or self.reported is None or not self.whole else self.mean - self.reported


@dataclass(frozen=True)
class Row:
    """One line: what it is about, then its values, one a column."""

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
    digits: int = 2  # after the point, as the paper prints them
