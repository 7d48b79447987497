"""Throughput of the loader in images per second, by dataset and number of workers.

python benchmarks/loading.py [--data DIR] [--workers 0 1 2] [--images 512] [--device cpu] [--json]

Measures on generated images, as JPEG, PNG and WebP of ImageNet's typical size, and with --data also on the datasets in that
folder (`dualtta data check DIR` lists them). `reading` is one process that only decodes and resizes.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from dualtta.data import Dataset, Preprocess, load
from dualtta.data.datasets.folders import Folder
from dualtta.data.preprocess import PREPROCESS
from dualtta.data.verify.recognise import recognise
from dualtta.streams.scenarios import make_scenario

torch.set_num_threads(1)
KINDS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}


def make_images(home: Path, kind: str, count: int = 64) -> Dataset:
    """Images of 500 x 375 with smooth shapes and fine texture, like photographs."""
    folder = home / kind / "all"
    folder.mkdir(parents=True)
    for number in range(count):
        rng = np.random.RandomState(number)
        coarse = Image.fromarray(rng.randint(0, 256, (9, 12, 3)).astype(np.uint8)).resize((500, 375), Image.Resampling.BICUBIC)
        pixels = np.clip(np.asarray(coarse) + rng.normal(scale=8, size=(375, 500, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.{KINDS[kind]}", kind)
    return Folder(home / kind)


def datasets(home: Path, data: Path | None) -> dict[str, tuple[Dataset, Preprocess]]:
    found: dict[str, tuple[Dataset, Preprocess]] = {}
    for kind in KINDS:
        found[f"{kind}, 500 x 375 to 224"] = (make_images(home, kind), PREPROCESS["imagenet"])
    for one in recognise(data) if data else []:
        part = one.layout.parts(one.root)[-1]()
        small = np.asarray(part.image(0)).shape[0] < 64
        found[f"{one.layout.name}, as it is" if small else f"{one.layout.name} to 224"] = (
            part,
            PREPROCESS["cifar10" if small else "imagenet"],
        )
    return found


def reading(data: Dataset, preprocess: Preprocess, images: int) -> float:
    start = time.perf_counter()
    for index in range(images):
        preprocess.pixels(data.image(index % len(data)))
    return images / (time.perf_counter() - start)


def loading(data: Dataset, preprocess: Preprocess, images: int, workers: int, device: str) -> float:
    """Images per second after the first batch, without the start of the workers."""
    passes = -(-images // len(data))
    stream = make_scenario("mixed", limit=min(images, len(data)), repeats=passes).stream(data)
    batches = load(data, stream, preprocess, workers=workers, device=device)
    first = len(next(batches).x)
    start = time.perf_counter()
    rest = sum(len(batch.x) for batch in batches)
    if device != "cpu":
        torch.cuda.synchronize()
    return (rest or first) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of datasets")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of workers (default: 0 1 2)")
    parser.add_argument("--images", type=int, default=512, help="how many images to load (default: 512)")
    parser.add_argument("--device", default="cpu", help="where the batches go (default: cpu)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rates: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for name, (data, preprocess) in datasets(Path(home), options.data).items():
            rates[name] = {"reading": reading(data, preprocess, min(options.images, 256))}
            for workers in options.workers:
                rates[name][f"{workers} workers"] = loading(data, preprocess, options.images, workers, options.device)
    if options.json:
        print(json.dumps(rates, indent=2))
        return
    columns = list(next(iter(rates.values())))
    print(f"{'images/s':30}" + "".join(f"{column:>12}" for column in columns))
    for name, row in rates.items():
        print(f"{name:30}" + "".join(f"{row[column]:12.0f}" for column in columns))


if __name__ == "__main__":
    main()
