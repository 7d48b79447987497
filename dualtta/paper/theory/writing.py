"""A diagnosis as files: tables as Markdown and CSV, everything as JSON, every sample as CSV, figures as PNG and SVG."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.files import write_bytes
from dualtta.records.format import to_json

if TYPE_CHECKING:
    from dualtta.paper.theory.diagnose import Diagnosis

Rows = list[list[str]]


def write(diagnosis: "Diagnosis", folder: Path) -> list[Path]:
    """All files into a folder; returns their paths."""
    from dualtta.paper.theory.figures import draw

    folder.mkdir(parents=True, exist_ok=True)
    groups, scales = tables(diagnosis.summary)
    files = {
        "diagnosis.json": to_json(as_json(diagnosis)),
        "diagnosis.md": markdown(diagnosis).encode(),
        "groups.csv": as_csv(*groups),
        "scales.csv": as_csv(*scales),
        "samples.csv": as_csv(*samples(diagnosis)),
        **draw(diagnosis),
    }
    for name, data in files.items():
        write_bytes(folder / name, data)
    return [folder / name for name in files]


def as_json(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Settings, numbers and findings as JSON values."""
    return {"about": diagnosis.about, "summary": diagnosis.summary, "sentences": diagnosis.sentences}


def tables(summary: dict[str, Any]) -> list[tuple[list[str], Rows]]:
    """Two tables, each a header and rows: by group of samples, and by scale of the perturbation."""
    by_group = [
        [name, f"{g['samples']:,}", f"{g['flips']:,}", *(number(g[key]) for key in GROUP_COLUMNS)]
        for name, g in summary["groups"].items()
    ]
    by_scale = [
        [f"{row['scale']:g}", *(value for name in SCALE_COLUMNS for value in cells(row[name]))] for row in summary["scales"]
    ]
    header = ["scale", *(f"{what}: {part}" for what in SCALE_COLUMNS.values() for part in ("change", "missed", "sign right"))]
    return [(["samples", "count", "flips", *GROUP_COLUMNS.values()], by_group), (header, by_scale)]


GROUP_COLUMNS = {
    "margin": "margin m",
    "flip_size": "flipping size",
    "K": "K",
    "jacobian": "|J_s|",
    "share": "|g_s| / |grad L|",
}
SCALE_COLUMNS = {"gap": "s_y - s_k", "probability": "p_y", "loss": "loss"}


def cells(values: dict[str, float | None]) -> list[str]:
    """
    >>> cells({"change": 0.0123, "missed": 0.25, "sign": None})
    ['0.0123', '25.0 %', '-']
    """
    shares = ("-" if values[key] is None else f"{100 * float(values[key] or 0):.1f} %" for key in ("missed", "sign"))
    return [number(values["change"]), *shares]


def number(value: float | None) -> str:
    """
    >>> number(0.12345), number(None)
    ('0.123', '-')
    """
    return "-" if value is None else f"{value:.3g}"


def markdown(diagnosis: "Diagnosis") -> str:
    groups, scales = tables(diagnosis.summary)
    parts = ["# The theory on this stream\n", *(f"- {finding}" for finding in diagnosis.sentences), ""]
    parts += [
        "Medians by group; a missing flipping size: more than half did not flip.\n",
        *as_markdown(*groups),
        "",
    ]
    parts += ["By multiples of the drawn perturbation: mean change, relative error of first order, equal signs.\n"]
    return "\n".join([*parts, *as_markdown(*scales), ""])


def as_markdown(header: list[str], rows: Rows) -> list[str]:
    """
    >>> as_markdown(["a", "|b|"], [["1", "2"]])
    ['| a | \\\\|b\\\\| |', '| --- | --- |', '| 1 | 2 |']
    """
    lines = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines.insert(1, ["---"] * len(header))
    return [f"| {' | '.join(line)} |" for line in lines]


def as_csv(header: list[str], rows: Rows) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    return text.getvalue().encode()


def samples(diagnosis: "Diagnosis") -> tuple[list[str], Rows]:
    """A row per sample, in the order of the stream; an empty field was not measured."""
    columns = dict(diagnosis.columns)
    for kind, values in (("predicted", diagnosis.predicted), ("actual", diagnosis.actual)):
        columns |= {f"{kind}_{name}_{t:g}": v[:, i] for name, v in values.items() for i, t in enumerate(diagnosis.scales)}
    fields = [["" if value != value else str(value) for value in column.tolist()] for column in columns.values()]
    return list(columns), [list(row) for row in zip(*fields, strict=True)]
