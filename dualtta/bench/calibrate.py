"""Measure how difficult corruptions are for a model: the `Calibration` of continually changing corruptions."""

import math
from collections.abc import Callable, Iterable
from itertools import combinations

import numpy as np
import torch
from torch import nn

from dualtta.data.ccc.calibration import GRID, Calibration, pair_name
from dualtta.data.ccc.path import target_cost
from dualtta.data.corruptions.continuous import corrupt_at
from dualtta.data.datasets.base import Dataset, Pixels
from dualtta.data.preprocess import Preprocess
from dualtta.data.published import CORRUPTIONS

BATCH = 50
BOUNDS = (-1.5, 4.0)  # of the interaction of a pair: below -2 two corruptions would be easier than none
MEASURED_AT = "medium"  # the difficulty at which pairs are measured
Corruptions = tuple[tuple[str, float], ...]  # name and severity, in the order of their application


def calibrate(
    model: nn.Module,
    preprocess: Preprocess,
    base: Dataset,
    prepare: Callable[..., Pixels],
    *,
    name: str,
    images: int = 300,
    seed: int = 2024,
    device: str = "cpu",
    made_by: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration:
    """Accuracies on random images: under each corruption at the severities of `GRID`, then under each pair at one point.

    Needs 1 + 150 + 105 passes over the images. `prepare` makes an image the bytes that are corrupted.
    """
    rows = np.random.RandomState(seed).permutation(len(base))[:images]
    pixels = [prepare(base.image(int(row))) for row in rows]
    labels = torch.from_numpy(base.labels[rows])
    pairs = list(combinations(CORRUPTIONS, 2))
    total, done = 1 + len(CORRUPTIONS) * len(GRID) + len(pairs), 0

    def accuracy(*corruptions: tuple[str, float]) -> float:
        nonlocal done
        right = 0
        for start in range(0, len(rows), BATCH):
            part = range(start, min(start + BATCH, len(rows)))
            batch = torch.stack([preprocess.pixels(corrupted(pixels[i], corruptions, seed, int(rows[i]))) for i in part])
            with torch.inference_mode():
                predicted = model(preprocess.normalise(batch.to(device))).argmax(1).cpu()
            right += int((predicted == labels[start : part.stop]).sum())
        done += 1
        progress(done, total)
        return right / len(rows)

    clean = accuracy()
    if clean == 0:
        raise ValueError(f"{name} predicts none of {len(rows)} clean images correctly: give its weights")
    single = {corruption: tuple(accuracy((corruption, severity)) for severity in GRID) for corruption in CORRUPTIONS}
    alone = Calibration(name, len(rows), clean, single)
    found = {}
    for first, second in pairs:
        half = target_cost(MEASURED_AT) / 2
        s, t = (nearest_severity(alone, corruption, half) for corruption in (first, second))
        found[pair_name(first, second)] = interaction(alone, first, s, second, t, accuracy((first, s), (second, t)))
    return Calibration(name, len(rows), clean, single, found, made_by)


def corrupted(image: Pixels, corruptions: Iterable[tuple[str, float]], seed: int, row: int) -> Pixels:
    """An image under some corruptions, one after the other."""
    for number, (name, severity) in enumerate(corruptions):
        image = corrupt_at(image, name, severity, np.random.RandomState([seed, number, row]))
    return image


def nearest_severity(calibration: Calibration, corruption: str, cost: float) -> float:
    """The severity of `GRID` whose cost is nearest."""
    return min(GRID, key=lambda severity: abs(calibration.cost(corruption, severity) - cost))


def interaction(alone: Calibration, first: str, s: float, second: str, t: float, accuracy: float) -> float:
    """g of a pair from its accuracy at one point; see `dualtta.data.ccc.calibration`."""
    a, b = alone.cost(first, s), alone.cost(second, t)
    if a * b == 0:  # one of them costs nothing: there is nothing to add to
        return 0.0
    measured = -math.log((accuracy * alone.images + 0.5) / (alone.images + 1) / alone.clean)
    return round(min(max((measured - a - b) / math.sqrt(a * b), BOUNDS[0]), BOUNDS[1]), 3)
