"""Tables of whatever is in no layout of the paper: the demo, a sweep, a plan of one's own. Any record ends up in a table."""

import re
from collections.abc import Sequence
from dataclasses import replace

from dualtta.report.benches import SHIFTS, Placed, bench_of, title_of, told_apart, variants
from dualtta.report.context import remarks
from dualtta.report.gather import Metric, Setting
from dualtta.report.labels import OWN, OWN_NOTE, label, name, rank
from dualtta.report.layouts import Column, method_table, numbered, titled
from dualtta.report.places import place_key, place_name
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import Notes, flag_best, value

COLUMNS: dict[str, Metric] = {
    "accuracy": "accuracy",
    "mean of groups": "mean_of_groups",
    "worst group": "worst_group",
    "used": "adapt",
    "used rightly": "corr_adapt",
    "calibration error": "calibration_error",
}
COMPARED = ("accuracy", "mean of groups", "worst group")  # where more is better
MANY = 16  # more domains than that are not shown one by one
WIDE = 12  # more places than that stand below each other
LONGEST = 100  # characters of a file name


def other_settings(placed: Sequence[Placed], uncovered: Sequence[Placed]) -> list[Table]:
    """Sweeps and settings of one's own on the paper's benchmarks, averaged as the paper does, beside the method as it is."""
    if not uncovered:
        return []
    methods, benches = {one.setting.method for one in uncovered}, {one.bench for one in uncovered}
    standard = [one for one in placed if one.kind == "" and one.setting.method in methods and one.bench in benches]
    tables = []
    chosen = list({id(one): one for one in [*standard, *uncovered]}.values())
    for i, (variant, some) in enumerate(variants(chosen).items()):
        here = sorted({one.bench for one in some}, key=lambda key: (key not in SHIFTS, key))
        columns = [Column(title_of(key), key, bench_of(key).average) for key in here]
        title = titled("Other settings on the paper's benchmarks: average accuracy, %", variant)
        tables.append(method_table(numbered("settings", i), title, some, columns, (), _experiment(uncovered)))
    return tables


def _experiment(placed: Sequence[Placed]) -> str:
    kinds = {one.kind for one in placed}
    named = {"lam": "sweep-lambda", "layer": "sweep-layer", "drop": "quadrants"}
    return named.get(kinds.pop(), "EXPERIMENT") if len(kinds) == 1 else "EXPERIMENT"


def by_place(settings: Sequence[Setting]) -> list[Table]:
    """A table for each place where something was measured, and one over all places where there are several."""
    places: dict[str, list[Setting]] = {}
    for setting in sorted(settings, key=lambda one: (place_name(one), rank(one.method), label(one))):
        places.setdefault(place_key(setting), []).append(setting)
    tables = [place_table(some) for some in places.values()]
    names: dict[str, int] = {}
    unique = []
    for table in tables:
        number = names[table.name] = names.get(table.name, -1) + 1
        unique.append(replace(table, name=numbered(table.name, number)))
    return ([overview(list(places.values()))] if len(places) > 1 else []) + unique


def place_table(settings: Sequence[Setting]) -> Table:
    """One place: methods below each other, all that is measured of accuracy and use side by side."""
    notes, first = Notes(), settings[0]
    domains = sorted({name for one in settings for name in one.records[0].summary["domains"]})
    columns = dict(COLUMNS)
    if 1 < len(domains) < MANY:
        columns |= {domain: ("domains", domain) for domain in first.about["domains"] if domain in domains}
    columns = {header: metric for header, metric in columns.items() if any(one.each(metric) for one in settings)}
    labels = unique_labels(settings)
    rows = [
        Row(words, tuple(value([one], metric, notes) for metric in columns.values()))
        for words, one in zip(labels, settings, strict=True)
    ]
    compared = [i for i, header in enumerate(columns) if header in COMPARED or header in domains]
    rows = list(flag_best(rows, compared))
    seeds = sorted({seed for one in settings for seed in one.seeds})
    more = [f"seeds {', '.join(map(str, seeds))}"] + ([OWN_NOTE] if any(f", {OWN}" in words for words in labels) else [])
    slug = re.sub(r"[^a-z0-9]+", "-", f"{first.dataset}-{first.model}-{first.scenario}".lower())[:LONGEST].strip("-")
    title = f"{place_name(first)}: %, {sizes(settings)}"
    return Table(slug or "results", title, ("method", *columns), tuple(rows), notes.below(rows, *more))


def sizes(settings: Sequence[Setting]) -> str:
    counts = sorted({one.samples for one in settings})
    return f"{' or '.join(f'{count:,}' for count in counts)} samples"


def unique_labels(settings: Sequence[Setting]) -> list[str]:
    """Labels that tell all settings of one place apart."""
    labels = [label(one) for one in settings]
    for words in {words for words in labels if labels.count(words) > 1}:
        at = [i for i, other in enumerate(labels) if other == words]
        for i, more in zip(at, told_apart([settings[i] for i in at]), strict=True):
            labels[i] = ", ".join([words, *more])
    return labels


def overview(places: Sequence[Sequence[Setting]]) -> Table:
    """Methods by places; the average over groups and the worst group where there are groups."""
    notes = Notes()
    per_place = [dict(zip(unique_labels(some), some, strict=True)) for some in places]
    single = all(len({one.method for one in some}) == len(some) for some in places)
    rows_of: dict[str, tuple[int, str]] = {}
    found: dict[tuple[str, int], Setting] = {}
    for number, some in enumerate(per_place):
        for words, one in some.items():
            row = name(one.method) if single else words
            rows_of[row] = min(rows_of.get(row, rank(one.method)), rank(one.method))
            found[row, number] = one
    columns: list[tuple[str, int, Metric]] = []
    for number in range(len(places)):
        where = _short(places, number)
        grouped = any(one.has_groups for one in places[number])
        columns += (
            [(f"{where}, mean of groups", number, "mean_of_groups"), (f"{where}, worst group", number, "worst_group")]
            if grouped
            else [(where, number, "accuracy")]
        )
    rows = []
    for row in sorted(rows_of, key=lambda row: (rows_of[row], len(row), row)):
        values: list[Value] = []
        for _, number, metric in columns:
            here = [found[row, number]] if (row, number) in found else []
            values.append(_with_settings(value(here, metric, notes), here if single else [], notes))
        rows.append(Row(row, tuple(values)))
    rows = list(flag_best(rows, range(len(columns))))
    header = ("method", *(title for title, _, _ in columns))
    table = Table("results", "Results: accuracy, %", header, tuple(rows))
    table = turned(table, "where") if len(columns) > max(WIDE, len(rows)) else table
    return replace(table, notes=notes.below(table.rows))


def turned(table: Table, corner: str) -> Table:
    """Columns as rows: many places are read downwards."""
    columns = zip(*(row.values for row in table.rows), strict=True)
    rows = tuple(Row(title, values) for title, values in zip(table.header[1:], columns, strict=True))
    return replace(table, header=(corner, *(row.label for row in table.rows)), rows=rows)


def _with_settings(found: Value, settings: Sequence[Setting], notes: Notes) -> Value:
    """A row that is called by its method alone says in a note what was set."""
    said = [label(one).split(", ", 1)[1] for one in settings if ", " in label(one)]
    return replace(found, marks=(*notes.marks(said), *found.marks)) if found.mean is not None else found


def _short(places: Sequence[Sequence[Setting]], number: int) -> str:
    """The place in as few words as tell it from the others."""
    first = places[number][0]
    if sum(some[0].dataset == first.dataset for some in places) == 1:
        return first.dataset
    full = place_name(first)
    if sum(place_name(some[0]) == full for some in places) == 1:
        return full
    same = [i for i, some in enumerate(places) if place_name(some[0]) == full]
    return f"{full} ({'; '.join(remarks(first)) or 'all data'}; no. {same.index(number) + 1})"
