"""The paper's tables, in its own layouts: rows are methods, columns benchmarks, pairs of domains or corruptions."""

from collections.abc import Callable, Iterable, Sequence
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


def method_table(name: str, title: str, placed: Any, columns: Sequence[Column], rows: Iterable[str], experiment: str) -> Table:
    """Methods by columns. The paper's rows are there whether they were measured or not, all others in the frame's order."""
    notes, usual = Notes(), [METHODS[method] for method in rows]
    others = [label for _, label in sorted(zip(placed["order"], placed["label"], strict=True))]
    made = pivot(placed, columns, notes, list(dict.fromkeys([*usual, *others])))
    return paper_table(name, title, ("method", *(column.header for column in columns)), made, notes, placed, experiment)


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


def benchmarks(placed: Any) -> list[Table]:
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
    found = variants(standard(placed[placed["bench"].isin(SHIFTS)]), "Table 1: accuracy under domain shift, %")
    return [method_table("benchmarks", title, some, columns, ROWS, "benchmarks") for title, some in found]


def domain_pairs(placed: Any) -> list[Table]:
    """All pairs of a source and a target domain; the paper prints their average alone."""
    made = []
    for key in ("pacs", "office_home"):
        bench = SHIFTS[key]
        columns = [column(unit, key, "accuracy", unit) for unit in bench.units]
        columns.append(column("avg", key, "accuracy", paper=partial(reported, "benchmarks", dataset=key)))
        title = f"{bench.title}: all pairs, accuracy on the target, %"
        for name, some in variants(standard(placed[placed["bench"] == key]), title):
            made.append(method_table(f"pairs-{key}", name, some, columns, ROWS, "benchmarks"))
    return made


def imagenet_c(placed: Any) -> list[Table]:
    """15 corruptions at severity 5, a table a backbone."""
    made = []
    for key in in_order(set(placed["bench"][placed["bench"].str.startswith("mild/")])):
        model = key.split("/", 1)[1]
        paper = partial(reported, "imagenet-c", model=model)
        columns = [column(SHORT[name], key, "accuracy", name, paper=partial(paper, column=name)) for name in CORRUPTIONS]
        columns.append(column("avg", key, "accuracy", paper=partial(paper, column="avg")))
        title = f"ImageNet-C, severity 5, {BACKBONES.get(model, model)}: accuracy, %"
        for name, some in variants(standard(placed[placed["bench"] == key]), title):
            made.append(method_table(f"imagenet-c-{model}", name, some, columns, ROWS, "imagenet-c"))
    return made


def wild(placed: Any) -> list[Table]:
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
    found = variants(some, "ImageNet-C, severity 5, in the wild: average accuracy, %")
    return [method_table("wild", title, part, columns, ROWS, "wild") for title, part in found]


def in_order(names: Iterable[str]) -> list[str]:
    """Models, or "scenario/model": the paper's backbones first."""
    order = list(BACKBONES)
    rank = {one: order.index(model) if (model := one.split("/")[-1]) in order else len(order) for one in names}
    return sorted(rank, key=lambda one: (rank[one], one))


def efficiency(placed: Any) -> list[Table]:
    """Shares of all samples: used, used rightly (D+ and correct, or D- and not), of low entropy."""
    wanted = standard(placed[placed["bench"].isin(SHIFTS) | placed["bench"].str.startswith("mild/")])
    wanted = wanted[np.array([about.learns for about in wanted["about"]], bool)]
    made = []
    for title, some in variants(wanted, "Data efficiency: shares of all samples, %"):
        met = set(some["bench"])
        benches = [key for key in SHIFTS if key in ("colored_mnist", "office_home") or key in met]
        benches += in_order(key for key in met if key.startswith("mild/"))
        columns = [_share(bench, share) for bench in benches for share in SHARES]
        made.append(method_table("efficiency", title, some, columns, ("eata", "sar", "deyo", "dualtta"), "efficiency"))
    return made


def _share(bench: str, share: str) -> Column:
    def paper(method: str) -> Reported | None:
        found = reported("efficiency", method, "imagenet_c" if "/" in bench else bench, column=share)
        return Reported(found.value, (*found.notes, BACKBONE_UNKNOWN)) if found and "/" in bench else found

    return column(f"{title_of(bench)}, {SHARES[share]}", bench, share, compare=False, paper=paper)


def other_settings(placed: Any, others: Any) -> list[Table]:
    """Sweeps and settings of one's own on the paper's benchmarks, averaged as the paper does, beside the method as it is."""
    methods, benches = set(others["method"]), set(others["bench"])
    beside = standard(placed[placed["method"].isin(methods) & placed["bench"].isin(benches)])
    chosen = placed[placed["setting"].isin({*beside["setting"], *others["setting"]})] if len(others) else others
    kinds = set(others["kind"])
    experiment = SWEEPS.get(kinds.pop(), "EXPERIMENT") if len(kinds) == 1 else "EXPERIMENT"
    made = []
    for title, some in variants(chosen, "Other settings on the paper's benchmarks: average accuracy, %"):
        here = sorted(set(some["bench"]), key=lambda key: (key not in SHIFTS, key))
        columns = [column(title_of(key), key, bench_of(key).average) for key in here]
        made.append(method_table("settings", title, some, columns, (), experiment))
    return made
