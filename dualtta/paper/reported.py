"""The numbers that the paper reports: its tables, the claims of its text, and where they contradict each other (paper.json)."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from dualtta.report.labels import WORDS
from dualtta.report.table import Reported

# the rows and columns of its tables, by this package's names
METHODS = {
    "source": "No adapt",
    "tent": "Tent",
    "sar": "SAR",
    "eata": "EATA",
    "deyo": "DeYO",
    "dualtta": "DualTTA",
    "deyo_dual": "DeYO with D-",
    "eata_dual": "EATA with D-",
}
WITHOUT_MINUS = "dualtta without D-"  # a row of one table
LABELS = {**{title: method for method, title in METHODS.items()}, f"DualTTA, {WORDS['lam', 0.0]}": WITHOUT_MINUS}
BACKBONES = {"resnet50": "ResNet50-BN", "resnet50_gn": "ResNet50-GN", "vit_base_patch16_224": "ViTBase-LN"}
SAME = {"resnet50_v1": "resnet50"}  # other weights of the same net
WILD = {"resnet50": "resnet50_bn", "resnet50_gn": "resnet50_gn", "vit_base_patch16_224": "vit_base"}


@cache
def paper() -> dict[str, Any]:
    """Everything in paper.json."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    return found


def reported(experiment: str, method: str = "", dataset: str = "", model: str = "", column: str = "") -> Reported | None:
    """The paper's number for a number of an experiment, with the contradictions that touch it; None where it has none.

    `column` is "avg" or "worst" in `benchmarks`, a corruption or "avg" in `imagenet-c`, the scenario in `wild`, "both",
    "preserving_only" or "altering_only" in `ablation-filters`, "adapt" or "corr_adapt" in `efficiency`, the set and what is
    counted in `quadrants`. In `ablation-incorrect`, "dualtta without D-" is a method.

    >>> reported("benchmarks", "dualtta", "colored_mnist", column="worst")
    Reported(value=68.82, notes=())
    >>> reported("imagenet-c", "tent", model="resnet50", column="fog").value
    61.78
    >>> reported("wild", "dualtta", model="vit_base_patch16_224", column="mixed").value
    70.9
    >>> reported("efficiency", "deyo", "office_home", column="corr_adapt").value
    19.9
    """
    row = METHODS.get(method, "DualTTA without D-" if method == WITHOUT_MINUS else method)
    model = SAME.get(model, model)
    backbone = BACKBONES.get(model, model)
    tables = {
        "benchmarks": ("benchmarks", row, f"{dataset}.{column}" if dataset in ("colored_mnist", "waterbirds") else dataset),
        "imagenet-c": ("imagenet_c_severity5_mild", f"{backbone}/{row}", column),
        "wild": ("imagenet_c_severity5_wild_avg", row, f"{column}.{WILD.get(model, model)}"),
        "ablation-filters": ("ablation_filters", dataset, column),
        "ablation-incorrect": ("ablation_likely_incorrect", row, dataset),
        "efficiency": ("data_efficiency_percent", row, f"{dataset}.{column}"),
        "quadrants": ("quadrants_impulse_noise_percent", "", column),
    }
    return _at(*tables[experiment]) if experiment in tables else None


def claims() -> dict[str, float | str]:
    """The numbers in the paper's text, by subject."""
    found = paper()
    return {**found["claims"], **found["further_claims"]}


def contradictions(table: str, row: str, column: str = "") -> tuple[str, ...]:
    """The contradictions that touch a number of the paper, in words.

    >>> contradictions("imagenet_c_severity5_mild", "ResNet50-GN/DualTTA", "avg")[0][:44]
    'ResNet50-GN, DualTTA: the printed average 41'
    """
    return tuple(
        entry["text"]
        for entry in _contradictions()
        if any(fnmatchcase(row, r) and fnmatchcase(column, c) for t, r, c in entry["touches"] if t == table)
    )


def _contradictions() -> Iterator[dict[str, Any]]:
    yield from paper()["inconsistencies"]
    yield from paper()["further_inconsistencies"]


def _at(table: str, row: str, column: str) -> Reported | None:
    found = paper()[table]
    if "columns" not in found:
        value = found.get(column)
    else:
        values: Any = found["rows"]
        for part in row.split("/"):
            values = values.get(part, {})
        value = values[found["columns"].index(column)] if values and column in found["columns"] else None
    return None if value is None else Reported(float(value), contradictions(table, row, column))
