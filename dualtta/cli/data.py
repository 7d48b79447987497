"""`dualtta data check|prepare|corrupt|calibrate`. Other modules are imported in the functions, so that --help is quick."""

import json as jsonlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def check(path: str, json: bool = False) -> int:
    """Check which dataset a folder holds and whether it is complete; opens every image and writes nothing.

    Args:
        path: The folder.
        json: Print {"path", "ok", "datasets"} instead of tables.
    """
    from dualtta.data.verify.show import show_check

    return show_check(path, json)


def prepare(src: str, dst: str) -> int:
    """Unpack published archives (or a folder of them) into the folder that a dataset is read from.

    Args:
        src: A zip or tar archive, or a folder of archives, of MNIST's idx files, or of CIFAR-10's batches.
        dst: The folder to make; it must not exist yet.
    """
    from dualtta.data.verify.show import show_prepare

    return show_prepare(src, dst)


def corrupt(
    src: Path,
    dst: Path,
    corruptions: tuple[str, ...] = ("all",),
    severities: tuple[str, ...] = ("1", "2", "3", "4", "5"),
    seed: int = 2024,
    size: str = "224",
    frost: Path | None = None,
    workers: int = 0,
    json: bool = False,
) -> int:
    """Write corrupted copies of an image folder, as ImageNet-C: DST/<corruption>/<severity>/<class>/<name>.JPEG. Resumes.

    Args:
        src: A folder of images, with or without a folder per class.
        dst: The folder to write, outside SRC. Its corrupt.json holds the settings; one run at a time.
        corruptions: Names, separated by spaces or commas; all means the 15 of ImageNet-C.
        severities: Numbers from 1 to 5, separated by spaces or commas.
        seed: Seed of the random draws, which also depend on an image's position in the sorted list.
        size: 224 scales the shorter side to 256 and crops the central 224 x 224; other sizes accordingly; keep does not resize.
        frost: A folder with frost1.png to frost5.jpg; by default those of an installed imagecorruptions, else generated ones.
        workers: Number of processes; 0 means one per core.
        json: Print {"written", "skipped", "unreadable", "frost"} instead of a line.
    """
    from dualtta.data.corrupt import Outcome, Recipe, corrupt_folder
    from dualtta.data.corrupt import prepare as list_images
    from dualtta.data.corruptions import CORRUPTIONS, find_frost
    from dualtta.processes import cores
    from dualtta.progress import progress

    if workers < 0:
        raise ValueError(f"there cannot be {workers} workers: take 1 or more, or 0 for one per core")
    names = _words(corruptions)
    recipe = Recipe(
        source=src,
        target=dst,
        corruptions=tuple(CORRUPTIONS) if names == ["all"] else tuple(dict.fromkeys(names)),
        severities=tuple(dict.fromkeys(_number(word, "severity") for word in _words(severities))),
        seed=seed,
        size="keep" if size == "keep" else _number(size, "size"),
        frost=frost,
    )
    images = list_images(recipe)
    written = skipped = 0
    with progress("corrupting", len(images) * len(recipe.copies)) as bar:

        def done(outcome: Outcome) -> None:
            nonlocal written, skipped
            written, skipped = written + outcome.written, skipped + outcome.skipped
            bar.advance(len(recipe.copies))

        unreadable = corrupt_folder(recipe, images, workers or cores(), done)
    for bad in unreadable:
        print(f"dualtta: {bad.image} cannot be read: {bad.error}", file=sys.stderr)
    origin = find_frost(frost).origin if "frost" in recipe.corruptions else None
    if json:
        names = [bad.image for bad in unreadable]
        print(jsonlib.dumps({"written": written, "skipped": skipped, "unreadable": names, "frost": origin}, indent=2))
    else:
        frosted = f"; frost: {origin}" if origin else ""
        print(f"{written} written, {skipped} already there, {len(unreadable)} of {len(images)} images unreadable{frosted}")
    return 1 if unreadable else 0


def calibrate(
    src: Path,
    out: Path,
    model: str = "resnet50",
    weights: Path | None = None,
    dataset: str = "imagenet",
    images: int = 300,
    seed: int = 2024,
    device: str | None = None,
) -> int:
    """Measure how difficult corruptions are for a model, for `dualtta run ccc --calibration FILE`.

    Args:
        src: The folder of the dataset.
        out: The JSON file to write.
        model: A name of `dualtta list models`, timm:NAME or torchvision:NAME; the published benchmark has a ResNet-50.
        weights: Its weights file; by default those of the hub.
        dataset: imagenet, or folder for images of your own in folders `class/image`.
        images: So many random images; 256 passes over them are made.
        seed: Of the choice of images and of the corruptions.
        device: cpu or cuda; by default cuda, if available.
    """
    import torch

    from dualtta.bench.calibrate import calibrate as measure
    from dualtta.data.datasets.imagenet import as_published
    from dualtta.data.registry import open_dataset
    from dualtta.device import pick_device
    from dualtta.progress import progress
    from dualtta.zoo.registry import open_model

    if images < 1:
        raise ValueError(f"images must be at least 1, not {images}")
    if dataset not in ("imagenet", "folder"):
        raise ValueError(f"difficulty is calibrated on images of 224 x 224: --dataset imagenet or folder, not {dataset}")
    on = str(pick_device(device))
    data = open_dataset(dataset, src)
    net, preprocess = open_model(model, len(data.classes), weights or "pretrained")
    command = f"dualtta data calibrate {src.name} {out.name} --model {model} --images {images} --seed {seed}"
    torch.set_num_threads(1)  # the corruptions take most of the time, and results do not depend on the number of cores
    with progress("calibrating") as bar:
        about: dict[str, Any] = {"seed": seed, "device": on, "made_by": command}
        made = measure(net.to(on), preprocess, data, as_published, name=model, images=images, progress=bar, **about)
    made.save(out)
    print(f"{model} predicts {made.clean:.1%} of {made.images} clean images; its accuracies are in {out}")
    return 0


def _words(values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in value.split(",") if word]


def _number(word: str, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"the {what} {word!r} is not a whole number") from None


COMMANDS: dict[str, Callable[..., int]] = {"check": check, "prepare": prepare, "corrupt": corrupt, "calibrate": calibrate}
