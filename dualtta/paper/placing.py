"""Which benchmark of the paper a setting belongs to, and in what it differs from the paper's own setting."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS
from dualtta.paper.reported import BACKBONES, reported
from dualtta.report.labels import changes
from dualtta.report.results import context, difference_words
from dualtta.report.table import Reported
from dualtta.report.tasks import source_domains, target_domains

MODELS = {  # of the paper, by dataset
    "colored_mnist": ("resnet18",),
    "waterbirds": ("resnet50",),
    "pacs": ("resnet50",),
    "office_home": ("resnet50",),
    "imagenet_c": ("resnet50", "resnet50_gn", "vit_base_patch16_224"),
}
BATCH = 64
NEAREST = "as in the paper"  # the variant with no difference
PARTS = (  # the order of the words in the name of a variant
    *("a subset", "a copy", "instead of the paper's r", "random weights: ", "other weights", "saw at most", "starts from"),
    *("batches of", "passes over", "in the stream", "corrupted on the fly"),
)


@dataclass(frozen=True)
class Bench:
    """A benchmark of the paper: its average is over these units, each a cell."""

    title: str
    units: tuple[str, ...] = ("",)
    of: str = "cells"
    average: str = "accuracy"


def pairs(domains: Iterable[str]) -> tuple[str, ...]:
    """Each domain as the source of every other.

    >>> pairs(["photo", "sketch"])
    ('photo → sketch', 'sketch → photo')
    """
    names = list(domains)
    return tuple(f"{origin} → {target}" for origin in names for target in names if origin != target)


SHIFTS = {  # Table 1
    "colored_mnist": Bench("ColoredMNIST", average="mean_of_groups"),
    "waterbirds": Bench("Waterbirds", average="mean_of_groups"),
    "office_home": Bench("Office-Home", pairs(OFFICE_HOME.domains), "pairs"),
    "pacs": Bench("PACS", pairs(PACS.domains), "pairs"),
}
IMAGENET_C = {  # by scenario, on each backbone
    "mild": Bench("ImageNet-C", CORRUPTIONS, "corruptions"),
    "imbalanced": Bench("ImageNet-C, imbalanced labels", CORRUPTIONS, "corruptions"),
    "mixed": Bench("ImageNet-C, mixed corruptions"),
}


def bench_of(key: str) -> Bench:
    """
    >>> bench_of("mild/resnet50").title
    'ImageNet-C'
    """
    return SHIFTS[key] if key in SHIFTS else IMAGENET_C[key.split("/")[0]]


def title_of(key: str) -> str:
    """
    >>> title_of("pacs"), title_of("mild/resnet50")
    ('PACS', 'ImageNet-C, ResNet50-BN')
    """
    model = key.split("/", 1)[1] if "/" in key else ""
    return f"{bench_of(key).title}, {BACKBONES.get(model, model)}" if model else bench_of(key).title


def remarks(cell: Any) -> list[str]:
    """In what a setting differs from the paper's: model, source weights, batch size. The entry point `dualtta.remarks`."""
    usual, said = MODELS.get(cell.dataset), []
    if usual is None:
        return []
    if cell.model not in usual:
        said.append(f"{cell.model} instead of the paper's {' or '.join(usual)}")
    start = (cell.source or {}).get("weights")
    if cell.source is not None and cell.dataset != "colored_mnist" and start != "pretrained":
        weights = "random weights" if start is None else f"a file ({str(start)[:23]})"
        said.append(f"the source model starts from {weights}, not from the published ImageNet weights")
    size = cell.stream.get("batch_size", BATCH)
    return [*said, f"batches of {size} instead of the paper's {BATCH}"] if size != BATCH else said


def reference(cell: Any, units: int, metric: str) -> Reported | None:
    """The paper's average of a benchmark; none for a part of its units. The entry point `dualtta.references`."""
    needed = (
        len(SHIFTS[cell.dataset].units) if cell.dataset in SHIFTS else len(CORRUPTIONS) if cell.dataset == "imagenet_c" else 1
    )
    if cell.scenario != "mild" or cell.stream.get("repeats", 1) > 1 or units != needed:
        return None
    table = "imagenet-c" if cell.dataset == "imagenet_c" else "benchmarks"
    return reported(table, cell.method, cell.dataset, cell.model, column="worst" if metric == "worst_group" else "avg")


def locate(cell: Any) -> tuple[str, str] | None:
    """The benchmark (a key of SHIFTS, or "scenario/model" of ImageNet-C) and the unit; None where it is none of the paper's."""
    if cell.dataset in SHIFTS and cell.scenario == "mild":
        source, target = source_domains(cell), target_domains(cell)
        unit = f"{source[0]} → {target[0]}" if len(source) == len(target) == 1 else ""
        return (cell.dataset, unit) if unit in SHIFTS[cell.dataset].units else None
    if cell.dataset == "imagenet_c" and cell.scenario in IMAGENET_C and cell.choices.get("severities") == [5]:
        corruptions = cell.choices.get("corruptions")
        named = tuple(corruptions) if isinstance(corruptions, list) else ()
        whole = cell.scenario == "mixed" and sorted(named) == sorted(CORRUPTIONS)
        unit = "" if whole else named[0] if len(named) == 1 else "?"
        key = f"{cell.scenario}/{cell.model}"
        return (key, unit) if unit in bench_of(key).units else None
    return None


def kind_of(cell: Any) -> str:
    """Which sweep or ablation a setting is a part of; empty for the method as it is."""
    keys = set(changes(cell))
    sweeps = {"filters": {"filter_sa", "filter_sp"}, "thresholds": {"tau_sa", "tau_sp"}}
    singles = {"lam": {"lam"}, "layer": {"layer"}, "drop": {"drop"}}
    return next((kind for kind, of in {**sweeps, **singles}.items() if keys and keys <= of), "")


@dataclass(frozen=True)
class Placed:
    """Where one setting is: a unit of a benchmark, a row by its label, a table by its variant."""

    setting: int
    bench: str
    unit: str
    label: str
    variant: str = ""  # names its table among those of one layout
    kind: str = ""


def place(frame: Any) -> Any:
    """The rows that belong to the paper's benchmarks, with the columns `bench`, `unit`, `label`, `variant` and `kind`."""
    firsts = {cell.setting: cell for cell in frame.drop_duplicates("setting").itertuples()}
    found = [
        Placed(number, *at, cell.base, kind=kind_of(cell))
        for number, cell in firsts.items()
        if (at := locate(cell)) is not None
    ]
    found = _with_variants(found, firsts)
    slots: dict[tuple[str, str, str, str], list[int]] = {}
    for number, one in enumerate(found):
        slots.setdefault((one.bench, one.variant, one.unit, one.label), []).append(number)
    for same in slots.values():
        if len(same) > 1:
            cells = [firsts[found[number].setting]._asdict() for number in same]
            for number, words in zip(same, difference_words(cells), strict=True):
                found[number] = replace(found[number], label=f"{found[number].label}, {words}")
    placed = {one.setting: one for one in found}
    rows = frame[frame["setting"].isin(placed)]
    columns = {
        name: pd.Series([getattr(placed[setting], name) for setting in rows["setting"]], index=rows.index, dtype=object)
        for name in ("bench", "unit", "label", "variant", "kind")
    }
    return rows.assign(**columns)


def _with_variants(found: list[Placed], firsts: dict[int, Any]) -> list[Placed]:
    """One table as long as every benchmark was run in one way; else a table for each way, named by it."""
    way = {one.setting: (_context(firsts[one.setting]), _recipe(firsts[one.setting])) for one in found}
    ways: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for one in found:
        if way[one.setting] not in ways.setdefault(one.bench, []):
            ways[one.bench].append(way[one.setting])
    if all(len(of) == 1 for of in ways.values()):
        return found
    named = []
    for one in found:
        words, recipe = way[one.setting]
        recipes = [r for w, r in ways[one.bench] if w == words]
        more = [f"source model no. {recipes.index(recipe) + 1}"] if len(recipes) > 1 else []
        named.append(replace(one, variant="; ".join([*words, *more]) or NEAREST))
    return named


def _context(cell: Any) -> tuple[str, ...]:
    """In what a setting differs from the paper's, or from all of the data: rows that share it are in one table."""
    words = (*context(cell), *remarks(cell))
    return tuple(sorted(words, key=lambda text: next((i for i, part in enumerate(PARTS) if part in text), len(PARTS))))


def _recipe(cell: Any) -> str:
    """The training of the source model, but for its data and its seed."""
    source = {key: value for key, value in (cell.source or {}).items() if key not in ("choices", "seed")}
    return json.dumps(source, sort_keys=True)


def variants(placed: Any) -> dict[str, Any]:
    """The rows by variant, the one nearest to the paper first."""
    order = sorted(set(placed["variant"]), key=lambda variant: (variant.count(";"), variant != NEAREST, variant))
    return {variant: placed[placed["variant"] == variant] for variant in order}


def titled(title: str, variant: str) -> str:
    return f"{title} ({variant})" if variant else title
