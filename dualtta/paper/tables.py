"""The paper's tables, in its own layouts: rows are methods, columns benchmarks, pairs of domains or corruptions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.paper.placing import SHIFTS, bench_of, place, title_of, variants
from dualtta.paper.reported import BACKBONES, LABELS, METHODS, reported
from dualtta.paper.run_commands import command
from dualtta.report.labels import OWN, OWN_NOTE
from dualtta.report.statistics import Column, pivot
from dualtta.report.table import Notes, Reported, Row, Table

ROWS = ("source", "tent", "sar", "eata", "deyo", "dualtta")  # of most of its tables
SHORT = {  # in its header
    **{name: name.split("_")[0].capitalize() for name in CORRUPTIONS},
    "gaussian_noise": "Gauss.",
    "impulse_noise": "Impul.",
    "defocus_blur": "Defoc.",
    "brightness": "Bright.",
    "contrast": "Contr.",
    "pixelate": "Pixel",
    "jpeg_compression": "JPEG",
}
SHARES = {"adapt": "%adapt", "corr_adapt": "%corr-adapt", "low_entropy": "%low entropy"}
BACKBONE_UNKNOWN = "the paper does not say with which backbone"
SWEEPS = {"lam": "sweep-lambda", "layer": "sweep-layer", "drop": "quadrants"}  # experiments by what they vary


def tables(frame: Any) -> list[Table]:
    """All tables of the paper that the records have something for. The entry point `dualtta.tables`."""
    from dualtta.paper import ablations
    from dualtta.paper.claims import claims_table
    from dualtta.paper.quadrants import quadrants

    placed = place(frame)
    shown = ablations.shown(placed)
    return [
        *benchmarks(placed),
        *domain_pairs(placed),
        *imagenet_c(placed),
        *wild(placed),
        *ablations.filters(placed),
        *ablations.incorrect(placed),
        *efficiency(placed),
        *ablations.sensitivity(placed),
        *other_settings(placed, placed[(placed["kind"] != "") & ~placed["setting"].isin(shown)]),
        *quadrants(frame, placed),
        *claims_table(placed),
    ]


def column(
    header: str,
    bench: str,
    metric: str,
    unit: str | None = None,
    *,
    compare: bool = True,
    paper: Callable[[str], Reported | None] = lambda method: None,
) -> Column:
    """A column of one benchmark, over all its units or one. The paper's number stands beside the rows of its own methods."""
    about = bench_of(bench)

    def select(placed: Any) -> Any:
        return placed[(placed["bench"] == bench) & ((placed["unit"] == unit) if unit is not None else True)]

    return Column(
        header,
        metric,
        select,
        units=len(about.units) if unit is None else 1,
        of=about.of,
        compare=metric if compare else None,
        reported=lambda label: paper(LABELS[label]) if label in LABELS else None,
    )


def method_tables(
    name: str, title: str, placed: Any, columns: Sequence[Column], experiment: str, usual: Iterable[str] = ROWS
) -> Iterator[Table]:
    """Methods by columns, a table a variant: the paper's rows, measured or not, then all others in the frame's order."""
    for words, some in variants(placed, title):
        notes, labels = Notes(), [label for _, label in sorted(zip(some["order"], some["label"], strict=True))]
        rows = pivot(some, columns, notes, list(dict.fromkeys([*(METHODS[method] for method in usual), *labels])))
        yield paper_table(name, words, ("method", *(one.header for one in columns)), rows, notes, some, experiment)


def paper_table(
    name: str,
    title: str,
    header: tuple[str, ...],
    rows: Sequence[Row],
    notes: Notes,
    placed: Any,
    experiment: str = "",
    more: Sequence[str] = (),
    settings: Iterable[int] | None = None,
) -> Table:
    """A table with its notes and the command that makes the records behind it; it shows all settings unless some are given."""
    more = [*more, OWN_NOTE] if any(f", {OWN}" in row.label for row in rows) else more
    shown = frozenset(placed["setting"] if settings is None else settings)
    made_by = command(experiment or name, placed)
    return Table(name, title, header, tuple(rows), notes.below(rows, *more), made_by, settings=shown)


def standard(placed: Any) -> Any:
    """The methods as they are: no ablation or sweep."""
    return placed[placed["kind"] == ""]


def benchmarks(placed: Any) -> Iterator[Table]:
    """Table 1: averages and worst groups."""
    paper = partial(reported, "benchmarks")
    columns = [
        column(f"{SHIFTS[key].title}, {which}", key, metric, paper=partial(paper, dataset=key, column=which))
        for key in ("colored_mnist", "waterbirds")
        for which, metric in (("avg", "mean_of_groups"), ("worst", "worst_group"))
    ]
    columns += [
        column(SHIFTS[key].title, key, "accuracy", paper=partial(paper, dataset=key)) for key in ("office_home", "pacs")
    ]
    cells = standard(placed[placed["bench"].isin(SHIFTS)])
    return method_tables("benchmarks", "Table 1: accuracy under domain shift, %", cells, columns, "benchmarks")


def domain_pairs(placed: Any) -> Iterator[Table]:
    """All pairs of a source and a target domain; the paper prints their average alone."""
    for key in ("pacs", "office_home"):
        columns = [column(unit, key, "accuracy", unit) for unit in SHIFTS[key].units]
        columns.append(column("avg", key, "accuracy", paper=partial(reported, "benchmarks", dataset=key)))
        title, cells = f"{SHIFTS[key].title}: all pairs, accuracy on the target, %", standard(placed[placed["bench"] == key])
        yield from method_tables(f"pairs-{key}", title, cells, columns, "benchmarks")


def imagenet_c(placed: Any) -> Iterator[Table]:
    """15 corruptions at severity 5, a table a backbone."""
    for key in in_order(set(placed["bench"][placed["bench"].str.startswith("mild/")])):
        model = key.split("/", 1)[1]
        paper = partial(reported, "imagenet-c", model=model)
        columns = [column(SHORT[name], key, "accuracy", name, paper=partial(paper, column=name)) for name in CORRUPTIONS]
        columns.append(column("avg", key, "accuracy", paper=partial(paper, column="avg")))
        title, cells = f"ImageNet-C, severity 5, {BACKBONES.get(model, model)}: accuracy, %", placed[placed["bench"] == key]
        yield from method_tables(f"imagenet-c-{model}", title, standard(cells), columns, "imagenet-c")


def wild(placed: Any) -> Iterator[Table]:
    """Imbalanced labels and mixed corruptions: averages by backbone."""
    some = standard(placed[placed["bench"].str.startswith(("imbalanced/", "mixed/"))])
    measured = {bench.split("/", 1)[1] for bench in some["bench"]}
    models = in_order({*BACKBONES, *measured} if measured <= set(BACKBONES) else measured)
    columns = [
        column(
            f"{scenario}, {BACKBONES.get(model, model)}",
            f"{scenario}/{model}",
            "accuracy",
            paper=partial(reported, "wild", model=model, column=scenario),
        )
        for scenario in ("imbalanced", "mixed")
        for model in models
    ]
    return method_tables("wild", "ImageNet-C, severity 5, in the wild: average accuracy, %", some, columns, "wild")


def in_order(names: Iterable[str]) -> list[str]:
    """Models, or "scenario/model": the paper's backbones first."""
    order = list(BACKBONES)
    rank = {one: order.index(model) if (model := one.split("/")[-1]) in order else len(order) for one in names}
    return sorted(rank, key=lambda one: (rank[one], one))


def efficiency(placed: Any) -> Iterator[Table]:
    """Shares of all samples: used, used rightly (D+ and correct, or D- and not), of low entropy."""
    wanted = standard(placed[placed["bench"].isin(SHIFTS) | placed["bench"].str.startswith("mild/")])
    wanted = wanted[np.array([about.learns for about in wanted["about"]], bool)]
    title, methods = "Data efficiency: shares of all samples, %", ("eata", "sar", "deyo", "dualtta")
    for _, some in variants(wanted, title):
        met = set(some["bench"])
        benches = [key for key in SHIFTS if key in ("colored_mnist", "office_home") or key in met]
        benches += in_order(key for key in met if key.startswith("mild/"))
        columns = [_share(bench, share) for bench in benches for share in SHARES]
        yield from method_tables("efficiency", title, some, columns, "efficiency", methods)


def _share(bench: str, share: str) -> Column:
    def paper(method: str) -> Reported | None:
        found = reported("efficiency", method, "imagenet_c" if "/" in bench else bench, column=share)
        return Reported(found.value, (*found.notes, BACKBONE_UNKNOWN)) if found and "/" in bench else found

    return column(f"{title_of(bench)}, {SHARES[share]}", bench, share, compare=False, paper=paper)


def other_settings(placed: Any, others: Any) -> Iterator[Table]:
    """Sweeps and settings of one's own on the paper's benchmarks, averaged as the paper does, beside the method as it is."""
    methods, benches = set(others["method"]), set(others["bench"])
    beside = standard(placed[placed["method"].isin(methods) & placed["bench"].isin(benches)])
    chosen = placed[placed["setting"].isin({*beside["setting"], *others["setting"]})] if len(others) else others
    kinds = set(others["kind"])
    experiment = SWEEPS.get(kinds.pop(), "EXPERIMENT") if len(kinds) == 1 else "EXPERIMENT"
    title = "Other settings on the paper's benchmarks: average accuracy, %"
    for _, some in variants(chosen, title):
        here = sorted(set(some["bench"]), key=lambda key: (key not in SHIFTS, key))
        columns = [column(title_of(key), key, bench_of(key).average) for key in here]
        yield from method_tables("settings", title, some, columns, experiment, usual=())
