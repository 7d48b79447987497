"""The claims of the paper's text, beside its own tables and what was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.paper.ablations import WITHOUT
from dualtta.paper.placing import SHIFTS, bench_of, titled, variants
from dualtta.paper.reported import METHODS, claims, contradictions, reported
from dualtta.report.statistics import by_seed, over_seeds
from dualtta.report.table import Notes, Reported, Row, Table, Value, numbered

BySeed = dict[int, float]
DUAL, DEYO, EATA, SAR, SOURCE, DEYO_DUAL, EATA_DUAL = (
    METHODS[method] for method in ("dualtta", "deyo", "eata", "sar", "source", "deyo_dual", "eata_dual")
)
NO_ALTERING, NO_PRESERVING, NO_MINUS = (WITHOUT[key] for key in ("filter_sa", "filter_sp", "lam"))
BN, VIT = "resnet50", "vit_base_patch16_224"


@dataclass
class Measured:
    """Looks numbers up in the records; collects the cells it used."""

    rows: dict[Any, Any]  # cells by benchmark and label
    used: list[Any] = field(default_factory=list)

    def __call__(self, bench: str, row: str, unit: str | None = None, metric: str = "") -> BySeed | None:
        """Per cent by seed; None unless all cells are there."""
        units = bench_of(bench).units if unit is None else (unit,)
        cells = self.rows.get((bench, row))
        cells = cells if cells is None else cells[cells["unit"].isin(units)]
        if cells is None or cells["setting"].nunique() != len(units):
            return None
        self.used.append(cells)
        each = list(by_seed(cells, metric or bench_of(bench).average).values())
        shared = set(each[0]).intersection(*each[1:])
        return {seed: 100 * float(np.mean([cell[seed] for cell in each])) for seed in sorted(shared)} or None


class Printed:
    """Looks numbers up in the paper's tables."""

    def __call__(self, bench: str, row: str, unit: str | None = None, metric: str = "") -> BySeed | None:
        method = {words: key for key, words in METHODS.items()}.get(row, "")
        found: Reported | None
        if metric:
            found = reported("efficiency", method, bench if bench in SHIFTS else "imagenet_c", column=metric)
        elif row in (NO_ALTERING, NO_PRESERVING):
            which = "preserving_only" if row == NO_ALTERING else "altering_only"
            found = reported("ablation-filters", "dualtta", bench, column=which)
        elif row == NO_MINUS or method.endswith("_dual"):
            found = reported("ablation-incorrect", method or "dualtta without D-", bench)
        elif bench in SHIFTS:
            found = reported("benchmarks", method, bench, column="avg") if unit is None else None
        else:
            scenario, model = bench.split("/", 1)
            wild = scenario != "mild"
            found = reported("wild" if wild else "imagenet-c", method, model=model, column=scenario if wild else unit or "avg")
        return {0: found.value} if found else None


Lookup = Measured | Printed
Claim = Callable[[Lookup], BySeed | None]


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


def over_corruptions(bench: str, over: str) -> Claim:
    return largest([gain(bench, DUAL, over, unit) for unit in CORRUPTIONS])


ABLATED = ("colored_mnist", "pacs", "office_home")
CLAIMS: dict[str, tuple[str, Claim]] = {
    **{
        f"accuracy_gain_over_DeYO.{key}": (f"DualTTA over DeYO on {SHIFTS[key].title}", gain(key, DUAL, DEYO))
        for key in ("colored_mnist", "waterbirds", "office_home", "pacs")
    },
    "largest_pair_gain.office_home.art_to_clipart": (
        "DualTTA over DeYO on Office-Home, Art → Clipart",
        gain("office_home", DUAL, DEYO, "Art → Clipart"),
    ),
    "largest_pair_gain.pacs.photo_to_sketch": (
        "DualTTA over DeYO on PACS, photo → sketch",
        gain("pacs", DUAL, DEYO, "photo → sketch"),
    ),
    "imagenet_c.resnet50_bn.largest_gain": (
        "DualTTA over EATA on ImageNet-C, ResNet50-BN, largest over corruptions",
        over_corruptions(f"mild/{BN}", EATA),
    ),
    "imagenet_c.resnet50_bn.mean_gain_over_EATA": (
        "DualTTA over EATA on ImageNet-C, ResNet50-BN, average",
        gain(f"mild/{BN}", DUAL, EATA),
    ),
    "imagenet_c.vit.largest_gain": (
        "DualTTA over EATA on ImageNet-C, ViT, largest over corruptions",
        over_corruptions(f"mild/{VIT}", EATA),
    ),
    "imagenet_c.vit.mean_gain": ("DualTTA over EATA on ImageNet-C, ViT, average", gain(f"mild/{VIT}", DUAL, EATA)),
    **{
        f"filters.altering_gain.{key}": (f"the altering filter's gain on {SHIFTS[key].title}", gain(key, DUAL, NO_ALTERING))
        for key in ("colored_mnist", "waterbirds")
    },
    **{
        f"filters.preserving_gain.{key}": (
            f"the preserving filter's gain on {SHIFTS[key].title}",
            gain(key, DUAL, NO_PRESERVING),
        )
        for key in ABLATED
    },
    "likely_incorrect_gain": ("D- in DualTTA: its largest gain", largest([gain(key, DUAL, NO_MINUS) for key in ABLATED])),
    "likely_incorrect_gain.deyo_max": (
        "D- in DeYO: its largest gain",
        largest([gain(key, DEYO_DUAL, DEYO) for key in ABLATED]),
    ),
    "likely_incorrect_gain.eata_max": (
        "D- in EATA: its largest gain",
        largest([gain(key, EATA_DUAL, EATA) for key in ABLATED]),
    ),
    "deyo_share_adapted_percent.pacs": ("samples that DeYO uses on PACS", share("pacs", DEYO, "adapt")),
    "deyo_share_adapted_and_correct_percent.pacs": (
        "samples that DeYO uses on PACS and that are correct",
        share("pacs", DEYO, "corr_adapt"),
    ),
    "deyo_share_adapted_percent.imagenet_c": (
        "samples that DeYO uses on ImageNet-C, ResNet50-BN",
        share(f"mild/{BN}", DEYO, "adapt"),
    ),
    "low_entropy_share_percent.imagenet_c": (
        "samples of low entropy on ImageNet-C, ResNet50-BN, no adaptation",
        share(f"mild/{BN}", SOURCE, "low_entropy"),
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
    return [_table(numbered("claims", i), variant, some) for i, (variant, some) in enumerate(variants(placed).items())]


def _table(stem: str, variant: str, placed: Any) -> Table:
    notes, texts, rows = Notes(), claims(), []
    by_row = dict(iter(placed.groupby(["bench", "label"], sort=False)))
    for key, (words, claim) in CLAIMS.items():
        text, lookup, printed = texts[key], Measured(by_row), claim(Printed())
        each = claim(lookup)
        said = notes.marks(contradictions("claims", key))
        number = float(text) if isinstance(text, int | float) else None
        if each is None:
            found = Value(reported=number, marks=said)
        else:
            mean, deviation = over_seeds(each.values())
            columns = [zip(*(cells[name] for name in ("setting", "remarks", "samples")), strict=True) for cells in lookup.used]
            used = {setting: (remarks, samples) for cells in columns for setting, remarks, samples in cells}
            marks = notes.marks(text for remarks, _ in used.values() for text in remarks)
            size = int(sum(samples for _, samples in used.values()))
            found = Value(mean, deviation, len(each), size, number, (*marks, *said))
        by_tables = f"{next(iter(printed.values())):.2f}" if printed else ""
        rows.append(Row(words, (f"{text:.2f}" if isinstance(text, float) else str(text), by_tables, found)))
    header = ("claim", "in the text", "by its tables", "measured")
    title = titled("The paper's claims: points of accuracy, or % of samples", variant)
    return Table(stem, title, header, tuple(rows), notes.below(rows), detail=True)
