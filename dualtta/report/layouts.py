"""The paper's tables of accuracies, in its own layouts: rows are methods, columns benchmarks, pairs or corruptions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dualtta.data.published import CORRUPTIONS
from dualtta.paper.reported import BACKBONES, Reported, reported
from dualtta.report.benches import SHIFTS, Placed, bench_of, labels_of, variants
from dualtta.report.commands import command
from dualtta.report.gather import Metric
from dualtta.report.labels import OWN, OWN_NOTE, name
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import Notes, flag_best, value

SIX = ("source", "tent", "sar", "eata", "deyo", "dualtta")  # the paper's rows
AS_IT_IS = ("",)  # kinds of settings: the methods, no ablation or sweep
SHORT = {  # in the paper's header
    **{name: name.split("_")[0].capitalize() for name in CORRUPTIONS},
    "gaussian_noise": "Gauss.",
    "impulse_noise": "Impul.",
    "defocus_blur": "Defoc.",
    "brightness": "Bright.",
    "contrast": "Contr.",
    "pixelate": "Pixel",
    "jpeg_compression": "JPEG",
}


@dataclass(frozen=True)
class Column:
    """One column: a number of one benchmark, of all its units or of one."""

    header: str
    bench: str
    metric: Metric
    unit: str | None = None  # None: the average over all
    compared: bool = True  # more is better
    paper: Callable[[str], Reported | None] = lambda method: None  # by method


def method_table(
    table: str, title: str, placed: Sequence[Placed], columns: Sequence[Column], rows: Iterable[str], experiment: str
) -> Table:
    """Methods by columns. The paper's rows are there whether they were measured or not."""
    notes = Notes()
    usual = {name(method): method for method in rows}
    labels = [*usual, *(label for label in labels_of(placed) if label not in usual)]
    lines = []
    for label in labels:
        of_row = [one for one in placed if one.label == label]
        lines.append(Row(label, tuple(column_value(of_row, column, notes, usual.get(label)) for column in columns)))
    lines = list(flag_best(lines, [i for i, column in enumerate(columns) if column.compared]))
    more = [OWN_NOTE] if any(f", {OWN}" in label for label in labels) else []
    header = ("method", *(column.header for column in columns))
    return Table(table, title, header, tuple(lines), notes.below(lines, *more), command(experiment, placed))


def column_value(of_row: Iterable[Placed], column: Column, notes: Notes, method: str | None) -> Value:
    """One value of a row; the paper's stands beside it where the row is a method of the paper as the paper runs it."""
    bench = bench_of(column.bench)
    settings = [one.setting for one in of_row if one.bench == column.bench and column.unit in (None, one.unit)]
    cells = len(bench.units) if column.unit is None else 1
    told = column.paper(method) if method else None
    return value(settings, column.metric, notes, cells=cells, of=bench.of, reported=told)


def numbered(name: str, number: int) -> str:
    return name if number == 0 else f"{name}-{number + 1}"


def titled(title: str, variant: str) -> str:
    return f"{title} ({variant})" if variant else title


def benchmarks(placed: Sequence[Placed]) -> list[Table]:
    """Table 1: averages and worst groups."""

    def column(bench: str, header: str, metric: Metric, which: str = "") -> Column:
        return Column(header, bench, metric, paper=partial(reported, "benchmarks", dataset=bench, column=which))

    columns = [
        column("colored_mnist", "ColoredMNIST, avg", "mean_of_groups", "avg"),
        column("colored_mnist", "ColoredMNIST, worst", "worst_group", "worst"),
        column("waterbirds", "Waterbirds, avg", "mean_of_groups", "avg"),
        column("waterbirds", "Waterbirds, worst", "worst_group", "worst"),
        column("office_home", "Office-Home", "accuracy"),
        column("pacs", "PACS", "accuracy"),
    ]
    found = variants(one for one in placed if one.bench in SHIFTS and one.kind in AS_IT_IS)
    title = "Table 1: accuracy under domain shift, %"
    return [
        method_table(numbered("benchmarks", i), titled(title, variant), some, columns, SIX, "benchmarks")
        for i, (variant, some) in enumerate(found.items())
    ]


def domain_pairs(placed: Sequence[Placed]) -> list[Table]:
    """All pairs of a source and a target domain; the paper prints their average alone."""
    tables = []
    for key in ("pacs", "office_home"):
        bench = SHIFTS[key]
        columns = [Column(unit, key, "accuracy", unit) for unit in bench.units]
        columns.append(Column("avg", key, "accuracy", paper=partial(reported, "benchmarks", dataset=key)))
        found = variants(one for one in placed if one.bench == key and one.kind in AS_IT_IS)
        for i, (variant, some) in enumerate(found.items()):
            title = titled(f"{bench.title}: all pairs, accuracy on the target, %", variant)
            tables.append(method_table(numbered(f"pairs-{key}", i), title, some, columns, SIX, "benchmarks"))
    return tables


def imagenet_c(placed: Sequence[Placed]) -> list[Table]:
    """15 corruptions at severity 5, a table a backbone."""
    tables = []
    for key in _in_order(one.bench for one in placed if one.bench.startswith("mild/")):
        model = key.split("/", 1)[1]

        def column(which: str, header: str, unit: str | None, key: str = key, model: str = model) -> Column:
            return Column(header, key, "accuracy", unit, paper=partial(reported, "imagenet-c", model=model, column=which))

        columns = [column(which, SHORT[which], which) for which in CORRUPTIONS] + [column("avg", "avg", None)]
        found = variants(one for one in placed if one.bench == key and one.kind in AS_IT_IS)
        for i, (variant, some) in enumerate(found.items()):
            title = titled(f"ImageNet-C, severity 5, {BACKBONES.get(model, model)}: accuracy, %", variant)
            tables.append(method_table(numbered(f"imagenet-c-{model}", i), title, some, columns, SIX, "imagenet-c"))
    return tables


def wild(placed: Sequence[Placed]) -> list[Table]:
    """Imbalanced labels and mixed corruptions: averages by backbone."""
    wild_ones = [one for one in placed if one.bench.split("/")[0] in ("imbalanced", "mixed") and one.kind in AS_IT_IS]
    models = _in_order([*BACKBONES, *(one.bench.split("/", 1)[1] for one in wild_ones)])
    if any(one.bench.split("/", 1)[1] not in BACKBONES for one in wild_ones):
        models = [m for m in models if any(one.bench.endswith(f"/{m}") for one in wild_ones)]

    def column(scenario: str, model: str) -> Column:
        told = partial(reported, "wild", model=model, column=scenario)
        return Column(f"{scenario}, {BACKBONES.get(model, model)}", f"{scenario}/{model}", "accuracy", paper=told)

    columns = [column(scenario, model) for scenario in ("imbalanced", "mixed") for model in models]
    title = "ImageNet-C, severity 5, in the wild: average accuracy, %"
    return [
        method_table(numbered("wild", i), titled(title, variant), some, columns, SIX, "wild")
        for i, (variant, some) in enumerate(variants(wild_ones).items())
    ]


def _in_order(names: Iterable[str]) -> list[str]:
    """Each once: the paper's backbones first."""
    order = list(BACKBONES)
    rank = {one: order.index(model) if (model := one.split("/")[-1]) in order else len(order) for one in names}
    return sorted(rank, key=lambda one: (rank[one], one))
