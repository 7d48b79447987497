"""The paper's benchmarks as columns: which cells an average takes, and which settings stand in one row of one table."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS
from dualtta.paper.reported import BACKBONES
from dualtta.report.context import context
from dualtta.report.gather import Collected, Metric, Setting
from dualtta.report.labels import changes, label, rank


@dataclass(frozen=True)
class Bench:
    """A benchmark of the paper: its average is over these units, each a cell of its own."""

    title: str
    units: tuple[str, ...] = ("",)
    of: str = "cells"
    average: Metric = "accuracy"


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


@dataclass(frozen=True)
class Placed:
    """A setting in its place: a unit of a benchmark, a row by its label, a table by its variant."""

    setting: Setting
    bench: str  # a key of SHIFTS, or "scenario/model" of ImageNet-C
    unit: str
    label: str
    variant: str = ""  # what tells its table from others of the same layout
    kind: str = ""


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


def locate(setting: Setting) -> tuple[str, str] | None:
    """The benchmark and the unit that a setting belongs to; None where it is none of the paper's."""
    if setting.dataset in SHIFTS and setting.scenario == "mild":
        origin, target = setting.source_domains, setting.target_domains
        unit = f"{origin[0]} → {target[0]}" if len(origin) == len(target) == 1 else ""
        return (setting.dataset, unit) if unit in SHIFTS[setting.dataset].units else None
    if setting.dataset == "imagenet_c" and setting.scenario in IMAGENET_C and setting.choices.get("severities") == [5]:
        corruptions = setting.choices.get("corruptions")
        named = tuple(corruptions) if isinstance(corruptions, list) else ()
        whole = setting.scenario == "mixed" and sorted(named) == sorted(CORRUPTIONS)
        unit = "" if whole else named[0] if len(named) == 1 else "?"
        key = f"{setting.scenario}/{setting.model}"
        return (key, unit) if unit in bench_of(key).units else None
    return None


def kind_of(setting: Setting) -> str:
    """What a setting is a part of, by what was set otherwise: "" for the method as it is, or the sweep's name."""
    keys = set(changes(setting))
    sweeps = {"filters": {"filter_sa", "filter_sp"}, "thresholds": {"tau_sa", "tau_sp"}}
    singles = {"lam": "lam", "layer": "layer", "drop": "drop"}
    return next(
        (sweep for sweep, of in {**sweeps, **{name: {key} for name, key in singles.items()}}.items() if keys and keys <= of), ""
    )


def place(collected: Collected) -> list[Placed]:
    """Every setting that belongs to a benchmark of the paper, in its place; no place is taken twice."""
    found = [
        Placed(setting, *at, label(setting), kind=kind_of(setting)) for setting in collected.settings if (at := locate(setting))
    ]
    found = _variants(found)
    slots: dict[tuple[str, str, str, str], list[int]] = {}
    for number, one in enumerate(found):
        slots.setdefault((one.bench, one.variant, one.unit, one.label), []).append(number)
    for same in slots.values():
        for number, words in zip(same, told_apart([found[i].setting for i in same]), strict=True):
            found[number] = replace(found[number], label=", ".join([found[number].label, *words]))
    return found


def told_apart(same: Sequence[Setting]) -> list[tuple[str, ...]]:
    """What to add to the labels of settings that were chosen alike and yet are not one."""
    if len(same) == 1:
        return [()]
    sizes, weights = [one.samples for one in same], [_weights(one) for one in same]
    if len(set(sizes)) == len(same):
        return [(f"{size:,} samples",) for size in sizes]
    if len(set(weights)) == len(same):
        return [(f"weights {hash}",) for hash in weights]
    return [(f"no. {number}",) for number in range(1, len(same) + 1)]


def _weights(setting: Setting) -> str:
    return str(setting.records[0].part("model", "weights_hash"))[:8]


def _variants(found: list[Placed]) -> list[Placed]:
    """One table as long as every benchmark was run in one way; else a table for each way, named by it."""
    ways: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for one in found:
        way = (context(one.setting), _recipe(one.setting))
        if way not in ways.setdefault(one.bench, []):
            ways[one.bench].append(way)
    if all(len(of) == 1 for of in ways.values()):
        return found
    named = []
    for one in found:
        words, recipe = context(one.setting), _recipe(one.setting)
        recipes = [r for w, r in ways[one.bench] if w == words]
        more = [f"source model no. {recipes.index(recipe) + 1}"] if len(recipes) > 1 else []
        named.append(replace(one, variant="; ".join([*words, *more]) or "as in the paper"))
    return named


def _recipe(setting: Setting) -> str:
    """The training behind the model, but for what it was trained on and its seed."""
    source: dict[str, Any] = setting.source or {}
    return json.dumps({key: value for key, value in source.items() if key not in ("choices", "seed")}, sort_keys=True)


def variants(placed: Iterable[Placed]) -> dict[str, list[Placed]]:
    """By variant, the one nearest to the paper first."""
    groups: dict[str, list[Placed]] = {}
    for one in sorted(placed, key=lambda one: (one.variant.count(";"), one.variant != "as in the paper", one.variant)):
        groups.setdefault(one.variant, []).append(one)
    return groups


def labels_of(placed: Iterable[Placed]) -> list[str]:
    """Row labels in the order of a table."""
    ranks = {one.label: (rank(one.setting.method), by_number(one.label)) for one in placed}
    return sorted(ranks, key=lambda label: ranks[label])


def by_number(label: str) -> list[tuple[float, str]]:
    """For sorting: what is a number counts as one.

    >>> sorted(["lam 2", "lam 0.5", "lam 0.25"], key=by_number)
    ['lam 0.25', 'lam 0.5', 'lam 2']
    """
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", label)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]
