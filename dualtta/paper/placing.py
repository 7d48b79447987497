"""Which benchmark of the paper a setting belongs to, and in what it differs from the paper's own setting."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS
from dualtta.paper.reported import BACKBONES, reported
from dualtta.report.labels import changes
from dualtta.report.results import context, tell_apart
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
    if cell.source is not None and start != "pretrained":
        weights = "random weights" if start is None else f"a file ({str(start)[:23]})"
        said.append(f"the source model starts from {weights}, not from the published ImageNet weights")
    size = cell.stream.get("batch_size", BATCH)
    return [*said, f"batches of {size} instead of the paper's {BATCH}"] if size != BATCH else said


def reference(cell: Any, units: int, metric: str) -> Reported | None:
    """The paper's average of a benchmark; none for a part of its units. The entry point `dualtta.references`."""
    units_of = {**{key: len(bench.units) for key, bench in SHIFTS.items()}, "imagenet_c": len(CORRUPTIONS)}
    if cell.scenario != "mild" or cell.stream.get("repeats", 1) > 1 or units != units_of.get(cell.dataset, 1):
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


def kind_of(changed: set[str]) -> str:
    """Which sweep or ablation changes these settings alone; empty for the method as it is."""
    kinds = {"filters": {"filter_sa", "filter_sp"}, "thresholds": {"tau_sa", "tau_sp"}}
    kinds |= {name: {name} for name in ("lam", "layer", "drop")}
    return next((kind for kind, of in kinds.items() if changed and changed <= of), "")


def place(frame: Any) -> Any:
    """The rows that belong to the paper's benchmarks, with more columns: `bench` and `unit`, `label` (a row of its tables),
    `variant` (names its table among those of one layout), `changes` (of labels.py) and `kind`.
    """
    firsts = [(cell, at) for cell in frame.drop_duplicates("setting").itertuples() if (at := locate(cell)) is not None]
    changed = {cell.setting: changes(cell) for cell, _ in firsts}
    columns: dict[str, dict[int, Any]] = {
        "bench": {cell.setting: bench for cell, (bench, _) in firsts},
        "unit": {cell.setting: unit for cell, (_, unit) in firsts},
        "label": {cell.setting: cell.base for cell, _ in firsts},
        "variant": _variants({cell.setting: (bench, cell) for cell, (bench, _) in firsts}),
        "changes": changed,
        "kind": {setting: kind_of(set(keys)) for setting, keys in changed.items()},
    }
    rows = frame[frame["setting"].isin(changed)].copy()
    for name, values in columns.items():
        rows[name] = pd.Series([values[setting] for setting in rows["setting"]], index=rows.index, dtype=object)
    tell_apart(rows, ["bench", "variant", "unit", "label"])
    return rows


def _variants(cells: dict[int, tuple[str, Any]]) -> dict[int, str]:
    """One table as long as every benchmark was run in one way; else a table for each way, named by it."""
    way = {setting: ((*context(cell), *remarks(cell)), _recipe(cell)) for setting, (_, cell) in cells.items()}
    ways: dict[str, dict[tuple[tuple[str, ...], str], None]] = {}
    for setting, (bench, _) in cells.items():
        ways.setdefault(bench, {})[way[setting]] = None
    if all(len(of) == 1 for of in ways.values()):
        return dict.fromkeys(cells, "")
    named = {}
    for setting, (bench, _) in cells.items():
        words, recipe = way[setting]
        recipes = [r for w, r in ways[bench] if w == words]
        more = [f"source model no. {recipes.index(recipe) + 1}"] if len(recipes) > 1 else []
        named[setting] = "; ".join([*words, *more]) or NEAREST
    return named


def _recipe(cell: Any) -> str:
    """The training of the source model, but for its data and its seed."""
    source = {key: value for key, value in (cell.source or {}).items() if key not in ("choices", "seed")}
    return json.dumps(source, sort_keys=True)


def variants(placed: Any, title: str) -> list[tuple[str, Any]]:
    """The title of a table and its rows for each variant, the one nearest to the paper first."""
    order = sorted(set(placed["variant"]), key=lambda variant: (variant.count(";"), variant != NEAREST, variant))
    return [(titled(title, variant), placed[placed["variant"] == variant]) for variant in order]


def titled(title: str, variant: str) -> str:
    return f"{title} ({variant})" if variant else title
