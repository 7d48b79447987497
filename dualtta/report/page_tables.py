"""A report's tables for the page: sortable by the measured values, reported ones below them, notes below the table."""

from dualtta.report.markup import Html, inner, tag
from dualtta.report.render import is_text
from dualtta.report.table import MISSING, Table, Value


def show_table(table: Table, number: int) -> Html:
    notes = [
        tag("li", None if mark.startswith("(") else inner([tag("sup", mark), " "]), text, id=f"t{number}-{mark}")
        for mark, text in table.notes.items()
    ]
    words = [True, *(is_text(table, i) for i in range(len(table.header) - 1))]
    head = tag("tr", [heading(name, text) for name, text in zip(table.header, words, strict=True)])
    body = [tag("tr", tag("th", row.label, scope="row"), [_cell(value) for value in row.values]) for row in table.rows]
    shown = tag("table", tag("thead", head), tag("tbody", body), class_="sortable")
    return tag(
        "section",
        tag("h3", table.title, id=f"table-{number}"),
        tag("div", shown, class_="scroll", tabindex=0, role="region", aria_labelledby=f"table-{number}"),
        tag("ul", notes, class_="notes") if notes else None,
        _command(table.command) if table.command else None,
        class_="table",
    )


def heading(name: str, text: bool) -> Html:
    """A heading is a button, so that the keyboard reaches it."""
    button = tag("button", name, tag("span", "", class_="arrow", aria_hidden="true"), type="button")
    return tag("th", button, scope="col", aria_sort="none", class_="text" if text else None)


def _cell(value: Value | str) -> Html:
    if isinstance(value, str):
        return tag("td", value, class_="text", data_sort=value)
    marks = tag("sup", ",".join(value.marks)) if value.marks else None
    paper = None
    if value.reported is not None and (value.mean is None or value.difference is not None):
        difference = "" if value.difference is None else f" ({value.difference:+.1f})"
        paper = tag("span", f"paper {value.reported:.2f}{difference}", class_="paper")
    if value.mean is None:
        return tag("td", tag("span", MISSING, class_="none", title="not measured"), marks, paper)
    deviation = None if value.deviation is None else tag("span", f" ± {value.deviation:.1f}", class_="deviation")
    return tag(
        "td",
        tag("span", f"{value.mean:.1f}", deviation, class_="value"),
        marks,
        paper,
        class_="best" if value.best else "level" if value.level else None,
        data_sort=f"{value.mean:.6f}",
        title=f"{value.samples:,} samples, {value.seeds} seed{'s' if value.seeds != 1 else ''}" if value.samples else None,
    )


def _command(text: str) -> Html:
    """A command with a button that copies it."""
    return tag("div", tag("code", text), tag("button", "Copy", type="button", class_="copy"), class_="command")
