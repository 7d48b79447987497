"""Parameters of each corruption at severities 1 to 5: one table for ImageNet-C, one for CIFAR-C.

The numbers are those of Hendrycks & Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations" (https://arxiv.org/abs/1903.12261); lengths are in pixels of 224 and 32. Other sizes use the closer table.
"""

from typing import Any

Settings = dict[str, Any]
Levels = tuple[Settings, ...]

SMALL = 85  # sqrt(32 * 224): an image whose shorter side is below is closer to 32 than to 224


def levels(names: str, *rows: Any) -> Levels:
    """A dict of settings for each severity.

    >>> levels("radius alias", (3, 0.1), (4, 0.5))[1]
    {'radius': 4, 'alias': 0.5}
    """
    keys = names.split()
    return tuple(dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows)


IMAGENET: dict[str, Levels] = {
    "gaussian_noise": levels("scale", 0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": levels("photons", 60, 25, 12, 5, 3),
    "impulse_noise": levels("amount", 0.03, 0.06, 0.09, 0.17, 0.27),
    "defocus_blur": levels("radius alias", (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": levels("sigma reach rounds", (0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": levels("radius sigma", (10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": levels("stop step", (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "snow": levels(
        "mean deviation zoom threshold radius sigma keep",
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": levels("keep ice shrink", (1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    "fog": levels("density decay", (1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": levels("lift", 0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": levels("keep", 0.4, 0.3, 0.2, 0.1, 0.05),
    # Fractions of the side. The published code has 244 instead of 224, and the published images were made with it.
    "elastic_transform": levels(
        "amplitude smoothness shift",
        *(
            tuple(244 / 224 * part for part in parts)
            for parts in ((2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02))
        ),
    ),
    "pixelate": levels("scale", 0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg_compression": levels("quality", 25, 18, 15, 10, 7),
}

CIFAR: dict[str, Levels] = {
    "gaussian_noise": levels("scale", 0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": levels("photons", 500, 250, 100, 75, 50),
    "impulse_noise": levels("amount", 0.01, 0.02, 0.03, 0.05, 0.07),
    "defocus_blur": levels("radius alias", (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": levels("sigma reach rounds", (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": levels("radius sigma", (6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": levels("stop step", (1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": levels(
        "mean deviation zoom threshold radius sigma keep",
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": levels("keep ice shrink", (1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": levels("density decay", (0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": levels("lift", 0.05, 0.1, 0.15, 0.2, 0.3),
    "contrast": levels("keep", 0.75, 0.5, 0.4, 0.3, 0.15),
    "elastic_transform": levels(
        "amplitude smoothness shift", (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
    "pixelate": levels("scale", 0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": levels("quality", 80, 65, 58, 50, 40),
}

TABLES = {"imagenet": IMAGENET, "cifar": CIFAR}


def table_for(height: int, width: int) -> str:
    """The default table for an image of this size."""
    return "cifar" if min(height, width) < SMALL else "imagenet"
