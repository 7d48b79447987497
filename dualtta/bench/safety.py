"""The experiment `safety`: streams on which adaptation may do harm, for any model. `dualtta.report.safety` judges them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from dualtta.bench.benchmarks import Options, any_model
from dualtta.bench.cell import Cell
from dualtta.data.published import CLEAN, CORRUPTIONS
from dualtta.methods import METHODS
from dualtta.protocols import DEFAULT_METHOD

LIMIT = 1000  # images of a stream, unless --limit says otherwise
ADVERSE = 2  # times as many adversarial samples come before the clean images that are judged
BATCH_SIZES = (1, 4, 16, 64, 256)
PASSES = 4  # of the long stream
SHARE = 0.3  # of the batch in BatchNorm's statistics, for the method `norm`
HARD = ("gaussian_noise", "fog")  # what sorted, camera-like and one-class streams and recovery hold besides clean images
CAMERA = ("fog", "motion_blur", "brightness", "jpeg_compression")
ALTERNATING = ("gaussian_noise", "brightness")
Stream = tuple[str, dict[str, Any]]  # a scenario by its name, and its choices


def safety(options: Options) -> list[Cell]:
    """Does adaptation harm a model of your own? Each method against no adaptation, on streams of all kinds.

    37 streams of 1,000 images (--limit): clean, 15 corruptions at severity 5, all mixed, one after the other, sorted by class,
    camera-like, few classes alone, batches of 1 to 256, a long one (four passes), and clean images after corrupted ones and
    after adversarial ones: one batch repeated, constant images, noise, alternating domains, extreme values. Where others come
    first, the clean images alone are judged. 54,000 images for each method and seed: on one core of a CPU a MobileNet-V3
    small needs about 15 minutes with `source` and 45 with the default method. --limit 200 --seeds 2024 is a fifteenth.

    --datasets: imagenet_stress (the default), folder_stress (images of your own in folders `class/image`), cifar10_stress, or
    digits_stress, which needs no data. --backbone: any name of `dualtta list models`, timm:NAME or torchvision:NAME.

    Command: dualtta run safety --backbone torchvision:mobilenet_v3_small --weights FILE --root DATA --out results/safety
    """
    small = dataclasses.replace(options, limit=None, repeats=1)
    cells: list[Cell] = []
    for setup in any_model("stress", options):
        for scenario, stream in streams(options.limit or LIMIT, options.batch_size, options.repeats):
            on = dataclasses.replace(setup, scenario=scenario, stream=stream)
            at = dataclasses.replace(small, batch_size=stream.get("batch_size", options.batch_size))
            for method in options.methods or ("source", "norm", DEFAULT_METHOD):
                # the share that suits most nets; chosen by name because the method's own default is batch statistics alone
                cells += on.cells([method], at, **({"statistics": SHARE} if METHODS[method].name == "norm" else {}))
    return cells


def streams(limit: int, batch_size: int = 64, repeats: int = 1) -> list[Stream]:
    """All streams of the experiment, of at most so many images in a judged part."""
    every = [CLEAN, *CORRUPTIONS]
    first = {"domains": [CLEAN], "limit": limit}
    found: list[Stream] = [("mild", {"domains": [name], "limit": limit}) for name in every]
    found += [
        ("mixed", {"domains": every, "limit": limit}),
        ("mixed", {"domains": every, "limit": limit, "repeats": repeats if repeats > 1 else PASSES}),
        ("continual", {"domains": list(CORRUPTIONS), "limit": max(limit // 5, 1)}),  # three times as long as the others
        ("camera", {"domains": list(CAMERA), "limit": max(limit // 2, 1)}),
    ]
    found += [("sorted", {"domains": [name], "limit": limit}) for name in (CLEAN, *HARD)]
    found += [("one-class", {"domains": [name], "limit": limit}) for name in (CLEAN, HARD[0])]
    found += [("one-class", {**first, "classes": 5})]
    found += [("mild", {**first, "batch_size": 1})] if batch_size != 1 else []
    found += [("mixed", {"domains": every, "limit": limit, "batch_size": n}) for n in BATCH_SIZES if n != batch_size]
    return [*found, *(("continual", {**first, "before": dict(stream)}) for stream in adverse(limit, batch_size))]


def adverse(limit: int, batch_size: int) -> list[Mapping[str, Any]]:
    """What comes before clean images: the choices of `make_scenario`."""
    each = {"limit": ADVERSE * limit}
    return [
        {"name": "continual", "domains": list(HARD), "limit": limit},
        {"name": "repeated", "domains": [HARD[0]], "images": batch_size, **each},
        *({"name": "mild", "domains": [kind], **each} for kind in ("constant", "noise", "extreme")),
        {"name": "alternating", "domains": list(ALTERNATING), "switch": batch_size, "limit": limit},
    ]
