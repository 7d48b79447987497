"""Typical samples of D+ and D- as images with their views, where the dataset can be opened."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.report.comparisons import Comparison

if TYPE_CHECKING:
    from torch import Tensor

    from dualtta.data.datasets.base import Dataset

LONGEST = 112  # pixels of a side
MOST = 8  # comparisons that get images
SEED = 0  # of the views: what is shown is a draw like those of the run, not the same
VIEWS = {
    "original": "as the model takes it, before normalisation",
    "altered": "patches shuffled, as the altering view does it; another draw than in the run",
    "restyled": "an illustration: channel means and deviations moved in the image itself; the method moves those of a feature "
    "map, which cannot be shown",
}


@dataclass(frozen=True)
class Gallery:
    """Samples of D+ and D- of one run."""

    title: str
    run: Any  # a row of the frame; `reduced.typical` has the samples of each set
    views: dict[str, list[dict[str, str]]]  # of each sample of a set, as data URLs


def galleries(comparisons: Sequence[Comparison], root: Path | None = None) -> tuple[list[Gallery], list[str]]:
    """One for each comparison with a method that has both drops, of its first seed; and notes on those without."""
    made: list[Gallery] = []
    missing: dict[str, list[str]] = {}
    wanted = [(comparison.title, runs[-1]) for comparison in comparisons if (runs := _with_samples(comparison))]
    for title, run in wanted[:MOST]:
        try:
            made.append(gallery(title, run, root))
        except Exception as error:  # a dataset may raise anything: the report goes on without its images
            missing.setdefault(" ".join(str(error).split()), []).append(title)
    notes = [f"{', '.join(titles)}: {why}" for why, titles in missing.items()]
    if len(wanted) > MOST:
        notes.append(f"{len(wanted) - MOST} more comparisons: {MOST} are enough for one page")
    return made, notes


def _with_samples(comparison: Comparison) -> list[Any]:
    """The first run of each entry that has both drops and samples to show."""
    firsts = [entry.runs[0] for entry in comparison.entries]
    return [one for one in firsts if one.reduced.points and any(len(t["index"]) for t in one.reduced.typical.values())]


def gallery(title: str, run: Any, root: Path | None) -> Gallery:
    """A ValueError where the dataset cannot be opened, or is not the one of the record."""
    from dualtta.data.preprocess import Preprocess

    dataset = open_dataset_of(run, root)
    recorded: dict[str, Any] = run.record.cell["model"]["preprocess"]
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in recorded.items()}
    preprocess = Preprocess(**settings)
    grid = _grid(run)
    views: dict[str, list[dict[str, str]]] = {}
    for name, rows in run.reduced.typical.items():
        seen = [preprocess.pixels(dataset.image(int(index))).float() / 255 for index in rows["index"]]
        views[name] = [show_views(x, number, grid) for number, x in enumerate(seen)]
    return Gallery(title, run, views)


def open_dataset_of(run: Any, root: Path | None) -> "Dataset":
    from dualtta.bench.workspace import Workspace
    from dualtta.data.registry import open_dataset

    chosen = dict(run.record.cell["cell"]["dataset"])
    name = chosen.pop("name")
    dataset = open_dataset(name, Workspace(Path(), root).dataset_folder(name), **chosen)
    images = run.record.part("data", "images")
    if len(dataset) != images:
        raise ValueError(f"the dataset has {len(dataset):,} images, that of the record {images}: no images are shown")
    return dataset


def _grid(run: Any) -> int | None:
    """Of the patch shuffle; None where the altering view is another one."""
    view = run.hyperparameters.get("alter") or {}
    return int(view["grid"]) if view.get("view") == "patch" else None


def show_views(x: "Tensor", number: int, grid: int | None) -> dict[str, str]:
    """The views of an image (3, H, W) in [0, 1] as data URLs."""
    import torch

    from dualtta.views.default import PatchShuffle, moments, restyle

    generator = torch.Generator().manual_seed(SEED + number)
    batch = x[None]
    shown = {"original": _url(x)}
    if grid is not None:
        view = PatchShuffle(grid=grid)
        shown["altered"] = _url(view.transform(batch, view.draw(batch, generator))[0])
    u, s = moments(batch)
    drawn = torch.rand(2, 1, 3, 1, 1, generator=generator) * 2 - 1
    shown["restyled"] = _url(restyle(batch, (u, s), (u + 0.25 * drawn[0], s * (1 + 0.5 * drawn[1])))[0].clamp(0, 1))
    return shown


def _url(x: "Tensor") -> str:
    from PIL import Image

    pixels = (x.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(pixels)
    if max(image.size) > LONGEST:
        image.thumbnail((LONGEST, LONGEST))
    times = LONGEST // max(image.size)  # small images are enlarged without interpolation
    image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
