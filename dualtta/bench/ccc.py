"""The experiment `ccc`: long streams of continually changing corruptions, at three difficulties and three speeds."""

import dataclasses
from pathlib import Path
from typing import Any

from dualtta.bench.benchmarks import Options, any_model
from dualtta.bench.cell import Cell
from dualtta.data.ccc.calibration import read_calibration
from dualtta.data.ccc.path import SPEEDS, TARGETS
from dualtta.data.datasets.ccc import LENGTH
from dualtta.protocols import DEFAULT_METHOD


def ccc(options: Options) -> list[Cell]:
    """Continually changing corruptions (https://arxiv.org/abs/2306.05401): do methods stay stable on streams without a reset?

    Two corruptions act at a time; every 1,000, 2,000 or 5,000 images their severities change by at most 0.25, along a path on
    which a fixed model keeps a half (easy), a quarter (medium) or a fortieth (hard) of its clean accuracy. By default it is
    torchvision's MobileNet-V3 small, as measured on 200 images; `dualtta data calibrate` makes --calibration FILE for another.
    The published benchmark has 7.5 million images a stream and a ResNet-50 (34, 17 and 2 %); here a stream has 50,000, or
    --limit, and images come again once all were seen. Nine streams: 450,000 images for each method and seed, two hours on a GPU
    with a ResNet-50; on a CPU take --limit 5000.

    --datasets: imagenet_ccc (the default), folder_ccc, cifar10_ccc, or digits_ccc, which needs no data. The latter two have no
    calibration and keep the sum of the severities instead.

    Command: dualtta run ccc --root DATA --out results/ccc
    """
    cells: list[Cell] = []
    plain = dataclasses.replace(options, limit=None, repeats=1)
    for setup in any_model("ccc", options):
        for difficulty in TARGETS:
            for speed in SPEEDS:
                for seed in options.seeds:
                    choices: dict[str, Any] = {"difficulty": difficulty, "speed": speed, "seed": seed}
                    choices |= {"length": options.limit or LENGTH, **calibrated(options)}
                    on = dataclasses.replace(setup, choices=choices, scenario="sequence")
                    methods = options.methods or ("source", "eata", DEFAULT_METHOD)
                    cells += on.cells(methods, dataclasses.replace(plain, seeds=(seed,)))
    return cells


def calibrated(options: Options) -> dict[str, Any]:
    """The calibration of --calibration, with its content, so that a record does not depend on where the file is."""
    if options.calibration is None:
        return {}
    return {"calibration": read_calibration(Path(options.root or ".", options.calibration)).to_dict()}
