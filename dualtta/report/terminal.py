"""A table in the terminal: cut into pieces that fit its width, the best in bold, reported numbers dim."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dualtta.report.render import beside, common, marks, number, visible
from dualtta.report.table import Row, Table, Value

if TYPE_CHECKING:
    from rich.table import Table as RichTable

GAP = 2  # characters between columns


def to_terminal(table: Table, everywhere: frozenset[str] = frozenset(), width: int = 0) -> "RichTable":
    """The best bold, level values underlined, reported numbers dim below the measured ones; marks in `everywhere` are left out.

    In a terminal of `width` characters labels are wrapped where there is no room, values never.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    def words(text: str) -> Text:
        return Text(visible(text))

    shown = RichTable(
        title=Text(visible(table.title), style="bold"), title_justify="left", box=None, header_style="bold", pad_edge=False
    )
    keys, wide = keys_of(table), widths(table, everywhere, width)
    for i, header in enumerate(table.header):
        side: Literal["left", "right"] = "left" if i < keys else "right"
        shown.add_column(words(header), justify=side, overflow="fold", width=wide[i] if i >= keys else None)
    for row in table.rows:
        cells = [words(row.label)]
        for found in row.values:
            if isinstance(found, str):
                cells.append(words(found))
                continue
            text = Text(number(found, table.digits), style="bold" if found.best else "underline" if found.level else "")
            seen = marks(found, everywhere)
            text.append(f" {seen}" if seen else "", style="not bold not underline cyan")
            text.append(
                f"\n{beside(found, table.digits)}" if found.reported is not None else "", style="not bold not underline dim"
            )
            cells.append(text)
        shown.add_row(*cells)
    return shown


def widths(table: Table, everywhere: frozenset[str], room: int = 0) -> list[int]:
    """Characters that each column needs; headers are wrapped between words where `room` is too small."""
    label = max([len(table.header[0]), *(len(row.label) for row in table.rows)])
    found = [label]
    for i, header in enumerate(table.header[1:]):
        cells = [row.values[i] for row in table.rows]
        needed = [_width(value, table.digits, everywhere) for value in cells]
        found.append(max([*map(len, header.split()), *needed], default=1))
    left = max(room - sum(found) - GAP * (len(found) - 1), 0)
    for i, header in enumerate(table.header):
        more = min(max(len(header) - found[i], 0), left)
        found[i], left = found[i] + more, left - more
    return found


def keys_of(table: Table) -> int:
    """How many columns identify a row: the labels, and the text columns beside them where labels repeat."""
    for keys in range(1, len(table.header)):
        names = [(row.label, *row.values[: keys - 1]) for row in table.rows]
        if any(not isinstance(word, str) for name in names for word in name):
            break
        if len(set(names)) == len(names):
            return keys
    return 1


def _width(found: Value | str, digits: int, everywhere: frozenset[str]) -> int:
    if isinstance(found, str):
        return len(found)
    seen = marks(found, everywhere)
    return max(len(number(found, digits)) + (len(seen) + 1 if seen else 0), len(beside(found, digits)))


def pieces(table: Table, width: int) -> list[Table]:
    """The table cut into pieces for a terminal of so many characters, each with the columns that identify its rows.

    >>> wide = Table("t", "T", ("m", "first", "second"), (Row("a", (Value(1.0), Value(2.0))),))
    >>> [piece.header for piece in pieces(wide, 14)], len(pieces(wide, 80))
    ([('m', 'first'), ('m', 'second')], 1)
    """
    keys, needed = keys_of(table), widths(table, common(table))
    whole = room = width - sum(needed[:keys]) - GAP * (keys - 1)
    cuts = [keys]
    for i, columns in enumerate(needed[keys:], keys):
        if i > cuts[-1] and columns + GAP > room:
            cuts.append(i)
            room = whole
        room -= columns + GAP
    parts = []
    for start, end in zip(cuts, [*cuts[1:], len(needed)], strict=True):
        rows = tuple(Row(row.label, (*row.values[: keys - 1], *row.values[start - 1 : end - 1])) for row in table.rows)
        title = table.title if start == keys else f"{table.title} (continued)"
        parts.append(replace(table, title=title, header=(*table.header[:keys], *table.header[start:end]), rows=rows))
    return parts
