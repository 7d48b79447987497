"""The claims of the paper's text, beside its own tables and what was measured."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.paper.ablations import WITHOUT
from dualtta.paper.placing import SHIFTS, bench_of, variants
from dualtta.paper.reported import LABELS, METHODS, claims, contradictions, reported
from dualtta.report.statistics import by_seed, over_seeds
from dualtta.report.table import Notes, Row, Table, Value

TITLE = "The paper's claims: points of accuracy, or % of samples"
BySeed = dict[int, float]
Lookup = Callable[..., BySeed | None]  # of benchmark, row, unit and metric: per cent by seed; None unless all cells are there
Claim = Callable[[Lookup], BySeed | None]
DUAL, DEYO, EATA, SAR, SOURCE, DEYO_DUAL, EATA_DUAL = (
    METHODS[method] for method in ("dualtta", "deyo", "eata", "sar", "source", "deyo_dual", "eata_dual")
)
NO_ALTERING, NO_PRESERVING, NO_MINUS = (WITHOUT[key] for key in ("filter_sa", "filter_sp", "lam"))
BN, VIT = "resnet50", "vit_base_patch16_224"


def measured(rows: dict[Any, Any], used: list[Any]) -> Lookup:
    """A function that looks numbers up in cells by benchmark and label, and adds those to `used`."""

    def lookup(bench: str, row: str, unit: str | None = None, metric: str = "") -> BySeed | None:
        units, cells = bench_of(bench).units if unit is None else (unit,), rows.get((bench, row))
        cells = cells if cells is None else cells[cells["unit"].isin(units)]
        if cells is None or cells["setting"].nunique() != len(units):
            return None
        used.append(cells)
        each = list(by_seed(cells, metric or bench_of(bench).average).values())
        shared = set(each[0]).intersection(*each[1:])
        return {seed: 100 * float(np.mean([cell[seed] for cell in each])) for seed in sorted(shared)} or None

    return lookup


def printed(bench: str, row: str, unit: str | None = None, metric: str = "") -> BySeed | None:
    """Looks numbers up in the paper's tables."""
    method, found = LABELS.get(row, ""), None
    if metric:
        found = reported("efficiency", method, bench if bench in SHIFTS else "imagenet_c", column=metric)
    elif row in (NO_ALTERING, NO_PRESERVING):
        which = "preserving_only" if row == NO_ALTERING else "altering_only"
        found = reported("ablation-filters", "dualtta", bench, column=which)
    elif row == NO_MINUS or method.endswith("_dual"):
        found = reported("ablation-incorrect", method, bench)
    elif bench in SHIFTS:
        found = reported("benchmarks", method, bench, column="avg") if unit is None else None
    else:
        scenario, model = bench.split("/", 1)
        wild = scenario != "mild"
        found = reported("wild" if wild else "imagenet-c", method, model=model, column=scenario if wild else unit or "avg")
    return {0: found.value} if found else None


def gain(bench: str, row: str, over: str, unit: str | None = None) -> Claim:
    """How far one row is above another, seed by seed."""

    def measure(lookup: Lookup) -> BySeed | None:
        one, other = lookup(bench, row, unit), lookup(bench, over, unit)
        return {seed: one[seed] - other[seed] for seed in one if seed in other} or None if one and other else None

    return measure


def largest(claims: Sequence[Claim]) -> Claim:
    """The largest of several, by their means; None unless all are there."""

    def measure(lookup: Lookup) -> BySeed | None:
        found = [each for claim in claims if (each := claim(lookup))]
        return max(found, key=lambda each: float(np.mean(list(each.values())))) if len(found) == len(claims) else None

    return measure


def share(bench: str, row: str, metric: str) -> Claim:
    return lambda lookup: lookup(bench, row, None, metric)


ABLATED = ("colored_mnist", "pacs", "office_home")
C_BN, C_VIT = f"mild/{BN}", f"mild/{VIT}"
CLAIMS: dict[str, tuple[str, Claim]] = {  # of paper.json: in words, and how it is measured
    **{
        f"accuracy_gain_over_DeYO.{key}": (f"DualTTA over DeYO on {SHIFTS[key].title}", gain(key, DUAL, DEYO))
        for key in ("colored_mnist", "waterbirds", "office_home", "pacs")
    },
    **{
        f"largest_pair_gain.{key}": (f"DualTTA over DeYO on {SHIFTS[on].title}, {pair}", gain(on, DUAL, DEYO, pair))
        for key, on, pair in (
            ("office_home.art_to_clipart", "office_home", "Art → Clipart"),
            ("pacs.photo_to_sketch", "pacs", "photo → sketch"),
        )
    },
    **{
        f"imagenet_c.{key}": (
            f"DualTTA over EATA on ImageNet-C, {net}, {'average' if 'mean' in key else 'largest over corruptions'}",
            gain(on, DUAL, EATA) if "mean" in key else largest([gain(on, DUAL, EATA, unit) for unit in CORRUPTIONS]),
        )
        for key, on, net in (
            ("resnet50_bn.largest_gain", C_BN, "ResNet50-BN"),
            ("resnet50_bn.mean_gain_over_EATA", C_BN, "ResNet50-BN"),
            ("vit.largest_gain", C_VIT, "ViT"),
            ("vit.mean_gain", C_VIT, "ViT"),
        )
    },
    **{
        f"filters.{which}_gain.{key}": (f"the {which} filter's gain on {SHIFTS[key].title}", gain(key, DUAL, without))
        for which, without, keys in (
            ("altering", NO_ALTERING, ("colored_mnist", "waterbirds")),
            ("preserving", NO_PRESERVING, ABLATED),
        )
        for key in keys
    },
    **{
        f"likely_incorrect_gain{key}": (f"D- in {without}: its largest gain", largest([gain(on, row, over) for on in ABLATED]))
        for key, without, row, over in (
            ("", DUAL, DUAL, NO_MINUS),
            (".deyo_max", DEYO, DEYO_DUAL, DEYO),
            (".eata_max", EATA, EATA_DUAL, EATA),
        )
    },
    "deyo_share_adapted_percent.pacs": ("samples that DeYO uses on PACS", share("pacs", DEYO, "adapt")),
    "deyo_share_adapted_and_correct_percent.pacs": (
        "samples that DeYO uses on PACS and that are correct",
        share("pacs", DEYO, "corr_adapt"),
    ),
    "deyo_share_adapted_percent.imagenet_c": (
        "samples that DeYO uses on ImageNet-C, ResNet50-BN",
        share(C_BN, DEYO, "adapt"),
    ),
    "low_entropy_share_percent.imagenet_c": (
        "samples of low entropy on ImageNet-C, ResNet50-BN, no adaptation",
        share(C_BN, SOURCE, "low_entropy"),
    ),
    "wild.imbalanced.vit_base.gain_over_SAR": (
        "DualTTA over SAR, imbalanced labels, ViT",
        gain(f"imbalanced/{VIT}", DUAL, SAR),
    ),
    "wild.mixed.resnet50_bn.gain_over_SAR": ("DualTTA over SAR, mixed, ResNet50-BN", gain(f"mixed/{BN}", DUAL, SAR)),
    "wild.mixed.vit_base.gain_over_DeYO": ("DualTTA over DeYO, mixed, ViT", gain(f"mixed/{VIT}", DUAL, DEYO)),
}


def claims_table(placed: Any) -> list[Table]:
    """All claims, measured or not, where anything of the paper was run."""
    return [_table(title, some) for title, some in variants(placed, TITLE)]


def _table(title: str, placed: Any) -> Table:
    notes, texts, rows = Notes(), claims(), []
    by_row = dict(iter(placed.groupby(["bench", "label"], sort=False)))
    for key, (words, claim) in CLAIMS.items():
        text, in_tables, used = texts[key], claim(printed), list[Any]()
        each = claim(measured(by_row, used))
        said = notes.marks(contradictions("claims", key))
        number = float(text) if isinstance(text, int | float) else None
        found = Value(reported=number, marks=said)
        if each:
            cells = {cell.setting: cell for some in used for cell in some[["setting", "remarks", "samples"]].itertuples()}
            marks = notes.marks(text for cell in cells.values() for text in cell.remarks)
            size = int(sum(cell.samples for cell in cells.values()))
            found = Value(*over_seeds(each.values()), len(each), size, number, (*marks, *said))
        by_tables = f"{next(iter(in_tables.values())):.2f}" if in_tables else ""
        rows.append(Row(words, (f"{text:.2f}" if isinstance(text, float) else str(text), by_tables, found)))
    header = ("claim", "in the text", "by its tables", "measured")
    return Table("claims", title, header, tuple(rows), notes.below(rows), detail=True)
