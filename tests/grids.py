"""A small grid for tests, and what of its records must be the same in every run."""

import json
from pathlib import Path

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import Cell


def small_grid(limit=96, **options) -> list[Cell]:
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    return setup.cells(("source", "tent", "dualtta"), Options(seeds=(1, 2), limit=limit, batch_size=32, **options))


def content(out: Path) -> dict[str, bytes]:
    """All that must be the same: everything but what a run cost and where it ran."""
    found = {}
    for path in sorted(out.glob("cells/*/*")):
        if path.name == "cell.json":
            about = json.loads(path.read_text())
            del about["provenance"]
            found[f"{path.parent.name}/{path.name}"] = json.dumps(about).encode()
        elif path.name != "done":
            found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    return found
